"""The settings of what counts as a change: section [changes], and an [[ignore]] for each site with rules."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from webmill.settings.declaration import setting
from webmill.settings.tables import parse_tables
from webmill.settings.value_formats import ValueFormat


class IgnoreRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is ignored on some pages. `match` names them: `example.org`, `*.example.org`, `example.org/news/*`.

    `selectors` (CSS) leave elements out of the text of documents, `patterns` (RE2) leave text out of the comparison;
    `numbers` and `dates` ignore all of these, not only those that move by themselves. `threshold` replaces the general
    one.
    """

    match: tuple[str, ...]
    selectors: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    numbers: bool = False
    dates: bool = False
    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


def parse_rules(written: object) -> tuple[IgnoreRule, ...]:
    """Return the rules of a list of tables, or of a text with JSON, as a variable has it."""
    lists = ("match", "selectors", "patterns")
    return parse_tables(written, IgnoreRule, name="ignore", example='match = "*.example.org"', lists=lists)


def _write_rules(rules: tuple[IgnoreRule, ...]) -> list[Any]:
    return [msgspec.to_builtins(rule) for rule in rules]


IgnoreRules = Annotated[tuple[IgnoreRule, ...], ValueFormat("JSON", parse_rules, _write_rules)]


class ChangesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as a change of a page. Rules for single sites: an [[ignore]] for each, see
    docs/reference/changes.md."""

    threshold: Annotated[
        float,
        setting(
            "List a change only if at least this share of the words of the page changed.",
            reach="inside",
            only="file",
            least=0,
            most=1,
        ),
    ] = 0.0
    ignore_noise: Annotated[
        bool,
        setting(
            "Ignore clocks, counters, random tokens and copyright years, on all sites.", reach="inside", only="file"
        ),
    ] = True
    rules: Annotated[
        IgnoreRules,
        setting("What is ignored on single sites; in a file each is an [[ignore]].", reach="inside", only="file"),
    ] = ()

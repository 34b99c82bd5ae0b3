"""Which changes of which page are ignored: the settings `[changes]` and `[[ignore]]`, compiled."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import re2

from webmill.formats.cdx.query import KeyRange, site_range
from webmill.formats.patterns import compile_pattern
from webmill.publish.text_change import TextRules


class SiteRule(msgspec.Struct, frozen=True, kw_only=True):
    """What is ignored on the pages whose ids (urlkeys) are in these ranges."""

    ranges: tuple[KeyRange, ...]
    patterns: tuple[re2._Regexp, ...] = ()
    numbers: bool = False
    dates: bool = False
    threshold: float | None = None  # None: the general one

    def matches(self, id_: str) -> bool:
        key = id_.encode(errors="replace")
        return any(key in one for one in self.ranges)


class ChangeRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a collection. `noise`: ignore clocks, counters and tokens on all sites."""

    threshold: float = 0.0
    noise: bool = True
    sites: tuple[SiteRule, ...] = ()

    def text_rules(self, id_: str) -> TextRules:
        """Return the rules for a page: all that match it together. Of several thresholds the last one counts."""
        rules = [rule for rule in self.sites if rule.matches(id_)]
        thresholds = [rule.threshold for rule in rules if rule.threshold is not None]
        return TextRules(
            patterns=tuple(pattern for rule in rules for pattern in rule.patterns),
            numbers=any(rule.numbers for rule in rules),
            dates=any(rule.dates for rule in rules),
            noise=self.noise,
            threshold=thresholds[-1] if thresholds else self.threshold,
        )


def compile_site_rule(
    match: Iterable[str],
    *,
    patterns: Iterable[str] = (),
    numbers: bool = False,
    dates: bool = False,
    threshold: float | None = None,
) -> SiteRule:
    """Compile a rule. Raise BadInput (bad_pattern) with the message of RE2."""
    return SiteRule(
        ranges=tuple(map(site_range, match)),
        patterns=tuple(map(compile_pattern, patterns)),
        numbers=numbers,
        dates=dates,
        threshold=threshold,
    )

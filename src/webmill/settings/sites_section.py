"""Settings of single sites: a [[site]] for each, see docs/reference/sites.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from webmill.settings.reach import LONGEST_AUTO, leads_out
from webmill.settings.tables import TableError, parse_tables
from webmill.settings.value_formats import ValueFormat, parse_duration, write_duration

EXAMPLE = 'match = "*.example.org"'
COOKIE_MODES = ("off", "session")  # anything else is the path of a file
LISTS = ("match", "include", "exclude")
# Fields that the crawler itself must get right, or that have a setting of their own.
_OWN_FIELDS = """
    host connection content-length transfer-encoding te trailer upgrade expect range cookie accept-encoding
    if-none-match if-modified-since keep-alive proxy-authorization proxy-connection user-agent
"""
OWN_FIELDS = frozenset(_OWN_FIELDS.split())
_FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FIELD_VALUE = re.compile(r"[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
_MATCH = re.compile(r"(?:https?://)?(?:\*\.)?[^\s/*:?#@]+(?:/[^\s#]*)?")


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is different on some sites. `match` names them: `example.org`, `*.example.org`, `example.org/news/*`; of
    several tables that match a URL the one that says most about it counts. What it does not say is as in [crawl].

    `headers` and `auth` (USER:PASSWORD) are credentials: never shown or archived, and sent over TLS only, if not
    `plain_http`. `agreement` says who agreed to this pace: then a Crawl-delay does not slow it down.
    """

    match: tuple[str, ...]
    delay: float | Literal["auto"] | None = None
    scope: Literal["host", "domain", "path", "any"] | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    page_resources: bool | None = None
    browser: Literal["", "auto", "always", "never"] = ""
    max_pages: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cookies: str = ""
    headers: dict[str, str] = {}
    auth: str = ""
    plain_http: bool = False
    user_agent: str = ""
    agreement: str = ""

    @property
    def name(self) -> str:
        """Return the patterns, as the table is named in messages."""
        return ", ".join(self.match)

    def shown(self) -> dict[str, str]:
        """Return what the table says, by key, as it may be printed: of credentials only that they are there."""
        written = {key: value for key, value in _write_site(self).items() if key != "match"}
        return {key: _show(key, value) for key, value in written.items()}

    @property
    def cookie_file(self) -> str:
        return self.cookies if self.cookies not in ("", *COOKIE_MODES) else ""

    def reaches_outside(self, *, folder: Path) -> bool:
        """Return whether the table, in a file of `folder`, needs the user's trust: it asks a server more often than
        [crawl] may, sends what only the user should, or names a file elsewhere."""
        is_fast = self.delay is not None and self.delay != "auto" and self.delay < LONGEST_AUTO
        sends = self.headers or self.auth or self.user_agent or self.agreement or self.plain_http
        return bool(is_fast or sends or (self.cookie_file and leads_out(self.cookie_file, folder)))


def parse_sites(written: object) -> tuple[SiteSettings, ...]:
    """Return the rules of a list of tables, or of a text with JSON, as a variable has it."""
    if isinstance(written, list | tuple):
        written = [_with_seconds(number, one) for number, one in enumerate(written, 1)]
    rules = parse_tables(written, SiteSettings, name="site", example=EXAMPLE, lists=LISTS)
    for number, rule in enumerate(rules, 1):
        _check(rule, number)
    return rules


def _with_seconds(number: int, table: object) -> object:
    if not isinstance(table, Mapping) or "delay" not in table or table["delay"] == "auto":
        return table
    try:
        return {**table, "delay": parse_duration(table["delay"])}
    except ValueError as error:
        raise TableError(f"delay: {error}, or auto", number=number) from None


def _check(rule: SiteSettings, number: int) -> None:
    if problem := _find_problem(rule):
        raise TableError(f"{rule.name}: {problem}", number=number)


def _find_problem(rule: SiteSettings) -> str:
    """Return what is wrong with a rule, without its secrets; empty when nothing is."""
    for pattern in rule.match:
        if not _MATCH.fullmatch(pattern):
            return f"match: {pattern!r} names no site: write example.org, *.example.org or example.org/news/*"
    for name, value in rule.headers.items():
        if name.lower() in OWN_FIELDS:
            return f"headers: {name} is set by webmill itself: leave it out, or see `cookies`, `auth`, `user_agent`"
        if not _FIELD_NAME.fullmatch(name) or not _FIELD_VALUE.fullmatch(value) or len(value) > 8000:
            return f"headers: {name!r} is no field of HTTP: write Name = value, in one line of Latin-1 letters"
    if rule.auth and (":" not in rule.auth or not rule.auth.isprintable()):
        return "auth: write USER:PASSWORD"
    if rule.auth and any(name.lower() == "authorization" for name in rule.headers):
        return "auth: there is an Authorization field in `headers` already: leave one of them out"
    if rule.user_agent and not _FIELD_VALUE.fullmatch(rule.user_agent):
        return "user_agent: write it in one line of Latin-1 letters"
    return ""


def _show(key: str, value: Any) -> str:
    if key == "auth":
        return "(set)"
    if key == "headers":
        return f"{', '.join(value)} (set)"
    if isinstance(value, list | tuple):
        return " ".join(value) if value else "(none)"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_sites(rules: tuple[SiteSettings, ...]) -> list[Any]:
    return [_write_site(rule) for rule in rules]


def _write_site(rule: SiteSettings) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(rule)
    return {**written, "delay": write_duration(rule.delay)} if isinstance(rule.delay, float) else written


SiteTables = Annotated[tuple[SiteSettings, ...], ValueFormat("JSON", parse_sites, _write_sites)]

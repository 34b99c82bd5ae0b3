"""Which [[site]] table of the settings applies to a URL.

    sites = CrawlSites(settings.sites)
    sites.find("https://news.example.org/a")      # the SiteSettings, or None

The table that says most about a URL counts, alone: one for the host before one for a domain (`*.`), a longer name
before a shorter one, then a longer path before a shorter one; the first of two that say the same. As elsewhere `www.`
makes no difference. All parts of a process share one `CrawlSites`, so that `update` changes the rules of a running
shard.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from webmill.formats.url.normalise import host_of
from webmill.settings.sites_section import SiteSettings

MOST_HOSTS = 20_000  # whose rules are remembered


class SitePattern(msgspec.Struct, frozen=True):
    """A `match` of a table, taken apart."""

    host: str  # without `www.`
    is_domain: bool  # and all hosts in it
    path: str  # what the path begins with; with `is_exact` it is the path
    is_exact: bool
    rule: SiteSettings

    @property
    def weight(self) -> tuple[bool, int, bool, int]:
        return not self.is_domain, len(self.host), self.is_exact, len(self.path)

    def matches(self, path: str) -> bool:
        return path == self.path if self.is_exact else path.startswith(self.path)


class CrawlSites:
    def __init__(self, rules: Iterable[SiteSettings] = ()) -> None:
        self.rules: tuple[SiteSettings, ...] = ()
        self.update(rules)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def update(self, rules: Iterable[SiteSettings]) -> None:
        """Replace the rules. They count for whatever is decided from now on."""
        self.rules = tuple(rules)
        self.patterns = [_compile(pattern, rule) for rule in self.rules for pattern in rule.match]
        self.patterns.sort(key=lambda one: one.weight, reverse=True)  # which keeps the order of equals
        self._of_host: dict[str, tuple[SitePattern, ...]] = {}

    def find(self, url: str) -> SiteSettings | None:
        """Return the rule for a normalised URL."""
        if not self.rules:
            return None
        host = host_of(url)
        found = self._of_host.get(host)
        if found is None:
            if len(self._of_host) >= MOST_HOSTS:
                self._of_host.clear()
            found = self._of_host[host] = tuple(one for one in self.patterns if _has_host(one, host))
        path = url[url.find("/", 8) :]
        return next((one.rule for one in found if one.matches(path)), None)

    def longest_delay(self) -> float:
        """Return the longest delay of any rule."""
        return max((rule.delay for rule in self.rules if isinstance(rule.delay, float | int)), default=0.0)


def _compile(pattern: str, rule: SiteSettings) -> SitePattern:
    text = pattern.partition("://")[2] or pattern
    host, slash, path = text.partition("/")
    is_domain, host = host.startswith("*."), host.removeprefix("*.").lower().rstrip(".")
    if not host.isascii():
        host = host.encode("idna").decode()
    is_exact = bool(slash) and not path.endswith("*")
    return SitePattern(host.removeprefix("www."), is_domain, f"/{path.removesuffix('*')}", is_exact, rule)


def _has_host(pattern: SitePattern, host: str) -> bool:
    return host.removeprefix("www.") == pattern.host or (pattern.is_domain and host.endswith(f".{pattern.host}"))

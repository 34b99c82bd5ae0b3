"""Which URLs belong to a crawl.

    scope = Scope(ScopeRules(kind="domain", exclude=("/login",)), seeds=["https://example.com/"], year=2024)
    scope.decide("https://shop.example.com/login", 1)   # "excluded"

| code | the URL |
|---|---|
| url_too_long | is longer than 2,000 characters |
| too_deep | is more than `max_depth` links from a seed; 0 means the seeds alone |
| out_of_scope | lies elsewhere than the seeds, see below |
| excluded | has one of the patterns `exclude` in it |
| forgotten | was taken down by `webmill forget` |
| not_included | has none of the patterns `include` in it |
| extension | is by its name no text: an image, a film, an archive |
| trap_… | falls into a trap, see `traps.py` |

`host`: the hosts of the seeds, with and without `www.` (a seed that is redirected from one to the other would end the
crawl). `domain`: their registered domains. `path`: the folders of the seeds, on their hosts: `/docs/` for the seed
`/docs/a.html`; for `/docs`, which names no file, `/docs` and all below it. `any`: everywhere.

Seeds, and what they are redirected to, are asked for whatever their names look like: neither `include` nor extensions
nor traps are asked at depth 0. It costs the same for one seed and for 100,000.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
import re2

from webmill.crawl.sites import CrawlSites
from webmill.crawl.traps import TrapRules, Traps
from webmill.errors import BadInput, Misconfigured
from webmill.forgotten import ForgottenFiles
from webmill.formats.patterns import compile_pattern
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of

Kind = Literal["host", "domain", "path", "any"]

# By their names no text. .csv, .json, .sql and .xml are text; .com, .ai, .app and the like end names of sites, too.
_NO_TEXT = """
    avif bmp eps gif heic ico indd jpeg jpg jxl png psd svg tif tiff webp
    3gp aac aiff avi flac flv m4a m4v mid midi mkv mov mp3 mp4 mpeg mpg oga ogg ogv opus swf wav webm wma wmv
    doc docm docx dotx epub mobi odp ods odt pdf pps ppsx ppt pptx rtf xls xlsb xlsm xlsx
    7z ace apk bz2 cab deb dmg gz iso jar lz4 lzma msi pkg rar rpm tar tbz2 tgz txz war xz zip zst
    bat bin dat db dll dylib exe pyc sqlite vmdk
    eot otf ttf woff woff2
"""
NO_TEXT = frozenset(_NO_TEXT.split())


class ScopeRules(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind = "host"
    include: tuple[str, ...] = ()  # RE2, found anywhere in the URL
    exclude: tuple[str, ...] = ()
    max_depth: int | None = None
    max_length: int = 2000
    extensions: frozenset[str] = NO_TEXT  # that are skipped, in lower case, without the dot
    traps: TrapRules | None = TrapRules()


class SiteScope(msgspec.Struct, frozen=True):
    """What a table of a site says of the scope; None: nothing."""

    kind: Kind | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    max_depth: int | None = None

    def replace_in(self, rules: ScopeRules) -> ScopeRules:
        said = {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(rules, **said)


class Scope:
    """Which URLs belong to a crawl. `seeds` are normalised URLs. Misconfigured for a pattern that RE2 cannot read."""

    def __init__(
        self,
        rules: ScopeRules,
        *,
        seeds: Iterable[str],
        year: int,
        sites: CrawlSites | None = None,
        forgotten: ForgottenFiles | None = None,
    ) -> None:
        """Where a table of `sites` says another scope, depth or other patterns, these replace those of `rules`.
        `forgotten`: what was taken down, which belongs to no crawl any more."""
        self._rules, self._year, self._forgotten = rules, year, forgotten
        self._sites, self._of_site = sites, dict[SiteScope, Scope]()
        if sites:
            seeds = self._seeds = tuple(seeds)
        self._include, self._exclude = _pattern(rules.include), _pattern(rules.exclude)
        self._traps = Traps(rules.traps, year=year) if rules.traps else None
        self._places: set[str] = set()  # hosts or domains
        self._folders: dict[str, set[str]] = {}  # of a host
        for seed in seeds:
            self._add(seed)

    def decide(self, url: str, depth: int) -> str | None:
        """Return None for a normalised URL that is in scope, or the code why it is not."""
        if self._sites and (own := self._scope_of(url)) is not self:
            return own.decide(url, depth)
        reason = self._decide_place(url, depth)
        if reason or depth == 0:
            return reason
        if self._include and not self._include.search(url):
            return "not_included"
        if extension_of(url) in self._rules.extensions:
            return "extension"
        return self._traps.find(url) if self._traps else None

    def decide_sitemap(self, url: str) -> str | None:
        """Return None for a sitemap that is read: it may lie in any folder of its host, and be compressed."""
        if self._sites and (own := self._scope_of(url)) is not self:
            return own.decide_sitemap(url)
        if len(url) > self._rules.max_length:
            return "url_too_long"
        if self._rules.kind != "any" and _place(host_of(url), self._rules.kind) not in self._places:
            return "out_of_scope"
        return self.why_excluded(url)

    def decide_resource(self, url: str) -> str | None:
        """Return None for a page resource that is fetched: it may lie on any host, with any ending."""
        if len(url) > self._rules.max_length:
            return "url_too_long"
        return self.why_excluded(url)

    def why_excluded(self, url: str) -> str | None:
        """Return "excluded" or "forgotten" for a URL that a pattern excludes, or that was taken down. Asked again when
        it has its turn: either may be newer."""
        if self._sites and (own := self._scope_of(url)) is not self:
            return own.why_excluded(url)
        if self._forgotten and self._forgotten.current().covers(url):
            return "forgotten"
        return "excluded" if self._exclude and self._exclude.search(url) else None

    def _scope_of(self, url: str) -> Scope:
        """Return the scope by which a URL is judged: this one, or that of its site."""
        rule = self._sites.find(url) if self._sites else None
        own = SiteScope(rule.scope, rule.include, rule.exclude, rule.depth) if rule else SiteScope()
        if own == SiteScope():
            return self
        if own not in self._of_site:
            self._of_site[own] = Scope(
                own.replace_in(self._rules), seeds=self._seeds, year=self._year, forgotten=self._forgotten
            )
        return self._of_site[own]

    def _decide_place(self, url: str, depth: int) -> str | None:
        if len(url) > self._rules.max_length:
            return "url_too_long"
        if self._rules.max_depth is not None and depth > self._rules.max_depth:
            return "too_deep"
        if self._rules.kind != "any" and not self._is_near(url):
            return "out_of_scope"
        return self.why_excluded(url)

    def _add(self, seed: str) -> None:
        kind, host = self._rules.kind, host_of(seed)
        if kind == "any":
            return
        self._places.add(_place(host, kind))
        if kind == "path":
            self._folders.setdefault(_place(host, kind), set()).add(_folder_of(seed))

    def _is_near(self, url: str) -> bool:
        place = _place(host_of(url), self._rules.kind)
        return place in self._places and (self._rules.kind != "path" or self._is_in_folder(place, url))

    def _is_in_folder(self, place: str, url: str) -> bool:
        folders, path = self._folders[place], _path_of(url) + "/"
        at = path.find("/")
        while at >= 0:
            if path[: at + 1] in folders:
                return True
            at = path.find("/", at + 1)
        return False


def extension_of(url: str) -> str:
    """Return the extension of the path in lower case. It is empty for `File:Mill.jpg`, too: wikis call pages so."""
    name = _path_of(url).rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and ":" not in stem else ""


def _place(host: str, kind: Kind) -> str:
    if kind == "domain":
        return registered_domain(host) or host
    return host.removeprefix("www.")


def _path_of(url: str) -> str:
    path = url.partition("?")[0]
    return path[path.find("/", 8) :]  # behind `https://`


def _folder_of(seed: str) -> str:
    folder, _, name = _path_of(seed).rpartition("/")
    return f"{folder}/{name}/" if name and "." not in name else f"{folder}/"


def check_patterns(*patterns: str) -> None:
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except BadInput as error:
            raise Misconfigured(
                f"the pattern {pattern!r} is not one of RE2 ({error.message}): "
                "see https://github.com/google/re2/wiki/Syntax"
            ) from error


def _pattern(patterns: tuple[str, ...]) -> re2._Regexp | None:
    """Return all patterns as one, so that a hundred cost little more than one."""
    check_patterns(*patterns)
    try:
        return compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None
    except BadInput as error:
        raise Misconfigured(f"{len(patterns)} patterns are too much for RE2 ({error.message}): give fewer") from error

"""Where a link of an archived page leads in the archive."""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from webmill.errors import BadInput
from webmill.formats.html.charset import decode_as
from webmill.formats.url.normalise import join
from webmill.serve.capture_address import web_address

SPACE = "\t\n\f\r "
_FRAGMENT = "!#$%&()*+,-./:;=?@[]^_{|}~"
_REFRESH = re.compile(r"\s*+([0-9.]++)\s*+[;,]?\s*+(?:url\s*+=\s*+)?+(['\"]?)(.*)", re.IGNORECASE | re.DOTALL)
_BETWEEN = f"{SPACE},"
_CANDIDATE = re.compile(rf"([{_BETWEEN}]*+)([^{SPACE}]++)([^,]*+)")
_NOT_ASCII = re.compile("[^\x00-\x7f]")


class RewriteBudget:
    """How much longer a page may become: a short link on a page with a long base is a long address here."""

    def __init__(self, left: int = 16 << 20) -> None:
        self._left = left

    def spend(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise BadInput("too many links to rewrite", reason="rewrite_limit")


class LinkRewriter(msgspec.Struct, frozen=True):
    """Of one page, style sheet or head: `base` is what its links are relative to."""

    timestamp_part: str  # the timestamp and the mark that are kept
    base: str
    budget: RewriteBudget = msgspec.field(default_factory=RewriteBudget)

    def rewrite(self, href: str) -> str | None:
        """The address in the archive, of the same time. None for what is none: a place on the page, `data:`…

        BadInput (rewrite_limit) when that would be too much for one page.
        """
        href = href.strip(SPACE)
        if not href or href.startswith("#"):
            return None
        try:
            there = web_address(self.timestamp_part, join(self.base, href))
        except BadInput:
            return None
        self.budget.spend(len(there))
        return add_fragment(there, href)

    def with_base(self, base: str) -> LinkRewriter:
        """With the base that the page states."""
        try:
            return LinkRewriter(self.timestamp_part, join(self.base, base), self.budget)
        except BadInput:
            return self

    def rewrite_srcset(self, value: str) -> str:
        """A `srcset`: addresses with their sizes, between commas. An address may hold commas, but not end in one."""
        said = value.rstrip(_BETWEEN)  # else every place in a row of commas is tried as a beginning
        return _CANDIDATE.sub(self._candidate, said) + value[len(said) :]

    def _candidate(self, found: re.Match[str]) -> str:
        before, url, size = found.groups()
        bare = url.rstrip(",")
        there = self.rewrite(bare) or bare
        # The size of one that ends in a comma belongs to the next, which comes by itself only if it is left.
        return (
            f"{before}{there}{url[len(bare) :]}{size}"
            if bare == url
            else f"{before}{there},{self.rewrite_srcset(size)}"
        )

    def rewrite_refresh(self, value: str) -> str | None:
        """`5; url=there`, of a meta or of a head."""
        found = _REFRESH.match(value)
        if not found:
            return None
        seconds, mark, rest = found.groups()
        there = self.rewrite(rest.partition(mark)[0] if mark else rest)
        return f"{seconds}; url={there}" if there else None


def add_fragment(there: str, href: str) -> str:
    """An address here with the place on the page that a link named."""
    _, mark, fragment = href.partition("#")
    return f"{there}#{quote(fragment, safe=_FRAGMENT, errors='replace')}" if mark else there


class PageEncoding(msgspec.Struct, frozen=True):
    """How to read pieces of a page that is held undecoded, a character for each byte; '' when it is decoded.

    Undecoded, what is not rewritten keeps its bytes, also those that mean nothing.
    """

    encoding: str = ""

    def decode(self, raw: str) -> str:
        return decode_as(raw.encode("latin-1"), self.encoding) if self.encoding and not raw.isascii() else raw

    def decode_url(self, raw: str) -> str:
        """Browsers send the query in the page's own encoding, and the rest in UTF-8."""
        if self.encoding in ("", "utf-8") or raw.isascii():
            return self.decode(raw)
        path, mark, query = raw.partition("?")
        return self.decode(path) + mark + _NOT_ASCII.sub(lambda found: f"%{ord(found[0]):02X}", query)

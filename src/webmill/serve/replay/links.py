"""Rewrites links of archived pages to lead into the archive."""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import quote

import msgspec

from webmill.errors import BadInput
from webmill.formats.encodings import decode_as
from webmill.formats.html.srcset import read_srcset
from webmill.formats.url.normalise import join
from webmill.formats.url.query_encoding import encode_query
from webmill.serve.captures.address import web_address

SPACE = "\t\n\f\r "
_FRAGMENT = "!#$%&()*+,-./:;=?@[]^_{|}~"
_REFRESH = re.compile(r"\s*+([0-9.]++)\s*+[;,]?\s*+(?:url\s*+=\s*+)?+(['\"]?)(.*)", re.IGNORECASE | re.DOTALL)


class RewriteBudget:
    """Bounds how much a page may grow: a short link with a long base becomes a long URL here."""

    def __init__(self, left: int = 16 << 20) -> None:
        self._left = left

    def spend(self, length: int) -> None:
        self._left -= length
        if self._left < 0:
            raise BadInput("the page has too many links to rewrite", reason="rewrite_limit")


class LinkRewriter(msgspec.Struct, frozen=True):
    """Rewrites the links of one page, style sheet or header, which are relative to `base`."""

    timestamp_part: str  # timestamp and modifier of the page, which its links keep
    base: str
    encoding: str = "utf-8"  # of the page, in which browsers send queries
    budget: RewriteBudget = msgspec.field(default_factory=RewriteBudget)

    # They would block rewritten content (other bytes, another origin) or report clicks.
    dropped: ClassVar[frozenset[str]] = frozenset(
        {"integrity", "crossorigin", "ping", "referrerpolicy", "manifest", "nonce"}
    )
    rewrites_data: ClassVar[bool] = True  # addresses in `data-…`, of which a script would make images
    srcdoc_start: ClassVar[str] = ""  # what the head of a page in an attribute begins with

    def rewrite_script(self, script: str, kind: str) -> str | None:
        """Return the script of an element with this `type`, or None to keep it."""
        del script, kind
        return None

    def rewrite(self, href: str) -> str | None:
        """Return the URL in the archive at the same time, or None for fragments, `data:` and the like.

        BadInput (rewrite_limit): the page would grow too much.
        """
        href = href.strip(SPACE)
        if not href or href.startswith("#"):
            return None
        try:
            there = web_address(self.timestamp_part, join(self.base, encode_query(href, self.encoding)))
        except BadInput:
            return None
        self.budget.spend(len(there))
        return add_fragment(there, href)

    def with_base(self, base: str) -> LinkRewriter:
        """Return a rewriter with the base URL that the page declares."""
        try:
            return msgspec.structs.replace(self, base=join(self.base, base))
        except BadInput:
            return self

    def rewrite_srcset(self, value: str) -> str:
        """Rewrite the URLs of a `srcset`."""
        out: list[str] = []
        done = 0
        for start, end in read_srcset(value):
            out += value[done:start], self.rewrite(value[start:end]) or value[start:end]
            done = end
        return "".join((*out, value[done:]))

    def rewrite_refresh(self, value: str) -> str | None:
        """Rewrite `5; url=there` of a meta element or header."""
        found = _REFRESH.match(value)
        if not found:
            return None
        seconds, mark, rest = found.groups()
        there = self.rewrite(rest.partition(mark)[0] if mark else rest)
        return f"{seconds}; url={there}" if there else None


def add_fragment(there: str, href: str) -> str:
    """Return the URL with the fragment of the original link."""
    _, mark, fragment = href.partition("#")
    return f"{there}#{quote(fragment, safe=_FRAGMENT, errors='replace')}" if mark else there


class PageEncoding(msgspec.Struct, frozen=True):
    """The encoding of a page that is held undecoded, one character per byte; '' if it is decoded.

    Undecoded, everything that is not rewritten keeps its bytes, also invalid ones.
    """

    encoding: str = ""

    def decode(self, raw: str) -> str:
        return decode_as(raw.encode("latin-1"), self.encoding) if self.encoding and not raw.isascii() else raw

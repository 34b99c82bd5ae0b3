"""`/web/TIMESTAMP/URL` and `/raw/TIMESTAMP/URL`: what is asked for.

The URL is the rest of the path and the query string as they were sent: `%2F`, `//` and `?` are its own.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

import msgspec
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.requests import Request

from webmill.errors import BadInput
from webmill.formats.timestamps import earliest
from webmill.formats.url.normalise import normalise

_ADDRESS = re.compile(rb"/(?:web|raw)/([0-9]{1,14})([a-z]{1,8}_|~[0-9a-f]{16})?/(.+)", re.DOTALL)
_SCHEME = re.compile(rb"(https?):/*+", re.IGNORECASE)
_KEPT = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"#<>')  # all that a normalised URL has
_ESCAPED_SCHEME = re.compile(rb"https?%3A", re.IGNORECASE)


class RestOfPath(PathConvertor):
    """`{rest:archived}` in a route: all that follows. Starlette's `path` ends at a line break, and URLs hold `%0A`."""

    regex = "(?s:.*)"


register_url_convertor("archived", RestOfPath())


class CaptureAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A capture that somebody wants. `timestamp` is as they wrote it, `url` is normalised."""

    timestamp: str
    url: str
    modifier: str = ""  # what stood behind the timestamp: `warc_`, or the pass of the replay origin

    @property
    def timestamp_part(self) -> str:
        """The timestamp with its modifier: what links of an archived page begin with, as the page itself."""
        return self.timestamp + self.modifier

    @property
    def moment(self) -> str:
        """The first second of what was meant: 14 digits. A digit of half a month or hour is left out."""
        year = self.timestamp.ljust(4, "0")
        return earliest(year[: len(year) // 2 * 2])


def read_address(request: Request) -> CaptureAddress:
    """BadInput (bad_address, bad_url, scheme, url_too_long)."""
    asked = parse_address(sent_path(request))
    if asked is None:
        raise BadInput("no archived address: /web/TIMESTAMP/URL", reason="bad_address")
    return asked


def sent_path(request: Request) -> bytes:
    """Path and query as they came over the wire."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return path + b"?" + query if query else path


def parse_address(path: bytes) -> CaptureAddress | None:
    """None when this is no such address at all; BadInput when there is no such URL."""
    found = _ADDRESS.fullmatch(path)
    if not found:
        return None
    timestamp, modifier, rest = found.groups(b"")
    if _ESCAPED_SCHEME.match(rest):  # some clients escape all of it
        rest = unquote_to_bytes(rest)
    scheme = _SCHEME.match(rest)  # proxies make one slash of two
    rest = (scheme[1] + b"://" + rest[scheme.end() :]) if scheme else b"http://" + rest
    return CaptureAddress(
        timestamp=timestamp.decode(), url=normalise(rest.decode("utf-8", "replace")), modifier=modifier.decode()
    )


def web_address(when: str, url: str) -> str:
    """Of any URL: a normalised one stays as it is."""
    return f"/web/{when}/{quote_url(url)}"


def raw_address(timestamp: str, url: str, *, modifier: str = "") -> str:
    return f"/raw/{timestamp}{modifier}/{quote_url(url)}"


def quote_url(url: str) -> str:
    """A URL as the rest of a path of ours: readable, and nothing in it ends the path, an attribute or a link."""
    return quote(url, safe=_KEPT, errors="replace")

"""Addresses of captures: `/web/TIMESTAMP/URL`, `/raw/TIMESTAMP/URL`, `/picture/TIMESTAMPview_/URL`.

The URL is the rest of the path and the query string exactly as sent: `%2F`, `//` and `?` belong to it.
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

_ADDRESS = re.compile(rb"/(?:web|raw|wacz|picture)/([0-9]{1,14})([a-z]{1,8}_|~[0-9a-f]{16})?/(.+)", re.DOTALL)
_SCHEME = re.compile(rb"(https?):/*+", re.IGNORECASE)
_KEPT = "".join(
    chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"#<>'
)  # every character of a normalised URL
_ESCAPED_SCHEME = re.compile(rb"https?%3A", re.IGNORECASE)


class RestOfPath(PathConvertor):
    """`{rest:archived}` in a route: the rest of the path. Starlette's `path` stops at a line break (`%0A`)."""

    regex = "(?s:.*)"


register_url_convertor("archived", RestOfPath())


class CaptureAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The capture that a request names. `timestamp` is as it was sent, `url` is normalised."""

    timestamp: str
    url: str
    modifier: str = ""  # behind the timestamp: `warc_`, or the pass of the replay origin

    @property
    def timestamp_part(self) -> str:
        """Return timestamp and modifier, as in the path; links of an archived page keep both."""
        return self.timestamp + self.modifier

    @property
    def moment(self) -> str:
        """Return the first second of the period as 14 digits. An odd last digit is dropped."""
        year = self.timestamp.ljust(4, "0")
        return earliest(year[: len(year) // 2 * 2])


def read_address(request: Request) -> CaptureAddress:
    """Return the requested capture, or raise BadInput (bad_address, bad_url, scheme, url_too_long)."""
    address = parse_address(sent_path(request))
    if address is None:
        raise BadInput("not the address of a capture; write /web/TIMESTAMP/URL", reason="bad_address")
    return address


def sent_path(request: Request) -> bytes:
    """Return path and query exactly as sent."""
    path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    return path + b"?" + query if query else path


def parse_address(path: bytes) -> CaptureAddress | None:
    """Return the capture that `path` names, or None for another path. BadInput: its URL is not one."""
    found = _ADDRESS.fullmatch(path)
    if not found:
        return None
    timestamp, modifier, rest = found.groups(b"")
    if _ESCAPED_SCHEME.match(rest):  # some clients escape the whole URL
        rest = unquote_to_bytes(rest)
    scheme = _SCHEME.match(rest)  # proxies collapse two slashes
    rest = (scheme[1] + b"://" + rest[scheme.end() :]) if scheme else b"http://" + rest
    return CaptureAddress(
        timestamp=timestamp.decode(), url=normalise(rest.decode("utf-8", "replace")), modifier=modifier.decode()
    )


def web_address(when: str, url: str) -> str:
    """Return the replay address of any URL; a normalised one is kept as it is."""
    return f"/web/{when}/{quote_url(url)}"


def raw_address(timestamp: str, url: str, *, modifier: str = "") -> str:
    return f"/raw/{timestamp}{modifier}/{quote_url(url)}"


def quote_url(url: str) -> str:
    """Quote a URL as the rest of a path: readable, and safe in paths, attributes and Link headers."""
    return quote(url, safe=_KEPT, errors="replace")

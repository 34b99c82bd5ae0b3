"""What is asked and what is answered: a proper reply, or a script of bytes where the point is to be improper."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Protocol

from msgspec import Struct

from webmill.model import Headers

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
Pairs = tuple[tuple[str, str], ...]


class Request(Struct, frozen=True, kw_only=True):
    """One request, already read. `version` is that of the web at this moment: sites are pure functions of it."""

    method: str = "GET"
    host: str
    path: str
    query: str = ""
    headers: Headers = Headers()
    body: bytes = b""
    version: int = 1

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


class Reply(Struct, frozen=True, kw_only=True):
    """An answer in order. With an etag or a date it can be asked for conditionally, with `ranges` in parts."""

    status: int = 200
    body: bytes = b""
    media_type: str = HTML  # "" leaves the field out
    headers: Pairs = ()
    etag: str = ""
    modified: datetime | None = None
    ranges: bool = False


class Wait(Struct, frozen=True):
    """Let time pass. A beat is the `pace` of the web, so tests can play the slow pages fast."""

    beats: float = 1


class Cut(enum.Enum):
    """How a script ends the connection."""

    FIN = "fin"
    RST = "rst"


Step = bytes | Wait | Cut


class Script(Struct, frozen=True, kw_only=True):
    """Exactly these bytes, in these steps. `status` is only for the log; `reuse` keeps the connection open after it."""

    status: int = 200
    steps: Iterable[Step]
    reuse: bool = False


Answer = Reply | Script


class Page(Struct, frozen=True, kw_only=True):
    """The truth about one URL: what a walk along the links must find there."""

    url: str
    status: int
    media_type: str
    length: int
    digest: str  # of the body, as in WARC-Payload-Digest: sha1:BASE32
    language: str = ""
    location: str = ""
    allowed: bool = True  # by robots.txt


class Site(Protocol):
    """One host. Answers depend on nothing but the request, and state that the site itself keeps."""

    def answer(self, request: Request) -> Answer: ...

    def pages(self, version: int) -> Iterator[Page]:
        """Every URL of this host that a walk from its home page meets, generated one by one."""
        ...


def known(body: bytes, media_type: str, *, modified: datetime, ranges: bool = False) -> Reply:
    """A reply with an ETag of its content, as a file server would make it."""
    return Reply(body=body, media_type=media_type, etag=etag_of(body), modified=modified, ranges=ranges)


def etag_of(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:16]}"'


def http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def conclude(reply: Reply, request: Request) -> Reply:
    """The reply as this request wants it: not modified, a part, or whole."""
    if reply.status != HTTPStatus.OK or request.method not in ("GET", "HEAD"):
        return reply
    if _is_unchanged(reply, request.headers):
        return Reply(status=304, media_type="", etag=reply.etag, modified=reply.modified)
    if reply.ranges and "range" in request.headers and _range_applies(reply, request.headers):
        return _part(reply, request.headers.get("range") or "")
    return reply


def _is_unchanged(reply: Reply, headers: Headers) -> bool:
    wanted = headers.get("if-none-match")
    if wanted is not None:  # RFC 9110 13.2.2: with an etag the date is not looked at
        tags = {tag.strip().removeprefix("W/") for tag in wanted.split(",")}
        return bool(reply.etag) and (reply.etag.removeprefix("W/") in tags or "*" in tags)
    since = headers.get("if-modified-since")
    if since is None or reply.modified is None:
        return False
    try:
        moment = parsedate_to_datetime(since)
    except ValueError:
        return False
    return reply.modified <= (moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _range_applies(reply: Reply, headers: Headers) -> bool:
    condition = headers.get("if-range")
    return condition is None or condition == reply.etag


def _part(reply: Reply, field: str) -> Reply:
    """One byte range; several or senseless ones are ignored, as RFC 9110 14.2 permits."""
    first, dash, last = field.removeprefix("bytes=").partition("-")
    size = len(reply.body)
    if not field.startswith("bytes=") or not dash or not (first + last).isdecimal():
        return reply
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= size or start >= end:
        return Reply(status=416, media_type="", headers=(("Content-Range", f"bytes */{size}"),))
    span = ("Content-Range", f"bytes {start}-{end - 1}/{size}")
    return Reply(
        status=206,
        body=reply.body[start:end],
        media_type=reply.media_type,
        headers=(*reply.headers, span),
        etag=reply.etag,
        modified=reply.modified,
        ranges=True,
    )


def head_of(reply: Reply, *, close: bool) -> bytes:
    """Status line and fields. No Date field: these servers have no clock, so their bytes are the same on every run."""
    fields = [("Server", "webmill-test-web")]
    if reply.media_type:
        fields.append(("Content-Type", reply.media_type))
    if reply.etag:
        fields.append(("ETag", reply.etag))
    if reply.modified:
        fields.append(("Last-Modified", http_date(reply.modified)))
    if reply.ranges:
        fields.append(("Accept-Ranges", "bytes"))
    fields += reply.headers
    if reply.status not in (204, 304):
        fields.append(("Content-Length", str(len(reply.body))))
    if close:
        fields.append(("Connection", "close"))
    line = f"HTTP/1.1 {reply.status} {_reason(reply.status)}"
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in fields), "", ""]).encode("latin-1", "replace")


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Unknown"

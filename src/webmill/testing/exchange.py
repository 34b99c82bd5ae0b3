"""Requests and answers of the test web: a well-formed reply, or a script of raw bytes for malformed ones."""

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


class ReceivedRequest(Struct, frozen=True, kw_only=True):
    """One request, already read. `version` is the current version of the web: hosts are pure functions of it."""

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


class HttpReply(Struct, frozen=True, kw_only=True):
    """A well-formed answer. `etag` and `modified` allow conditional requests, `ranges` allows range requests."""

    status: int = 200
    body: bytes = b""
    media_type: str = HTML  # "" omits Content-Type
    headers: Pairs = ()
    etag: str = ""
    modified: datetime | None = None
    ranges: bool = False


class Wait(Struct, frozen=True):
    """A pause. One beat lasts `pace` seconds of the web, so tests can speed up the slow pages."""

    beats: float = 1


class Cut(enum.Enum):
    """How a script ends the connection."""

    FIN = "fin"
    RST = "rst"


Step = bytes | Wait | Cut


class ScriptedReply(Struct, frozen=True, kw_only=True):
    """Exactly these bytes, in these steps. `status` is only logged; `reuse` keeps the connection open afterwards."""

    status: int = 200
    steps: Iterable[Step]
    reuse: bool = False


Answer = HttpReply | ScriptedReply


class ExpectedPage(Struct, frozen=True, kw_only=True):
    """What a crawl must find at one URL."""

    url: str
    status: int
    media_type: str
    length: int
    digest: str  # of the body, as in WARC-Payload-Digest: sha1:BASE32
    language: str = ""
    location: str = ""
    allowed: bool = True  # by robots.txt


class SimulatedHost(Protocol):
    """One host. Answers depend only on the request and on state that the host itself keeps."""

    def answer(self, request: ReceivedRequest) -> Answer: ...

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        """Yield every URL of this host that links from its home page lead to."""
        ...


def reply_with_etag(body: bytes, media_type: str, *, modified: datetime, ranges: bool = False) -> HttpReply:
    """Return a reply with an ETag of its content, as a file server would."""
    return HttpReply(body=body, media_type=media_type, etag=etag_of(body), modified=modified, ranges=ranges)


def etag_of(body: bytes) -> str:
    return f'"{sha256(body).hexdigest()[:16]}"'


def http_date(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def apply_conditions(reply: HttpReply, request: ReceivedRequest) -> HttpReply:
    """Return the reply for the conditions of this request: not modified, a range, or whole."""
    if reply.status != HTTPStatus.OK or request.method not in ("GET", "HEAD"):
        return reply
    if _is_unchanged(reply, request.headers):
        return HttpReply(status=304, media_type="", etag=reply.etag, modified=reply.modified)
    if reply.ranges and "range" in request.headers and _range_applies(reply, request.headers):
        return _part(reply, request.headers.get("range") or "")
    return reply


def _is_unchanged(reply: HttpReply, headers: Headers) -> bool:
    wanted = headers.get("if-none-match")
    if wanted is not None:  # RFC 9110 13.2.2: with an etag the date is ignored
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


def _range_applies(reply: HttpReply, headers: Headers) -> bool:
    condition = headers.get("if-range")
    return condition is None or condition == reply.etag


def _part(reply: HttpReply, field: str) -> HttpReply:
    """Return one byte range; several or malformed ones are ignored, as RFC 9110 14.2 permits."""
    first, dash, last = field.removeprefix("bytes=").partition("-")
    size = len(reply.body)
    if not field.startswith("bytes=") or not dash or not (first + last).isdecimal():
        return reply
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if start >= size or start >= end:
        return HttpReply(status=416, media_type="", headers=(("Content-Range", f"bytes */{size}"),))
    span = ("Content-Range", f"bytes {start}-{end - 1}/{size}")
    return HttpReply(
        status=206,
        body=reply.body[start:end],
        media_type=reply.media_type,
        headers=(*reply.headers, span),
        etag=reply.etag,
        modified=reply.modified,
        ranges=True,
    )


def format_head(reply: HttpReply, *, close: bool) -> bytes:
    """Return status line and headers. There is no Date header, so the bytes are the same on every run."""
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

"""Responses made of captures: archived headers, made harmless, and archived bodies as streams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from urllib.parse import quote_from_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from webmill.errors import BadInput
from webmill.formats.html.charset import charset_label
from webmill.formats.timestamps import to_datetime
from webmill.model import Headers
from webmill.pipeline.capture_reader import CaptureReader
from webmill.serve.http.conditional_requests import UnsatisfiableRange, drop_range_unless_get, http_date, parse_range
from webmill.serve.http.responses import NO_STORE
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

HeaderPairs = list[tuple[str, str]]

LINKS = "application/link-format"
ORIGINAL = "X-Archive-Orig-"
MOST_FIELDS, MOST_BYTES = 64, 16 << 10  # archived headers in one response; the record has them all
HELD = 1 << 20  # bytes; smaller bodies are sent at once
SKIPPED = 1 << 20  # bytes skipped at once on the way to a range

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]+")
_TYPE = re.compile(r"\s*([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}/[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64})\s*(?:;|$)")
_ASCII = bytes(range(0x20, 0x7F))
_CONTENT_RANGE = re.compile(r"\s*bytes\s+([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)\s*", re.IGNORECASE)
_CHARSET = re.compile(r"[A-Za-z0-9:_.+-]{1,40}")


def original_headers(headers: Headers, *, passed: Iterable[str] = ()) -> HeaderPairs:
    """Return all headers but `passed` with a prefix, so that no browser acts on them."""
    pairs: HeaderPairs = []
    left = MOST_BYTES
    for name, value in headers.pairs:
        if name.lower() in passed or not _TOKEN.fullmatch(name):
            continue
        pair = (ORIGINAL + name, clean_header(value))
        left -= len(pair[0]) + len(pair[1])
        if left < 0 or len(pairs) == MOST_FIELDS:
            break
        pairs.append(pair)
    return pairs


def clean_header(value: str) -> str:
    """Return a header value without control characters and with non-ASCII bytes escaped."""
    value = _CONTROL.sub(" ", value).strip()
    return value if value.isascii() else quote_from_bytes(value.encode("latin-1", "replace"), safe=_ASCII)


def parse_content_type(content_type: str) -> tuple[str, str | None]:
    """Return the media type in lower case and the charset label, each only if well-formed."""
    found = _TYPE.match(content_type[:1000])
    label = charset_label(content_type)
    kind = found[1].lower() if found else "application/octet-stream"
    return kind, label if label and _CHARSET.fullmatch(label) else None


def memento_headers(site: Site, archived: CaptureReader, url: str) -> HeaderPairs:
    """Return the headers of RFC 7089. `url` is normalised, so it has no `>` or line break."""
    links = (
        format_link(url, "original"),
        format_link(f"{site.address}/timegate/{url}", "timegate"),
        format_link(f"{site.address}/timemap/link/{url}", "timemap", type=LINKS),
    )
    link = ("Link", ", ".join(links))
    try:
        return [("Memento-Datetime", memento_date(archived.capture.timestamp)), link]
    except BadInput:  # its timestamp is not a date
        return [link]


def format_link(url: str, rel: str, **attributes: str) -> str:
    more = "".join(f'; {name}="{value}"' for name, value in attributes.items())
    return f'<{url}>; rel="{rel}"{more}'


def memento_date(timestamp: str) -> str:
    """Return the timestamp of a capture as an HTTP date. BadInput: the digits are not a date."""
    return http_date(to_datetime(timestamp)).decode()


class StreamedCapture(StreamingResponse):
    """A streamed capture. Closes its archive also when the client disconnects; reads nothing for HEAD."""

    def __init__(
        self, pieces: Iterator[bytes], archived: CaptureReader, *, status: int, threads: BoundedThreads
    ) -> None:
        super().__init__((), status_code=status)
        self._pieces, self._archived, self._threads = pieces, archived, threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body"})
            else:
                self.body_iterator = self._threads.stream(scope, self._pieces)
                await super().__call__(scope, receive, send)
        finally:
            self._archived.close()


def capture_response(
    archived: CaptureReader,
    pieces: Iterator[bytes],
    headers: HeaderPairs,
    *,
    threads: BoundedThreads,
    status: int = 200,
    size: int | None = None,
) -> Response:
    """Return a response that closes the archive when it is sent. `size`: of all pieces, if known."""
    try:
        held, rest = read_up_to(pieces, HELD)
    except BaseException:
        archived.close()
        raise
    if rest is None:
        archived.close()
        return add_headers(Response(held, status_code=status), headers)
    made = StreamedCapture(chain((held,), rest), archived, status=status, threads=threads)
    return add_headers(made, headers if size is None else [*headers, ("Content-Length", str(size))])


def ranged_capture_response(
    archived: CaptureReader,
    pieces: Iterator[bytes],
    headers: HeaderPairs,
    *,
    request: Request,
    threads: BoundedThreads,
    part: ArchivedRange | None = None,
) -> Response:
    """Return the whole content or the requested range. `part`: which range of the original was archived, if not all.

    Encoded content has no ranges: its length is known only at its end. Otherwise a range costs what lies before it: a
    record is compressed as a whole.
    """
    size = archived.size
    if size is None:
        return capture_response(archived, pieces, [*headers, ("Accept-Ranges", "none")], threads=threads)
    headers = [*headers, ("Accept-Ranges", "bytes")]
    request_headers = drop_range_unless_get(dict(request.scope["headers"]), request.method)
    part = part or ArchivedRange(0, size, str(size))
    try:
        wanted = parse_range(request_headers, part.known, etag=b"")
        start, end = part.within(wanted) if wanted else (0, 0)
    except UnsatisfiableRange:
        archived.close()
        return Response(status_code=416, headers={**NO_STORE, "Content-Range": f"bytes */{part.total}"})
    if wanted is None:
        return capture_response(archived, pieces, headers, threads=threads, size=size)
    headers += [("Content-Length", str(end - start)), ("Content-Range", f"bytes {start}-{end - 1}/{part.total}")]
    pieces = slice_pieces(pieces, start - part.start, end - part.start)
    return add_headers(StreamedCapture(pieces, archived, status=206, threads=threads), headers)


class ArchivedRange(msgspec.Struct, frozen=True):
    """Bytes `start` to `end` (exclusive) of `total`, which may be `*`."""

    start: int
    end: int
    total: str

    @property
    def known(self) -> int:
        return self.end if self.total == "*" else int(self.total)

    def within(self, wanted: tuple[int, int]) -> tuple[int, int]:
        """Return what is archived of a range, from its start on. `UnsatisfiableRange`: nothing."""
        if not self.start <= wanted[0] < self.end:
            raise UnsatisfiableRange
        return wanted[0], min(wanted[1], self.end)


def archived_range(archived: CaptureReader) -> ArchivedRange | None:
    """Return the range of an archived 206, if it is as long as the archived body."""
    found = _CONTENT_RANGE.fullmatch(archived.headers.get("Content-Range") or "")
    if archived.status != 206 or not found:
        return None
    part = ArchivedRange(int(found[1]), int(found[2]) + 1, found[3])
    return part if part.end - part.start == archived.size and part.end <= part.known else None


def slice_pieces(pieces: Iterable[bytes], start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes from `start` to `end`, and an empty piece now and then while skipping those before."""
    at = reported = 0
    for piece in pieces:
        begin, at = at, at + len(piece)
        if at > start:
            yield piece[max(0, start - begin) : end - begin]
        elif at - reported >= SKIPPED:
            reported = at
            yield b""
        if at >= end:
            return


def add_headers(made: Response, headers: HeaderPairs) -> Response:
    for name, value in headers:
        made.headers.append(name, value)
    return made


def read_up_to(pieces: Iterator[bytes], most: int) -> tuple[bytes, Iterator[bytes] | None]:
    """Return a little more than `most` bytes and the rest, or all bytes and None."""
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) > most:
            return bytes(held), pieces
    return bytes(held), None

"""Open captures: HTTP head at once, body as a stream, revisits resolved."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import REVISIT, IndexLine
from webmill.formats.compression import content_coding
from webmill.formats.http import ResponseHead, end_of_head, split_response
from webmill.formats.http.chunked import ChunkedReader
from webmill.formats.http.head import MAX_HEAD_BYTES
from webmill.formats.timestamps import from_warc_date
from webmill.formats.url.surt import surt
from webmill.formats.warc.single_record import BlockStream, open_block
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import Query, run_query, surt_range, url_range
from webmill.infra.storage.base import Readable
from webmill.model import CaptureRef, Headers, Record, normalise_digest
from webmill.pipeline.captures import MAX_CANDIDATES, parse_index_lines

log = logging.getLogger(__name__)

_REVISIT = f'"{REVISIT}"'.encode()  # as a line has it: quotes in other values are escaped
MAX_REVISIT_DEPTH = 5  # revisits of revisits
MAX_SEARCHED_LINES = 100_000  # of one address that are searched for a digest
PIECE = 64 << 10
STREAM_LIMITS = content_coding.DecodeLimits(
    output=64 << 30
)  # streamed, so memory is no reason to stop; the ratio still is


class CaptureReader:
    """An open capture; close it after use. `head` is None for a resource record, or when it is broken.

    `capture` is the one asked for; of a revisit, `original` is the capture that has the body.
    """

    def __init__(
        self,
        capture: CaptureRef,
        record: Record,
        head: ResponseHead | None,
        body: bytes,
        block: BlockStream,
        *,
        size: int,
    ) -> None:
        self.capture = self.original = capture
        self.record = record
        self.head = head
        self._body = body  # what came along with the head
        self._block = block
        self._size = size  # of the body as it is stored
        self._stream: BinaryIO | None = None

    @property
    def headers(self) -> Headers:
        return self.head.headers if self.head else Headers()

    @property
    def status(self) -> int:
        return self.head.status if self.head else 200

    @property
    def content_type(self) -> str:
        """Return the type that the server sent; else that of the record, or the one the crawler identified."""
        stated = self.headers.get("Content-Type") if self.head else self.record.content_type
        if not stated or stated.startswith("application/http"):
            stated = self.record.headers.get("WARC-Identified-Payload-Type")
        return stated or ""

    @property
    def size(self) -> int | None:
        """Return the size of the content; None when it is encoded, and so unknown before its end."""
        return self._size if {*self._codings(), *self._transfer()} <= {"identity"} else None

    def _codings(self) -> Sequence[str]:
        return content_coding.parse_codings(self.headers)

    def _transfer(self) -> Sequence[str]:
        return content_coding.parse_codings(self.headers, "Transfer-Encoding")

    def under(self, capture: CaptureRef, head: ResponseHead | None) -> CaptureReader:
        """Return this body under the head of a revisit, unless that head is only a 304."""
        self.capture = capture
        if head and head.status != 304 and self.head:
            codings = [
                pair for pair in self.head.headers.pairs if pair[0].lower() in _CODINGS
            ]  # of the bytes that we have
            kept = [pair for pair in head.headers.pairs if pair[0].lower() not in _CODINGS]
            self.head = msgspec.structs.replace(head, headers=Headers((*kept, *codings)))
        return self

    def stored(self) -> Iterator[bytes]:
        """Yield the body as it is stored in the record."""
        piece, self._body = self._body, b""
        try:
            while piece or (piece := self._block.read(PIECE)):
                yield piece
                piece = b""
        except BadInput as error:
            raise _damaged_error(self.original, error) from error

    def content(self, *, limits: content_coding.DecodeLimits = STREAM_LIMITS) -> Iterator[bytes]:
        """Yield the body with its codings removed, as far as possible."""
        transfer = self._transfer()
        pieces = self.stored()
        if transfer and transfer[-1] == "chunked":
            pieces, transfer = _unchunk(pieces), content_coding.without_chunked(transfer)
        decoder = content_coding.ContentDecoder((*self._codings(), *transfer), limits=limits)
        yield from _rechunk(_decode(pieces, decoder))
        if decoder.flaw:
            log.info("%s at %d: content is %s", self.original.filename, self.original.offset, decoder.flaw)

    def close(self) -> None:
        if self._stream:
            self._stream.close()

    def closing(self, stream: BinaryIO) -> CaptureReader:
        self._stream = stream
        return self


_CODINGS = ("content-encoding", "transfer-encoding", "content-length")


def _unchunk(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Undo chunking. A body that is not chunked (many crawlers unchunk and keep the header) stays as it is."""
    reader = ChunkedReader()
    held: bytes | None = b""  # until a chunk has come
    for piece in pieces:
        out = reader.feed(piece)
        if held is not None:
            held = None if out or reader.ended else held + piece
        if out:
            yield out
        if reader.ended or reader.broken:
            break
    if held is not None:
        yield held
        yield from pieces


def _decode(pieces: Iterable[bytes], decoder: content_coding.ContentDecoder) -> Iterator[bytes]:
    for piece in pieces:
        yield from decoder.feed_pieces(piece)
        if not decoder.complete:
            break
    decoder.finish()


def _rechunk(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield pieces of one size: a decoder gives a few bytes, or megabytes that a slow client would not take in time."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PIECE:
            yield bytes(held[:PIECE])
            del held[:PIECE]
    if held:
        yield bytes(held)


def open_capture(index: CaptureIndex, files: Readable, capture: CaptureRef) -> CaptureReader:
    """Open a capture; of a revisit, its original. `NotFound`: it cannot be read, or the original is not here."""
    opened = open_record(files, capture)
    head = opened.head
    seen = {capture.place}
    searched: set[tuple[str, str]] = set()
    for _ in range(MAX_REVISIT_DEPTH):
        if opened.record.type != "revisit":
            return opened.under(capture, head) if len(seen) > 1 else opened
        try:
            originals = _find_originals(index, opened, searched)
        finally:
            opened.close()
        original = next((found for found in originals if found.place not in seen), None)
        if original is None:
            raise NotFound("this capture is a revisit (the page had not changed), and its original is not here")
        seen.add(original.place)
        opened = open_record(files, original)
    opened.close()
    raise NotFound(f"this capture is a revisit of revisits, more than {MAX_REVISIT_DEPTH} in a row")


def open_record(files: Readable, capture: CaptureRef) -> CaptureReader:
    """Open one record, without resolving revisits. Damage is logged with its position."""
    if not capture.length:
        raise NotFound("this capture shares a compressed member with others: no range of bytes holds it alone")
    try:
        stream = files.open(capture.filename, start=capture.offset, length=capture.length)
        try:
            return _open_http_record(capture, open_block(stream)).closing(stream)
        except BaseException:
            stream.close()
            raise
    except BadInput as error:
        raise _damaged_error(capture, error) from error


def _damaged_error(capture: CaptureRef, error: BadInput) -> NotFound:
    log.warning("cannot read the capture in %s at %d: %s", capture.filename, capture.offset, error)
    return NotFound(f"this capture is damaged: {capture.filename} at byte {capture.offset}: {error.message}")


def _open_http_record(capture: CaptureRef, block: BlockStream) -> CaptureReader:
    record = Record(block.version, block.headers, b"", capture.offset, capture.length)
    is_http = record.type in ("response", "revisit") and (record.target_uri or "").lower().startswith("http")
    if not is_http:
        return CaptureReader(capture, record, None, b"", block, size=block.length)
    start = b""
    while end_of_head(start) is None and len(start) <= MAX_HEAD_BYTES and (piece := block.read(PIECE)):
        start += piece
    message = split_response(start)
    body = message.body
    if message.head and body.startswith(b"\r\n"):  # crawls of 2018 wrote two empty lines
        rest = block.length - (len(start) - len(body)) - 2
        body = body[2:] if message.head.headers.get("Content-Length") == str(rest) else body
    return CaptureReader(capture, record, message.head, body, block, size=block.length - len(start) + len(body))


# --- revisits -----------------------------------------------------------------------------------------------------


def _find_originals(index: CaptureIndex, revisit: CaptureReader, searched: set[tuple[str, str]]) -> list[CaptureRef]:
    """Return where the body may be, best first: what the record refers to, captures with its digest, other revisits.

    The key of a revisit has what was posted, which its URL has not. `searched` holds the keys and digests that were
    searched already.
    """
    headers = revisit.record.headers
    digest = normalise_digest(revisit.record.payload_digest or "")
    uri = headers.get("WARC-Refers-To-Target-URI") or revisit.capture.url
    referred = _find_referred(index, uri, headers.get("WARC-Refers-To-Date"), digest)
    found = [line.capture for line in referred if not line.is_revisit]
    if not found and digest:
        for key in dict.fromkeys((revisit.capture.urlkey, surt(revisit.capture.url), surt(uri))):
            if key and (key, digest) not in searched:
                searched.add((key, digest))
                found += islice(_find_by_digest(index, key, digest), MAX_CANDIDATES)
    return found + [line.capture for line in referred if line.is_revisit]


def _find_referred(index: CaptureIndex, uri: str, date: str | None, digest: str) -> list[IndexLine]:
    try:
        moment = from_warc_date(date or "")
        wanted = url_range(uri, "exact")
    except BadInput:
        return []
    lines = parse_index_lines(run_query(index, Query(range=wanted, start=moment, end=moment, limit=MAX_CANDIDATES)))
    return [line for line in lines if not digest or line.capture.digest == digest]


def _find_by_digest(index: CaptureIndex, urlkey: str, digest: str) -> Iterator[CaptureRef]:
    """Yield captures of a key with this digest. Raw lines are filtered first, so that few of many are parsed."""
    wanted = digest.rpartition(":")[2].encode("utf-8", "surrogateescape")
    lines = islice(run_query(index, Query(range=surt_range(urlkey))), MAX_SEARCHED_LINES)
    for line in parse_index_lines(line for line in lines if wanted in line and _REVISIT not in line):
        if line.capture.digest == digest:
            yield line.capture

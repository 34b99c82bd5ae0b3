"""Records of archives as members of a new one: each in a gzip member of its own, in whatever file it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from msgspec.structs import replace

from webmill.errors import BadInput
from webmill.formats.compression import gzip_members
from webmill.formats.warc.scan import ScannedRecord, scan_records
from webmill.formats.warc.single_record import open_block
from webmill.formats.warc.writer import compress_stream, stream_record
from webmill.infra.storage.base import Readable, chunks_of
from webmill.model import CaptureRef

SEARCHED_BYTES = 1 << 18  # bytes behind a capture in which what belongs to it is looked for
PIECE = 1 << 18
_END = len(b"\r\n\r\n")  # of a plain record; its length is without it


def record_id(files: Readable, capture: CaptureRef) -> str:
    """Return the id of a record. `BadInput`: it cannot be taken out of its file."""
    if not capture.length:
        raise BadInput("it shares a compressed member with others", reason="shared_member", source=capture.filename)
    with _open_capture(files, capture) as stream:
        block = open_block(stream)
    if block.version.startswith("ARC/"):
        raise BadInput("it is of an ARC file", reason="arc", source=capture.filename, offset=capture.offset)
    return block.headers.get("WARC-Record-ID") or ""


def read_as_gzip(files: Readable, capture: CaptureRef) -> Iterator[bytes]:
    """Yield a record as a gzip member: byte for byte if it is one, else compressed."""
    if not is_gzip(files, capture):
        with _open_capture(files, capture) as stream:
            block = open_block(stream)
            pieces = iter(lambda: block.read(PIECE), b"")
            yield from compress_stream(stream_record(block.headers, pieces, version=block.version))
        return
    missing = capture.length
    with _open_capture(files, capture) as stream:
        for chunk in chunks_of(stream):
            missing -= len(chunk)
            yield chunk
    if missing:
        message = f"{missing} bytes of it are missing"
        raise BadInput(message, reason="truncated_record", source=capture.filename, offset=capture.offset)


def find_attached(files: Readable, capture: CaptureRef, *, id_: str) -> Iterator[CaptureRef]:
    """Yield the records right behind a capture that say that they belong to it: its metadata, or its request. One that
    stands before its response, as ours do, no index knows.
    """
    behind = capture.end + (0 if is_gzip(files, capture) else _END)
    most = min(SEARCHED_BYTES, files.stat(capture.filename).size - behind)
    if most <= 0:
        return
    with files.open(capture.filename, start=behind, length=most) as stream:
        for seen in scan_records(stream, enough=lambda *_: True):
            if not (isinstance(seen, ScannedRecord) and seen.length and refers_to(seen, id_.encode())):
                return
            yield replace(capture, offset=behind + seen.offset, length=seen.length, digest="")


def refers_to(seen: ScannedRecord, id_: bytes) -> bool:
    kind = seen.fields.get(b"WARC-Type")
    said = (seen.fields.get(b"WARC-Concurrent-To"), seen.fields.get(b"WARC-Refers-To"))
    return bool(id_) and kind in (b"metadata", b"request") and id_ in said


def is_gzip(files: Readable, capture: CaptureRef) -> bool:
    with files.open(capture.filename, start=capture.offset, length=len(gzip_members.MAGIC)) as stream:
        return stream.read(len(gzip_members.MAGIC)) == gzip_members.MAGIC


def _open_capture(files: Readable, capture: CaptureRef) -> BinaryIO:
    return files.open(capture.filename, start=capture.offset, length=capture.length)

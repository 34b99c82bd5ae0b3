"""Records of archives as members of a new one: each in a gzip member of its own, in whatever file it was."""

from __future__ import annotations

from collections.abc import Iterator

from webmill.errors import BadInput
from webmill.formats import gzip_members
from webmill.formats.warc import open_block
from webmill.formats.warc.scan import Sighting, scan_records
from webmill.formats.warc_writer import compress_stream, stream_record
from webmill.infra.storage.base import Readable, chunks_of

BEHIND = 1 << 18  # bytes behind a capture in which what belongs to it is looked for
PIECE = 1 << 18
_END = len(b"\r\n\r\n")  # of a plain record; its length is without it

Place = tuple[str, int, int]  # file, offset, length


def record_id(files: Readable, place: Place) -> str:
    """`BadInput` unless a WARC record can be taken out of its file."""
    file, start, length = place
    if not length:
        raise BadInput("it shares a compressed member with others", reason="shared_member", source=file)
    with files.open(file, start=start, length=length) as stream:
        block = open_block(stream)
    if block.version.startswith("ARC/"):
        raise BadInput("it is of an ARC file", reason="arc", source=file, offset=start)
    return block.headers.get("WARC-Record-ID") or ""


def as_member(files: Readable, place: Place) -> Iterator[bytes]:
    """A gzip member is taken over byte for byte; what is plain, or in a Zstandard frame, is compressed."""
    file, start, length = place
    if not is_gzip(files, place):
        with files.open(file, start=start, length=length) as stream:
            block = open_block(stream)
            pieces = iter(lambda: block.read(PIECE), b"")
            yield from compress_stream(stream_record(block.headers, pieces, version=block.version))
        return
    with files.open(file, start=start, length=length) as stream:
        for chunk in chunks_of(stream):
            length -= len(chunk)
            yield chunk
    if length:
        raise BadInput(f"{length} bytes of it are missing", reason="truncated_record", source=file, offset=start)


def belonging(files: Readable, place: Place, *, id_: str) -> Iterator[Place]:
    """Records right behind a capture that say that they belong to it: its metadata, or its request. One that stands
    before its response, as ours do, no index knows.
    """
    file, start, length = place
    behind = start + length + (0 if is_gzip(files, place) else _END)
    most = min(BEHIND, files.stat(file).size - behind)
    if most <= 0:
        return
    with files.open(file, start=behind, length=most) as stream:
        for seen in scan_records(stream, enough=lambda *_: True):
            if not (isinstance(seen, Sighting) and seen.length and is_about(seen, id_.encode())):
                return
            yield file, behind + seen.offset, seen.length


def is_about(seen: Sighting, id_: bytes) -> bool:
    kind = seen.fields.get(b"WARC-Type")
    said = (seen.fields.get(b"WARC-Concurrent-To"), seen.fields.get(b"WARC-Refers-To"))
    return bool(id_) and kind in (b"metadata", b"request") and id_ in said


def is_gzip(files: Readable, place: Place) -> bool:
    file, start, _ = place
    with files.open(file, start=start, length=len(gzip_members.MAGIC)) as stream:
        return stream.read(len(gzip_members.MAGIC)) == gzip_members.MAGIC

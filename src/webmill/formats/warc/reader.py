"""Read every record of a file, and report the damage in it.

The file may be plain, compressed per record, compressed as a whole, or a mix: each unit (a plain record, a gzip
member, a zstd frame) is recognised by its first bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import zstandard

from webmill.formats.compression import gzip_members, zstd_frames
from webmill.formats.compression.gzip_members import DamagedMember, GzipMemberReader
from webmill.formats.warc import framing
from webmill.formats.warc.head import WarcLimits
from webmill.formats.window import ByteSource, ByteWindow
from webmill.model import Damage, Record

DEFAULT = WarcLimits()
PADDING = re.compile(rb"\0+")
# Stored bytes that may be read a second time after damage; good records add their length, so that the work stays
# linear whatever the file holds.
CREDIT = 16 << 20
# Where a record may begin if the kind of file is unknown: compressed, or on a line of its own.
ANY = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]|\x28\xb5\x2f\xfd|\nWARC/[0-9]\.[0-9]{1,3}\r{0,2}\n[A-Za-z]")


def read_records(
    source: ByteSource, *, limits: WarcLimits = DEFAULT, start: int = 0, size: int | None = None
) -> Iterator[Record | Damage]:
    """Yield records in the order of the file, and Damage for bytes without a record. Never raise for invalid bytes.

    `start` is the offset of the first byte that `source` returns, `size` the offset of the end of the file, if known (a
    seekable source is asked): a Content-Length beyond it is refused without reading on.

    A record is yielded when its compressed member was verified. One exception: if the records of a member are larger
    than `limits.block` together, they are yielded while it is read; if it proves damaged, the Damage says how many.
    """
    return RecordReader(source, limits=limits, start=start, size=size).items()


def detect_format(raw: ByteWindow) -> str:
    """Return what begins at the window: `gzip`, `zstd`, `warc`, `arc` or nothing."""
    if raw.data.startswith(gzip_members.MAGIC, raw.at):
        return "gzip"
    raw.has(4)
    start = bytes(raw.data[raw.at : raw.at + 4])
    if start and gzip_members.MAGIC.startswith(start[:3]):  # also when the file ends inside the magic
        return "gzip"
    return "zstd" if zstd_frames.is_frame(start) else framing.sniff(raw)


class RecordReader:
    """The state of one pass over one file."""

    def __init__(self, source: ByteSource, *, limits: WarcLimits, start: int, size: int | None) -> None:
        self.raw = ByteWindow(source, start=start, size=end_offset(source, start) if size is None else size)
        self.limits = limits
        self.kind = ""  # of the last unit that was recognised: after damage the same kind is searched for
        self.credit = CREDIT
        self.decoder: zstandard.ZstdDecompressor | None = None  # created when needed: most files are gzip

    def items(self) -> Iterator[Record | Damage]:
        raw = self.raw
        while framing.skip_blank(raw):
            raw.mark = raw.position
            kind = detect_format(raw)
            if kind in ("gzip", "zstd"):
                yield from self._member(kind)
            elif kind:
                yield from framing.read_framed(raw, kind, limits=self.limits)
            else:
                yield self._garbage()
            self.kind = kind or self.kind

    # --- compressed units ---------------------------------------------------------------------------------------

    def _member(self, kind: str) -> Iterator[Record | Damage]:
        start = self.raw.position
        try:
            most = min(self.limits.block, gzip_members.MAX_INFLATED)
            whole = gzip_members.inflate_whole(self.raw, most=most) if kind == "gzip" else None
            place = start, self.raw.position
            if whole is not None and (record := framing.read_sole_record(whole, place=place, limits=self.limits)):
                yield record
            elif whole is not None:
                items = list(_records_in_member(ByteWindow.of_bytes(whole), limits=self.limits))
                yield from _with_member_offset(items, start, self.raw.position)
            else:
                yield from self._stream_member(kind, start)
            self.credit += self.raw.position - start
        except DamagedMember as error:
            yield self._resynchronise(kind, start, error)

    def _stream_member(self, kind: str, start: int) -> Iterator[Record | Damage]:
        """Yield the records of a member of any size, held back until its end is verified, as long as memory allows."""
        reader = GzipMemberReader(self.raw) if kind == "gzip" else self._frame_reader()
        held: list[Record | Damage] = []
        size = yielded = 0
        try:
            for item in _records_in_member(ByteWindow(reader), limits=self.limits):
                held.append(item)
                size += _memory_size(item)
                if size > self.limits.block and len(held) > 1:
                    yield from _with_member_offset(held, start, self.raw.position, shared=True)
                    yielded += len(held)
                    held, size = [], 0
        except DamagedMember as error:
            if yielded:
                error.message += f" ({yielded} of its records were returned before that was known)"
            raise
        yield from _with_member_offset(held, start, self.raw.position, shared=yielded > 0)

    def _frame_reader(self) -> ByteSource:
        reader = zstd_frames.ZstdFrameReader(self.raw, self.decoder or zstd_frames.new_decoder())
        self.decoder = reader.decoder
        return reader

    # --- after an error -----------------------------------------------------------------------------------------

    def _resynchronise(self, kind: str, start: int, error: DamagedMember) -> Damage:
        """Move to the next member that begins like a record, searching from `start` again while there is credit."""
        raw = self.raw
        again = raw.position - start - 1
        if again <= self.credit:
            self.credit -= again
            raw.step_back(start + 1)
        end = self._seek(zstd_frames.FRAME_START if kind == "zstd" else gzip_members.MEMBER_START)
        return Damage(start, end, error.reason, error.message)

    def _garbage(self) -> Damage:
        raw = self.raw
        start = raw.position
        if raw.data[raw.at] == 0:
            return self._padding(start)
        if self.kind in ("warc", "arc"):
            end = framing.resynchronise(raw, self.kind, start, reason="", message="").end
        else:
            raw.at += 1
            end = self._seek({"gzip": gzip_members.MEMBER_START, "zstd": zstd_frames.FRAME_START}.get(self.kind, ANY))
        trailing = self.kind and not raw.has(1)
        return Damage(start, end, "trailing_garbage" if trailing else "not_warc", "no record begins here")

    def _padding(self, start: int) -> Damage:
        raw = self.raw
        while raw.has(1) and (run := PADDING.match(raw.data, raw.at)):
            raw.at = raw.mark = run.end()
        return Damage(start, raw.position, "padding", f"{raw.position - start} NUL bytes")

    def _seek(self, pattern: re.Pattern[bytes]) -> int:
        raw = self.raw
        raw.mark = raw.position
        while raw.search(pattern, longest=framing.NEXT_RECORD_MAX):
            if raw.data[raw.at] == 0x0A:
                raw.at += 1
                break
            if self._begins_a_record():
                break
            raw.at += 1
            raw.mark = raw.position
        return raw.position

    def _begins_a_record(self) -> bool:
        if detect_format(self.raw) == "zstd":
            return True  # four magic bytes are enough: a false match is damage again
        return bool(framing.sniff(ByteWindow.of_bytes(gzip_members.inflate_prefix(self.raw))))


def _records_in_member(window: ByteWindow, *, limits: WarcLimits) -> Iterator[Record | Damage]:
    """Yield what one member holds: usually one record, but maybe many, or anything."""
    while framing.skip_blank(window):
        kind = framing.sniff(window)
        if kind:
            yield from framing.read_framed(window, kind, limits=limits)
        else:
            yield framing.resynchronise(
                window, "warc", window.position, reason="not_warc", message="no record begins here"
            )


def _memory_size(item: Record | Damage) -> int:
    """Return roughly the memory that an item takes: its content and header."""
    return item.length - item.content_length + len(item.content) if isinstance(item, Record) else 256


def _with_member_offset(
    items: list[Record | Damage], start: int, end: int, *, shared: bool = False
) -> Iterator[Record | Damage]:
    """Yield the items of a member with the offset of the member in the file."""
    alone = not shared and (len(items) == 1 or sum(isinstance(item, Record) for item in items) == 1)
    length = end - start if alone else 0
    for item in items:
        if isinstance(item, Record):
            yield Record(item.version, item.headers, item.content, start, length, item.cut)
        else:
            yield Damage(start, end, item.reason, f"{item.message} (byte {item.offset} of the inflated member)")


def end_offset(source: ByteSource, start: int) -> int | None:
    """Return the offset of the end, if the source can tell it without being read."""
    if not isinstance(source, io.IOBase) or not source.seekable():
        return None
    here = source.tell()
    size = source.seek(0, io.SEEK_END)
    source.seek(here)
    return start + size - here

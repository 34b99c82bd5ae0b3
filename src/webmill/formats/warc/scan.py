"""Scan a file: find every record by its header, and where it ends, without inflating bodies that are not needed.

Only the first bytes of a gzip member are inflated if its end is certain. With `want` = header + Content-Length + 4, the
length that the member must inflate to, the candidates are all places within `1.25 * want + 4096` bytes where a member
may begin or the file ends, and whose preceding four bytes (the last field of a member) are `want`. Exactly one: that
is the end, unless another member seems to begin before it. None or several: the member is inflated.

Taking the *next* such place would be unsafe. A body that does not compress is stored as it is, so a page can carry the
bytes `[want of its own record][a gzip member with a forged record]`; but it cannot hide the real end, which is a second
candidate. That holds if the real end looks like one, so a scanned record is yielded only after the whole range was
passed without anything unusual; else it is read again exactly.

Small members are inflated completely, with their CRC. So is anything unusual: there `read_records` decides, unit by
unit, and reports the damage. The CRC of large bodies is not checked (`verify` checks it), but that of their stored
bytes is where a member says it, as ours do (`member_checksum`): one that does not have it is read exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator

import deflate
import msgspec
import re2
from zlib_ng import zlib_ng

from webmill.formats.compression import gzip_members
from webmill.formats.compression.gzip_members import INFLATE_ERROR, SMALLEST
from webmill.formats.compression.member_checksum import CHECKSUMMED, HEADER_LENGTH, has_checksum, is_as_written
from webmill.formats.warc import arc, digest, framing
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.quick_head import RawFields, WarcHeadReader, known_fields
from webmill.formats.warc.reader import DEFAULT, RecordReader, detect_format
from webmill.formats.window import ByteSource
from webmill.model import Damage, Headers, Record

SMALL = CHECKSUMMED  # stored bytes; a member that ends within them is always inflated whole
PREFIX_SIZES = (
    (1536, 3072),
    (8 << 10, 16 << 10),
    (32 << 10, 64 << 10),
)  # stored and inflated bytes: longer and longer prefixes
MAX_SCANNED = 6 << 20  # larger records are inflated: a window keeps 8 MiB
_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1
MAGIC = re2.compile(rb"\x1f\x8b\x08[\x00-\x1f]", _BYTES)  # as gzip_members.NEXT, at one and a half times its speed
HARMLESS = frozenset({"missing_terminator", "padding"})  # the records beside them are complete
FAR = 1 << 62  # beyond every offset in a file

IsEnough = Callable[[RawFields, bytes], bool]


class ScannedRecord(msgspec.Struct, frozen=True, gc=False):
    """One record: its fields under the standard's names, the first bytes of its block, and where it is stored.

    The first value of a repeated field is kept. `length` excludes the empty lines after a plain record; it is 0 if the
    record shares a compressed member with others. `whole`: `block` is complete.
    """

    fields: RawFields
    block: bytes
    whole: bool
    offset: int
    length: int
    is_arc: bool = False


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan does besides finding records."""

    check_crc: bool = False  # inflate everything, and report bad CRCs and lengths
    verify: bool = False  # as check_crc, and report bad digests
    torn: bool = False  # also yield a truncated last record, after its Damage


def scan_records(
    source: ByteSource,
    *,
    enough: IsEnough,
    scan: ScanOptions = ScanOptions(),  # noqa: B008  # frozen
    limits: WarcLimits = DEFAULT,
    size: int | None = None,
) -> Iterator[ScannedRecord | Damage]:
    """Yield records in the order of the file, as `read_records` would.

    `enough` is called with the fields of a record and the first bytes of its block; while it returns False, more of the
    block is inflated, up to all of it.
    """
    return _RecordScanner(source, enough=enough, scan=scan, limits=limits, size=size).records()


class _RecordScanner(RecordReader):
    """The state of one scan of one file."""

    def __init__(
        self, source: ByteSource, *, enough: IsEnough, scan: ScanOptions, limits: WarcLimits, size: int | None
    ) -> None:
        super().__init__(source, limits=limits, start=0, size=size)
        self.enough = enough
        self.scan = scan
        self.inflates_all = scan.verify or scan.check_crc
        self.held: deque[tuple[ScannedRecord, int, tuple[Damage, ...]]] = (
            deque()
        )  # scanned, with its range and its flaws
        self.reach = 0  # the end of the candidates of the last scanned record
        self.exact_until = 0
        self.heads = WarcHeadReader(limits=limits)
        self.known = 0  # every possible start of a member before this offset is in `starts`
        self.starts: list[int] = []  # sorted; the last is the end of the file once known
        self.ends: dict[bytes, list[int]] = {}  # these and other possible ends, by the four bytes before them

    def records(self) -> Iterator[ScannedRecord | Damage]:
        raw, held = self.raw, self.held
        while raw.data.startswith(gzip_members.MAGIC, raw.at) or framing.skip_blank(raw):
            start = raw.base + raw.at
            raw.mark = held[0][0].offset if held else start
            kind = detect_format(raw)
            if kind == "gzip" and start >= self.exact_until and (found := self._scan_member(start)) is not None:
                self.kind = kind
                self.credit += found.length
                passed = start + found.length
                held.append((found, self.reach, tuple(self._verify_scanned(found)) if self.inflates_all else ()))
                while held and held[0][1] <= passed:
                    found, _, flaws = held.popleft()
                    yield found
                    yield from flaws
            elif not self._rewind(start):
                for item in self._read_exact(kind):
                    yield from self._scan_exact(item, kind)
                self.kind = kind or self.kind
        for found, _, flaws in held:
            yield found
            yield from flaws

    def _rewind(self, here: int) -> bool:
        """Go back to read exactly: all scanned records whose candidates reach up to `here` must be read again.

        A scanned record is right only if the bytes after the member are what they seem: the next member, or the end.
        """
        held = self.held
        if not held:
            return False
        first = held[0][0].offset
        self.raw.step_back(first)
        assert self.raw.position == first, "MAX_SCANNED keeps it in the window"
        held.clear()
        self.exact_until = max(self.exact_until, here + 1)
        return True

    # --- exact reading ------------------------------------------------------------------------------------------

    def _read_exact(self, kind: str) -> Iterator[Record | Damage]:
        if kind in ("gzip", "zstd"):
            yield from self._member(kind)
        elif kind:
            head = self._head_length(kind)
            for item in framing.read_framed(self.raw, kind, limits=self.limits):
                if isinstance(item, Record):  # a plain record ends where its block ends
                    item = msgspec.structs.replace(item, length=head + item.content_length)
                yield item
        else:
            yield self._garbage()

    def _head_length(self, kind: str) -> int:
        raw = self.raw
        pattern, most = (framing.ARC_LINE_END, arc.MAX_LINE) if kind == "arc" else (framing.HEAD_END, self.limits.head)
        raw.has(most)
        found = pattern.search(raw.data, raw.at, raw.at + most)
        return found.end() - raw.at if found else 0

    def _scan_exact(self, item: Record | Damage, kind: str) -> Iterator[ScannedRecord | Damage]:
        if isinstance(item, Damage):
            if item.reason not in HARMLESS:  # from here on, an apparent member may be part of a broken one
                self.exact_until = FAR
            yield item
            if self.scan.torn and item.reason.startswith("truncated_"):
                yield from self._read_torn_record(item, kind)
            return
        yield ScannedRecord(_fields_of(item), item.content, not item.cut, item.offset, item.length, item.is_arc)
        if self.scan.verify and not item.cut and not item.is_arc:
            yield from bad_digests(item.headers, item.content, offset=item.offset, end=item.offset + item.length)

    def _read_torn_record(self, damage: Damage, kind: str) -> Iterator[ScannedRecord]:
        """Yield the record of which only the start is stored."""
        raw = self.raw
        here = raw.position
        raw.step_back(damage.offset)
        if raw.position == damage.offset and kind in ("gzip", "warc"):
            start = gzip_members.inflate_prefix(raw, most=64 << 10) if kind == "gzip" else bytes(raw.data[raw.at :])
            if parsed := self.heads.read(start):
                fields, head, _ = parsed
                yield ScannedRecord(fields, start[head:], False, damage.offset, damage.end - damage.offset)
        raw.at = here - raw.base

    # --- fast scanning ------------------------------------------------------------------------------------------

    def _scan_member(self, start: int) -> ScannedRecord | None:
        """Scan the member at the window and move past it; None if it must be read exactly."""
        if start + SMALL >= self.known:
            self._find_starts(start + SMALL + 1)
        place = bisect_right(self.starts, start)
        if place < len(self.starts) and self.starts[place] <= start + SMALL:
            return self._inflate_small(start, self.starts[place])
        for stored, inflated in PREFIX_SIZES:
            beginning = self._inflate_prefix(stored, inflated)
            parsed = self.heads.read(beginning)
            if parsed is None:
                continue
            fields, head, length = parsed
            block = beginning[head : head + length]
            if self.enough(fields, block):
                end = self._find_end(start, want=head + length + 4)
                return None if end is None else ScannedRecord(fields, block, False, start, end - start)
        return None

    def _inflate_small(self, start: int, end: int) -> ScannedRecord | None:
        raw = self.raw
        member = raw.data[raw.at : raw.at + end - start]
        size = int.from_bytes(member[-4:], "little")
        if end - start < SMALLEST or size > 1032 * SMALL:  # deflate cannot gain more: a larger claim is false
            return None
        try:
            whole = bytes(deflate.gzip_decompress(member, size))
        except deflate.DeflateError:
            return None
        if deflate.crc32(whole) != int.from_bytes(member[-8:-4], "little"):  # it ends before: a magic is lost
            return None
        parsed = self.heads.read(whole)
        if parsed is None:
            return None
        fields, head, length = parsed
        if head + length + 4 != len(whole) or not whole.endswith(b"\r\n\r\n"):
            return None
        raw.at += end - start
        self.reach = end
        return ScannedRecord(fields, whole[head:-4], True, start, end - start)

    def _inflate_prefix(self, stored: int, inflated: int) -> bytes:
        """Return the first inflated bytes of the member; its CRC is skipped if the gzip header is plain, or ours."""
        raw = self.raw
        flags = raw.data[raw.at + 3] if raw.at + 3 < len(raw.data) else 1
        wbits, skip = (31, 0) if flags else (-15, 10)
        if flags and has_checksum(raw.data, raw.at):
            wbits, skip = -15, HEADER_LENGTH
        try:
            start: bytes = zlib_ng.decompressobj(wbits).decompress(raw.data[raw.at + skip : raw.at + stored], inflated)
        except INFLATE_ERROR:
            return b""
        return start

    def _find_end(self, start: int, *, want: int) -> int | None:
        """Return the only offset where the member can end, and move the window there; None if it is not certain."""
        limit = start + want + want // 4 + 4096
        if want > MAX_SCANNED:
            return None
        if limit >= self.known:
            self._find_starts(limit + 1)
        possible = self.ends.get(want.to_bytes(4, "little"), ())
        found = [end for end in possible if start < end <= limit]
        # An apparent start before the end is either inside the member, or after an end that does not look like one.
        if len(found) != 1 or found[0] - start <= SMALL or self.starts[bisect_right(self.starts, start)] < found[0]:
            return None
        raw, length = self.raw, found[0] - start
        if has_checksum(raw.data, raw.at) and not is_as_written(memoryview(raw.data)[raw.at : raw.at + length]):
            return None
        raw.at += length
        self.reach = limit
        return found[0]

    def _find_starts(self, until: int) -> None:
        """Find all offsets before `until` where a member may begin or end."""
        while self.known < until:
            more = self.raw.read_more()
            self._note_starts()
            if not more:
                self._note_end_of_file()
                self.known = FAR

    def _note_starts(self) -> None:
        data, base = self.raw.data, self.raw.base
        here = self.raw.position
        self.starts = [start for start in self.starts if start > here]
        begin = max(self.known - base, self.raw.at + 4)
        self.starts += [base + found.start() for found in MAGIC.finditer(data, begin)]
        self.ends = {}
        for start in self.starts:
            self.ends.setdefault(bytes(data[start - base - 4 : start - base]), []).append(start)
        self.known = max(self.known, base + len(data) - 3)

    def _note_end_of_file(self) -> None:
        """Add the end of the file, and where NUL padding begins; NULs may be the high bytes of the last length."""
        data, base = self.raw.data, self.raw.base
        stripped = len(data.rstrip(b"\0"))
        for end in {*range(stripped, min(stripped + 4, len(data))), len(data)}:
            self.ends.setdefault(bytes(data[end - 4 : end]), []).append(base + end)
        self.starts.append(base + len(data))

    # --- checks -------------------------------------------------------------------------------------------------

    def _verify_scanned(self, found: ScannedRecord) -> Iterator[Damage]:
        """Yield the damage of a scanned record, inflated from the window, which is at its end."""
        raw, start, end = self.raw, found.offset, found.offset + found.length
        content = found.block
        if not found.whole:
            inflated = _inflate_member(raw.data[raw.at - found.length : raw.at])
            if isinstance(inflated, str):
                yield Damage(start, end, "bad_crc" if "incorrect" in inflated else "bad_gzip", inflated)
                return
            if not inflated.endswith(b"\r\n\r\n"):
                yield Damage(start, end, "missing_terminator", "the block is not followed by two empty lines")
            head = len(inflated) - 4 - int(found.fields[b"Content-Length"])
            content = inflated[head:-4]
        if self.scan.verify:
            yield from bad_digests(_headers_of(found.fields), content, offset=start, end=end)


def _inflate_member(member: bytes | bytearray) -> bytes | str:
    """Return the content of a member that should end where these bytes end; or what is wrong with it."""
    want = int.from_bytes(member[-4:], "little")
    try:
        inflated = bytes(deflate.gzip_decompress(member, want))
        if deflate.crc32(inflated) == int.from_bytes(member[-8:-4], "little"):  # else it ends before the last one
            return inflated
    except deflate.DeflateError:  # which does not say why
        pass
    try:
        zlib_ng.decompressobj(31).decompress(member, want + 1)
    except INFLATE_ERROR as error:
        return f"gzip member: {error}"
    return "gzip member: it does not end where it should"


# --- fields -----------------------------------------------------------------------------------------------------------

ARC_NAMES = (b"WARC-Target-URI", b"WARC-IP-Address", b"WARC-Date", b"Content-Type", b"Content-Length")


def _fields_of(record: Record) -> RawFields:
    if not record.is_arc:
        return known_fields(record.headers)
    values = (value.encode("utf-8", "surrogateescape") for _, value in record.headers.pairs)
    kind = b"arc_header" if record.type == "arc_header" else b"response"
    return {b"WARC-Type": kind, **dict(zip(ARC_NAMES, values, strict=True))}


def _headers_of(fields: RawFields) -> Headers:
    return Headers((name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in fields.items())


def bad_digests(headers: Headers, content: bytes, *, offset: int, end: int) -> Iterator[Damage]:
    """Yield damage for each digest of a record that its content does not have."""
    checked = digest.check(headers, content)
    for what, verdict in (("block", checked.block), ("payload", checked.payload)):
        if verdict is digest.DigestVerdict.MISMATCH:
            yield Damage(offset, end, "bad_digest", f"the {what} does not have the digest that its record states")

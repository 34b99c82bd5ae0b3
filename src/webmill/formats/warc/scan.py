"""Every record of a file by its head, and proof of where it ends, without inflating bodies that nobody asked for.

A gzip member is left when its first bytes have been inflated, if its end is plain. With `want` = header +
Content-Length + 4, the length that the member must inflate to, all places within `1.25 * want + 4096` bytes are looked
at where a member may begin or the file ends, and whose preceding four bytes (a member's last field) are `want`. Exactly
one: that is the end, unless another member seems to begin before it. None or several: the member is inflated.

The *next* such place would not do. A body that does not compress is stored as it is, so a page can carry the bytes
`[want of its own record][a gzip member with a forged record]`; but it cannot hide the real end, which is a second
place. That holds if the real end looks like one, so what was glimpsed is handed out only when all of the range has been
passed without anything unusual in it; else it is read again, the exact way.

Small members are inflated whole, with their CRC. So is whatever is odd: there `read_records` has the word, unit by
unit, and what it says of damage is what is said here. What is given up is the CRC of large bodies; `verify` checks it.
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
from webmill.formats.warc import arc, digest, framing
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.quick_head import RawFields, WarcHeadReader, known_fields
from webmill.formats.warc.reader import DEFAULT, RecordReader, detect_format
from webmill.formats.window import ByteSource
from webmill.model import Damage, Headers, Record

SMALL = 1536  # stored bytes; a member that ends within them is always inflated whole
PREFIX_SIZES = (
    (1536, 3072),
    (8 << 10, 16 << 10),
    (32 << 10, 64 << 10),
)  # stored and inflated bytes: longer and longer looks
MAX_SCANNED = 6 << 20  # larger records are inflated: a window looks back 8 MiB
_BYTES = re2.Options()
_BYTES.encoding = re2.Options.Encoding.LATIN1
MAGIC = re2.compile(rb"\x1f\x8b\x08[\x00-\x1f]", _BYTES)  # as gzip_members.NEXT, at one and a half times its speed
HARMLESS = frozenset({"missing_terminator", "padding"})  # the records beside them are whole
FAR = 1 << 62  # beyond every place in a file

IsEnough = Callable[[RawFields, bytes], bool]


class ScannedRecord(msgspec.Struct, frozen=True, gc=False):
    """One record: its fields under the standard's names, the first bytes of its block, and where it is stored.

    Of a repeated field the first value is kept. `length` is without the empty lines after a plain record; it is 0 when
    the record shares a compressed member with others. `whole`: `block` is all of it.
    """

    fields: RawFields
    block: bytes
    whole: bool
    offset: int
    length: int
    is_arc: bool = False


class ScanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to do besides finding records."""

    verify: bool = False  # inflate everything; report bad CRCs, lengths and digests beside the same sightings
    torn: bool = False  # also sight a last record of which only the beginning is there; its Damage comes first


def scan_records(
    source: ByteSource,
    *,
    enough: IsEnough,
    scan: ScanOptions = ScanOptions(),  # noqa: B008  # frozen
    limits: WarcLimits = DEFAULT,
    size: int | None = None,
) -> Iterator[ScannedRecord | Damage]:
    """Records in the order of the file, as `read_records` would give them.

    `enough` is asked, with a record's fields and the first bytes of its block, whether these will do; where they do
    not, more is inflated, up to all of it.
    """
    return _RecordScanner(source, enough=enough, scan=scan, limits=limits, size=size).sightings()


class _RecordScanner(RecordReader):
    def __init__(
        self, source: ByteSource, *, enough: IsEnough, scan: ScanOptions, limits: WarcLimits, size: int | None
    ) -> None:
        super().__init__(source, limits=limits, start=0, size=size)
        self.enough = enough
        self.scan = scan
        self.held: deque[tuple[ScannedRecord, int, tuple[Damage, ...]]] = (
            deque()
        )  # glimpsed, with its reach and its flaws
        self.reach = 0  # of the last glimpse
        self.exact_until = 0
        self.heads = WarcHeadReader(limits=limits)
        self.known = 0  # every place before this where a member may begin is in `starts`
        self.starts: list[int] = []  # in order; the last is the file's end once that is known
        self.ends: dict[bytes, list[int]] = {}  # the same and other possible ends, by the four bytes before them

    def sightings(self) -> Iterator[ScannedRecord | Damage]:
        raw, held = self.raw, self.held
        while raw.data.startswith(gzip_members.MAGIC, raw.at) or framing.skip_blank(raw):
            start = raw.base + raw.at
            raw.mark = held[0][0].offset if held else start
            kind = detect_format(raw)
            if kind == "gzip" and start >= self.exact_until and (found := self._glimpse(start)) is not None:
                self.kind = kind
                self.credit += found.length
                passed = start + found.length
                held.append((found, self.reach, tuple(self._verified(found)) if self.scan.verify else ()))
                while held and held[0][1] <= passed:
                    found, _, flaws = held.popleft()
                    yield found
                    yield from flaws
            elif not self._go_back(start):
                for item in self._unit(kind):
                    yield from self._sighted(item, kind)
                self.kind = kind or self.kind
        for found, _, flaws in held:
            yield found
            yield from flaws

    def _go_back(self, here: int) -> bool:
        """Something must be read the exact way: then so must all that was taken at a glimpse which reached up to here.

        A glimpse is right when the bytes behind the member are what they seem: the next member, or the end.
        """
        held = self.held
        if not held:
            return False
        first = held[0][0].offset
        self.raw.step_back(first)
        assert self.raw.position == first, "WANT_MOST keeps it within reach"
        held.clear()
        self.exact_until = max(self.exact_until, here + 1)
        return True

    # --- the exact way ------------------------------------------------------------------------------------------

    def _unit(self, kind: str) -> Iterator[Record | Damage]:
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

    def _sighted(self, item: Record | Damage, kind: str) -> Iterator[ScannedRecord | Damage]:
        if isinstance(item, Damage):
            if item.reason not in HARMLESS:  # from here on, what begins like a member may be part of a broken one
                self.exact_until = FAR
            yield item
            if self.scan.torn and item.reason.startswith("truncated_"):
                yield from self._torn(item, kind)
            return
        yield ScannedRecord(_fields_of(item), item.content, not item.cut, item.offset, item.length, item.is_arc)
        if self.scan.verify and not item.cut and not item.is_arc:
            yield from bad_digests(item.headers, item.content, offset=item.offset, end=item.offset + item.length)

    def _torn(self, damage: Damage, kind: str) -> Iterator[ScannedRecord]:
        """The record of which only the beginning is there."""
        raw = self.raw
        here = raw.position
        raw.step_back(damage.offset)
        if raw.position == damage.offset and kind in ("gzip", "warc"):
            start = gzip_members.inflate_prefix(raw, most=64 << 10) if kind == "gzip" else bytes(raw.data[raw.at :])
            if parsed := self.heads.read(start):
                fields, head, _ = parsed
                yield ScannedRecord(fields, start[head:], False, damage.offset, damage.end - damage.offset)
        raw.at = here - raw.base

    # --- the quick way ------------------------------------------------------------------------------------------

    def _glimpse(self, start: int) -> ScannedRecord | None:
        """The member at hand, with the window moved past it. None: it takes an exact reading."""
        if start + SMALL >= self.known:
            self._look(start + SMALL + 1)
        place = bisect_right(self.starts, start)
        if place < len(self.starts) and self.starts[place] <= start + SMALL:
            return self._small(start, self.starts[place])
        for stored, inflated in PREFIX_SIZES:
            beginning = self._beginning(stored, inflated)
            parsed = self.heads.read(beginning)
            if parsed is None:
                continue
            fields, head, length = parsed
            block = beginning[head : head + length]
            if self.enough(fields, block):
                end = self._end(start, want=head + length + 4)
                return None if end is None else ScannedRecord(fields, block, False, start, end - start)
        return None

    def _small(self, start: int, end: int) -> ScannedRecord | None:
        raw = self.raw
        member = raw.data[raw.at : raw.at + end - start]
        size = int.from_bytes(member[-4:], "little")
        if end - start < SMALLEST or size > 1032 * SMALL:  # deflate gains no more: a larger claim is a lie
            return None
        try:
            whole = bytes(deflate.gzip_decompress(member, size))
        except deflate.DeflateError:
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

    def _beginning(self, stored: int, inflated: int) -> bytes:
        """The first inflated bytes of the member. Without its checksum when the gzip header is of the plain kind."""
        raw = self.raw
        flags = raw.data[raw.at + 3] if raw.at + 3 < len(raw.data) else 1
        wbits, skip = (31, 0) if flags else (-15, 10)
        try:
            start: bytes = zlib_ng.decompressobj(wbits).decompress(raw.data[raw.at + skip : raw.at + stored], inflated)
        except INFLATE_ERROR:
            return b""
        return start

    def _end(self, start: int, *, want: int) -> int | None:
        """The one place where the member can end, with the window moved there."""
        limit = start + want + want // 4 + 4096
        if want > MAX_SCANNED:
            return None
        if limit >= self.known:
            self._look(limit + 1)
        possible = self.ends.get(want.to_bytes(4, "little"), ())
        found = [end for end in possible if start < end <= limit]
        # What looks like a start before the end is either inside the member, or behind an end that looks like none.
        if len(found) != 1 or found[0] - start <= SMALL or self.starts[bisect_right(self.starts, start)] < found[0]:
            return None
        self.raw.at += found[0] - start
        self.reach = limit
        return found[0]

    def _look(self, until: int) -> None:
        """Know all places before `until` where a member may begin or end."""
        while self.known < until:
            more = self.raw.more()
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
        """Also where NULs begin that pad the file; some of them may be the high bytes of the last length."""
        data, base = self.raw.data, self.raw.base
        stripped = len(data.rstrip(b"\0"))
        for end in {*range(stripped, min(stripped + 4, len(data))), len(data)}:
            self.ends.setdefault(bytes(data[end - 4 : end]), []).append(base + end)
        self.starts.append(base + len(data))

    # --- checks -------------------------------------------------------------------------------------------------

    def _verified(self, found: ScannedRecord) -> Iterator[Damage]:
        """Inflate what was only glimpsed. The window stands at its end, and has not forgotten it."""
        raw, start, end = self.raw, found.offset, found.offset + found.length
        content = found.block
        if not found.whole:
            inflated = _inflated(raw.data[raw.at - found.length : raw.at])
            if isinstance(inflated, str):
                yield Damage(start, end, "bad_crc" if "incorrect" in inflated else "bad_gzip", inflated)
                return
            if not inflated.endswith(b"\r\n\r\n"):
                yield Damage(start, end, "missing_terminator", "the block is not followed by two empty lines")
            head = len(inflated) - 4 - int(found.fields[b"Content-Length"])
            content = inflated[head:-4]
        yield from bad_digests(_headers_of(found.fields), content, offset=start, end=end)


def _inflated(member: bytes | bytearray) -> bytes | str:
    """What a member holds that should end where these bytes end; or what is wrong with it."""
    want = int.from_bytes(member[-4:], "little")
    try:
        return bytes(deflate.gzip_decompress(member, want))
    except deflate.DeflateError:  # it does not say why
        machine = zlib_ng.decompressobj(31)
    try:
        machine.decompress(member, want + 1)
    except INFLATE_ERROR as error:
        return f"gzip member: {error}"
    return "gzip member: it does not end where it should"


# --- fields -----------------------------------------------------------------------------------------------------------

ARC_NAMES = (b"WARC-Target-URI", b"WARC-IP-Address", b"WARC-Date", b"Content-Type", b"Content-Length")


def _fields_of(record: Record) -> RawFields:
    if not record.is_arc:
        return known_fields(record.headers)
    values = (value.encode("utf-8", "surrogateescape") for _, value in record.headers)
    kind = b"arc_header" if record.type == "arc_header" else b"response"
    return {b"WARC-Type": kind, **dict(zip(ARC_NAMES, values, strict=True))}


def _headers_of(fields: RawFields) -> Headers:
    return Headers((name.decode(), value.decode("utf-8", "surrogateescape")) for name, value in fields.items())


def bad_digests(headers: Headers, content: bytes, *, offset: int, end: int) -> Iterator[Damage]:
    checked = digest.check(headers, content)
    for what, verdict in (("block", checked.block), ("payload", checked.payload)):
        if verdict is digest.DigestVerdict.MISMATCH:
            yield Damage(offset, end, "bad_digest", f"the {what} does not have the digest that its record states")

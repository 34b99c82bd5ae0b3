"""Find records of a WAT or WET file by the record they refer to, reading ahead only as far as needed.

A well-formed file has them in the order of the WARC file, so the next record is the right one. If it is not, up to
`MAX_AHEAD` records are read to find it; the others wait until they are needed. Records are never matched by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from webmill.commoncrawl.lost_records import LostRecord, read_with_losses
from webmill.commoncrawl.page import Flaw
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.typed_records import FileType
from webmill.formats.window import ByteSource
from webmill.model import Record

MAX_AHEAD = 1000  # records
MAX_AHEAD_BYTES = 64 << 20
MAX_MISSES = 30  # in a row, with a full buffer


class DerivedRecord(msgspec.Struct, eq=False, gc=False):
    """A WAT or WET record that refers to the record `about`; or damage, with `about` if its header could be read."""

    about: str | None
    uri: str | None
    start: int
    end: int
    record: Record | None = None
    flaw: Flaw | None = None  # of damage, and of what belongs to no page
    claimed: bool = False  # damage: it is part of an error document
    described_at: int | None = None  # the offset of the described record, once it was decoded


class DerivedRecordReader:
    """Reads one WAT or WET file and buffers the records that are not needed yet."""

    def __init__(self, file_type: FileType, source: ByteSource, *, start: int, limits: WarcLimits) -> None:
        self.file_type = file_type
        self._items = read_with_losses(source, start=start, limits=limits)
        self._waiting: dict[int, DerivedRecord] = {}  # by number, in the order of the file
        self._numbers: dict[str, int] = {}  # by the record that they are about
        self._next = 0  # number
        self._bytes = 0
        self._read_to = start
        self.misses = 0  # in a row
        self._strays: list[DerivedRecord] = []

    @property
    def position(self) -> int:
        """The offset before which everything was taken or reported."""
        for entry in self._waiting.values():
            return entry.start
        return self._read_to

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left in the file."""
        while not self._waiting:
            if not self._read():
                return True
        return False

    @property
    def full(self) -> bool:
        return len(self._waiting) >= MAX_AHEAD or self._bytes >= MAX_AHEAD_BYTES

    def take(self, about: str | None) -> DerivedRecord | None:
        """Take the entry about this record, if it is found: its record, or the damage in its place."""
        if not self._waiting:
            entry = self._next_entry()
            if entry and entry.about == about and entry.record:  # the usual case
                self.misses = 0
                return entry
            if entry:
                self._put(entry)
        number = self._search(about) if about else None
        return None if number is None else self._take(number)

    def is_in_order(self, entry: DerivedRecord) -> bool:
        """Return whether no entry before this one is still waiting."""
        return not self._waiting or self.position >= entry.start

    def miss(self) -> list[DerivedRecord]:
        """Count a missing record that no damage explains. After too many in a row the buffer holds only records of no
        later page: return all of it, to make room."""
        self.misses += 1
        if not self.full or self.misses < MAX_MISSES:
            return []
        self.misses = 0
        return list(self._empty())

    def take_oldest(self, wanted: Callable[[DerivedRecord], bool]) -> Iterator[DerivedRecord]:
        """Take the oldest waiting entries as long as they are wanted."""
        while self._waiting:
            number, entry = next(iter(self._waiting.items()))
            if not entry.record or not wanted(entry):
                return
            yield self._remove(number)

    def first_damage(self) -> DerivedRecord | None:
        """Return the next entry if it is damage: a missing record may have been there."""
        for entry in self._waiting.values():
            return entry if entry.flaw else None
        return None

    def any_damage(self) -> DerivedRecord | None:
        return next((entry for entry in self._waiting.values() if entry.flaw), None)

    def take_strays(self) -> list[DerivedRecord]:
        """Return the entries that belong to no page, found since the last call. Each has a flaw."""
        strays, self._strays = self._strays, []
        return strays

    def drain(self) -> Iterator[DerivedRecord]:
        """Yield all remaining records; damage becomes strays."""
        while self._waiting or self._read():
            yield from self._empty()

    def orphan(self, entry: DerivedRecord) -> None:
        entry.flaw = Flaw(self.file_type, entry.start, entry.end, "orphan", f"no page was found for {entry.about}")
        self._strays.append(entry)

    # --- reading ahead ------------------------------------------------------------------------------------------

    def _search(self, about: str) -> int | None:
        number = self._numbers.get(about)
        while number is None and not self.full and self._read():
            number = self._numbers.get(about)
        return number

    def _read(self) -> bool:
        entry = self._next_entry()
        if entry:
            self._put(entry)
        return entry is not None

    def _next_entry(self) -> DerivedRecord | None:
        for item in self._items:
            entry = self._damage(item) if isinstance(item, LostRecord) else self._record(item)
            if entry:
                return entry
        return None

    def _record(self, record: Record) -> DerivedRecord | None:
        headers = record.headers
        found = dict(headers.pairs[::-1])  # faster than `get`, if names have the usual case
        about = found.get("WARC-Refers-To") or headers.get("WARC-Refers-To")
        self._read_to = record.offset + record.length
        if about is None and record.type == "warcinfo":
            return None
        entry = DerivedRecord(about, record.target_uri, record.offset, self._read_to, record)
        if record.cut:  # a partial text is not used
            entry.record = None
            entry.flaw = Flaw(self.file_type, entry.start, entry.end, "too_large", f"{record.content_length} bytes")
            return entry
        if about and about not in self._numbers:
            return entry
        reason, message = ("duplicate", f"again about {about}") if about else ("orphan", "refers to nothing")
        entry.flaw = Flaw(self.file_type, entry.start, entry.end, reason, message)
        self._strays.append(entry)
        return None

    def _damage(self, lost: LostRecord) -> DerivedRecord:
        damage = lost.damage
        self._read_to = damage.end
        flaw = Flaw(self.file_type, damage.offset, damage.end, damage.reason, damage.message)
        about, uri = lost.headers.get("WARC-Refers-To"), lost.headers.get("WARC-Target-URI")
        return DerivedRecord(None if about in self._numbers else about, uri, damage.offset, damage.end, flaw=flaw)

    def _put(self, entry: DerivedRecord) -> None:
        self._waiting[self._next] = entry
        if entry.about:
            self._numbers[entry.about] = self._next
        self._next += 1
        self._bytes += len(entry.record.content) if entry.record else 0

    # --- taking and removing ------------------------------------------------------------------------------------------

    def _take(self, number: int) -> DerivedRecord:
        self.misses = 0
        self._close_damage(number)
        entry = self._waiting[number]
        if entry.record:
            return self._remove(number)
        # The damage may hold other records: it stays until a record after it is taken.
        if entry.about:
            del self._numbers[entry.about]
        entry.claimed, entry.about = True, None
        return entry

    def _remove(self, number: int) -> DerivedRecord:
        entry = self._waiting.pop(number)
        if entry.about:
            del self._numbers[entry.about]
        self._bytes -= len(entry.record.content) if entry.record else 0
        return entry

    def _empty(self) -> Iterator[DerivedRecord]:
        for number in list(self._waiting):
            entry = self._remove(number)
            if entry.record:
                yield entry
            elif not entry.claimed:
                self._strays.append(entry)

    def _close_damage(self, before: int) -> None:
        """Remove damage before an entry that is taken: no later page can have been in it."""
        passed = [number for number, entry in self._before(before) if entry.flaw]
        for number in passed:
            entry = self._remove(number)
            if not entry.claimed:
                self._strays.append(entry)

    def _before(self, number: int) -> Iterator[tuple[int, DerivedRecord]]:
        for other, entry in self._waiting.items():
            if other >= number:
                return
            yield other, entry

"""Join WARC, WAT and WET files: one page per capture, matched by record ids and target URIs, never by position.

    WET.WARC-Refers-To == response id        WAT.WARC-Refers-To == id of each record
    response.WARC-Concurrent-To == request id     metadata.WARC-Concurrent-To == response id

Every page comes out complete or as an error document, and every damaged byte is reported in one. Memory is bounded by
the largest page, and by how far a file is read ahead when something is missing (see `derived_records`).
"""

from __future__ import annotations

from collections.abc import Iterator

from webmill.commoncrawl.derived_records import DerivedRecord, DerivedRecordReader
from webmill.commoncrawl.page import ErrorDocument, Flaw, Offsets, Page, Positions, WatRecords, expects_text
from webmill.commoncrawl.page_groups import PageGroup, group_slots
from webmill.commoncrawl.record_slots import RecordSlot, read_slots
from webmill.formats.warc import digest
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.typed_records import FileType
from webmill.formats.window import ByteSource
from webmill.model import Record

WARC, WAT, WET = FileType.WARC, FileType.WAT, FileType.WET
DEFAULT = WarcLimits()
_TOLERATED_MISSES = 3  # pages in a row with text for us, but none for Common Crawl's extractor
_OF_NO_PAGE = ("warcinfo", "arc_header")
_NOWHERE: Positions = {}

Flaws = dict[Flaw, None]  # a set that keeps its order


def read_pages(
    warc: ByteSource,
    wat: ByteSource | None = None,
    wet: ByteSource | None = None,
    *,
    start: Positions = _NOWHERE,
    filename: str = "",
    limits: WarcLimits = DEFAULT,
) -> Iterator[Page | ErrorDocument]:
    """Yield the pages in the order of the WARC file, and error documents for those that are incomplete.

    The sources begin at the offsets `start` (0 by default): the `resume` of a page, to continue after that page.
    Without `wat` or `wet`, the capture itself is parsed for what they would say. `filename` is copied to the pages.
    """
    return _PageJoiner(warc, wat, wet, start=start, filename=filename, limits=limits).pages()


class _PageJoiner:
    def __init__(
        self,
        warc: ByteSource,
        wat: ByteSource | None,
        wet: ByteSource | None,
        *,
        start: Positions,
        filename: str,
        limits: WarcLimits,
    ) -> None:
        self._filename = filename
        self._wat = DerivedRecordReader(WAT, wat, start=start.get(WAT, 0), limits=limits) if wat else None
        self._wet = DerivedRecordReader(WET, wet, start=start.get(WET, 0), limits=limits) if wet else None
        self._warc_to = start.get(WARC, 0)
        self._slots = read_slots(warc, start=self._warc_to, wat=self._wat, limits=limits)
        self._pending: list[RecordSlot] = []  # read, but not yet part of a returned page
        self._has_unknown_losses = False  # unidentified records are lost: text in the WET file may be theirs

    def pages(self) -> Iterator[Page | ErrorDocument]:
        for group in group_slots(self._read_slots()):
            yield self._page(group)
            yield from self._report_strays()
        if self._wet:
            for entry in self._wet.drain():
                self._wet.orphan(entry)
                yield from self._report_strays()
        yield from self._report_strays()

    # --- one page -----------------------------------------------------------------------------------------------

    def _page(self, group: PageGroup) -> Page | ErrorDocument:
        flaws = dict.fromkeys(group.flaws)
        for slot in group.slots:
            if slot.flaws:
                flaws.update(dict.fromkeys(slot.flaws))
                self._has_unknown_losses = self._has_unknown_losses or slot.vague
        wet = self._find_text(group, flaws)
        _check_digests(group, wet, flaws)
        if not group.capture and not flaws:
            flaws[_orphan(group)] = None
        offsets, resume = self._positions(group, wet)
        page = _compose(group, wet, offsets, resume, filename=self._filename)
        if page and not flaws:
            return page
        uri, name = _identity(group)
        return ErrorDocument(
            flaws=tuple(flaws), target_uri=uri, record_id=name, page=page, offsets=offsets, resume=resume
        )

    def _find_text(self, group: PageGroup, flaws: Flaws) -> DerivedRecord | None:
        if not self._wet:
            return None
        uri, name = _identity(group)
        entry = self._wet.take(name) if group.capture or group.metadata else None
        if entry is None:
            if group.capture and group.capture.record:
                flaws.update(dict.fromkeys(self._lost_text(group.capture.record, self._wet)))
        elif entry.flaw:
            flaws[entry.flaw] = None
        elif entry.uri != uri:
            message = f"{entry.uri!r} in the WET file, {uri!r} in the WARC file"
            flaws[Flaw(WET, entry.start, entry.end, "uri_mismatch", message)] = None
        return entry

    def _lost_text(self, capture: Record, wet: DerivedRecordReader) -> list[Flaw]:
        """Return the flaws of a page without a WET record: none if it has no text, else how its text was lost."""
        damage = wet.first_damage() or (wet.any_damage() if self._has_unknown_losses else None)
        if not (damage or wet.full or wet.exhausted) or not expects_text(capture):
            return []
        if damage and damage.flaw:
            damage.claimed = True
            return [damage.flaw]
        tolerated = wet.full and not self._has_unknown_losses and wet.misses < _TOLERATED_MISSES
        for entry in wet.miss():
            wet.orphan(entry)
        if tolerated:
            return []
        return [Flaw(WET, wet.position, wet.position, "missing_wet", "the WET file has no text for this page")]

    # --- positions -------------------------------------------------------------------------------------------

    def _read_slots(self) -> Iterator[RecordSlot]:
        for slot in self._slots:
            self._warc_to = max(self._warc_to, slot.end)
            if slot.flaws or slot.kind not in _OF_NO_PAGE:
                self._pending.append(slot)
                yield slot

    def _positions(
        self, group: PageGroup, wet: DerivedRecord | None
    ) -> tuple[dict[FileType, tuple[int, int]], dict[FileType, int]]:
        self._drop_pending(group)
        resume = self._resume()
        offsets = {WARC: (group.slots[0].start, max([slot.end for slot in group.slots]))}
        if self._wat:
            offsets[WAT] = _span([slot.wat for slot in group.slots if slot.wat], resume[WAT])
        if self._wet:
            offsets[WET] = _span([wet] if wet else [], resume[WET])
        return offsets, resume

    def _drop_pending(self, group: PageGroup) -> None:
        """Drop the slots of the group from those pending, and damage after it that it reports, unless that has its own
        group, being known by its first bytes."""
        del self._pending[: self._pending.index(group.slots[-1]) + 1]
        while self._pending and self._pending[0].reported and self._pending[0].kind is None:
            del self._pending[0]

    def _resume(self) -> dict[FileType, int]:
        """Return the first offset in each file that no page so far has used."""
        resume = {WARC: self._pending[0].start if self._pending else self._warc_to}
        if self._wat:
            resume[WAT] = min([self._wat.position, *[slot.wat.start for slot in self._pending if slot.wat]])
        if self._wet:
            resume[WET] = self._wet.position
        return resume

    # --- what belongs to no page --------------------------------------------------------------------------------

    def _report_strays(self) -> Iterator[ErrorDocument]:
        for reader in (self._wat, self._wet):
            if reader:
                for entry in reader.take_strays():
                    yield self._stray_error(entry)

    def _stray_error(self, entry: DerivedRecord) -> ErrorDocument:
        assert entry.flaw  # every stray has one
        place = {entry.flaw.file_type: (entry.start, entry.end)}
        return ErrorDocument(
            flaws=(entry.flaw,), target_uri=entry.uri, record_id=entry.about, offsets=place, resume=self._resume()
        )


def _compose(
    group: PageGroup, wet: DerivedRecord | None, offsets: Offsets, resume: Positions, *, filename: str
) -> Page | None:
    if not group.capture or not group.capture.record:
        return None
    request, metadata = group.request, group.metadata
    return Page(
        request=request.record if request else None,
        capture=group.capture.record,
        metadata=metadata.record if metadata else None,
        wat=WatRecords(_wat_record(request), _wat_record(group.capture), _wat_record(metadata)),
        wet=wet.record if wet and wet.uri == group.capture.uri else None,
        offsets=offsets,
        resume=resume,
        filename=filename,
    )


def _wat_record(slot: RecordSlot | None) -> Record | None:
    """Return the WAT record of a slot; None if its URI does not match, even in an error document."""
    return slot.wat.record if slot and slot.wat and slot.wat.uri == slot.uri else None


def _identity(group: PageGroup) -> tuple[str | None, str | None]:
    """Return the target URI and record id of the capture, even if only its metadata record is left."""
    if group.capture and group.capture.uri:
        return group.capture.uri, group.capture.id
    uri = next((slot.uri for slot in group.slots if slot.uri), None)
    if group.capture:
        return uri, group.capture.id
    if group.metadata and group.metadata.partners:
        return uri, group.metadata.partners[0]
    return uri, group.slots[0].id


def _check_digests(group: PageGroup, wet: DerivedRecord | None, flaws: Flaws) -> None:
    for slot in group.slots:
        if slot.record:
            _check_digest(WARC, slot.record, flaws)
    if wet and wet.record:
        _check_digest(WET, wet.record, flaws)


def _check_digest(file_type: FileType, record: Record, flaws: Flaws) -> None:
    """Check the digest of a plain record, which is longer than its block. Compressed records have a CRC."""
    if record.length <= len(record.content) or record.cut:
        return
    stated = record.block_digest
    if stated and digest.verify(stated, record.content) is digest.DigestVerdict.MISMATCH:
        end = record.offset + record.length
        flaws[
            Flaw(file_type, record.offset, end, "digest_mismatch", f"the content does not have the digest {stated}")
        ] = None


def _orphan(group: PageGroup) -> Flaw:
    slot = group.slots[0]
    return Flaw(WARC, slot.start, group.slots[-1].end, "orphan", f"a {slot.kind} record without a capture")


def _span(entries: list[DerivedRecord], position: int) -> tuple[int, int]:
    """Return the range from the first to the last entry; without entries, an empty range at `position`."""
    if not entries:
        return position, position
    return min([entry.start for entry in entries]), max([entry.end for entry in entries])

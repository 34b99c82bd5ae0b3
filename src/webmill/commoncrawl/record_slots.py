"""Read the records of a WARC file in order, each with its WAT description; and the slots of records that are lost.

The WAT file describes every record of the WARC file: its id, its offset, what it belongs to. So a record that only the
WAT file knows is a lost record with a known id and offset.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import msgspec

from webmill.commoncrawl.derived_records import DerivedRecord, DerivedRecordReader
from webmill.commoncrawl.lost_records import LostRecord, read_with_losses
from webmill.commoncrawl.page import Flaw
from webmill.errors import BadInput
from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.typed_records import FileType
from webmill.formats.warc.wat import WatDescription, read_wat
from webmill.formats.window import ByteSource
from webmill.model import Damage, Headers, Record


class RecordSlot(msgspec.Struct, eq=False, gc=False):
    """The place of a record, present or lost. `kind` is its type; None for damaged bytes that could be anything."""

    kind: str | None
    id: str | None
    uri: str | None
    date: str | None
    partners: tuple[str, ...]  # WARC-Concurrent-To
    start: int
    end: int
    record: Record | None = None
    wat: DerivedRecord | None = None
    flaws: tuple[Flaw, ...] = ()
    vague: bool = False  # damage that may include records of other pages
    reported: bool = False  # damage that is part of an error document


def read_slots(
    source: ByteSource, *, start: int, wat: DerivedRecordReader | None, limits: WarcLimits
) -> Iterator[RecordSlot]:
    damages: list[LostRecord] = []
    for item in read_with_losses(source, start=start, limits=limits):
        if isinstance(item, LostRecord):
            damages.append(item)
            continue
        slot = _slot_of(item)
        entry = wat.take(slot.id) if wat else None
        if damages or (wat and not (entry and wat.is_in_order(entry))):
            entry = yield from _find_lost(slot, entry, wat, damages)
            damages.clear()
        slot.wat = _check_entry(slot, entry, wat) if wat else None
        yield slot
    described: set[Damage] = set()
    if wat:
        yield from _slots_of_descriptions(wat.drain(), wat, damages, described)
    yield from _undescribed(damages, described)


def _find_lost(
    slot: RecordSlot, entry: DerivedRecord | None, wat: DerivedRecordReader | None, damages: list[LostRecord]
) -> Generator[RecordSlot, None, DerivedRecord | None]:
    """Yield the slots of records that should have come before this one; return its WAT entry, if found."""
    described: set[Damage] = set()
    while wat and not (entry and wat.is_in_order(entry)):
        here = _described_offset(entry) if entry and entry.record else slot.start
        passed = list(wat.take_oldest(lambda other, here=here: _described_offset(other) < here))  # type: ignore[misc]
        yield from _slots_of_descriptions(passed, wat, damages, described)
        if entry or not passed:
            break
        entry = wat.take(slot.id)
    if wat and not entry and not wat.first_damage():
        yield from _slots_of_descriptions(wat.miss(), wat, damages, described)
    yield from _undescribed(damages, described)
    return entry


def _slot_of(record: Record) -> RecordSlot:
    start, end = record.offset, record.offset + record.length
    if record.is_arc:
        return RecordSlot(record.type, None, record.target_uri, record.date, (), start, end, record)
    slot = _slot(record.headers, start, end)
    slot.record = record
    slot.kind = slot.kind or ""
    return slot


def _slot(headers: Headers, start: int, end: int) -> RecordSlot:
    found = dict(headers.pairs[::-1])  # faster than `get` for each name, if names have the usual case; the first wins
    kind, name = found.get("WARC-Type"), found.get("WARC-Record-ID")
    uri, date = found.get("WARC-Target-URI"), found.get("WARC-Date")
    if kind is None or name is None or uri is None or date is None:
        kind, name = headers.get("WARC-Type"), headers.get("WARC-Record-ID")
        uri, date = headers.get("WARC-Target-URI"), headers.get("WARC-Date")
    if uri and uri[0] == "<" and uri[-1] == ">":
        uri = uri[1:-1]
    return RecordSlot(kind, name, uri, date, tuple(headers.get_all("WARC-Concurrent-To")), start, end)


def _check_entry(slot: RecordSlot, entry: DerivedRecord | None, wat: DerivedRecordReader) -> DerivedRecord | None:
    """Return the WAT entry if it can be trusted; else add a flaw to the slot."""
    if entry is None and slot.kind in ("warcinfo", "arc_header"):
        return None  # it is not part of a page
    if entry is None:
        damage = wat.first_damage() or wat.any_damage()
        if damage and damage.flaw:
            damage.claimed = True
            slot.flaws = (damage.flaw,)
        else:
            message = f"no description of the {slot.kind} record {slot.id}"
            slot.flaws = (Flaw(FileType.WAT, wat.position, wat.position, "missing_wat", message),)
        return None
    if entry.flaw:
        slot.flaws = (entry.flaw,)
        return None
    if slot.uri is not None and entry.uri != slot.uri and slot.kind != "warcinfo":
        message = f"{entry.uri!r} in the WAT file, {slot.uri!r} in the WARC file"
        slot.flaws = (Flaw(FileType.WAT, entry.start, entry.end, "uri_mismatch", message),)
    return entry


def _slots_of_descriptions(
    entries: Iterable[DerivedRecord], wat: DerivedRecordReader, damages: list[LostRecord], described: set[Damage]
) -> Iterator[RecordSlot]:
    """Yield slots for described records that are missing, with the damage that covers them, which joins `described`."""
    for entry in entries:
        slot = _slot_of_description(entry)
        if slot is None:
            wat.orphan(entry)
            continue
        for damage in (lost.damage for lost in damages):
            if damage.offset <= slot.start < damage.end:
                slot.flaws, slot.start, slot.end = (_flaw(damage),), damage.offset, damage.end
                described.add(damage)
        yield slot


def _undescribed(damages: list[LostRecord], described: set[Damage]) -> Iterator[RecordSlot]:
    """Yield slots for damage that no description covers; only its first bytes may say what it was."""
    for lost in damages:
        if lost.damage not in described:
            slot = _slot(lost.headers, lost.damage.offset, lost.damage.end)
            slot.flaws, slot.vague = (_flaw(lost.damage),), True
            yield slot


def _flaw(damage: Damage) -> Flaw:
    return Flaw(FileType.WARC, damage.offset, damage.end, damage.reason, damage.message)


def _slot_of_description(entry: DerivedRecord) -> RecordSlot | None:
    """Return the slot of the record that a WAT entry describes; None if the entry is invalid."""
    try:
        description = read_wat(entry.record.content if entry.record else b"")
    except BadInput:
        return None
    start, end = _described_range(description)
    slot = _slot(description.envelope.headers, start, end)
    slot.wat = entry
    message = f"the WAT file describes a {slot.kind} record here, which is missing"
    slot.flaws = (Flaw(FileType.WARC, start, end, "missing_record", message),)
    return slot


def _described_offset(entry: DerivedRecord) -> int:
    if entry.described_at is None:
        try:
            entry.described_at = _described_range(read_wat(entry.record.content if entry.record else b""))[0]
        except BadInput:
            entry.described_at = 0  # unusable: sort it first, so that it is reported
    return entry.described_at


def _described_range(description: WatDescription) -> tuple[int, int]:
    container = description.container
    start = container.offset or 0
    return start, start + ((container.gzip.deflate_length if container.gzip else 0) or 0)

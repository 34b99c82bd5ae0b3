"""The records of a WARC file in their order, each with its description from the WAT file; and the places of those that
are lost, known by one of the two.

The WAT file describes every record of the WARC file: which it was, where it lay, what it belonged to. So a record that
only the WAT file knows is a lost record with a name and a place.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import islice

import msgspec

from webmill.commoncrawl.page import Flaw
from webmill.commoncrawl.shelf import Entry, Shelf
from webmill.commoncrawl.stored import Lost, read_stored
from webmill.errors import BadInput
from webmill.formats.typed_records import FileType
from webmill.formats.warc import Limits
from webmill.formats.wat import Description, read_description
from webmill.formats.window import Source
from webmill.model import Damage, Headers, Record

_BATCH = 100  # descriptions of lost records held at once


class Slot(msgspec.Struct, eq=False):
    """The place of a record. `kind` is None when nothing is known of it but that bytes are damaged."""

    kind: str | None
    id: str | None
    uri: str | None
    date: str | None
    partners: tuple[str, ...]  # WARC-Concurrent-To
    start: int
    end: int
    record: Record | None = None
    wat: Entry | None = None
    flaws: tuple[Flaw, ...] = ()
    vague: bool = False  # damage that may have swallowed records of other pages, too
    told: bool = False  # damage: an error document tells of it


def read_slots(source: Source, *, start: int, wat: Shelf | None, limits: Limits) -> Iterator[Slot]:
    damages: list[Lost] = []
    for item in read_stored(source, start=start, limits=limits):
        if isinstance(item, Lost):
            damages.append(item)
            continue
        slot = _slot_of(item)
        if wat:
            slot.wat = yield from _describe(slot, wat, damages)
        else:
            yield from _undescribed(damages, set())
        damages.clear()
        yield slot
    remaining = wat.drain() if wat else iter(())
    described: set[Damage] = set()
    while batch := list(islice(remaining, _BATCH)):
        yield from _slots_of_descriptions(batch, damages, described)
    yield from _undescribed(damages, described)


def _describe(slot: Slot, wat: Shelf, damages: list[Lost]) -> Generator[Slot, None, Entry | None]:
    """Returns the description of this record, yields the places of those that should have come before it."""
    described: set[Damage] = set()
    while True:
        entry = wat.take(slot.id)
        if entry and entry.start <= wat.position:  # nothing older waits
            break
        here = _described_offset(entry) if entry and entry.record else slot.start
        passed = list(wat.take_oldest(lambda other, here=here: _described_offset(other) < here))  # type: ignore[misc]
        yield from _slots_of_descriptions(passed, damages, described)
        if entry or not passed:
            break
    if not entry:
        yield from _slots_of_descriptions(wat.miss(), damages, described)
    yield from _undescribed(damages, described)
    return _checked(slot, entry, wat)


def _slot_of(record: Record) -> Slot:
    if record.is_arc:
        kind, uri, date = record.type, record.target_uri, record.date
        return Slot(kind, None, uri, date, (), record.offset, record.offset + record.length, record)
    return _slot(record.headers, record.offset, record.offset + record.length, record)


def _slot(headers: Headers, start: int, end: int, record: Record | None = None) -> Slot:
    """One pass over the fields, for this is done for every record."""
    found: dict[str, str] = {}
    partners: tuple[str, ...] = ()
    for name, value in headers.pairs:
        name = name.lower()
        if name == "warc-concurrent-to":
            partners = (*partners, value)
        elif name not in found:
            found[name] = value
    uri = found.get("warc-target-uri")
    if uri and uri[0] == "<" and uri[-1] == ">":
        uri = uri[1:-1]
    return Slot(
        found.get("warc-type"), found.get("warc-record-id"), uri, found.get("warc-date"), partners, start, end, record
    )


def _checked(slot: Slot, entry: Entry | None, wat: Shelf) -> Entry | None:
    """The entry when it can be trusted; if not, the slot has a flaw."""
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


def _slots_of_descriptions(entries: list[Entry], damages: list[Lost], described: set[Damage]) -> Iterator[Slot]:
    """What was described and is not there, with the damage that it lies in, if any. Notes those in `described`."""
    for entry in entries:
        slot = _slot_of_description(entry)
        for damage in (lost.damage for lost in damages):
            if damage.offset <= slot.start < damage.end:
                slot.flaws, slot.start, slot.end = (_flaw(damage),), damage.offset, damage.end
                described.add(damage)
        yield slot


def _undescribed(damages: list[Lost], described: set[Damage]) -> Iterator[Slot]:
    """Damage of which only its own beginning can tell what it was, if anything."""
    for lost in damages:
        if lost.damage not in described:
            slot = _slot(lost.headers, lost.damage.offset, lost.damage.end)
            slot.flaws, slot.vague = (_flaw(lost.damage),), True
            yield slot


def _flaw(damage: Damage) -> Flaw:
    return Flaw(FileType.WARC, damage.offset, damage.end, damage.reason, damage.message)


def _slot_of_description(entry: Entry) -> Slot:
    try:
        description = read_description(entry.record.content if entry.record else b"")
    except BadInput as error:
        slot = Slot("unreadable", None, entry.uri, None, (), 0, 0, wat=entry)
        slot.flaws = (Flaw(FileType.WAT, entry.start, entry.end, error.reason, error.message),)
        return slot
    start, end = _place(description)
    slot = _slot(description.envelope.headers, start, end)
    slot.wat = entry
    message = f"the WAT file describes a {slot.kind} record here, which is not there"
    slot.flaws = (Flaw(FileType.WARC, start, end, "missing_record", message),)
    return slot


def _described_offset(entry: Entry) -> int:
    if entry.described_at is None:
        try:
            entry.described_at = _place(read_description(entry.record.content if entry.record else b""))[0]
        except BadInput:
            entry.described_at = 0  # of no use to anyone: let it come out and be told
    return entry.described_at


def _place(description: Description) -> tuple[int, int]:
    container = description.container
    start = container.offset or 0
    return start, start + ((container.gzip.deflate_length if container.gzip else 0) or 0)

"""Group the records of a WARC file into pages: request, capture and metadata that refer to each other.

Records refer to each other by WARC-Concurrent-To, in either direction and in any order, as long as they are adjacent.
If a crawler wrote no such fields, a record joins the group before it if that has no record of its role, the URI is the
same, and the dates are within a minute. A record never joins a page that it does not directly follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from webmill.commoncrawl.page import Flaw
from webmill.commoncrawl.record_slots import RecordSlot
from webmill.formats.warc.typed_records import FileType

MAX_APART = 60  # seconds
_ROLES = {
    "request": "request",
    "response": "capture",
    "revisit": "capture",
    "resource": "capture",
    "metadata": "metadata",
}


class PageGroup(msgspec.Struct, eq=False):
    """The slots of one page in order, or one slot that belongs to no page."""

    slots: list[RecordSlot] = msgspec.field(default_factory=list)
    request: RecordSlot | None = None
    capture: RecordSlot | None = None
    metadata: RecordSlot | None = None
    flaws: tuple[Flaw, ...] = ()  # adjacent damage that may have destroyed a part of it

    def role(self, name: str) -> RecordSlot | None:
        return getattr(self, name)  # type: ignore[no-any-return]

    def add(self, slot: RecordSlot, role: str) -> None:
        self.slots.append(slot)
        setattr(self, role, slot)

    def refers_to(self, slot: RecordSlot) -> bool:
        """Return whether a record of the group refers to this one, or this one to it."""
        return any(mine.id in slot.partners or slot.id in mine.partners for mine in self.slots)

    def lacks_a_partner(self) -> bool:
        """Return whether one of its records refers to a record outside the group."""
        ids = {slot.id for slot in self.slots}
        return any(partner not in ids for slot in self.slots for partner in slot.partners)


def group_slots(slots: Iterable[RecordSlot]) -> Iterator[PageGroup]:
    """Yield groups of slots, each slot in one group; damage that belongs to no page is a group of its own.

    A page that may have lost a part to adjacent damage gets its flaw: better one page too many among the errors than
    one that looks complete and is not.
    """
    group, before, after = PageGroup(), list[RecordSlot](), list[RecordSlot]()
    metadata_is_usual = False
    for slot, following in _with_next(slots):
        role = _ROLES.get(slot.kind or "")
        if slot.kind is None:
            after.append(slot)
            continue
        if role and group.slots and _belongs(slot, role, group, following):
            _claim(group, after)
            after = []
            group.add(slot, role)
        else:
            yield from _settle(group, before, after, metadata_is_usual=metadata_is_usual)
            metadata_is_usual = group.metadata is not None if group.capture else metadata_is_usual
            group, before, after = PageGroup(), after, []
            if role:
                group.add(slot, role)
            else:
                yield from _alone(before)
                before = []
                yield PageGroup([slot], flaws=slot.flaws or (_unexpected(slot),))
        if slot.vague:
            slot.reported = True
            after.append(slot)
    yield from _settle(group, before, after, metadata_is_usual=metadata_is_usual)
    yield from _alone(after)


def _with_next(slots: Iterable[RecordSlot]) -> Iterator[tuple[RecordSlot, RecordSlot | None]]:
    before: RecordSlot | None = None
    for slot in slots:
        if before:
            yield before, slot
        before = slot
    if before:
        yield before, None


def _belongs(slot: RecordSlot, role: str, group: PageGroup, following: RecordSlot | None) -> bool:
    if group.role(role):
        return False
    if group.refers_to(slot):
        return True
    if slot.partners or not _is_near(slot, group.slots[-1]) or group.lacks_a_partner():
        return False
    # The request of the next page looks just like a request that comes after its response.
    return following is None or not (slot.id and slot.id in following.partners)


def _is_near(slot: RecordSlot, other: RecordSlot) -> bool:
    if slot.uri is None or slot.uri != other.uri:
        return False
    if slot.date == other.date:
        return True
    try:
        apart = datetime.fromisoformat(slot.date or "") - datetime.fromisoformat(other.date or "")
    except (ValueError, TypeError):
        return False
    return abs(apart.total_seconds()) <= MAX_APART


def _settle(
    group: PageGroup, before: list[RecordSlot], after: list[RecordSlot], *, metadata_is_usual: bool
) -> Iterator[PageGroup]:
    """Yield a finished group and the damage before it, after giving the group the damage that it may belong to."""
    if group.slots:
        if before and group.lacks_a_partner():
            _claim(group, before)
        if after and (not group.capture or (not group.metadata and metadata_is_usual)):
            _claim(group, after)
    yield from _alone(before)
    if group.slots:
        yield group


def _claim(group: PageGroup, gaps: list[RecordSlot]) -> None:
    for gap in gaps:
        gap.reported = True
        group.flaws += gap.flaws


def _alone(gaps: list[RecordSlot]) -> Iterator[PageGroup]:
    for gap in gaps:
        if not gap.reported:
            gap.reported = True
            yield PageGroup([gap], flaws=gap.flaws)


def _unexpected(slot: RecordSlot) -> Flaw:
    return Flaw(FileType.WARC, slot.start, slot.end, "unexpected_record", f"a record of type {slot.kind!r}")

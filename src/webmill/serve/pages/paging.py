"""Links to the parts of a listing: first, last, and those around the current one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

AROUND = 2


class PagerLink(msgspec.Struct, frozen=True):
    """A link to one part; `number` 0 is a gap."""

    number: int
    address: str = ""
    is_current: bool = False


class Pager(msgspec.Struct, frozen=True):
    links: list[PagerLink]
    before: str = ""
    after: str = ""


def make_pager(current: int, last: int, address_of: Callable[[int], str]) -> Pager:
    """Return the links for page `current` of `last`, from 1; none if there is only one page."""
    if last <= 1:
        return Pager([])
    wanted = sorted({1, last, *range(max(1, current - AROUND), min(last, current + AROUND) + 1)})
    links: list[PagerLink] = []
    for number in wanted:
        if links and number > links[-1].number + 1:
            links.append(PagerLink(0))
        links.append(PagerLink(number, address_of(number), number == current))
    before = address_of(current - 1) if current > 1 else ""
    after = address_of(current + 1) if current < last else ""
    return Pager(links, before, after)


def page_count(total: int, size: int) -> int:
    return max(1, -(-total // size))

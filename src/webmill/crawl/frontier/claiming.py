"""The URLs of one turn of a local frontier: chosen among those that may be asked now, and taken from where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webmill.crawl.frontier.base import PAGE_RESOURCE, ClaimRequest, LastVisit
from webmill.crawl.frontier.sqlite_state import DomainRow, SqliteState, UrlRow
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles

RETRY, REVISIT, NEW = range(3)  # the order among equal priorities


class Candidate(NamedTuple):
    priority: int
    kind: int
    place: int  # among its kind
    held: UrlRow
    last: LastVisit | None = None
    end: int = 0  # of its line


class Consumed(NamedTuple):
    """A part of a lane that was read."""

    lane: UrlQueue
    start: int
    stop: int
    end: int


def claim_urls(
    domain: DomainRow, request: ClaimRequest, *, state: SqliteState, lanes: UrlQueueFiles
) -> tuple[list[Candidate], list[Consumed]]:
    """Choose the first URLs of a domain and take them from where they wait. The positions and counts of `domain` are
    moved on; the caller saves them."""
    found = list(find_candidates(domain, request, state=state, lanes=lanes))
    if request.resources_only:  # they are the first ones, if there are any
        found = [candidate for candidate in found if candidate.priority == PAGE_RESOURCE]
    chosen = sorted(found, key=lambda candidate: candidate[:3])[: request.urls_per_turn]
    retries = [(domain.id, each.priority, each.held.place) for each in chosen if each.kind == RETRY]
    state.drop_retries(retries)
    domain.retries -= len(retries)
    ends = {each.priority: each.end for each in chosen if each.kind == NEW}
    return chosen, [advance(domain, priority, end) for priority, end in ends.items()]


def find_candidates(
    domain: DomainRow, request: ClaimRequest, *, state: SqliteState, lanes: UrlQueueFiles
) -> Iterator[Candidate]:
    """Yield the first ones of each kind: what is not among them cannot be among the first of all."""
    now, count = request.now, request.urls_per_turn
    if domain.retries:
        for place, held in enumerate(state.retries(domain.id, now=now, count=count)):
            yield Candidate(held.priority, RETRY, place, held)
    if request.revisits and not request.resources_only and domain.revisits:
        for place, (held, last) in enumerate(state.revisits(domain.id, now=now, count=count)):
            yield Candidate(held.priority, REVISIT, place, held, last)
    for priority, (read, end) in sorted(domain.lanes.items()):
        if read < end and count:
            lines = lanes.read(UrlQueue(domain.hash, priority), read, end, count=count)
            count -= len(lines)
            for line in lines:
                held = UrlRow(line.url, line.depth, priority, 1, line.start, 0, line.hops)
                yield Candidate(priority, NEW, line.start, held, None, line.end)


def advance(domain: DomainRow, priority: int, stop: int) -> Consumed:
    start, end = domain.lanes[priority]
    domain.lanes[priority] = (stop, end)
    return Consumed(UrlQueue(domain.hash, priority), start, stop, end)

"""The URLs of one turn: chosen among those that may be asked now, and taken from where they wait."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webmill.crawl.frontier.base import PAGE_RESOURCE, ClaimRequest, LastVisit
from webmill.crawl.frontier.state import DomainState, FrontierState, UrlRow
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles

RETRY, REVISIT, NEW = range(3)  # the order among equal priorities


class Candidate(NamedTuple):
    priority: int
    kind: int
    rank: int  # among its kind
    row: UrlRow
    last: LastVisit | None = None
    end: int = 0  # of its line


class ConsumedPart(NamedTuple):
    """The part of a queue that a claim has read."""

    queue: UrlQueue
    start: int
    stop: int
    end: int


def claim_urls(
    domain: DomainState, request: ClaimRequest, *, state: FrontierState, queues: UrlQueueFiles
) -> tuple[list[Candidate], list[ConsumedPart]]:
    """Choose the first URLs of a domain and take them from where they wait. The positions and counts of `domain` are
    moved on; the caller saves them."""
    found = list(find_candidates(domain, request, state=state, queues=queues))
    if request.resources_only:  # they are the first ones, if there are any
        found = [candidate for candidate in found if candidate.priority == PAGE_RESOURCE]
    chosen = sorted(found, key=lambda candidate: candidate[:3])[: request.urls_per_turn]
    retries = [(domain.id, each.priority, each.row.position) for each in chosen if each.kind == RETRY]
    state.delete_retries(retries)
    domain.retries -= len(retries)
    ends = {each.priority: each.end for each in chosen if each.kind == NEW}
    return chosen, [advance_queue(domain, priority, end) for priority, end in ends.items()]


def find_candidates(
    domain: DomainState, request: ClaimRequest, *, state: FrontierState, queues: UrlQueueFiles
) -> Iterator[Candidate]:
    """Yield the first ones of each kind: what is not among them cannot be among the first of all."""
    now, count = request.now, request.urls_per_turn
    if domain.retries:
        for rank, row in enumerate(state.due_retries(domain.id, now=now, count=count)):
            yield Candidate(row.priority, RETRY, rank, row)
    if request.revisits and not request.resources_only and domain.revisits:
        for rank, (row, last) in enumerate(state.due_revisits(domain.id, now=now, count=count)):
            yield Candidate(row.priority, REVISIT, rank, row, last)
    for priority, (read, end) in sorted(domain.queues.items()):
        if read < end and count:
            lines = queues.read(UrlQueue(domain.hash, priority), read, end, count=count)
            count -= len(lines)
            for line in lines:
                row = UrlRow(line.url, line.depth, priority, 1, line.start, 0, line.hops)
                yield Candidate(priority, NEW, line.start, row, None, line.end)


def advance_queue(domain: DomainState, priority: int, stop: int) -> ConsumedPart:
    start, end = domain.queues[priority]
    domain.queues[priority] = (stop, end)
    return ConsumedPart(UrlQueue(domain.hash, priority), start, stop, end)

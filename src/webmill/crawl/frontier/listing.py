"""All URLs of a frontier that wait or are in hand, read from where they lie."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from itertools import chain

from webmill.crawl.frontier.hops import unpack_hops
from webmill.crawl.frontier.sqlite_state import DomainRow, SqliteState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles
from webmill.errors import BadInput
from webmill.model import Link

log = logging.getLogger(__name__)

AT_ONCE = 1000


def waiting_links(state: SqliteState, lanes: UrlQueueFiles, lock: threading.RLock) -> Iterator[Link]:
    for domain in state.each():
        given_back = state.retries_of(domain) if domain.retries else ()
        for held in chain(given_back, state.in_hand_of(domain)):
            if not held.visit:
                yield Link(held.url, held.depth, held.priority, *unpack_hops(held.priority, held.hops))
        try:
            yield from lane_links(domain, state, lanes, lock)
        except BadInput as error:
            if not domain.excluded:
                raise
            log.warning("frontier_lane_damaged", extra={"domain": domain.name, "why": str(error)})


def lane_links(domain: DomainRow, state: SqliteState, lanes: UrlQueueFiles, lock: threading.RLock) -> Iterator[Link]:
    for priority, (position, end) in sorted(domain.lanes.items()):
        while position < end:
            with lock:
                read, end = state.reread(domain).lanes[priority]  # what was read meanwhile may be gone
                lines = lanes.read(UrlQueue(domain.hash, priority), max(read, position), end, count=AT_ONCE)
            position = lines[-1].end if lines else end
            yield from (Link(line.url, line.depth, priority, *unpack_hops(priority, line.hops)) for line in lines)

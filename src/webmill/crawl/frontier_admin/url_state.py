"""What a frontier knows of one URL, read while a crawl may be running."""

from __future__ import annotations

from typing import Literal

import msgspec

from webmill.crawl.frontier.base import LastVisit, RobotsEntry, domain_of
from webmill.crawl.frontier.state import DomainState, FrontierState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles
from webmill.errors import BadInput

LINES_AT_ONCE = 1000
MOST_LINES = 200_000  # of one domain that are searched for a URL

Known = Literal["visited", "in progress", "waiting", "unknown", "not visited"]


class UrlState(msgspec.Struct, frozen=True, kw_only=True):
    """`known` is "not visited" where too many URLs of the domain wait to find it among them."""

    known: Known
    due: float | None = None  # when it may be asked for; None: never again, or not known
    attempts: int = 0  # of a URL that failed and waits
    last: LastVisit | None = None
    robots: RobotsEntry | None = None
    domain: str = ""
    is_excluded: bool = False  # its domain
    domain_free: float = 0.0  # when its domain may be asked again


def find_url(
    state: FrontierState, url: str, *, queues: UrlQueueFiles | None, robots: RobotsEntry | None = None
) -> UrlState:
    """Return what the frontier of its shard knows of a URL."""
    name = domain_of(url)
    domain = state.find_domains([name]).get(name)
    if domain is None:
        return UrlState(known="unknown", robots=robots, domain=name)
    found = UrlState(
        known="unknown",
        robots=robots,
        domain=name,
        is_excluded=bool(domain.excluded),
        domain_free=domain.not_before,
        last=state.visit(url),
    )
    known, due, attempts = _find_place(state, domain, url, queues)
    return msgspec.structs.replace(found, known=known, due=due, attempts=attempts)


def _find_place(
    state: FrontierState, domain: DomainState, url: str, queues: UrlQueueFiles | None
) -> tuple[Known, float | None, int]:
    if any(row.url == url for row in state.urls_in_hand(domain)):
        return "in progress", None, 0
    visits = state.find_visits([url])
    if url in visits:
        due = visits[url].revisit_due
        return "visited", None if due is None else max(due, domain.not_before), 0
    if domain.retries:
        for row in state.all_retries(domain):
            if row.url == url:
                return "waiting", domain.due, row.attempts
    if queues is None and domain.has_queued_urls:
        return "not visited", None, 0
    is_queued = _is_queued(domain, url, queues) if queues else False
    if is_queued is None:
        return "not visited", None, 0
    return ("waiting", domain.due, 1) if is_queued else ("unknown", None, 0)


def _is_queued(domain: DomainState, url: str, queues: UrlQueueFiles) -> bool | None:
    """Return whether a URL is among the lines of a domain; None when there are too many, or the newest are not on the
    disk yet."""
    left = MOST_LINES
    for priority, (position, end) in sorted(domain.queues.items()):
        while position < end:
            try:
                lines = queues.read(UrlQueue(domain.hash, priority), position, end, count=LINES_AT_ONCE)
            except BadInput:  # a running crawl has not written them yet
                return None
            if any(line.url == url for line in lines):
                return True
            left -= len(lines)
            if not lines or left <= 0:
                return None
            position = lines[-1].end
    return False

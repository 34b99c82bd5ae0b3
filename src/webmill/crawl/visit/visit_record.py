"""A visit as the frontier keeps it: what came of it, and when the URL is to be visited again."""

from __future__ import annotations

import msgspec

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import ClaimedUrl, LastVisit
from webmill.crawl.frontier.hops import reached_by
from webmill.crawl.page.url_joining import redirect_target
from webmill.crawl.visit.last_visit import archived_fields, cut_error, is_changed, is_whole_page, next_validators
from webmill.crawl.visit.page_reader import SEED, PageReading
from webmill.crawl.visit.revisit_schedule import (
    GONE,
    RevisitSchedule,
    interval_after_error,
    interval_after_gone,
    interval_of_list,
    is_gone,
    next_interval,
)


def describe_visit(
    item: ClaimedUrl, sent: float, fetched: FetchedResponse, page: PageReading, *, schedule: RevisitSchedule
) -> tuple[LastVisit, float | None]:
    """Return the visit as the frontier keeps it, and when to visit again."""
    status, lists_pages = fetched.head.status, page.lists_pages
    if item.last and page.kind == "not_modified":
        lists_pages = item.last.lists_pages
    gone = is_gone(status, item.last)
    interval = _revisit_interval(fetched, item, lists_pages=lists_pages, schedule=schedule)
    visit = LastVisit(
        url=item.url,
        time=sent,
        status=status,
        depth=item.depth,
        **reached_by(item),
        interval=interval or 0.0,
        lists_pages=lists_pages,
        gone=gone,
        error=_redirect_error(item, fetched, page) or cut_error(fetched),
    )
    if item.last and (page.kind == "not_modified" or is_server_error(status)):
        visit = msgspec.structs.replace(visit, **archived_fields(item.last))
    if page.kind == "not_modified" or is_whole_page(fetched):
        visit = msgspec.structs.replace(visit, **next_validators(fetched, visit))
    return visit, None if interval is None else sent + interval


def is_server_error(status: int) -> bool:
    """Tell whether a response says nothing of the page: the server could not, or would not, answer."""
    return status >= 400 and status not in GONE


def _redirect_error(item: ClaimedUrl, fetched: FetchedResponse, page: PageReading) -> str:
    """Return that and where a URL is redirected to itself or out of the scope: a seed may give no page for that."""
    if page.kind != "redirect":
        return ""
    target = redirect_target(item.url, fetched.head)
    if target == item.url:
        return "redirect_loop: it redirects to itself, whatever cookies it is sent"
    return f"redirect_out_of_scope: {target}"[:500] if page.refused["out_of_scope"] else ""


def _revisit_interval(
    fetched: FetchedResponse, item: ClaimedUrl, *, lists_pages: bool, schedule: RevisitSchedule
) -> float | None:
    last, status = item.last, fetched.head.status
    previous = last.interval if last else 0.0
    if status in GONE:
        is_seed = item.depth == 0 and item.priority == SEED
        if is_seed and schedule.watches:
            return schedule.first
        return interval_after_gone(previous, was_gone=bool(last and last.status in GONE), schedule=schedule)
    if is_server_error(status):
        return interval_after_error(previous, schedule=schedule)
    next_ = interval_of_list if lists_pages else next_interval
    return next_(previous, changed=is_changed(fetched, last), schedule=schedule)

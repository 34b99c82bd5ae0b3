"""/crawl: the live state of a crawl. Earlier points of the curve travel in the URL of the page, not in this process, so
that any process can answer the next request, and the curve works without JavaScript, too.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.crawl.control import ControlEvent, read_events
from webmill.crawl.progress import CrawlProgress, sum_progress
from webmill.crawl.status_file import ENDS, CrawlStatus, node_slots, read_status
from webmill.errors import NotFound
from webmill.serve.pages import charts, crawl_control
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

EVERY = 2  # seconds between refreshes
KEPT = 60  # points of the curve
CURVE = 60.0  # minimum width in seconds
LATELY = 10.0  # seconds over which speed is measured
STALE = 20.0  # seconds without an update from a running crawl
ROWS = 10
_POINT = re.compile(r"([0-9]{1,10}(?:\.[0-9])?):([0-9]{1,15}):([0-9]{1,18})")


class ProgressPoint(msgspec.Struct, frozen=True):
    """The progress of a crawl at a point in time."""

    time: float
    pages: int
    bytes: int


class CrawlSpeed(msgspec.Struct, frozen=True):
    """Pages and bytes a second. `is_average`: over the whole run, as recent points are unknown."""

    pages: float
    bytes: float
    is_average: bool = False


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def crawl(request: Request) -> Response:
        nodes = nodes_of(site)
        if not nodes:
            return render(site, request, "crawl.html", nodes=[])
        total = sum_progress(node.total for node in nodes)
        past = append_now(parse_past(request.query_params.get("past", "")), nodes, total)
        rates = rates_of(past)
        return render(
            site,
            request,
            "crawl.html",
            nodes=nodes,
            total=total,
            pages=pages_of(nodes, total),
            is_running=any(node.is_running for node in nodes),
            age=max(0.0, time.time() - max(node.time for node in nodes)),
            stale=STALE,
            ends=ENDS,
            is_paused=total.is_paused,
            is_stopping=total.is_stopping,
            did=crawl_control.DONE.get(request.query_params.get("did", ""), ""),
            events=newest_events(site),
            speed=speed_of(past, nodes, total),
            curve=curve_of(rates) if len(rates) > 1 else None,
            past=format_past(past),
            every=EVERY,
            statuses=charts.bar_chart(total.statuses, most=ROWS, style=charts.style_of_status),
            errors=charts.bar_chart(total.errors, most=ROWS),
            refused=charts.bar_chart(total.refused, most=ROWS),
        )

    return [
        Route("/crawl", threads.endpoint(crawl)),
        *crawl_control.routes(site, threads),
    ]


def nodes_of(site: Site) -> list[CrawlStatus]:
    """Return the status of each node of the crawl in this folder; none before the first crawl."""
    folder = site.root / "frontier"
    try:
        return [read_status(folder, slot=slot) for slot in node_slots(folder)]
    except NotFound:
        return []


def newest_events(site: Site) -> list[ControlEvent]:
    """Return what persons told the crawl last, newest first."""
    return [*deque(read_events(site.root / "frontier"), maxlen=ROWS)][::-1]


def pages_of(nodes: Sequence[CrawlStatus], total: CrawlProgress) -> int:
    """Return the pages of all nodes; each node of a cluster knows the total."""
    known = [node.total.nodes.pages for node in nodes if node.total.nodes]
    return max([*known, total.pages])


# --- earlier points --------------------------------------------------------------------------------------------


def parse_past(text: str) -> list[ProgressPoint]:
    """Parse `TIME:PAGES:BYTES,…`: the first point absolute, the others as differences. Nothing if malformed."""
    seen: list[ProgressPoint] = []
    for part in text[:4096].split(","):
        found = _POINT.fullmatch(part)
        if not found:
            return []
        when, pages, size = float(found[1]), int(found[2]), int(found[3])
        seen.append(
            ProgressPoint(seen[-1].time + when, seen[-1].pages + pages, seen[-1].bytes + size)
            if seen
            else ProgressPoint(when, pages, size)
        )
    return seen


def format_past(past: Sequence[ProgressPoint]) -> str:
    first = [f"{past[0].time:.1f}:{past[0].pages}:{past[0].bytes}"] if past else []
    return ",".join(
        first
        + [
            f"{after.time - before.time:.1f}:{after.pages - before.pages}:{after.bytes - before.bytes}"
            for before, after in pairwise(past)
        ]
    )


def append_now(past: list[ProgressPoint], nodes: Sequence[CrawlStatus], total: CrawlProgress) -> list[ProgressPoint]:
    """Return the points with the current one; points of an earlier run are dropped."""
    now = ProgressPoint(round(max(node.time for node in nodes), 1), total.pages, total.bytes)
    if past and (past[-1].pages > now.pages or past[-1].bytes > now.bytes or past[-1].time > now.time):
        past = []
    return ([*past, now] if not past or now.time - past[-1].time >= 0.5 else past)[-KEPT:]


def curve_of(rates: Sequence[tuple[float, float]]) -> charts.LineChart:
    return charts.line_chart(
        "Pages a second", rates, over=max(CURVE, rates[0][0]), format_value=lambda rate: f"{rate:.1f}"
    )


def rates_of(past: Sequence[ProgressPoint]) -> list[tuple[float, float]]:
    """Return (seconds before the last point, pages a second) pairs."""
    return [
        (past[-1].time - after.time, (after.pages - before.pages) / (after.time - before.time))
        for before, after in pairwise(past)
        if after.time > before.time
    ]


def speed_of(past: Sequence[ProgressPoint], nodes: Sequence[CrawlStatus], total: CrawlProgress) -> CrawlSpeed:
    lately = [seen for seen in past if past[-1].time - seen.time <= LATELY]
    if len(lately) > 1:
        seconds = lately[-1].time - lately[0].time
        return CrawlSpeed(
            (lately[-1].pages - lately[0].pages) / seconds, (lately[-1].bytes - lately[0].bytes) / seconds
        )
    seconds = max(node.time - node.started for node in nodes)
    answers = max(0, total.fetched - total.robots)
    return (
        CrawlSpeed(answers / seconds, total.bytes / seconds, is_average=True) if seconds > 0 else CrawlSpeed(0.0, 0.0)
    )

"""/crawl/reports: the newest visits of the crawl by hosts, media types and status codes, and what came of its seeds."""

from __future__ import annotations

from itertools import islice

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.crawl.reports import SeedRow, report_seeds, report_visits
from webmill.crawl.visit_log import VisitLogReader
from webmill.errors import WebmillError
from webmill.pipeline.crawl_frontier import open_crawl
from webmill.serve.http.responses import message_of
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

NEWEST = 4 << 20  # bytes of the log of each process that are read for a page: some 15,000 visits
ROWS, SEEDS = 20, 100
KINDS = {"hosts": "Hosts", "types": "Media types", "status": "Status codes"}


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def reports(request: Request) -> Response:
        reader = VisitLogReader(site.root / "frontier")
        found = report_visits(KINDS, reader.visits(newest_bytes=NEWEST))
        seeds, problem = list[SeedRow](), ""
        try:
            with open_crawl(site.root) as crawl:
                seeds = [*islice(report_seeds(crawl), SEEDS)]
        except WebmillError as error:
            problem = message_of(error, site.root)
        return render(
            site,
            request,
            "crawl_reports.html",
            reports=[(title, found[kind]) for kind, title in KINDS.items()],
            visits=found["hosts"],
            seeds=seeds,
            most_seeds=SEEDS,
            rows=ROWS,
            problem=problem,
            unreadable=reader.unreadable,
        )

    return [Route("/crawl/reports", threads.endpoint(reports))]

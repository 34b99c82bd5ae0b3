"""/corpus: what each step of the recipe removed and why, and how documents are distributed before and after."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.curate.report import CurateReport, DistributionSummary
from webmill.errors import NotFound
from webmill.pipeline.curate.run import open_corpus
from webmill.serve.pages.charts import ChartBar, ChartPoint, ColumnChart, bar_chart, column_chart
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

MOST_BARS = 12


class DistributionPair(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of all documents, and of those that were kept."""

    title: str
    before: list[ChartBar]
    after: list[ChartBar]


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def corpus(request: Request) -> Response:
        try:
            report = open_corpus(site.root).report()
        except NotFound:
            return render(site, request, "corpus_none.html")
        pairs, lengths = distribution_pairs(report), length_charts(report)
        return render(site, request, "corpus.html", report=report, pairs=pairs, lengths=lengths)

    return [Route("/corpus", threads.endpoint(corpus))]


def distribution_pairs(report: CurateReport) -> list[DistributionPair]:
    names = {"Languages": "languages", "Hosts": "hosts", "Months of the captures": "months"}
    return [
        DistributionPair(
            title=title,
            before=bar_chart(getattr(report.before, name), most=MOST_BARS),
            after=bar_chart(getattr(report.after, name), most=MOST_BARS),
        )
        for title, name in names.items()
    ]


def length_charts(report: CurateReport) -> list[tuple[str, ColumnChart]]:
    """Return the documents by length, before and after, over the same lengths."""
    return [
        ("Before", length_chart("Documents by length, before", report.before, report.before.lengths)),
        ("After", length_chart("Documents by length, after", report.after, report.before.lengths)),
    ]


def length_chart(title: str, shown: DistributionSummary, lengths: Mapping[str, int]) -> ColumnChart:
    points = [ChartPoint(f"to {int(length):,} characters", shown.lengths.get(length, 0)) for length in lengths]
    return column_chart(title, points)

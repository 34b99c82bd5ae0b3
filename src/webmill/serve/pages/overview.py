"""/: the overview of the collection in figures and charts."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import WebmillError
from webmill.formats.language_names import language_name
from webmill.publish.types import Version
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.links import readable_host, with_query
from webmill.serve.api.published import PublishedVersions
from webmill.serve.http.responses import message_of
from webmill.serve.pages import charts, live
from webmill.serve.pages.crawl import nodes_of
from webmill.serve.pages.filters import format_size
from webmill.serve.pages.index_figures import IndexFigures, sum_figures
from webmill.serve.pages.overview_changes import read_overview_changes
from webmill.serve.pages.problem_survey import ProblemSurvey
from webmill.serve.pages.render import render
from webmill.serve.pages.survey import MOST_FILES, CollectionSurvey, Surveyor
from webmill.serve.processes.threads import BoundedThreads
from webmill.settings import CrawlSettings

PATIENCE = 0.3  # seconds to wait for the first counts; after that the page says that it is counting
ROWS = 10
T = TypeVar("T")


class OverviewCharts(msgspec.Struct, frozen=True, kw_only=True):
    captures: charts.ColumnChart
    bytes: charts.ColumnChart
    statuses: list[charts.ChartBar]
    types: list[charts.ChartBar]
    domains: list[charts.ChartBar]


class LanguageChart(msgspec.Struct, frozen=True):
    bars: list[charts.ChartBar]
    of: str  # captures or documents


def routes(reader: ContentReader, threads: BoundedThreads, wrong: ProblemSurvey) -> list[BaseRoute]:
    site, published = reader.site, reader.published
    surveyor, drawn = Surveyor(site), DrawnCharts()

    def overview(request: Request) -> Response:
        until = time.monotonic() + PATIENCE
        wrong.latest(patience=0.0)  # both begin at once
        survey = surveyor.latest(patience=PATIENCE)
        figures, plots = drawn.of(survey)
        problems: list[str] = []
        try_read = partial(_try_read, problems=problems, root=site.root)
        version = try_read(lambda: live.live_version(published))
        crawls = try_read(lambda: nodes_of(site)) or []
        return render(
            site,
            request,
            "overview.html",
            survey=survey,
            has_seeds=(site.root / CrawlSettings().seeds).is_file(),
            figures=figures if figures and figures.blocks else None,
            plots=plots,
            languages=try_read(lambda: languages_of(published, figures, version)),
            archive_bytes=sum(survey.archives.values()) if survey else 0,
            most_files=MOST_FILES,
            version=version,
            age=live.age_of(version) if version else 0.0,
            search=try_read(lambda: live.search_state(reader.engine)),
            crawls=crawls,
            changes=try_read(lambda: read_overview_changes(published, crawls)),
            wrong=wrong.latest(patience=max(0.0, until - time.monotonic())),
            problems=[*problems, *index_problems(survey)],
        )

    return [Route("/", threads.endpoint(overview))]


class DrawnCharts:
    """The charts of the last survey: drawn once, shown to many."""

    def __init__(self) -> None:
        self._drawn: tuple[CollectionSurvey | None, IndexFigures | None, OverviewCharts | None] = (None, None, None)

    def of(self, survey: CollectionSurvey | None) -> tuple[IndexFigures | None, OverviewCharts | None]:
        drawn = self._drawn
        if survey is not drawn[0]:
            figures = sum_figures(crawl.figures for crawl in survey.crawls if crawl.figures) if survey else None
            self._drawn = drawn = survey, figures, plots_of(figures) if figures and figures.captures else None
        return drawn[1], drawn[2]


def _try_read(read: Callable[[], T], *, problems: list[str], root: Path) -> T | None:
    """Return what `read` returns; if it fails, add the message to `problems` and return None."""
    try:
        return read()
    except WebmillError as error:
        problems.append(message_of(error, root))
        return None


def index_problems(survey: CollectionSurvey | None) -> list[str]:
    return [f"The index of {crawl.name}: {crawl.problem}" for crawl in survey.crawls if crawl.problem] if survey else []


def plots_of(figures: IndexFigures) -> OverviewCharts:
    captures = charts.bucket_by_time({key: one.captures for key, one in figures.times.items()})
    sizes = charts.bucket_by_time({key: one.bytes for key, one in figures.times.items()})
    return OverviewCharts(
        captures=charts.column_chart("Captures over time", captures),
        bytes=charts.column_chart("Bytes over time", sizes, format_value=format_size),
        statuses=charts.bar_chart(figures.statuses, most=ROWS, style=charts.style_of_status),
        types=charts.bar_chart(figures.types, most=ROWS),
        domains=charts.bar_chart(figures.domains, most=ROWS, name=readable_host, link=link_to_domain),
    )


def languages_of(
    published: PublishedVersions, figures: IndexFigures | None, version: Version | None
) -> LanguageChart | None:
    """Return the languages of captures where they were detected, else of published documents."""
    if figures and figures.languages:
        return LanguageChart(charts.bar_chart(figures.languages, most=ROWS, name=language_name), "captures")
    values = published.facets(version).get("language", []) if version else []
    counts = {value.value: value.count for value in values}
    return LanguageChart(charts.bar_chart(counts, most=ROWS, name=language_name), "documents") if counts else None


def link_to_domain(domain: str) -> str:
    return with_query("/history", [("url", domain), ("match", "domain")])

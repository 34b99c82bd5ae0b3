"""Surveys a collection in the background, one survey at a time; the last result is shown until the next is done.

A large index is counted twice: a few of its blocks at once, so that the first page has figures, then many of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from itertools import islice
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.errors import NotFound, WebmillError
from webmill.index.archives import find_archives
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra import waiting
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.uploads import uploaded_files
from webmill.serve.cdx.served_index import ServedIndex
from webmill.serve.http.responses import message_of
from webmill.serve.pages.index_figures import IndexFigures, count_index
from webmill.serve.site import Site

MOST_BLOCKS = 300  # of all indexes; a block has 3000 lines
FIRST_BLOCKS = 6  # counted before those: in a twentieth of a second
PAUSE = 0.5  # seconds between the two counts, in which the page is sent to those who wait for it
MOST_CRAWLS = 100
MOST_FILES = 100_000
FRESH_SECONDS = 30.0  # until archives are listed again; an index is counted when it changes


class CrawlView(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl with its archives and figures; `figures` is None without an index, or if `problem` is set."""

    name: str
    etag: str = ""
    index_bytes: int = 0
    figures: IndexFigures | None = None
    problem: str = ""
    archives: dict[str, int] = {}  # path and size; at most MOST_FILES

    def has_counted(self, blocks: int) -> bool:
        """Return whether so many blocks were counted, or all there are."""
        if self.problem or self.figures is None:
            return not self.problem
        return self.figures.counted_blocks >= min(blocks, self.figures.blocks)


class CollectionSurvey(msgspec.Struct, frozen=True, kw_only=True):
    crawls: list[CrawlView]
    left_out: int  # crawls beyond MOST_CRAWLS
    made: float  # on the monotonic clock

    @property
    def archives(self) -> dict[str, int]:
        """Return all archives; files outside of the crawl folders are counted once."""
        return {path: size for crawl in self.crawls for path, size in crawl.archives.items()}


class Surveyor:
    """Keeps the survey of a site up to date. Thread-safe."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._last: CollectionSurvey | None = None
        self._next: Future[CollectionSurvey] | None = None

    def latest(self, *, patience: float) -> CollectionSurvey | None:
        """Return the newest survey available within `patience` seconds, or None while the first one runs."""
        with self._lock:
            if self._next is None and not self._is_fresh():
                self._next = self._begin()
            running = self._next
        try:
            if running:
                running.result(timeout=patience)
        except NotYet:
            pass
        return self._last

    def _begin(self) -> Future[CollectionSurvey]:
        """Start a survey in a daemon thread, so that the server does not wait for it when it stops. The future ends
        with the first of the two counts.
        """
        future: Future[CollectionSurvey] = Future()

        def work() -> None:
            try:
                blocks = min(FIRST_BLOCKS, MOST_BLOCKS)
                self._last = first = survey_collection(self._site, before=self._last, most=blocks)
                future.set_result(first)
                if not has_counted_enough(first):
                    waiting.sleep(PAUSE)
                    self._last = refine_survey(self._site, first)
            except Exception as error:  # noqa: BLE001 - raised to those who wait; later callers try again
                self._end()
                if not future.done():
                    future.set_exception(error)
            else:
                self._end()

        threading.Thread(target=work, name="webmill-survey", daemon=True).start()
        return future

    def _end(self) -> None:
        with self._lock:
            self._next = None

    def _is_fresh(self) -> bool:
        last = self._last
        if last is None or time.monotonic() - last.made > FRESH_SECONDS:
            return False
        return [(crawl.name, crawl.etag) for crawl in last.crawls] == [
            (crawl.name, etag_of(crawl)) for crawl in self._site.crawls()[:MOST_CRAWLS]
        ]


def survey_collection(site: Site, *, before: CollectionSurvey | None, most: int = MOST_BLOCKS) -> CollectionSurvey:
    """Return a new survey that counts at most so many blocks; what has not changed since `before` is not counted."""
    known = {crawl.name: crawl for crawl in before.crawls} if before else {}
    crawls = site.crawls()
    share = max(3, most // max(1, len(crawls)))
    views = []
    for crawl in crawls[:MOST_CRAWLS]:
        archives = dict(islice(archives_of(crawl), MOST_FILES))
        views.append(view_of(crawl, site.index_of(crawl), archives, most=share, before=known.get(crawl.name)))
    return CollectionSurvey(crawls=views, left_out=max(0, len(crawls) - MOST_CRAWLS), made=time.monotonic())


def blocks_of_each(survey: CollectionSurvey) -> int:
    """Return how many blocks of each index are counted in the end."""
    return max(3, MOST_BLOCKS // max(1, len(survey.crawls) + survey.left_out))


def has_counted_enough(survey: CollectionSurvey) -> bool:
    return all(crawl.has_counted(blocks_of_each(survey)) for crawl in survey.crawls)


def refine_survey(site: Site, first: CollectionSurvey) -> CollectionSurvey:
    """Return the survey with more blocks counted of indexes that have more."""
    known = {crawl.name: crawl for crawl in first.crawls}
    share = blocks_of_each(first)
    views = [
        view_of(crawl, site.index_of(crawl), before.archives, most=share, before=before)
        for crawl in site.crawls()
        if (before := known.get(crawl.name))
    ]
    return msgspec.structs.replace(first, crawls=views)


def view_of(
    crawl: Collection, index: ServedIndex, archives: dict[str, int], *, most: int, before: CrawlView | None
) -> CrawlView:
    etag = etag_of(crawl)
    if before and before.etag == etag and before.has_counted(most):
        return msgspec.structs.replace(before, archives=archives)
    view = CrawlView(name=crawl.name, etag=etag, archives=archives)
    if not etag:
        return view
    try:
        index.current()  # checks it as a whole; only a part is counted
        figures = count_index(LocalStorage(crawl.zipnum), most=most)
    except WebmillError as error:  # shown on the page; the next survey tries again
        return msgspec.structs.replace(view, problem=message_of(error, crawl.root))
    size = sum(size_of(path) for path in islice(crawl.zipnum.iterdir(), MOST_FILES))
    return msgspec.structs.replace(view, figures=figures, index_bytes=size)


def etag_of(crawl: Collection) -> str:
    """Return the etag of the index, or nothing without one."""
    try:
        return LocalStorage(crawl.zipnum).stat(SUMMARY).etag
    except NotFound:
        return ""


def archives_of(crawl: Collection) -> Iterator[tuple[str, int]]:
    uploaded = uploaded_files(crawl.root)
    for key in find_archives(crawl, refuse=lambda *_: None):
        size = size_of(crawl.root / key)
        yield key, size or (uploaded[key].size if key in uploaded else 0)


def size_of(path: Path) -> int:
    """Return the size of a file, or 0 if it is gone."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0

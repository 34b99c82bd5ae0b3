"""Surveys a collection in the background, one survey at a time; the last result is shown until the next is done."""

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
from webmill.infra.storage.local import LocalStorage
from webmill.serve.cdx.served_index import ServedIndex
from webmill.serve.http.responses import message_of
from webmill.serve.pages.index_figures import IndexFigures, count_index
from webmill.serve.site import Site

MOST_BLOCKS = 300  # of all indexes; a block has 3000 lines
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
            return running.result(timeout=patience) if running else self._last
        except NotYet:
            return self._last

    def _begin(self) -> Future[CollectionSurvey]:
        """Start a survey in a daemon thread, so that the server does not wait for it when it stops."""
        future: Future[CollectionSurvey] = Future()

        def work() -> None:
            try:
                self._last = made = survey_collection(self._site, before=self._last)
            except Exception as error:  # noqa: BLE001 - raised to those who wait; later callers try again
                self._end()
                future.set_exception(error)
            else:
                self._end()
                future.set_result(made)

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


def survey_collection(site: Site, *, before: CollectionSurvey | None) -> CollectionSurvey:
    """Return a new survey; what has not changed since `before` is not counted again."""
    known = {crawl.name: crawl for crawl in before.crawls} if before else {}
    crawls = site.crawls()
    most = max(3, MOST_BLOCKS // max(1, len(crawls)))
    views = [
        view_of(crawl, site.index_of(crawl), most=most, before=known.get(crawl.name)) for crawl in crawls[:MOST_CRAWLS]
    ]
    return CollectionSurvey(crawls=views, left_out=max(0, len(crawls) - MOST_CRAWLS), made=time.monotonic())


def view_of(crawl: Collection, index: ServedIndex, *, most: int, before: CrawlView | None) -> CrawlView:
    etag = etag_of(crawl)
    archives = dict(islice(archives_of(crawl), MOST_FILES))
    if before and before.etag == etag and not before.problem:
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
    for key in find_archives(crawl, refuse=lambda *_: None):
        yield key, size_of(crawl.root / key)


def size_of(path: Path) -> int:
    """Return the size of a file, or 0 if it is gone."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0

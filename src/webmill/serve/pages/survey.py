"""What is in a collection, looked at in the background: one look at a time, and an old one until the new is there."""

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
from webmill.serve.pages.index_figures import IndexFigures, count_index
from webmill.serve.responses import message_of
from webmill.serve.served_index import ServedIndex
from webmill.serve.site import Site

MOST_BLOCKS = 300  # of all indexes together; a block has 3000 lines
MOST_CRAWLS = 100
MOST_FILES = 100_000
FRESH_SECONDS = 30.0  # seconds until archives are looked for again; an index is counted when it changed


class CrawlView(msgspec.Struct, frozen=True, kw_only=True):
    """`figures` are None without an index, or when `problem` says what is wrong with it."""

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
        """A file outside of every crawl's folder is counted once."""
        return {path: size for crawl in self.crawls for path, size in crawl.archives.items()}


class Surveyor:
    """One for all threads of a process."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._last: CollectionSurvey | None = None
        self._next: Future[CollectionSurvey] | None = None

    def latest(self, *, patience: float) -> CollectionSurvey | None:
        """The newest there is within `patience` seconds; None while the first is made."""
        with self._lock:
            if self._next is None and not self._is_fresh():
                self._next = self._begin()
            running = self._next
        try:
            return running.result(timeout=patience) if running else self._last
        except NotYet:
            return self._last

    def _begin(self) -> Future[CollectionSurvey]:
        """In a thread that a server which is told to end does not wait for."""
        future: Future[CollectionSurvey] = Future()

        def work() -> None:
            try:
                self._last = made = survey_collection(self._site, before=self._last)
            except Exception as error:  # noqa: BLE001 - told to those who wait; who comes later tries again
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
    """What did not change since `before` is not counted again."""
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
        index.current()  # that it is sound as a whole: only some of it is counted
        figures = count_index(LocalStorage(crawl.zipnum), most=most)
    except WebmillError as error:  # it is told on the page; the next look tries again
        return msgspec.structs.replace(view, problem=message_of(error, crawl.root))
    size = sum(size_of(path) for path in islice(crawl.zipnum.iterdir(), MOST_FILES))
    return msgspec.structs.replace(view, figures=figures, index_bytes=size)


def etag_of(crawl: Collection) -> str:
    """Of the index; empty without one."""
    try:
        return LocalStorage(crawl.zipnum).stat(SUMMARY).etag
    except NotFound:
        return ""


def archives_of(crawl: Collection) -> Iterator[tuple[str, int]]:
    for key in find_archives(crawl, refuse=lambda *_: None):
        yield key, size_of(crawl.root / key)


def size_of(path: Path) -> int:
    """0 for a file that has gone meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0

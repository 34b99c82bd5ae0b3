"""The page list of a WACZ: title, text and date of each page, by which players list and search them.

    pages/pages.jsonl        the newest capture of each page
    pages/extraPages.jsonl   their earlier captures

Titles and texts are read from the captures themselves, in a sandbox, so an export needs no other stage than the index.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.extract.capture import SANDBOX_FUNCTION, SANDBOX_LIMITS
from webmill.extract.recipe import CaptureInput, ExtractResult, Recipe
from webmill.formats import wacz
from webmill.formats.cdx.cdxj import CdxjLine
from webmill.formats.url.surt import surt
from webmill.infra.sandbox import Sandbox
from webmill.infra.storage.base import Readable
from webmill.model import CaptureRef, Document
from webmill.pipeline.export.wacz_writer import WaczWriter

log = logging.getLogger(__name__)

MAX_STORED = 32 << 20  # bytes of a record that is read for its text
MAX_TEXT = 100_000  # characters of a page: players hold the texts of all pages in memory
PLAIN = Recipe(extractor="plain")


class ListedPage(msgspec.Struct, frozen=True):
    """A capture of the page list, and where its record was before it was packed."""

    line: CdxjLine
    source: CaptureRef


@contextmanager
def listing_pages(
    package: WaczWriter, files: Readable, *, main_url: str | None, main_title: str | None, texts: bool
) -> Iterator[WaczPageList]:
    """Yield the page list of `package`, which gets it when the block ends well. `files` has the archives."""
    with (
        Sandbox(SANDBOX_FUNCTION, returns=ExtractResult, limits=SANDBOX_LIMITS) as sandbox,
        package.adding(wacz.EXTRA_PAGES, compressed=True) as earlier,
        package.adding(wacz.PAGES, compressed=True) as newest,
    ):
        newest.write(wacz.encode_pages_head("pages", "Pages", has_text=texts))
        earlier.write(wacz.encode_pages_head("extra-pages", "Earlier captures", has_text=texts))
        reader = PackedPageReader(files, sandbox) if texts else None
        pages = WaczPageList(newest, earlier, reader, main_url=main_url, main_title=main_title)
        yield pages
        pages.flush()


class PackedPageReader:
    """Reads the documents of pages, in a sandbox."""

    def __init__(self, files: Readable, sandbox: Sandbox[ExtractResult]) -> None:
        self._files, self._sandbox = files, sandbox

    def read(self, page: ListedPage) -> Document | None:
        """Return what the record holds; None, and a line in the log, when it cannot be read."""
        ref = page.source
        if not 0 < ref.length <= MAX_STORED:
            return None
        try:
            with self._files.open(ref.filename, start=ref.offset, length=ref.length) as stream:
                stored = stream.read(ref.length)
            mime = page.line.text("mime-detected") or page.line.text("mime")
            return self._sandbox.call(stored, capture=CaptureInput(ref=ref, recipe=PLAIN, mime=mime)).document
        except (BadInput, NotFound) as error:
            log.warning("a page is listed without its title and text: %s", error)
            return None


class WaczPageList:
    """Takes the captures of a package, those of one URL in a row, and writes those that are pages to its lists.

    `main_url` is the page that players open; without it, or when nothing of it is packed, the page with the shortest
    URL. Without a `reader` the lists have no texts, and only the title of that page.
    """

    def __init__(
        self,
        newest: IO[bytes],
        earlier: IO[bytes],
        reader: PackedPageReader | None,
        *,
        main_url: str | None,
        main_title: str | None,
    ) -> None:
        self._newest_list, self._earlier_list, self._reader = newest, earlier, reader
        self._wanted, self._main_title = surt(main_url) if main_url else None, main_title
        self._main: wacz.MainPage | None = None
        self._shortest: wacz.MainPage | None = None
        self._newest: ListedPage | None = None  # of the URL whose captures come in
        self._first = self._last = ""  # timestamps
        self.pages = self.captures = 0

    def add(self, line: CdxjLine, source: CaptureRef) -> None:
        """Take a capture; `source` is where its record was before it was packed."""
        self.captures += 1
        self._first, self._last = min(self._first or line.timestamp, line.timestamp), max(self._last, line.timestamp)
        self._consider_main(line)
        if not wacz.is_page(line):
            return
        page, before = ListedPage(line, source), self._newest
        if before and before.line.urlkey == line.urlkey and before.line.timestamp > line.timestamp:
            self._write(self._earlier_list, page)
            return
        if before:
            self._write(self._earlier_list if before.line.urlkey == line.urlkey else self._newest_list, before)
        self._newest = page

    def describe(self, title: str) -> wacz.PackageSummary:
        """Return what the package says of itself: its main page, and the number and the dates of its captures."""
        days = [wacz.format_date(moment)[:10] for moment in (self._first, self._last)]
        number = f"{self.captures:,} capture{'s' if self.captures != 1 else ''}"
        when = days[0] if days[0] == days[1] else " to ".join(days)
        return wacz.PackageSummary(title=title, description=f"{number}, {when}", main=self._main or self._shortest)

    def flush(self) -> None:
        """Write the last page."""
        if self._newest:
            self._write(self._newest_list, self._newest)

    def _consider_main(self, line: CdxjLine) -> None:
        """Remember the newest capture of the wanted URL, be it a revisit, and of the page with the shortest URL."""
        found = wacz.MainPage(url=line.text("url"), timestamp=line.timestamp)
        if line.urlkey == self._wanted and (line.is_revisit or line.text("status") == "200"):
            self._main = max(self._main or found, found, key=lambda page: page.timestamp)
        if wacz.is_page(line):
            self._shortest = _shorter(self._shortest or found, found)

    def _write(self, list_: IO[bytes], page: ListedPage) -> None:
        self.pages += 1
        document = self._reader.read(page) if self._reader else None
        known = self._main_title if page.line.urlkey == self._wanted else None
        title, text = (document.title, document.text) if document else (known, None)
        line = wacz.encode_page_line(page.line, number=self.pages, title=title, text=(text or "")[:MAX_TEXT])
        list_.write(line)


def _shorter(known: wacz.MainPage, found: wacz.MainPage) -> wacz.MainPage:
    """Return the page with the shorter URL; of the same URL, the newer capture."""
    if known.url == found.url:
        return max(known, found, key=lambda page: page.timestamp)
    return min(known, found, key=lambda page: (len(page.url), page.url))

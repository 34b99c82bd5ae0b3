"""The documents of a collection as a version: of each URL the newest capture that has text.

    heads ─▶ sorted by urlkey and time ─▶ which rows are the newest ─▶ those rows ─▶ blobs, items ─▶ version

Which they are, and what is published of a page whose bytes are archived under another address: newest.py.

Everything is read twice, so that no text is held or written but what is published. Memory: at most 32 MB for each of
the five lists to sort, a bit for each row, some MB of text on its way to the storage. On the disk of TMPDIR: about 120
bytes for each row, 300 for each item, and 500 more for each revisit.
"""

from __future__ import annotations

import logging
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.domains import registered_domain
from webmill.formats.urls import host_of, normalise
from webmill.infra.storage.base import Storage
from webmill.pipeline.publish.newest import Newest
from webmill.pipeline.publish.pages import Documents, Page
from webmill.pipeline.watch import Counter as Bar
from webmill.publish import history
from webmill.publish.nouns import Item, Problem, Scalar
from webmill.publish.runs import check_kind, committed, run_name
from webmill.publish.snapshot import Options, Publication, Published, utc_now

log = logging.getLogger(__name__)

KIND = "documents"
SOURCE = "documents"
FACETS = ("language", "domain")
PLACE = ("captured", "warc", "offset", "length")  # metadata: the capture that the content was first seen in
WRITERS = 8  # blobs on their way at once
MANY, MUCH = 16, 1 << 18  # pages, characters of text that one writer takes at once
TITLE = 300  # characters of a title in the index; the whole is in the content
_TOLD = 1000  # rows that are told one by one in errors.json

NO_ECHO: tuple[int, Page | None] = (-1, None)
Place: TypeAlias = tuple[str, int]  # a file and a row of it


class Found(msgspec.Struct):
    """What was read: rows by what became of them. `damaged`: files that could not be read to their end."""

    files: int = 0
    rows: Counter[str] = msgspec.field(default_factory=Counter)
    damaged: list[str] = []
    problems: list[Problem] = []
    starts: dict[str, int] = {}  # by file: the number of its first row, counted through all files

    def refuse(self, reason: str, message: str, *, where: str) -> None:
        self.rows[reason] += 1
        if len(self.problems) < _TOLD:
            self.problems.append(Problem(stage="documents", source=SOURCE, url=where, message=f"{reason}: {message}"))

    def give_up(self, file: str, error: BadInput) -> None:
        """Told once, though all files are read twice."""
        if file not in self.damaged:
            log.warning("a file of documents is damaged", extra={"file": file, "why": str(error)})
            self.damaged.append(file)
            self.refuse("bad_documents", error.message, where=file)


def publish_documents(
    storage: Storage,
    documents: Documents,
    *,
    options: Options,
    bar: Bar,
    now: Callable[[], datetime] = utc_now,
) -> tuple[Published, Found]:
    """`NotFound` when there are no documents. `Shrunk` when there are too few to be believed.

    When the live version holds the same already, none is made (`Published.is_new`), unless by `force`. A file that is
    damaged is told, and what earlier versions had and this one has not is then kept, as stale.
    """
    check_kind(storage, KIND, force=options.force)
    options = msgspec.structs.replace(options, carried=PLACE, even_if_same=options.force)
    started = now()  # what comes after this is for the next version
    files = documents.files()
    if not files:
        raise NotFound("no documents: no .parquet or .jsonl files here")
    found = Found(files=len(files))
    look_first = options.readers == 1 and history.head(storage) is not None
    run = run_name(KIND, started)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-publish-")))
        newest = choose(documents, files, found, folder)
        publication = stack.enter_context(
            Publication.begin(storage, options=options, now=now, run=run, started=started)
        )
        chosen = chosen_pages(documents, files, newest, found)
        pages = made(chosen, publication, facets=options.facets, look_first=look_first)
        for page, item in pages:
            add(publication, page, item, found)
            bar.advance()
        for problem in found.problems:
            publication.report(problem)
        if found.damaged:
            publication.keep_source(SOURCE)
        publication.counts.update({f"rows_{reason}": count for reason, count in found.rows.items()})
        published = committed(publication)
    return published, found


# --- which rows ---


def choose(documents: Documents, files: Iterable[str], found: Found, folder: Path) -> Newest:
    newest = Newest(folder)
    for ordinal, place, page in every(documents, files, found, heads=True):
        if isinstance(page, BadInput):
            found.refuse("bad_row", page.message, where=f"{place[0]}#{place[1]}")
        elif reason := page.reason_against():
            found.rows[reason] += 1
        else:
            newest.add(page, ordinal)
    newest.choose()
    found.rows.update(newest.counts)
    return newest


def every(
    documents: Documents, files: Iterable[str], found: Found, *, heads: bool = False
) -> Iterator[tuple[int, Place, Page | BadInput]]:
    """All rows of all files, each under the same number each time. A file that is not whole ends where it cannot be
    read on: the second time maybe earlier, since text may be damaged where heads are not.
    """
    start = 0
    for key in files:
        start, number = found.starts.setdefault(key, start), -1
        try:
            for number, page in enumerate(documents.pages(key, heads=heads)):
                yield start + number, (key, number), page
        except BadInput as error:
            found.give_up(key, error)
        start += number + 1


# --- their content ---


def made(
    chosen: Iterable[Page],
    publication: Publication,
    *,
    facets: tuple[str, ...],
    look_first: bool,
) -> Iterator[tuple[Page, Item | BadInput]]:
    """`look_first`: here, and only what is not there yet is given to the writers. Threads that ask a near storage one
    short question after the other spend more time on waiting for each other.
    """

    def put(pages: list[Page]) -> list[Item | BadInput]:
        return [put_page(page, publication, facets=facets) for page in pages]

    with ThreadPoolExecutor(WRITERS, thread_name_prefix="webmill-blobs") as writers:
        on_the_way: deque[tuple[list[Page], Future[list[Item | BadInput]]]] = deque()
        for pages in chunks(chosen):
            if look_first:
                pages = yield from there(pages, publication, facets=facets)  # the others
            if pages:
                on_the_way.append((pages, writers.submit(put, pages)))
            if len(on_the_way) > 4 * WRITERS:
                first, items = on_the_way.popleft()
                yield from zip(first, items.result(), strict=True)
        for pages, items in on_the_way:
            yield from zip(pages, items.result(), strict=True)


def there(
    pages: list[Page], publication: Publication, *, facets: tuple[str, ...]
) -> Generator[tuple[Page, Item | BadInput], None, list[Page]]:
    """Those whose content is there already; returns the others."""
    others = []
    for page in pages:
        try:
            hash_ = publication.find(content_of(page))
        except BadInput as error:
            yield page, error
            continue
        if hash_:
            yield page, item_of(page, hash_, facets=facets)
        else:
            others.append(page)
    return others


def put_page(page: Page, publication: Publication, *, facets: tuple[str, ...]) -> Item | BadInput:
    try:
        return item_of(page, publication.put(content_of(page)), facets=facets)
    except BadInput as error:
        return error


def chunks(pages: Iterable[Page]) -> Iterator[list[Page]]:
    chunk: list[Page] = []
    size = 0
    for page in pages:
        chunk.append(page)
        size += len(page.text or "")
        if size >= MUCH or len(chunk) == MANY:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def add(publication: Publication, page: Page, item: Item | BadInput, found: Found) -> None:
    try:
        if isinstance(item, BadInput):
            raise item
        publication.add(item)
    except BadInput as error:  # text that no UTF-8 can hold, an address of a megabyte
        found.refuse("bad_row", error.message, where=ascii(page.url)[:500])
    else:
        found.rows["published"] += 1


def chosen_pages(documents: Documents, files: Iterable[str], newest: Newest, found: Found) -> Iterator[Page]:
    echoes = newest.echoes()
    at, echo = next(echoes, NO_ECHO)
    for ordinal, place, page in every(documents, files, found):
        while echo and at < ordinal:  # the row that has its text could not be read again
            found.rows["no_text"] += 1
            at, echo = next(echoes, NO_ECHO)
        if isinstance(page, Page):
            if ordinal in newest:
                yield page
            while echo and at == ordinal:
                yield page.under(echo)
                at, echo = next(echoes, NO_ECHO)
        elif ordinal in newest or at == ordinal:  # its head was right
            found.refuse("bad_row", page.message, where=f"{place[0]}#{place[1]}")
    if echo:
        found.rows["no_text"] += 1 + sum(1 for _ in echoes)


def content_of(page: Page) -> dict[str, str | None]:
    return {"text": page.text, "title": page.title, "language": page.language}


def item_of(page: Page, hash_: str, *, facets: tuple[str, ...]) -> Item:
    """When and where its content was first seen is kept from before while the content is the same (`Options.carried`),
    so that a page that was only visited again is the same item.
    """
    metadata: dict[str, Scalar] = {"title": (page.title or "")[:TITLE], "url": page.url}
    if page.moment:
        metadata["captured"] = page.moment
    if place := page.place:
        metadata |= zip(PLACE[1:], place, strict=True)
    return Item(page.urlkey, SOURCE, hash_, facets=facets_of(page, facets), metadata=metadata)


def facets_of(page: Page, facets: tuple[str, ...]) -> dict[str, str]:
    known = {"language": page.language or "", "domain": domain_of(page.url or "") if "domain" in facets else ""}
    return {facet: known[facet] for facet in facets if known.get(facet)}


def domain_of(url: str) -> str:
    try:
        host = host_of(normalise(url))
    except BadInput:
        return ""
    return registered_domain(host) or host

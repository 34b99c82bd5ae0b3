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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.infra.storage.base import Storage
from webmill.model import CAPTURE_COLUMNS, CaptureRef, Document, capture_columns, columns
from webmill.pipeline.documents import DocumentFiles
from webmill.pipeline.progress import ProgressBar
from webmill.pipeline.publish.newest import HEADS, NewestCaptures, reason_to_skip, urlkey_of, with_capture
from webmill.publish import history
from webmill.publish.blobs import Json
from webmill.publish.publication import Publication, PublishOptions, PublishResult, utc_now
from webmill.publish.runs import check_kind, commit_with_rebase, new_run_name
from webmill.publish.types import PublishedItem, PublishProblem, Scalar

log = logging.getLogger(__name__)

KIND = "documents"
SOURCE = "documents"
CONTENT = tuple(column.name for column in columns() if column.content)
FACETS = (*(column.name for column in columns() if column.facet), "domain")
FIRST_SEEN = ("date", *CAPTURE_COLUMNS)  # of the capture that the content was first seen in
READ = frozenset({*HEADS, *CONTENT, *FACETS})
WRITERS = 8  # blobs on their way at once
GROUP_DOCUMENTS, GROUP_CHARACTERS = 16, 1 << 18  # pages, characters of text that one writer takes at once
TITLE_CHARACTERS = 300  # characters of a title in the index; the whole is in the content
MAX_PROBLEMS = 1000  # rows that are told one by one in errors.json

NO_REPEATED: tuple[int, CaptureRef | None] = (-1, None)
NumberedRow: TypeAlias = tuple[int, str, Document | BadInput]  # through all files; the file and row, as it is told


class DocumentsRead(msgspec.Struct):
    """The rows that were read, by what became of them. `damaged` are files that could not be read to their end."""

    files: int = 0
    rows: Counter[str] = msgspec.field(default_factory=Counter)
    damaged: list[str] = []
    problems: list[PublishProblem] = []
    starts: dict[str, int] = {}  # by file: the number of its first row, counted through all files

    def refuse(self, reason: str, message: str, *, where: str) -> None:
        self.rows[reason] += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(
                PublishProblem(stage="documents", source=SOURCE, url=where, message=f"{reason}: {message}")
            )

    def give_up(self, file: str, error: BadInput) -> None:
        """Count a damaged file, once, though all files are read twice."""
        if file not in self.damaged:
            log.warning("a file of documents is damaged", extra={"file": file, "why": str(error)})
            self.damaged.append(file)
            self.refuse("bad_documents", error.message, where=file)


def publish_documents(
    storage: Storage,
    documents: DocumentFiles,
    *,
    options: PublishOptions,
    bar: ProgressBar,
    now: Callable[[], datetime] = utc_now,
) -> tuple[PublishResult, DocumentsRead]:
    """Publish documents as a version. `NotFound`: there are none. `VersionShrunk`: there are far too few.

    When the live version holds the same already, none is made (`PublishResult.is_new`), unless by `force`. A file
    that is damaged is counted; what earlier versions had and this one lacks is then kept, as stale.
    """
    check_kind(storage, KIND, force=options.force)
    options = msgspec.structs.replace(options, carried=FIRST_SEEN, even_if_same=options.force)
    started = now()  # what comes after this is for the next version
    files = documents.files()
    if not files:
        raise NotFound("no documents: no .parquet or .jsonl files here")
    found = DocumentsRead(files=len(files))
    look_first = options.readers == 1 and history.read_head(storage) is not None
    run = new_run_name(KIND, started)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-publish-")))
        newest = choose_newest(documents, files, found, folder)
        publication = stack.enter_context(
            Publication.begin(storage, options=options, now=now, run=run, started=started)
        )
        chosen = read_chosen(documents, files, newest, found)
        for document, item in store_documents(chosen, publication, facets=options.facets, look_first=look_first):
            add_item(publication, document, item, found)
            bar.advance()
        for problem in found.problems:
            publication.report(problem)
        if found.damaged:
            publication.keep_source(SOURCE)
        publication.counts.update({f"rows_{reason}": count for reason, count in found.rows.items()})
        published = commit_with_rebase(publication)
    return published, found


# --- which rows ---


def choose_newest(documents: DocumentFiles, files: Iterable[str], found: DocumentsRead, folder: Path) -> NewestCaptures:
    newest = NewestCaptures(folder)
    for ordinal, row, document in read_rows(documents, files, found, read=HEADS):
        if isinstance(document, BadInput):
            found.refuse("bad_row", document.message, where=row)
        elif reason := reason_to_skip(document):
            found.rows[reason] += 1
        else:
            newest.add(document, ordinal)
    newest.choose()
    found.rows.update(newest.counts)
    return newest


def read_rows(
    documents: DocumentFiles, files: Iterable[str], found: DocumentsRead, *, read: Collection[str]
) -> Iterator[NumberedRow]:
    """Yield all rows of all files, each under the same number each time. A file that is not whole ends where it cannot
    be read on: the second time maybe earlier, since text may be damaged where heads are not.
    """
    start = 0
    for key in files:
        start, number = found.starts.setdefault(key, start), -1
        try:
            for number, document in enumerate(documents.read(key, columns=read)):
                yield start + number, f"{key}#{number}", document
        except BadInput as error:
            found.give_up(key, error)
        start += number + 1


# --- their content ---


def store_documents(
    chosen: Iterable[Document],
    publication: Publication,
    *,
    facets: tuple[str, ...],
    look_first: bool,
) -> Iterator[tuple[Document, PublishedItem | BadInput]]:
    """Store the contents. `look_first`: look here, and give only new ones to the writers: threads that ask a near
    storage one short question after the other spend more time on waiting for each other.
    """

    def put(some: list[Document]) -> list[PublishedItem | BadInput]:
        return [put_document(document, publication, facets=facets) for document in some]

    with ThreadPoolExecutor(WRITERS, thread_name_prefix="webmill-blobs") as writers:
        on_the_way: deque[tuple[list[Document], Future[list[PublishedItem | BadInput]]]] = deque()
        for some in group_documents(chosen):
            if look_first:
                some = yield from find_stored(some, publication, facets=facets)  # the others
            if some:
                on_the_way.append((some, writers.submit(put, some)))
            if len(on_the_way) > 4 * WRITERS:
                first, items = on_the_way.popleft()
                yield from zip(first, items.result(), strict=True)
        for some, items in on_the_way:
            yield from zip(some, items.result(), strict=True)


def find_stored(
    documents: list[Document], publication: Publication, *, facets: tuple[str, ...]
) -> Generator[tuple[Document, PublishedItem | BadInput], None, list[Document]]:
    """Yield those whose content is there already; return the others."""
    others = []
    for document in documents:
        try:
            hash_ = publication.find(blob_content(document))
        except BadInput as error:
            yield document, error
            continue
        if hash_:
            yield document, make_item(document, hash_, facets=facets)
        else:
            others.append(document)
    return others


def put_document(document: Document, publication: Publication, *, facets: tuple[str, ...]) -> PublishedItem | BadInput:
    try:
        return make_item(document, publication.put(blob_content(document)), facets=facets)
    except BadInput as error:
        return error


def group_documents(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.text or "")
        if size >= GROUP_CHARACTERS or len(chunk) == GROUP_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def add_item(
    publication: Publication, document: Document, item: PublishedItem | BadInput, found: DocumentsRead
) -> None:
    try:
        if isinstance(item, BadInput):
            raise item
        publication.add(item)
    except BadInput as error:  # text that no UTF-8 can hold, an address of a megabyte
        found.refuse("bad_row", error.message, where=ascii(document.url)[:500])
    else:
        found.rows["published"] += 1


def read_chosen(
    documents: DocumentFiles, files: Iterable[str], newest: NewestCaptures, found: DocumentsRead
) -> Iterator[Document]:
    echoes = newest.echoes()
    at, echo = next(echoes, NO_REPEATED)
    for ordinal, row, document in read_rows(documents, files, found, read=READ):
        while echo and at < ordinal:  # the row that has its text could not be read again
            found.rows["no_text"] += 1
            at, echo = next(echoes, NO_REPEATED)
        if isinstance(document, Document):
            if ordinal in newest:
                yield document
            while echo and at == ordinal:
                yield with_capture(document, echo)
                at, echo = next(echoes, NO_REPEATED)
        elif ordinal in newest or at == ordinal:  # its head was right
            found.refuse("bad_row", document.message, where=row)
    if echo:
        found.rows["no_text"] += 1 + sum(1 for _ in echoes)


def blob_content(document: Document) -> dict[str, Json]:
    """Return what its blob holds. Nothing stands for what is not there: a column that comes later changes no blob of a
    page that lacks it.
    """
    told = ((name, getattr(document, name)) for name in CONTENT)
    return {name: _as_json(value) for name, value in told if value not in (None, "", ())}


def _as_json(value: Any) -> Json:
    return value if type(value) is str else msgspec.to_builtins(value)


def make_item(document: Document, hash_: str, *, facets: tuple[str, ...]) -> PublishedItem:
    """Return the item of a document. When and where its content was first seen is kept while the content is the same
    (`PublishOptions.carried`), so that a page that was only visited again is the same item.
    """
    metadata: dict[str, Scalar] = {"title": (document.title or "")[:TITLE_CHARACTERS], "url": document.url}
    if date := document.date:
        metadata["date"] = msgspec.to_builtins(date.astimezone(UTC).replace(microsecond=0))
    metadata |= capture_columns({name: getattr(document, name) for name in CAPTURE_COLUMNS})
    return PublishedItem(
        urlkey_of(document), SOURCE, hash_, facets=document_facets(document, facets), metadata=metadata
    )


def document_facets(document: Document, facets: tuple[str, ...]) -> dict[str, str]:
    known = {
        name: registered_domain_of(document.url) if name == "domain" else getattr(document, name) for name in facets
    }
    return {name: value for name, value in known.items() if value}


def registered_domain_of(url: str) -> str:
    try:
        host = host_of(normalise(url))
    except BadInput:
        return ""
    return registered_domain(host) or host

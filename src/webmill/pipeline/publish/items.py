"""Documents as items of a version: rows are read, their content is stored under its hash, an item refers to it."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC
from typing import Any, TypeAlias

import msgspec

from webmill.errors import BadInput
from webmill.extract.cleaning import HTML
from webmill.formats.preferences.statements import SEARCH, TDM, TRAIN_AI
from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of, normalise
from webmill.model import CAPTURE_COLUMNS, Document, capture_columns, columns
from webmill.pipeline.documents import DocumentFiles
from webmill.pipeline.publish.newest import HEADS, urlkey_of
from webmill.publish.blobs import Json
from webmill.publish.publication import Publication
from webmill.publish.types import PublishedItem, PublishProblem, Scalar

log = logging.getLogger(__name__)

SOURCE = "documents"
CONTENT = tuple(column.name for column in columns() if column.content)
FACETS = (*(column.name for column in columns() if column.facet), "domain")
FIRST_SEEN = ("date", *CAPTURE_COLUMNS)  # of the capture that the content was first seen in
USAGES = {"usage_search": SEARCH, "usage_train_ai": TRAIN_AI, "usage_tdm": TDM}
READ = frozenset({*HEADS, *CONTENT, *FACETS, *USAGES, "license"})
WRITERS = 8  # blobs on their way at once
GROUP_DOCUMENTS, GROUP_CHARACTERS = 16, 1 << 18  # pages, characters of text that one writer takes at once
TITLE_CHARACTERS = 300  # characters of a title in the index; the whole is in the content
MAX_PROBLEMS = 1000  # rows that are told one by one in errors.json

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
    if usage := usage_of(document):
        metadata["usage"] = usage
    if document.mime and document.mime not in HTML:
        metadata["mime"] = document.mime
    if document.license:
        metadata["license"] = document.license
    metadata |= capture_columns({name: getattr(document, name) for name in CAPTURE_COLUMNS})
    return PublishedItem(
        urlkey_of(document), SOURCE, hash_, facets=document_facets(document, facets), metadata=metadata
    )


def usage_of(document: Document) -> str:
    """Return what the site of a page says of its use: `train-ai=n,search=y`; nothing for most."""
    said = ((usage, getattr(document, name)) for name, usage in USAGES.items())
    return ",".join(f"{usage}={'y' if allowed else 'n'}" for usage, allowed in said if allowed is not None)


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

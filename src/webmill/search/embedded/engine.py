"""The built-in engine: tantivy, in this process, in one folder. One process writes at a time, any number read.

The cursor is a document of its own, so that it changes in the same commit as the documents before it. Other forms of a
word (reports, reported) are looked up in the dictionary of the index when it is searched, by the stems of its
languages: nothing is stored for them, and a phrase stays exact.

Its files are compared with their checksums (`checksums.py`) when it is opened; a large one's meanwhile, in a thread.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import tantivy

from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable
from webmill.infra import atomic, lock
from webmill.infra.address import scheme_of
from webmill.infra.swap import refuse_foreign, replacing
from webmill.search.address import REPLACED
from webmill.search.base import (
    FACET_VALUES,
    MAX_HITS,
    MAX_OFFSET,
    FacetCount,
    IndexedDocument,
    SearchAnswer,
    SearchRequest,
    key_of,
)
from webmill.search.embedded.checksums import (
    IndexFileChecksum,
    IndexVerification,
    is_index_file,
    withdraw_checksums,
    write_checksums,
)
from webmill.search.embedded.query import TantivyTranslator
from webmill.search.embedded.schema import BUCKETS, build_schema, read_stored, register_analyzers, to_entry
from webmill.search.fields import COUNTABLE_FIELDS, fingerprint
from webmill.search.hits import HitMaker
from webmill.search.query import SearchQuery, format_query

FORMAT = fingerprint(4)  # of the schema; an index of another format must be rebuilt
HEAP = 128 << 20  # bytes buffered before they are written, by all threads
CURSOR = "\x00cursor"  # of the document that holds it; no key has a NUL
MAX_LANGUAGES = 100  # whose word forms are looked up
FACETS_AT_ONCE = 10_000  # facet values counted
DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
_SYSTEM_ERROR = re.compile(r"\(os error ([0-9]+)\)|\bcode: ([0-9]+)")  # as Rust writes it, in an error or in a panic
_WRITER_DIED = "index writer was killed"


def open_embedded(url: str, *, create: bool) -> EmbeddedEngine:
    return EmbeddedEngine(Path(scheme_of(url)[1]), create=create)


@contextmanager
def replacing_embedded(url: str) -> Iterator[str]:
    """Yield a folder to build an index in, which replaces the one at `url` when the block ends well.

    Misconfigured: there are files in the folder that are not of an index.
    """
    folder = Path(scheme_of(url)[1])
    with replacing(folder, beside=folder.parent / REPLACED, is_ours=is_index_file) as fresh:
        yield str(fresh)


class EmbeddedEngine:
    """`create`: make the index where there is none; else `NotFound`."""

    def __init__(self, folder: Path, *, create: bool = True, threads: int = 1, heap: int = HEAP) -> None:
        self._folder, self._threads, self._heap = folder, threads, heap
        self._schema = build_schema()
        self._writer: tantivy.IndexWriter | None = None
        self._checksums: dict[str, IndexFileChecksum] | None = None  # of the files before; None: nothing was changed
        self._locked = ExitStack()
        if create:
            atomic.make_folder(folder)
        self._verification = IndexVerification(folder)
        if not (folder / "meta.json").is_file():
            if not create:
                raise NotFound(f"no search index in {folder}")
            refuse_foreign(folder, is_index_file)
        with self._guarded():
            self._index = tantivy.Index(self._schema, path=str(self._place()))
            register_analyzers(self._index)
        self.cursor()

    def _place(self) -> Path:
        """Return where tantivy opens the index. It writes a lock file to read: if the folder takes none, in a folder of
        links to its files, which is there as long as this object. What is written later is not seen there.
        """
        if os.access(self._folder, os.W_OK):
            return self._folder
        links = Path(tempfile.mkdtemp(prefix="webmill-search-"))
        weakref.finalize(self, shutil.rmtree, links, ignore_errors=True)
        for file in self._folder.resolve().iterdir():
            if is_index_file(file.name) and not file.name.endswith(".lock"):
                (links / file.name).symlink_to(file)
        return links

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Raise what tantivy finds wrong with its files, which may be a panic, as an error that names the repair."""
        try:
            yield
        except BaseException as error:
            if not (_is_tantivy_error(error) or isinstance(error, KeyError | msgspec.MsgspecError)):
                raise
            raise self._passing(error) or self._damaged(error) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """The same for changes: nothing of what failed is kept, so that it can be tried again with a new writer."""
        try:
            yield
        except BaseException as error:
            if not _is_tantivy_error(error):
                raise
            cause = self._worker_error(error)
            self._writer = None
            raise self._passing(cause) or self._refused(cause) from cause

    def _worker_error(self, error: BaseException) -> BaseException:
        """Return what ended the thread of the writer, if that is why `error` was raised.

        Documents are written by a thread. If it has died, `add_document` says only that; `commit` says why.
        """
        if self._writer is None or _WRITER_DIED not in str(error):
            return error
        try:
            self._writer.commit()
        except BaseException as cause:
            if not _is_tantivy_error(cause):
                raise
            return cause
        return error

    def _passing(self, error: BaseException) -> Unavailable | Misconfigured | None:
        """Return the error for what is no fault of the files; None if it is one."""
        message = str(error)
        if "PermissionDenied" in message:
            return Misconfigured(
                f"{self._folder}: searching needs to write a lock file there; allow that, or search a copy"
            )
        found = _SYSTEM_ERROR.search(message)
        number = int(found[1] or found[2]) if found else getattr(error, "errno", None)
        if number in DISK_FULL:
            return Unavailable(f"the disk under the search index in {self._folder} is full: free some space")
        return Unavailable(f"{self._folder} cannot be used now: {error}") if number in EXHAUSTED else None

    def _outdated(self) -> BadInput:
        message = f"{self._folder} was made by another version of webmill: run `webmill search rebuild DIR`"
        return BadInput(message, reason="bad_search_index")

    def _damaged(self, error: BaseException) -> BadInput:
        if "schema" in str(error).lower():
            return self._outdated()
        return BadInput(
            f"{self._folder} is damaged ({error}): run `webmill search rebuild DIR`", reason="bad_search_index"
        )

    def _refused(self, error: BaseException) -> Unavailable:
        return Unavailable(f"cannot write to the search index in {self._folder}: {error}")

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        with self._writing():
            writer = self._begin()
            for id_ in removed:
                writer.delete_documents_by_term("key", key_of(id_))
            for document in changed:
                writer.delete_documents_by_term("key", document.key)
                writer.add_document(to_entry(document))
            if cursor is not None:
                writer.delete_documents_by_term("key", CURSOR)
                note = msgspec.msgpack.encode((FORMAT, cursor))
                writer.add_document(tantivy.Document(key=[CURSOR], stored=[note]))
            writer.commit()
        with self._guarded():
            self._index.reload()

    def clear(self) -> None:
        with self._writing():
            self._begin().delete_all_documents()
        self.apply((), (), cursor=None)

    def _begin(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._lock()
            self._writer = self._index.writer(heap_size=self._heap, num_threads=self._threads)
            self._writer.garbage_collect_files()  # left by a writer that was killed: their names would be reused
        return self._writer

    def _lock(self) -> None:
        """Keep other writers away until the checksums are written: tantivy's own lock goes with its writer."""
        if self._checksums is None:
            self._locked.enter_context(lock.exclusive(self._folder, "search", doing="writing to the search index"))
            self._checksums = withdraw_checksums(self._folder)

    def close(self) -> None:
        with self._locked:
            writer, self._writer = self._writer, None
            if writer:
                with self._writing():
                    writer.wait_merging_threads()
            if self._checksums is not None:
                write_checksums(self._folder, known=self._checksums)
            self._checksums = None

    def verify(self) -> None:
        """Compare every byte of the index with its checksums; `BadInput` names the file."""
        self._verification.wait()

    # --- contents ---

    def cursor(self) -> str | None:
        with self._guarded():
            searcher = self._index.searcher()
            found = searcher.search(self._term("key", CURSOR), limit=1).hits
            if not found:
                return None
            format_, cursor = msgspec.msgpack.decode(searcher.doc(found[0][1])["stored"][0], type=tuple[int | str, str])
        if format_ != FORMAT:
            raise self._outdated()
        return cursor

    def count(self) -> int:
        with self._guarded():
            return _total(self._index.searcher().search(self._term("is_document", True), limit=1))

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield keys and revisions; the names of one bucket are in memory at a time."""
        self.verify()
        searcher = self._index.searcher()
        limit = max(1, searcher.num_docs)
        for bucket in range(BUCKETS):
            with self._guarded():
                names = searcher.search(self._term("bucket", bucket), limit=limit, order_by_field="name").hits
            if not all(isinstance(name, str) for name, _ in names):
                raise self._damaged(ValueError("a name is missing"))
            for name, _ in names:
                key, _, revision = name.partition("\x00")
                yield key, revision

    def _term(self, field: str, value: object) -> tantivy.Query:
        return tantivy.Query.term_query(self._schema, field, value)

    # --- search ---

    def search(self, request: SearchRequest) -> SearchAnswer:
        self._verification.raise_damage()
        with self._guarded():
            searcher = self._index.searcher()
            languages = [language for language, _ in searcher.terms_with_prefix("language", "", limit=MAX_LANGUAGES)]
            translator = TantivyTranslator(self._schema, searcher, languages=languages)
            answer = _answer(searcher, translator, request, request.query)
            if answer.total == 0 and (correction := translator.corrected(request.query)):
                corrected = _answer(searcher, translator, request, correction)
                if corrected.total:
                    return msgspec.structs.replace(corrected, suggestion=format_query(correction))
            return answer


def _answer(
    searcher: tantivy.Searcher, translator: TantivyTranslator, request: SearchRequest, query: SearchQuery
) -> SearchAnswer:
    wanted = translator.translate(query, request.filters)
    limit, offset = max(1, min(request.limit, MAX_HITS)), max(0, min(request.offset, MAX_OFFSET))
    order: dict[str, Any] = {}
    if request.sort != "relevance":
        order = {"order_by_field": "date"}
        order["order"] = tantivy.Order.Asc if request.sort == "oldest" else tantivy.Order.Desc
    found = searcher.search(wanted, limit=limit, offset=offset, **order)
    make = HitMaker(request, query.terms, forms=translator.forms)
    hits = [make(read_stored(searcher, address), score=0.0 if order else score) for score, address in found.hits]
    return SearchAnswer(total=_total(found), hits=hits, facets=_counts(searcher, wanted, request.facets))


def _is_tantivy_error(error: BaseException) -> bool:
    return isinstance(error, ValueError | OSError) or type(error).__name__ == "PanicException"


def _total(found: tantivy.SearchResult) -> int:
    return int(found.count)  # type: ignore[attr-defined]  # missing in the stubs


def _counts(searcher: tantivy.Searcher, wanted: tantivy.Query, names: Sequence[str]) -> dict[str, list[FacetCount]]:
    fields = {COUNTABLE_FIELDS.get(name, "facet") for name in names}
    aggregations = {
        field: {"terms": {"field": field, "size": FACETS_AT_ONCE if field == "facet" else FACET_VALUES}}
        for field in fields
    }
    found = searcher.aggregate(wanted, aggregations) if aggregations else {}
    counts = {}
    for name in names:
        field, start = COUNTABLE_FIELDS.get(name, "facet"), "" if name in COUNTABLE_FIELDS else f"{name}="
        values = (value for value in found[field]["buckets"] if value["key"].startswith(start))
        counts[name] = [
            FacetCount(value["key"][len(start) :], value["doc_count"]) for value in islice(values, FACET_VALUES)
        ]
    return counts

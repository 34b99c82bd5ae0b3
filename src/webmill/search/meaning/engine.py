"""An engine that finds by meaning, too: it keeps the vectors of what it is given, and passes the rest on to another.

The cursor of that engine names the store of vectors, `VERSION|STORE`: so an index that has documents which were never
embedded, or by another model, or whose vectors were deleted, is known to be behind, and its next update compares it
with all of the live version. Then only what has no vectors yet is embedded. `search check` finds what else is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.search.base import (
    UNKNOWN_VERSION,
    IndexedDocument,
    SearchAnswer,
    SearchEngine,
    SearchRequest,
)
from webmill.search.embedded.checksums import REPAIR
from webmill.search.fields import content_of
from webmill.search.meaning.hybrid import HybridSearch
from webmill.search.meaning.model import SentenceModel
from webmill.search.meaning.passages import Passage, embedded_texts, spoken
from webmill.search.meaning.query import SpokenQuery
from webmill.search.meaning.scan import PassageScores
from webmill.search.meaning.vector_store import VectorReader, VectorWriter
from webmill.search.words_engine import STORE_MARK

PASSAGES_AT_ONCE = 64  # embedded, and then kept: more than these are never embedded again after a kill


class MeaningEngine:
    """`folder`: of the vectors of this model."""

    def __init__(self, engine: SearchEngine, *, folder: Path, model: SentenceModel) -> None:
        self._engine, self._folder, self._model = engine, folder, model
        self._writer: VectorWriter | None = None
        self._reader: VectorReader | None = None

    # --- changes ---

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        documents = list(changed)
        writer = self._write()
        self._embed(documents, writer)
        writer.sync()
        marked = None if cursor is None else f"{cursor}{STORE_MARK}{writer.note.id}"
        self._engine.apply(documents, removed, cursor=marked)

    def _write(self) -> VectorWriter:
        if self._writer is None:
            self._reader = None
            self._writer = VectorWriter(self._folder, dimensions=self._model.dimensions)
        return self._writer

    def _embed(self, documents: Iterable[IndexedDocument], writer: VectorWriter) -> None:
        waiting = []
        count = 0
        for document in {content_of(each.hash): each for each in documents}.values():
            key = bytes.fromhex(content_of(document.hash))
            if writer.has(key):
                continue
            passages, texts = embedded_texts(document)
            waiting.append((key, passages, texts))
            count += len(passages)
            if count >= PASSAGES_AT_ONCE:
                self._flush(waiting, writer)
                waiting, count = [], 0
        self._flush(waiting, writer)

    def _flush(self, waiting: list[tuple[bytes, list[Passage], list[str]]], writer: VectorWriter) -> None:
        if not waiting:
            return
        vectors = self._model.embed_documents([text for _, _, texts in waiting for text in texts])
        rows, at = [], 0
        for key, passages, _ in waiting:
            rows.append((key, passages, vectors[at : at + len(passages)]))
            at += len(passages)
        writer.append(rows)

    def clear(self) -> None:
        self._engine.clear()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        try:
            self._engine.close()
        finally:
            if writer:
                writer.close()

    # --- contents ---

    def cursor(self) -> str | None:
        """Return the cursor; if it was written without these vectors, that of an index of unknown contents."""
        found = self._engine.cursor()
        if found is None:
            return None
        cursor, _, store = found.partition(STORE_MARK)
        return cursor if store == self._store_id() else f"{UNKNOWN_VERSION}>{cursor.rpartition('>')[2]}"

    def _store_id(self) -> str:
        if self._writer:
            return self._writer.note.id
        reader = self._read()
        return reader.note.id if reader else "none"

    def _read(self) -> VectorReader | None:
        if self._reader is None:
            try:
                reader = VectorReader(self._folder)
            except NotFound:
                return None
            if reader.note.dimensions != self._model.dimensions:
                raise BadInput(f"not vectors of this model: {REPAIR}", reason="corrupt", source=str(self._folder))
            self._reader = reader
        return self._reader

    def keys(self) -> Iterator[tuple[str, str]]:
        """Yield keys and revisions; of a document without vectors no revision, so that it is given again."""
        has = self._has_vectors()
        for key, revision in self._engine.keys():  # noqa: SIM118  # no dict
            yield key, revision if has(revision.rpartition(".")[0]) else ""

    def _has_vectors(self) -> Callable[[str], bool]:
        """Return what tells whether the content of a hash was embedded."""
        if self._writer:
            writer = self._writer
            return lambda hash_: writer.has(bytes.fromhex(content_of(hash_)))
        reader = self._read()
        if reader is None:
            return lambda _: False
        reader.verify()
        known = reader.keys()
        return lambda hash_: bytes.fromhex(content_of(hash_)) in known

    def retain(self, hashes: Iterable[str]) -> int:
        """Drop the vectors of all but these contents; return how many contents there were."""
        wanted = {bytes.fromhex(content_of(hash_)) for hash_ in hashes}
        return self._write().retain(wanted.__contains__)

    def count(self) -> int:
        return self._engine.count()

    # --- search ---

    def search(self, request: SearchRequest) -> SearchAnswer:
        text = SpokenQuery.of(request.query).text if request.mode != "words" else ""
        if not text:  # nothing is said: what the query demands has no order
            return self._engine.search(msgspec.structs.replace(request, mode="words"))
        reader = self._read()
        if reader is None:
            raise Misconfigured("nothing was embedded with this model yet: run `webmill search update`")
        reader.raise_damage()
        text = spoken(text)
        if request.mode == "both" and not self._model.knows(text):  # its vectors would only disturb
            return HybridSearch(self._engine, request, None).answer()
        [vector] = self._model.embed_queries([text])
        return HybridSearch(self._engine, request, PassageScores(reader, vector)).answer()

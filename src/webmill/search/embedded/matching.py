"""Which of some documents a query finds: an index in memory, for documents that just came, or are gone already.

It answers as the search engine would that holds these documents alone. Other forms of words are found by the languages
of these documents; no spelling is corrected.
"""

from __future__ import annotations

from collections.abc import Iterable

import tantivy

from webmill.search.base import IndexedDocument, SearchFilters
from webmill.search.embedded.query import TantivyTranslator
from webmill.search.embedded.schema import build_schema, read_stored, register_analyzers, to_entry
from webmill.search.query import SearchQuery

HEAP = 16 << 20  # bytes; the least that tantivy takes is 15 MB


class DocumentMatcher:
    """Holds documents with different ids, to ask several queries about them."""

    def __init__(self, documents: Iterable[IndexedDocument]) -> None:
        self._schema, self._count = build_schema(), 0
        languages = set[str]()
        index = tantivy.Index(self._schema)
        register_analyzers(index)
        writer = index.writer(heap_size=HEAP, num_threads=1)
        for document in documents:  # one in memory at a time
            writer.add_document(to_entry(document))
            languages.add((document.language or "").lower())
            self._count += 1
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._searcher = index.searcher()
        self._languages = sorted(languages - {""})

    def matching(self, query: SearchQuery) -> set[str]:
        """Return the ids of the documents that a query finds."""
        wanted = TantivyTranslator(self._schema, self._searcher, languages=self._languages)
        found = self._searcher.search(wanted.translate(query, SearchFilters()), limit=max(1, self._count), count=False)
        return {read_stored(self._searcher, address).id for _, address in found.hits}

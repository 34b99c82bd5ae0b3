"""How a search is answered: like a document instead of by words, and with near-duplicates collapsed, if that is asked.

Any engine can answer so: both are made of its plain answers.
"""

from __future__ import annotations

from webmill.search.base import IndexedDocument, SearchAnswer, SearchRequest
from webmill.search.likeness import search_collapsed
from webmill.search.similar import Search, similar_to


def answer(
    search: Search, request: SearchRequest, *, like: IndexedDocument | None = None, collapse: bool = False
) -> SearchAnswer:
    """Answer a request; of `like`, the documents that are like it; with `collapse`, of near-duplicates the first."""
    asked = similar_to(search, like) if like else search
    return search_collapsed(asked, request) if collapse else asked(request)

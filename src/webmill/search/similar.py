"""More like this: a document as a query, of the words that stand for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import log
from typing import TypeAlias

from msgspec.structs import replace

from webmill.search.base import MAX_HITS, IndexedDocument, SearchAnswer, SearchRequest
from webmill.search.fields import tokenize
from webmill.search.query import AnyOf, SearchQuery, Term
from webmill.search.segmentation import RUN_PLACEHOLDER, split_runs

Search: TypeAlias = Callable[[SearchRequest], SearchAnswer]

CHARACTERS = 20_000  # of the text
TITLE_WEIGHT = 3
CANDIDATES, TERMS = 40, 16  # the most frequent words of the document, and those of them that are rare elsewhere
SHORTEST = 3  # letters
COMMON = 0.2  # of all documents: a word that so many have stands for none of them …
FEW = 10  # … but in a small collection


def similar_to(search: Search, document: IndexedDocument) -> Search:
    """Return a search for documents like this one, without it. Filters, demands, pages and mode are those of each
    request."""

    def uses(*terms: Term) -> int:
        answer = search(SearchRequest(query=SearchQuery(terms), limit=1, has_excerpts=False))
        return 0 if answer.suggestion else answer.total

    terms = characteristic_terms(document, uses, uses())

    def search_similar(request: SearchRequest) -> SearchAnswer:
        if not terms:
            return SearchAnswer(total=0, hits=[])
        offset = request.offset + 1 if request.offset else 0  # the document itself is the first
        query = SearchQuery([*request.query.parts, AnyOf(terms)])
        answer = search(replace(request, query=query, offset=offset, limit=min(request.limit + 1, MAX_HITS)))
        if answer.suggestion:
            return SearchAnswer(total=0, hits=[])
        hits = [hit for hit in answer.hits if hit.id != document.id][: request.limit]
        return replace(answer, total=max(len(hits), answer.total - 1), hits=hits)

    return search_similar


def characteristic_terms(document: IndexedDocument, uses: Callable[[Term], int], count: int) -> list[Term]:
    """Return the words that are frequent in a document and rare in others. `uses` tells how many documents have one."""
    found = Counter(_words(document.text or ""))
    for word in _words(document.title or ""):
        found[word] += TITLE_WEIGHT
    weighed, common = list[tuple[float, Term]](), list[tuple[float, Term]]()
    for word, times in found.most_common(CANDIDATES):
        term = Term(word, is_exact=True)
        used = uses(term)
        weight = (1 + log(times)) * log((count + 1) / (used + 0.5))
        (weighed if used <= max(COMMON * count, FEW) else common).append((weight, term))
    return [term for _, term in sorted(weighed or common, key=lambda pair: -pair[0])[:TERMS]]


def _words(text: str) -> list[str]:
    text = text[:CHARACTERS]
    pairs = [run[at : at + 2] for is_run, run in split_runs(text) if is_run for at in range(len(run) - 1)]
    words = [word for word in tokenize(text) if len(word) >= SHORTEST and word != RUN_PLACEHOLDER]
    return [*words, *pairs]

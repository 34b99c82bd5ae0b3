"""What a query may become: titles of documents that have its words, the last of which may be unfinished."""

from __future__ import annotations

from collections.abc import Callable

from webmill.search.base import SearchAnswer, SearchRequest
from webmill.search.query import SearchQuery, Term, parse

MOST = 8  # suggestions
READ = 30  # documents whose titles are read
LONGEST = 200  # characters of what was typed, and of a title


def suggest_titles(search: Callable[[SearchRequest], SearchAnswer], typed: str) -> list[str]:
    """Return titles, the best first, each once; nothing for less than two characters."""
    typed = typed[:LONGEST]
    words = [term for term in parse(typed).terms if term.field in ("", "title")]
    if len("".join(term.text for term in words)) < 2:
        return []
    is_finished = typed[-1:].isspace()
    wanted = [
        Term(term.text, "title", is_phrase=term.is_phrase, is_prefix=not is_finished and term is words[-1])
        for term in words
    ]
    answer = search(SearchRequest(query=SearchQuery(wanted), limit=READ, has_excerpts=False))
    if answer.suggestion:
        return []
    titles = (" ".join((hit.document.title or "").split())[:LONGEST] for hit in answer.hits)
    return [*{title.casefold(): title for title in titles if title}.values()][:MOST]

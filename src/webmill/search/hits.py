"""A document that was found, as it is shown."""

from __future__ import annotations

from webmill.search.base import TEXT_KEPT, Document, Hit
from webmill.search.snippets import Sought, mark, snippet


def hit_of(document: Document, *, score: float, pattern: Sought | None) -> Hit:
    return Hit(
        id=document.id,
        hash=document.hash,
        version=document.version,
        score=score,
        title=mark(document.title, pattern),
        snippet=snippet(document.text[:TEXT_KEPT], pattern),
        url=document.url,
        language=document.language,
        date=document.date,
        facets=document.facets,
        capture=document.capture,
    )

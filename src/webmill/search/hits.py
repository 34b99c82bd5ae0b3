"""Search hits, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_type_hints

import msgspec
from msgspec.structs import replace

from webmill.model import CaptureRef, Document
from webmill.search.base import TEXT_KEPT, FacetCount, HighlightedText, Hit, IndexedDocument, SearchMode, SearchRequest
from webmill.search.fields import SHOWN_COLUMNS, content_of
from webmill.search.query import Term
from webmill.search.snippets import HighlightPattern, highlight, highlight_pattern, make_snippet

_NO_TEXT = HighlightedText("")
_HINTS = get_type_hints(Document, include_extras=True)
_REPLY_COLUMNS = [(column.name, _HINTS[column.name]) for column in SHOWN_COLUMNS if column.name != "title"]


def hit_type(name: str, capture: type[CaptureRef]) -> type[msgspec.Struct]:
    """Return the type of a hit as JSON: it has every column of a document that is shown."""
    return msgspec.defstruct(
        name,
        [
            ("id", str),
            ("version", str),
            ("hash", str),
            ("title", HighlightedText),
            ("snippet", HighlightedText),
            *_REPLY_COLUMNS,
            ("facets", dict[str, str]),
            ("score", float),
            ("matched", SearchMode),
            ("similar", int),
            ("capture", capture | None),
        ],
        frozen=True,
        kw_only=True,
        module=__name__,
    )


HitReply = hit_type("HitReply", CaptureRef)


class AnswerReply(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of `webmill search --json`."""

    total: int
    hits: list[HitReply]  # type: ignore[valid-type]  # which fields it has is known when it is made
    facets: dict[str, list[FacetCount]] = {}
    suggestion: str = ""


def make_bare_hit(document: IndexedDocument, *, score: float) -> Hit:
    """Return a hit without excerpts."""
    return Hit(document=replace(document, text=None), score=score, title=_NO_TEXT, snippet=_NO_TEXT)


class HitMaker:
    """Makes the hits of a request from the documents that an engine has found."""

    def __init__(self, request: SearchRequest, terms: Iterable[Term], *, forms: Iterable[str]) -> None:
        self._pattern = highlight_pattern(terms, also=forms) if request.has_excerpts else None
        self._passages, self._has_excerpts = request.passages, request.has_excerpts

    def __call__(self, document: IndexedDocument, *, score: float) -> Hit:
        if not self._has_excerpts:
            return make_bare_hit(document, score=score)
        passage = self._passages.get(content_of(document.hash)) if self._passages else None
        return make_hit(document, score=score, pattern=self._pattern, passage=passage)


def make_hit(
    document: IndexedDocument,
    *,
    score: float,
    pattern: HighlightPattern | None,
    passage: tuple[int, int] | None = None,
) -> Hit:
    """Return a hit. `passage`: start and length of what the snippet is cut from."""
    start, length = passage or (0, TEXT_KEPT)
    return Hit(
        document=replace(document, text=None),
        score=score,
        title=highlight(document.title or "", pattern),
        snippet=make_snippet((document.text or "")[start : min(start + length, TEXT_KEPT)], pattern),
        capture=document.capture if document.warc_filename else None,
    )


def make_hit_reply(hit: Hit, *, capture: CaptureRef | None, kind: type[msgspec.Struct] = HitReply) -> msgspec.Struct:
    found = hit.document
    return kind(
        id=found.id,
        version=found.version,
        hash=found.hash,
        title=hit.title,
        snippet=hit.snippet,
        facets=found.facets,
        score=hit.score,
        matched=hit.matched,
        similar=hit.similar,
        capture=capture,
        **{name: getattr(found, name) for name, _ in _REPLY_COLUMNS},
    )

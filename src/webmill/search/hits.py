"""Search hits, for people and for programs."""

from __future__ import annotations

from typing import get_type_hints

import msgspec
from msgspec.structs import replace

from webmill.model import CaptureRef, Document
from webmill.search.base import TEXT_KEPT, FacetCount, HighlightedText, Hit, IndexedDocument
from webmill.search.fields import SHOWN_COLUMNS
from webmill.search.snippets import HighlightPattern, highlight, make_snippet

_HINTS = get_type_hints(Document, include_extras=True)
_REPLY_COLUMNS = [(column.name, _HINTS[column.name]) for column in SHOWN_COLUMNS if column.name != "title"]
# A hit as JSON: it has every column of a document that is shown.
HitReply = msgspec.defstruct(
    "HitReply",
    [
        ("id", str),
        ("version", str),
        ("hash", str),
        ("title", HighlightedText),
        ("snippet", HighlightedText),
        *_REPLY_COLUMNS,
        ("facets", dict[str, str]),
        ("score", float),
        ("capture", CaptureRef | None),
    ],
    frozen=True,
    kw_only=True,
    module=__name__,
)


class AnswerReply(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of `webmill search --json`."""

    total: int
    hits: list[HitReply]  # type: ignore[valid-type]  # which fields it has is known when it is made
    facets: dict[str, list[FacetCount]] = {}
    suggestion: str = ""


def make_hit(document: IndexedDocument, *, score: float, pattern: HighlightPattern | None) -> Hit:
    return Hit(
        document=replace(document, text=None),
        score=score,
        title=highlight(document.title or "", pattern),
        snippet=make_snippet((document.text or "")[:TEXT_KEPT], pattern),
        capture=document.capture if document.warc_filename else None,
    )


def make_hit_reply(hit: Hit, *, capture: CaptureRef | None) -> msgspec.Struct:
    found = hit.document
    return HitReply(
        id=found.id,
        version=found.version,
        hash=found.hash,
        title=hit.title,
        snippet=hit.snippet,
        facets=found.facets,
        score=hit.score,
        capture=capture,
        **{name: getattr(found, name) for name, _ in _REPLY_COLUMNS},
    )

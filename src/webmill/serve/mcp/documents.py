"""The tools that find and read published documents."""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput, NotFound, WrongUse
from webmill.search.base import MAX_OFFSET, Hit
from webmill.serve.api.cursors import fitting, make_cursor, read_cursor
from webmill.serve.api.documents import find_entry
from webmill.serve.api.query import read_day
from webmill.serve.api.search import FoundHits
from webmill.serve.api.search_params import SearchParams
from webmill.serve.api.untrusted import LONGEST_EXCERPT, LONGEST_TITLE, TEXT_PART, clean, clip, fact
from webmill.serve.mcp.arguments import ReadArguments, SearchArguments
from webmill.serve.mcp.citations import cite_content, cite_item, id_of
from webmill.serve.mcp.opened import OpenedCollection
from webmill.serve.mcp.replies import ArchivedText, FoundDocument, FoundDocuments, ReadText

LARGEST = 64 << 20  # bytes of a document that is read in parts


class Offset(msgspec.Struct, frozen=True, array_like=True):
    """How many were given before."""

    number: int = 0


class VersionOffset(msgspec.Struct, frozen=True, array_like=True):
    """The version of the first part: later parts are of the same."""

    version: str
    number: int


def search(asked: OpenedCollection, arguments: SearchArguments) -> FoundDocuments:
    place = read_cursor(arguments, Offset) or Offset()
    params = SearchParams(
        q=arguments.query,
        languages=tuple(arguments.languages),
        sites=tuple(arguments.sites),
        since=read_day(arguments.since),
        until=read_day(arguments.until),
        mode=arguments.mode,
        sort=arguments.sort,
        offset=min(max(0, place.number), MAX_OFFSET),
        limit=arguments.limit,
    )
    found = asked.reader.search.find(params)
    results = list(fitting(found_document(asked, hit) for hit in found.answer.hits))
    return FoundDocuments(
        total=found.answer.total,
        results=results,
        suggestion=clip(found.answer.suggestion, LONGEST_TITLE),
        behind=found.behind,
        next_cursor=_next_page(arguments, found, given=len(results)),
    )


def _next_page(arguments: SearchArguments, found: FoundHits, *, given: int) -> str | None:
    reached = found.params.offset + given
    return make_cursor(arguments, Offset(reached)) if given and reached < found.reachable else None


def found_document(asked: OpenedCollection, hit: Hit) -> FoundDocument:
    document = hit.document
    return FoundDocument(
        id=document.id,
        citation=cite_content(
            asked,
            document.url,
            at=document.date,
            version=document.version,
            content_hash=document.hash,
            filename=document.warc_filename,
        ),
        language=fact("language", document.language) or None,
        score=hit.score,
        untrusted=ArchivedText(title=clip(hit.title.text, LONGEST_TITLE), text=clip(hit.snippet.text, LONGEST_EXCERPT)),
    )


def read_document(asked: OpenedCollection, arguments: ReadArguments) -> ReadText:
    if bool(arguments.id) == bool(arguments.url):
        raise WrongUse("give either `id`, from another answer, or `url`")
    place = read_cursor(arguments, VersionOffset) or VersionOffset(arguments.version, 0)
    id_ = arguments.id or id_of(arguments.url)
    asked.site.closed.refuse_document(id_)
    try:
        entry = find_entry(asked.reader.published, id_, version=place.version, largest=LARGEST)
    except NotFound as error:
        raise NotFound(
            f"{error}; `search` finds documents, `capture_at` reads captures that are not published"
        ) from None
    text = clean(entry.text)
    version = entry.version.version
    part, following = cut_part(text, place.number)
    return ReadText(
        id=entry.item.id,
        citation=cite_item(asked, entry.item, version=version, url=entry.url),
        language=fact("language", entry.language) or None,
        characters=len(text),
        position=place.number,
        problem="" if entry.content is not None else "this document is too large to be read in parts",
        untrusted=ArchivedText(title=clip(entry.title, LONGEST_TITLE), text=part),
        next_cursor=make_cursor(arguments, VersionOffset(version, following)) if following else None,
    )


def cut_part(text: str, start: int) -> tuple[str, int | None]:
    """Return a part of a text, and where the next one begins; None at the end."""
    if start < 0 or start > len(text):
        raise BadInput("this cursor is behind the end of the text", reason="bad_cursor")
    end = start + TEXT_PART
    return text[start:end], end if end < len(text) else None

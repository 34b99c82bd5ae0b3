"""Publish what has changed: the version before, and the documents that have come since it was made.

    new files ─▶ their heads ─▶ which pages choose another capture ─▶ those rows ─▶ blobs, items ─▶ version

The result is that of reading everything, byte by byte. `NotIncremental` says why that must be done instead.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra.storage.base import Storage
from webmill.model import Document
from webmill.pipeline.documents import DocumentFiles, PartStat
from webmill.pipeline.progress import ProgressBar
from webmill.pipeline.publish.items import READ, DocumentsRead, add_item, read_rows, store_documents
from webmill.pipeline.publish.newest import (
    HEADS,
    NO_DIGEST,
    read_head,
    reason_to_skip,
    to_capture,
    urlkey_of,
    with_capture,
)
from webmill.pipeline.publish.page_state import (
    TEXT,
    PageCapture,
    PageChoice,
    PageState,
    choose_capture,
    join_states,
    state_of,
)
from webmill.pipeline.publish.publish_state import ROW_BITS, PublishState, StateSummary
from webmill.publish import history
from webmill.publish.publication import BaseReplaced, Publication, PublishOptions, PublishResult
from webmill.publish.runs import commit_with_rebase

log = logging.getLogger(__name__)

MAX_ROWS = 50_000  # new rows that are held in memory; reading everything needs less for more


class NotIncremental(Exception):
    """Everything must be read, for this reason."""


class PageMoves(msgspec.Struct, frozen=True):
    """What new rows do to the pages: their new states, texts by digest, and what is chosen before and after."""

    pages: dict[bytes, PageState]
    texts: dict[bytes, int]
    choices: dict[bytes, tuple[PageChoice | None, PageChoice]]

    def chosen(self) -> Iterator[PageChoice]:
        """Yield what is chosen of pages that chose something else before."""
        for before, after in self.choices.values():
            if before is None or (before.place, before.head) != (after.place, after.head):
                yield after


def publish_changed(
    storage: Storage,
    documents: DocumentFiles,
    state: PublishState,
    *,
    parts: dict[str, PartStat],
    recipe: str,
    options: PublishOptions,
    begin: Callable[[], Publication],
    bar: ProgressBar,
) -> tuple[PublishResult, DocumentsRead]:
    """Publish the documents whose files the state does not know. `begin` begins the publication."""
    try:
        summary = usable_summary(storage, state, parts=parts, recipe=recipe)
        new = number_parts(state, parts)
        found = DocumentsRead(files=len(parts), rows=Counter(summary.counts))
        moves = find_moves(state, read_captures(documents, new, found), names=state.part_names() | new)
        count_moves(found, moves)
        with begin() as publication:
            publication.build_on(summary.version)
            for urlkey, (before, after) in moves.choices.items():
                if before and before.place is not None and after.place is None:
                    publication.remove(urlkey.decode())
            chosen = read_chosen(documents, moves.chosen(), state.part_names() | new)
            stored = store_documents(chosen, publication, facets=options.facets, look_first=True)
            for document, item in stored:
                add_item(publication, document, item, found)
                bar.advance()
            if found.problems:
                raise NotIncremental("a row cannot be published")
            publication.counts.update({f"rows_{reason}": count for reason, count in found.rows.items()})
            published = commit_with_rebase(publication)
    except (BadInput, NotFound, BaseReplaced, UnicodeError) as error:
        raise NotIncremental(str(error)) from error
    record_moves(state, summary, published, found, moves, parts={key: (name, parts[name]) for key, name in new.items()})
    return published, found


def usable_summary(storage: Storage, state: PublishState, *, parts: dict[str, PartStat], recipe: str) -> StateSummary:
    """Return what the live version was made of, if that is known and still there."""
    summary, head = state.summary(), history.read_head(storage)
    if summary is None or head is None:
        raise NotIncremental("nothing is known of the version before")
    if summary.version != head.commit.live.version or summary.recipe != recipe:
        raise NotIncremental("the live version is another one, or was made with other settings")
    if any(parts.get(name) != looks for name, looks in state.parts().items()):
        raise NotIncremental("a file of documents was changed or removed")
    return summary


def number_parts(state: PublishState, parts: Iterable[str]) -> dict[int, str]:
    """Return numbers for the files that the state does not know."""
    known = state.part_names()
    new = sorted(set(parts) - set(known.values()))
    return dict(enumerate(new, start=max(known, default=-1) + 1))


# --- which pages ---


def read_captures(
    documents: DocumentFiles, new: dict[int, str], found: DocumentsRead
) -> Iterator[tuple[bytes, PageCapture]]:
    """Yield the captures of the new files by their urlkey."""
    count = 0
    for number, name in new.items():
        for row, _, document in read_rows(documents, [name], DocumentsRead(), read=HEADS):
            count += 1
            if isinstance(document, BadInput) or count > MAX_ROWS:
                raise NotIncremental("a row cannot be read, or there are many new ones")
            if reason := reason_to_skip(document):
                found.rows[reason] += 1
            else:
                yield urlkey_of(document).encode(), to_capture(document, number << ROW_BITS | row)


def find_moves(
    state: PublishState, captures: Iterable[tuple[bytes, PageCapture]], *, names: dict[int, str]
) -> PageMoves:
    def order(capture: PageCapture) -> tuple[int, str, int]:
        return capture.order, *position(capture.place)

    def position(place: int) -> tuple[str, int]:
        return names[place >> ROW_BITS], place & (1 << ROW_BITS) - 1

    by_page: dict[bytes, list[PageCapture]] = {}
    first: dict[bytes, int] = {}
    for urlkey, capture in captures:
        by_page.setdefault(urlkey, []).append(capture)
        if capture.kind == TEXT and capture.digest != NO_DIGEST:
            first[capture.digest] = min(first.get(capture.digest, capture.place), capture.place, key=position)
    old_pages = state.pages(by_page) | state.pages_that_want(first)
    new_pages = {
        urlkey: join_pages(old_pages.get(urlkey), state_of(sorted(found, key=order)), order)
        for urlkey, found in by_page.items()
    }
    after = old_pages | new_pages
    wanted = {page.last.digest for page in (*old_pages.values(), *after.values()) if page.wants_digest}
    old_texts = state.texts(wanted | first.keys())
    new_texts = {
        digest: place
        for digest, place in first.items()
        if digest not in old_texts or position(place) < position(old_texts[digest])
    }
    texts = old_texts | new_texts
    choices = {}
    for urlkey, page in after.items():
        old = old_pages.get(urlkey)
        before = choose_capture(old, old_texts.get(old.last.digest)) if old else None
        choices[urlkey] = before, choose_capture(page, texts.get(page.last.digest))
    return PageMoves(new_pages, new_texts, choices)


def join_pages(
    old: PageState | None, new: PageState, order: Callable[[PageCapture], tuple[int, str, int]]
) -> PageState:
    if old is None:
        return new
    texts = old.newest_text, new.newest_text
    return join_states(
        old,
        new,
        is_newer=order(new.last) > order(old.last),
        is_newer_text=bool(texts[0] and texts[1] and order(texts[1]) > order(texts[0])),
    )


def count_moves(found: DocumentsRead, moves: PageMoves) -> None:
    """Count what becomes of the captures of these pages. What is published is counted when it is added."""
    for before, after in moves.choices.values():
        found.rows.update(after.counts)
        found.rows.subtract(before.counts if before else {})
        if before and before.place is not None and (before.place, before.head) != (after.place, after.head):
            found.rows["published"] -= 1
    for reason in [reason for reason, count in found.rows.items() if not count and reason != "older"]:
        del found.rows[reason]


# --- their content ---


def read_chosen(documents: DocumentFiles, chosen: Iterable[PageChoice], names: dict[int, str]) -> Iterator[Document]:
    """Yield the documents that are chosen, file by file."""
    wanted: dict[int, dict[int, list[bytes]]] = {}
    for choice in chosen:
        if choice.place is not None:
            rows = wanted.setdefault(choice.place >> ROW_BITS, {})
            rows.setdefault(choice.place & (1 << ROW_BITS) - 1, []).append(choice.head)
    for number, rows in sorted(wanted.items()):
        for row, document in documents.read_some(names[number], set(rows), columns=READ):
            if isinstance(document, BadInput):
                raise document
            for head in rows.pop(row):
                yield with_capture(document, read_head(head)) if head else document
        if rows:
            raise NotIncremental("a row is not there any more")


def record_moves(
    state: PublishState,
    before: StateSummary,
    published: PublishResult,
    found: DocumentsRead,
    moves: PageMoves,
    *,
    parts: dict[int, tuple[str, PartStat]],
) -> None:
    """Bring the state to what was published. If that fails, the next publication reads everything."""
    after = msgspec.structs.replace(before, version=published.version.version, counts=dict(found.rows))
    try:
        state.add(before, after, parts=parts, pages=moves.pages, texts=moves.texts)
    except WebmillError as error:  # the version is live
        log.warning("the next publication will read all documents: %s", error)

"""The documents of a collection as a version: of each URL the newest capture that has text.

    heads ─▶ sorted by urlkey and time ─▶ which rows are the newest ─▶ those rows ─▶ blobs, items ─▶ version

Which they are, and what is published of a page whose bytes are archived under another address: newest.py. What a
version was made of is recorded, so that the next one reads only what is new: changed.py.

Else everything is read twice, so that no text is held or written but what is published. Memory: at most 32 MB for each
of the five lists to sort, a bit for each row, some MB of text on its way to the storage. On the disk of TMPDIR: about
120 bytes for each row, 300 for each item, and 500 more for each revisit.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from webmill import __version__
from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra.storage.base import Storage
from webmill.model import CaptureRef, Document
from webmill.pipeline.documents import DocumentFiles, PartStat
from webmill.pipeline.progress import ProgressBar
from webmill.pipeline.publish.changed import NotIncremental, publish_changed
from webmill.pipeline.publish.items import (
    CONTENT,
    FACETS,
    FIRST_SEEN,
    READ,
    SOURCE,
    WRITERS,
    DocumentsRead,
    add_item,
    read_rows,
    store_documents,
)
from webmill.pipeline.publish.newest import HEADS, NewestCaptures, reason_to_skip, with_capture
from webmill.pipeline.publish.publish_state import PublishState, StateSummary, open_publish_state, record_newest
from webmill.publish import history
from webmill.publish.publication import Publication, PublishOptions, PublishResult, utc_now
from webmill.publish.runs import check_kind, commit_with_rebase, new_run_name
from webmill.publish.shards import MEAN_SHARD

__all__ = ["FACET_INLINE", "FIRST_SEEN", "WRITERS", "DocumentsRead", "publish_documents"]

log = logging.getLogger(__name__)

KIND = "documents"
FACET_INLINE = 64  # items that the file of a facet's value holds itself: a change writes all of them
NO_REPEATED: tuple[int, CaptureRef | None] = (-1, None)


def publish_documents(
    storage: Storage,
    documents: DocumentFiles,
    *,
    options: PublishOptions,
    bar: ProgressBar,
    now: Callable[[], datetime] = utc_now,
    state: Path | None = None,
) -> tuple[PublishResult, DocumentsRead]:
    """Publish documents as a version. `NotFound`: there are none. `VersionShrunk`: there are far too few.

    When the live version holds the same already, none is made (`PublishResult.is_new`), unless by `force`. A file
    that is damaged is counted; what earlier versions had and this one lacks is then kept, as stale.

    `state` is a file by which the next publication knows what this one was made of, and reads only what is new.
    """
    check_kind(storage, KIND, force=options.force)
    options = msgspec.structs.replace(options, carried=FIRST_SEEN, even_if_same=options.force)
    started = now()  # what comes after this is for the next version
    parts = documents.stats()
    if not parts:
        raise NotFound("no documents: no .parquet or .jsonl files here")

    def begin() -> Publication:
        run = new_run_name(KIND, started)
        return Publication.begin(storage, options=options, now=now, run=run, started=started)

    known = {name: looks for name, looks in parts.items() if looks}
    if state is None or len(known) < len(parts):
        return publish_all(storage, documents, [*parts], options=options, begin=begin, bar=bar)
    recipe = recipe_of(options, documents.forgotten.digest)
    with open_publish_state(state) as there:
        try:
            if options.force or options.layout != "webmill":
                raise NotIncremental("all of it was asked for")
            return publish_changed(
                storage, documents, there, parts=known, recipe=recipe, options=options, begin=begin, bar=bar
            )
        except NotIncremental as why:
            log.info("all documents are read", extra={"why": str(why)})
        record = partial(record_state, there, parts=known, recipe=recipe)
        return publish_all(storage, documents, [*parts], options=options, begin=begin, bar=bar, record=record)


def recipe_of(options: PublishOptions, forgotten: str = "") -> str:
    """Return a digest of all that a version depends on besides the documents and the version before."""
    said = (
        __version__,
        options.facets,
        options.inline,
        options.facet_inline,
        options.layout,
        MEAN_SHARD,
        CONTENT,
        FACETS,
        *([forgotten] if forgotten else ()),
    )
    return hashlib.sha256(msgspec.json.encode(said)).hexdigest()


def publish_all(
    storage: Storage,
    documents: DocumentFiles,
    files: list[str],
    *,
    options: PublishOptions,
    begin: Callable[[], Publication],
    bar: ProgressBar,
    record: Callable[[NewestCaptures, PublishResult, DocumentsRead], None] = lambda *_: None,
) -> tuple[PublishResult, DocumentsRead]:
    """Read all documents, twice, and publish them. `record` is called with what the version was made of."""
    found = DocumentsRead(files=len(files))
    look_first = options.readers == 1 and history.read_head(storage) is not None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-publish-")))
        newest = choose_newest(documents, files, found, folder)
        publication = stack.enter_context(begin())
        chosen = read_chosen(documents, files, newest, found)
        for document, item in store_documents(chosen, publication, facets=options.facets, look_first=look_first):
            add_item(publication, document, item, found)
            bar.advance()
        for problem in found.problems:
            publication.report(problem)
        if found.damaged:
            publication.keep_source(SOURCE)
        publication.counts.update({f"rows_{reason}": count for reason, count in found.rows.items()})
        published = commit_with_rebase(publication)
        record(newest, published, found)
    return published, found


def record_state(
    state: PublishState,
    newest: NewestCaptures,
    published: PublishResult,
    found: DocumentsRead,
    *,
    parts: Mapping[str, PartStat],
    recipe: str,
) -> None:
    """Record what a version was made of, unless something could not be read: then everything is read next time."""
    if found.problems or found.damaged or published.counts.errors or published.counts.stale:
        return
    summary = StateSummary(version=published.version.version, recipe=recipe, counts=dict(found.rows))
    try:
        record_newest(state, newest, summary, parts=parts, starts=found.starts)
    except WebmillError as error:  # the version is live
        log.warning("the next publication will read all documents: %s", error)


# --- which rows ---


def choose_newest(documents: DocumentFiles, files: Iterable[str], found: DocumentsRead, folder: Path) -> NewestCaptures:
    newest = NewestCaptures(folder)
    for ordinal, row, document in read_rows(documents, files, found, read=HEADS):
        if isinstance(document, BadInput):
            found.refuse("bad_row", document.message, where=row)
        elif reason := reason_to_skip(document):
            found.rows[reason] += 1
        else:
            newest.add(document, ordinal)
    newest.choose()
    found.rows.update(newest.counts)
    return newest


def read_chosen(
    documents: DocumentFiles, files: Iterable[str], newest: NewestCaptures, found: DocumentsRead
) -> Iterator[Document]:
    echoes = newest.echoes()
    at, echo = next(echoes, NO_REPEATED)
    for ordinal, row, document in read_rows(documents, files, found, read=READ):
        while echo and at < ordinal:  # the row that has its text could not be read again
            found.rows["no_text"] += 1
            at, echo = next(echoes, NO_REPEATED)
        if isinstance(document, Document):
            if ordinal in newest:
                yield document
            while echo and at == ordinal:
                yield with_capture(document, echo)
                at, echo = next(echoes, NO_REPEATED)
        elif ordinal in newest or at == ordinal:  # its head was right
            found.refuse("bad_row", document.message, where=row)
    if echo:
        found.rows["no_text"] += 1 + sum(1 for _ in echoes)

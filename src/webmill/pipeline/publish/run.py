"""Publish a collection's documents as a version, and bring an index that is there up to it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import WebmillError
from webmill.infra.address import scheme_of
from webmill.infra.storage.backends import open_versions
from webmill.pipeline.documents import open_documents
from webmill.pipeline.extract.lost_parts import refuse_lost_parts
from webmill.pipeline.ignore_rules import change_rules
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.publish.documents import FACET_INLINE, WRITERS, DocumentsRead, publish_documents
from webmill.pipeline.publish.due import record_check
from webmill.pipeline.publish.redirects import find_redirects
from webmill.pipeline.removed_files import refuse_lost_removals
from webmill.pipeline.search.collection import update_existing_index
from webmill.pipeline.search.feed import FeedReport
from webmill.publish.guard import VersionShrunk
from webmill.publish.publication import PublishOptions, PublishResult
from webmill.settings import Settings


class PublishReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a publication ended: `published` is the live version, `read` counts rows, `fed` is the index update."""

    published: PublishResult
    read: DocumentsRead
    seconds: float
    fed: FeedReport | None = None
    search_problem: str = ""

    @property
    def rejected(self) -> int:
        return self.read.rows["bad_row"] + self.read.rows["bad_documents"]


def publish_collection(
    root: Path,
    settings: Settings,
    *,
    progress: ProgressReporter,
    origin: str | None = None,
    storage: str | None = None,
    force: bool = False,
) -> PublishReport:
    """Publish the documents at `origin`, else in the collection, to `storage`, else to the collection.

    `force`: also what is the same, or lost too much to be believed, which is `VersionShrunk` otherwise.
    """
    started, began = time.monotonic(), datetime.now(UTC)
    if not (origin or force):
        refuse_lost_parts(root)
        refuse_lost_removals(root)
    documents = open_documents(origin or str(PublishFolders(root).documents))
    versions = open_versions(storage or str(root))
    readers = 1 if scheme_of(storage or "")[0] == "file" else WRITERS
    chosen = settings.publish
    options = PublishOptions(
        facets=chosen.facets,
        force=force,
        most_lost=chosen.most_lost,
        layout=chosen.layout,
        writers=WRITERS,
        readers=readers,
        rules=change_rules(settings.changes),
        find_redirects=partial(find_redirects, root),
        facet_inline=FACET_INLINE,
    )
    state = PublishFolders(root).publish_state if not origin and not storage else None
    refusal: VersionShrunk | None = None
    with progress("Publishing", unit="pages") as bar:
        try:
            published, read = publish_documents(versions, documents, options=options, bar=bar, state=state)
        except VersionShrunk as error:  # which is no failure of the step
            refusal = error
    if refusal:
        raise refusal
    if not published.is_new and not origin:  # else those of the collection were not looked at
        record_check(versions, began)
    report = PublishReport(published=published, read=read, seconds=time.monotonic() - started)
    try:  # the version stays, whatever becomes of the index
        fed = update_existing_index(root, settings.search, progress=progress, storage=storage)
    except WebmillError as error:
        return msgspec.structs.replace(report, search_problem=str(error))
    return msgspec.structs.replace(report, fed=fed)

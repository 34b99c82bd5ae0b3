"""What the stages have made: archives and their index, documents, versions, the search index."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path

from webmill.archive.segment import find_open_files
from webmill.collection import Collection, list_archived_crawls
from webmill.errors import NotFound
from webmill.index.archives import find_archives
from webmill.index.state import FILE_NAME, FileStat, IndexedWarc, StoredState, inspect_archive, read_state
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.uploads import upload_backlog, uploaded_files
from webmill.infra.tree import size_of
from webmill.pipeline.publish.due import document_files, version_counts
from webmill.pipeline.status.files import MAX_FILES, add_sizes, count_lines, measure_folder
from webmill.pipeline.status.types import ArchiveStatus, FilesSize, IndexStatus, PublishStatus, SearchStatus
from webmill.publish import history
from webmill.publish.keys import BLOBS
from webmill.search.base import SearchEngine

MAX_EXAMPLES = 3  # examples

ArchiveStats = dict[str, FileStat]  # without their ends


def find_crawls(root: Path) -> list[Collection]:
    """Return the crawls with archives or an index; a folder without crawls is one, by its own name."""
    indexed = (root / "cc-index" / "collections").glob("[!.]*")
    names = {crawl.name for crawl in list_archived_crawls(root)} | {path.name for path in indexed if path.is_dir()}
    return [Collection(root, name) for name in sorted(names)] or [Collection(root, root.name)]


def stat_archives(crawl: Collection) -> ArchiveStats:
    """Return the archives of a crawl with their stats, at most one more than is counted."""
    found = {}
    for key in islice(find_archives(crawl, refuse=lambda *_: None), MAX_FILES + 1):
        try:
            found[key] = stat_archive(crawl.root, key)
        except OSError:
            continue
    return found


def stat_archive(root: Path, key: str) -> FileStat:
    """Return the stat of an archive; of one that is in an object store alone, as it was here."""
    try:
        status = (root / key).stat()
    except FileNotFoundError:
        return inspect_archive(root, key)
    return FileStat(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, "")


def archive_status(crawl: Collection, found: ArchiveStats) -> ArchiveStatus | None:
    being_written = sum(1 for _ in find_open_files(crawl))
    if not found and not being_written:
        return None
    return ArchiveStatus(
        crawl=crawl.name,
        amount=add_sizes(status.size for status in found.values()),
        open=being_written,
        uploaded=len(uploaded := [key for key in uploaded_files(crawl.root) if crawl.owns(key)]),
        only_there=sum(not (crawl.root / key).exists() for key in uploaded),
        backlog=upload_backlog(crawl.root),
        newest=max((status.mtime_ns / 1e9 for status in found.values()), default=None),
    )


def index_status(crawl: Collection, found: ArchiveStats) -> IndexStatus | None:
    """Compare the index with the archives by their stats; `webmill index` looks closer."""
    summary = crawl.zipnum / "cluster.idx"
    made = summary.stat().st_mtime if summary.is_file() else None
    if made is None and not found:
        return None
    try:
        state = read_state(crawl.cdxj / FILE_NAME)
    except NotFound:
        return index_status_by_time(crawl, found, made=made, summary=summary)
    known = {path: entry for path, entry in state.known.items() if crawl.owns(path)}
    new = [path for path in found if path not in known]
    changed = [path for path, status in found.items() if path in known and has_changed(known[path], status)]
    gone = [path for path in known if path not in found] if len(found) <= MAX_FILES else []
    return IndexStatus(
        crawl=crawl.name,
        made=made,
        captures=count_captures(crawl, known, state),
        is_torn=made is not None and crawl.name not in state.published,
        new=len(new),
        changed=len(changed),
        gone=len(gone),
        examples=[*new, *changed, *gone][:MAX_EXAMPLES],
    )


def index_status_by_time(crawl: Collection, found: ArchiveStats, *, made: float | None, summary: Path) -> IndexStatus:
    """Return the status of an index without state, perhaps from elsewhere, by its time alone."""
    newer = [path for path, status in found.items() if made is None or status.mtime_ns / 1e9 > made]
    return IndexStatus(
        crawl=crawl.name,
        made=made,
        blocks=count_lines(summary)[0] if made is not None else None,
        new=len(newer),
        examples=newer[:MAX_EXAMPLES],
    )


def has_changed(entry: IndexedWarc, now: FileStat) -> bool:
    was = entry.looks
    return (was.size, was.mtime_ns, was.ctime_ns, was.inode) != (now.size, now.mtime_ns, now.ctime_ns, now.inode)


def count_captures(crawl: Collection, known: dict[str, IndexedWarc], state: StoredState) -> int:
    """Return how many captures the index holds, without those that rules removed."""
    made = state.published.get(crawl.name)
    left_out = made.blocked + made.excessive if made else 0
    return max(0, sum(entry.captures for entry in known.values()) - left_out)


def measure_documents(root: Path) -> FilesSize | None:
    amount = add_sizes(map(size_of, document_files(root)))
    return amount if amount.files else None


def read_publish_status(root: Path) -> PublishStatus | None:
    storage = LocalStorage(root)
    last = history.read_last_record(storage)
    if last is None:
        return None
    live = last.commit.live
    counts = version_counts(storage, live)
    return PublishStatus(
        versions=len(history.versions_at(storage, last)),
        live=live.version,
        published_at=live.published_at,
        documents=live.count,
        failed_sources=counts.failed_sources,
        errors=counts.errors,
        blobs=measure_folder(root / BLOBS),
    )


def read_search_status(open_engine: Callable[[], SearchEngine], *, live: str | None) -> SearchStatus | None:
    try:
        with closing(open_engine()) as engine:
            count, cursor = engine.count(), engine.cursor()
    except NotFound:
        return None
    return SearchStatus(count, cursor, is_behind=live is not None and cursor != live)

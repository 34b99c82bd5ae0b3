"""Index a collection: its WARC files to CDXJ, ZipNum, Parquet and lists of paths, as far as they changed.

    *.warc.gz, anywhere in it ─▶ cdxj/*.cdxj ─▶ cc-index/collections/NAME/indexes/ ─▶ cc-index/table/… , *.paths.gz

What is published depends on the WARC files and the options alone: an incremental run gives the bytes of a run from
scratch. Killed anywhere and started again, it goes on: CDXJ files that are done are not made again, the old index
stays in place until the new one is complete.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

import msgspec

from webmill import __version__
from webmill.collection import Collection
from webmill.errors import Misconfigured, NotFound, Unavailable, WrongUse
from webmill.forgotten import forgotten_at
from webmill.index.archive_checksum import ArchiveChecksum
from webmill.index.archives import cdxj_name, find_archives, is_cdxj_name
from webmill.index.build.captures import CaptureOptions
from webmill.index.cdxj.excessive import ExcessPolicy
from webmill.index.columnar import parquet as columnar
from webmill.index.jobs import WarcJob, WarcResult, index_warc
from webmill.index.state import (
    FILE_NAME,
    FileStat,
    IndexedWarc,
    IndexState,
    PublishedIndex,
    inspect_archive,
    is_current,
    is_settled,
    open_state,
)
from webmill.infra import atomic, lock, swap
from webmill.infra.executor.backends import open_executor
from webmill.infra.executor.base import Executor, TaskDone, TaskFailed
from webmill.model import ArchiveReject
from webmill.pipeline.forget.blocklist import index_blocklist
from webmill.pipeline.forget.closed_files import note_index
from webmill.pipeline.index_publishing import (
    IndexingOptions,
    digest_of,
    digest_of_file,
    plan_publishing,
    publish,
    without_temps,
    write_shards,
)
from webmill.pipeline.progress import ProgressReporter
from webmill.settings import Settings

__all__ = ["IndexReport", "IndexingOptions", "index_collection", "update_cdxj", "write_rejects", "write_shards"]

log = logging.getLogger(__name__)

Clock = Callable[[], int]
MAX_GONE = 5


class IndexReport(msgspec.Struct, kw_only=True):
    """What a run of the indexer found and did, and what the index holds now."""

    warcs: int = 0
    indexed: int = 0
    kept: int = 0  # were indexed before
    removed: int = 0
    gone: list[str] = []  # the first of those that were removed, because their archives were deleted
    captures: int = 0
    blocked: int = 0
    excessive: int = 0
    shards: int = 0
    tables: int = 0
    not_in_tables: dict[str, int] = {}  # lines that the columns of a Parquet file cannot hold, by reason
    published: bool = False
    rejects: list[ArchiveReject] = []
    place: str = ""  # of the index

    @property
    def lines(self) -> int:
        """Return how many captures are in the index: all but those that its filters left out."""
        return self.captures - self.blocked - self.excessive


class PendingWarc(msgspec.Struct, frozen=True):
    """A WARC to be indexed, as it was when it was found: a later change is noticed by the next run."""

    looks: FileStat
    settled: bool


def index_collection(
    collection: Collection,
    options: IndexingOptions,
    *,
    executor: Executor,
    progress: ProgressReporter,
    clock: Clock = time.time_ns,
) -> IndexReport:
    """Index a collection. `Conflict`: another run is indexing it. `NotFound`: there never was anything to index."""
    if not collection.root.is_dir():
        raise NotFound(f"no folder {collection.root}")
    require_archives(collection)
    if options.blocklist and not options.blocklist.is_file():
        raise Misconfigured(
            f"{options.blocklist} is not a regular file: several processes read it, and a pipe can be read only once"
        )
    report = IndexReport(place=str(collection.zipnum))
    atomic.make_folder(collection.cdxj)
    with (
        _explaining_unavailable(),
        lock.exclusive(collection.cdxj, "index", doing="indexing"),
        _cleaned_up(collection),
        open_state(collection.cdxj / FILE_NAME, anew=options.from_scratch) as state,
    ):
        known = update_cdxj(
            collection, options, state, executor=executor, progress=progress, report=report, clock=clock
        )
        write_rejects(collection, report.rejects)
        plan = plan_publishing(collection, options, state, known)
        made = plan.last
        if made is None or not plan.is_done:
            made = publish(collection, options, state, known, plan, executor=executor, progress=progress)
            report.published = True
    report_published(report, made)
    return report


def index_crawl(
    collection: Collection, settings: Settings, *, progress: ProgressReporter, from_scratch: bool = False
) -> IndexReport:
    """Index a crawl as the settings say. A relative `blocklist` lies in the collection."""
    chosen = settings.index
    forgotten = forgotten_at(collection.root)
    own = collection.root / chosen.blocklist if chosen.blocklist else None
    if chosen.max_captures is None and (chosen.keep or chosen.drop_revisits_first):
        raise WrongUse("--keep and --drop-revisits-first are about URLs over --max-captures: give that too")
    options = IndexingOptions(
        captures=CaptureOptions(post_append=chosen.post_append),
        collection_field=chosen.collection_field,
        blocklist=index_blocklist(collection.root, forgotten, own),
        max_removed_share=chosen.max_removed_share,
        max_captures=chosen.max_captures,
        keep=ExcessPolicy(count=chosen.keep, drop_revisits_first=chosen.drop_revisits_first),
        lines=chosen.lines,
        shards=chosen.shards,
        # One that is there is kept up: if that needs pyarrow, the message says so.
        parquet=columnar.is_available() or collection.table.exists() if chosen.parquet is None else chosen.parquet,
        from_scratch=from_scratch,
    )
    with closing(open_executor(settings.executor.url, workers=settings.executor.jobs)) as executor:
        report = index_collection(collection, options, executor=executor, progress=progress)
    note_index(collection, forgotten)
    return report


def require_archives(collection: Collection) -> None:
    """Raise `NotFound` where an empty index would hide that it is the wrong folder, or replace an index from elsewhere.
    An index of ours whose archives were deleted is emptied.
    """
    refused: list[str] = []
    found = find_archives(collection, refuse=lambda path, *_: refused.append(path))
    if (collection.cdxj / FILE_NAME).exists() or any(found) or refused:
        return
    if others := describe_other_crawls(collection):
        raise NotFound(f"no WARC files of a crawl {collection.name} in {collection.root}: {others}")
    raise NotFound(f"no WARC files below {collection.root}, and no ARC files: is it the right folder?")


@contextmanager
def _explaining_unavailable() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        message = f"{error}. Make room or repair it, then run the same command again. Readers keep a whole index"
        raise Unavailable(message) from error


@contextmanager
def _cleaned_up(collection: Collection) -> Iterator[None]:
    """Remove leftovers before (of killed runs) and after (of killed workers)."""
    with without_temps(collection.cdxj, collection.rejected):
        remove_leftovers(collection)
        try:
            yield
        finally:
            remove_leftovers(collection)


def remove_leftovers(collection: Collection) -> None:
    """Remove temporary files. Call it only while holding the lock."""
    for folder in (collection.zipnum, collection.crawl_data):  # others may be writing lists there: `derive --in-place`
        if folder.is_dir():
            atomic.remove_stale_temps(folder)
    swap.remove_unfinished(collection.table, beside=collection.unfinished_tables)


def report_published(report: IndexReport, made: PublishedIndex) -> None:
    refused: Counter[str] = Counter()
    for reasons in made.refused.values():
        refused.update(reasons)
    report.shards, report.tables, report.not_in_tables = made.shards, len(made.refused), dict(sorted(refused.items()))
    report.blocked, report.excessive = made.blocked, made.excessive


def update_cdxj(
    collection: Collection,
    options: IndexingOptions,
    state: IndexState,
    *,
    executor: Executor,
    progress: ProgressReporter,
    report: IndexReport,
    clock: Clock = time.time_ns,
) -> dict[str, IndexedWarc]:
    """Write a current CDXJ file for every readable WARC; return what is known of each, by path."""
    known = {} if options.from_scratch else state.known()
    fields = {"collection": collection.name} if options.collection_field else {}
    digest = digest_of([__version__, fields, options.captures])
    current, due = find_outdated(collection, known, digest=digest, report=report, clock=clock)
    if due or not plan_publishing(collection, options, state, current).is_done:  # else no CDXJ is read
        for path in find_damaged(collection, current):
            entry = current.pop(path)
            due[path] = PendingWarc(entry.looks, entry.settled)
            report.kept -= 1
    if not report.warcs and state.published(collection.name) is None and describe_other_crawls(collection):
        raise NotFound(
            f"no WARC files of a crawl {collection.name} in {collection.root}: {describe_other_crawls(collection)}"
        )
    checksums = state.checksums()
    jobs = (warc_job(collection, path, fields=fields, options=options, checksum=checksums.get(path)) for path in due)
    with (
        progress("Indexing", total=len(due), unit="files") as counter,
        closing(executor.run(index_warc, jobs)) as outcomes,
    ):
        for outcome in outcomes:
            counter.advance()
            match outcome:
                case TaskDone(item=job, value=done):
                    current[job.path] = entry = known_warc(job, done, due[job.path], digest=digest)
                    state.record(job.path, entry, done.checksum)
                    report.indexed += 1
                case TaskFailed(
                    error=Unavailable() as error
                ):  # the machine's fault: the index must not lose files by it
                    raise error
                case TaskFailed(item=job, reason=reason):
                    log.info("indexing failed", extra={"file": job.path, "reason": reason, "trace": outcome.trace})
                    report.rejects.append(ArchiveReject(job.path, "failed", reason))
    gone = forget_missing(collection, state, current)
    report.removed, report.gone = len(gone), gone[:MAX_GONE]
    report.rejects += [
        ArchiveReject(path, flaw.reason, flaw.message, flaw.offset, flaw.end)
        for path, entry in sorted(current.items())
        for flaw in entry.flaws
    ]
    report.captures = sum(entry.captures for entry in current.values())
    return dict(sorted(current.items()))


def describe_other_crawls(collection: Collection) -> str:
    """Return a hint that names the crawls there are, if the collection's own is not the only one."""
    names = sorted(path.name for path in collection.crawl_data.parent.glob("*") if path.is_dir())
    return f"there are {', '.join(names)}" if set(names) - {collection.name} else ""


def find_outdated(
    collection: Collection, known: Mapping[str, IndexedWarc], *, digest: str, report: IndexReport, clock: Clock
) -> tuple[dict[str, IndexedWarc], dict[str, PendingWarc]]:
    """Return the WARCs whose CDXJ is current, and those that must be indexed."""

    def refuse(path: str, reason: str, message: str) -> None:
        report.rejects.append(ArchiveReject(path, reason, message))

    current: dict[str, IndexedWarc] = {}
    due: dict[str, PendingWarc] = {}
    for path in sorted(find_archives(collection, refuse=refuse)):
        now = clock()
        try:
            looks = inspect_archive(collection.root, path)
        except OSError as error:
            refuse(path, "unreadable", error.strerror or str(error))
            continue
        entry = known.get(path)
        if entry and is_current(entry, looks, options=digest, folder=collection.cdxj):
            current[path] = entry
        else:
            due[path] = PendingWarc(looks, is_settled(looks, now_ns=now))
    report.warcs, report.kept = len(current) + len(due) + len(report.rejects), len(current)
    return current, due


def find_damaged(collection: Collection, known: Mapping[str, IndexedWarc]) -> list[str]:
    """Return the WARCs whose CDXJ is not what was written, though its size and times are: they are indexed again."""
    found = []
    for path, entry in known.items():
        if digest_of_file(collection.cdxj / entry.cdxj) != entry.cdxj_digest:
            log.warning("a CDXJ file is damaged", extra={"file": entry.cdxj, "archive": path})
            found.append(path)
    return found


def warc_job(
    collection: Collection,
    path: str,
    *,
    fields: dict[str, str],
    options: IndexingOptions,
    checksum: ArchiveChecksum | None,
) -> WarcJob:
    cdxj = collection.cdxj / cdxj_name(path)
    return WarcJob(root=collection.root, path=path, cdxj=cdxj, fields=fields, options=options.captures, known=checksum)


def known_warc(job: WarcJob, done: WarcResult, due: PendingWarc, *, digest: str) -> IndexedWarc:
    return IndexedWarc(
        looks=due.looks,
        settled=due.settled,
        options=digest,
        cdxj=job.cdxj.name,
        cdxj_looks=done.cdxj,
        cdxj_digest=done.digest,
        captures=done.captures,
        flaws=done.flaws,
    )


def forget_missing(collection: Collection, state: IndexState, current: Mapping[str, IndexedWarc]) -> list[str]:
    """Drop deleted WARC files from the index, with their CDXJ; those of other crawls stay. Return which."""
    known = state.known()
    gone = [
        path
        for path in known
        if path not in current and (collection.owns(path) or not (collection.root / path).exists())
    ]
    state.forget(gone)
    wanted = {entry.cdxj for path, entry in known.items() if path not in gone}
    for file in collection.cdxj.glob("*.cdxj"):
        if file.name not in wanted and is_cdxj_name(file.name):
            file.unlink(missing_ok=True)
    return gone


def write_rejects(collection: Collection, rejects: Iterable[ArchiveReject]) -> None:
    """Write the file of rejects, anew in each run."""
    file = collection.rejected / "index.jsonl"
    lines = b"".join(msgspec.json.encode(reject) + b"\n" for reject in rejects)
    if lines:
        atomic.make_folder(collection.rejected)
        atomic.write_bytes(file, lines)
    else:
        file.unlink(missing_ok=True)

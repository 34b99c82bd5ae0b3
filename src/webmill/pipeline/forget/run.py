"""`webmill forget`: take pages down, and put everything that follows from the list in order.

    list ─▶ (archives, documents) ─▶ indexes ─▶ corpus ─▶ version ─▶ search ─▶ what is closed

The list comes first and is durable: from then on nothing of it is asked for, published or handed out, whatever becomes
of the rest. Every step asks the list as it is and may be done twice: killed anywhere, the same command goes on. What
is not taken out of archives is closed at delivery; what is, is kept aside until `--gc`, so that all of it can be
undone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from webmill.collection import STATE_FOLDER, PublishFolders
from webmill.errors import BadInput, NotFound, WebmillError, WrongUse
from webmill.forgotten import (
    FOLDER,
    LIST,
    LONGEST_REASON,
    ForgetRule,
    Forgotten,
    change_rules,
    encode_rules,
    forgotten_at,
    list_path,
    read_pattern,
    user_list_path,
)
from webmill.index.archives import crawls_with_archives
from webmill.infra import atomic, lock
from webmill.infra.storage.backends import open_versions
from webmill.infra.storage.base import Storage
from webmill.infra.storage.uploads import uploaded_files
from webmill.pipeline.curate.run import curate_collection, decisions_folder, open_corpus
from webmill.pipeline.extract.lost_parts import refuse_lost_parts
from webmill.pipeline.forget.archives import (
    derived_keys,
    drop_originals,
    list_originals,
    restore_originals,
    rewrite_archive,
)
from webmill.pipeline.forget.closed_files import close_archives, closed_archives, note_versions
from webmill.pipeline.forget.documents import mend_receipts, rewrite_documents
from webmill.pipeline.index import index_crawl
from webmill.pipeline.progress import ProgressReporter
from webmill.pipeline.publish.run import publish_collection
from webmill.pipeline.removed_files import refuse_lost_removals
from webmill.pipeline.search.collection import index_folder, rebuild_index, update_index
from webmill.pipeline.search.feed import reconcile
from webmill.publish import history
from webmill.publish.gc import collect_garbage
from webmill.publish.withdrawal import WithdrawnContent, find_withdrawn
from webmill.search.address import REPLACED
from webmill.search.backends import search_address
from webmill.settings import Settings

QUALITY = f"{STATE_FOLDER}/qa"  # results of `webmill qa`


class _PageOf(msgspec.Struct, frozen=True):
    url: str = ""


class ForgetReport(msgspec.Struct, kw_only=True):
    """What was done, and what could not be: `problems` are sentences."""

    rules: int = 0  # of the collection, now
    added: list[str] = []
    removed: list[str] = []
    archives: int = 0  # that hold something
    rewritten: list[str] = []
    records: int = 0  # taken out of archives
    rows: int = 0  # taken out of documents
    restored: list[str] = []
    version: str = ""  # the live one, when one was published
    closed_versions: int = 0
    closed_blobs: int = 0
    originals: int = 0  # kept aside
    deleted: int = 0  # originals, and blobs, for good
    problems: list[str] = []


def forget_pages(
    root: Path,
    patterns: Iterable[tuple[str, str]],
    settings: Settings,
    *,
    rewrite: bool = False,
    user: bool = True,
    storage: str | None = None,
    progress: ProgressReporter,
    now: datetime | None = None,
) -> ForgetReport:
    """Take down what the patterns name, each with a reason, and all that is on the list already.

    `user`: note it in the user's own list, too, so that no collection asks for it. `rewrite`: also take it out of
    archives and files of documents.
    """
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    rules = [ForgetRule(pattern=read_pattern(one), at=at, reason=read_reason(reason)) for one, reason in patterns]
    report = ForgetReport()
    with working_alone(root):
        known = {rule.pattern for rule in forgotten_at(root).rules}
        change_rules(list_path(root), add=rules)
        report.added = sorted({rule.pattern for rule in rules} - known)
        if user:
            _note_for_user(report, add=rules)
        _apply(root, settings, report, rewrite=rewrite, storage=storage, progress=progress)
    return report


def undo_forget(
    root: Path,
    patterns: Iterable[str],
    settings: Settings,
    *,
    storage: str | None = None,
    progress: ProgressReporter,
) -> ForgetReport:
    """Take patterns from the lists, put back what was taken out of archives, and everything in order. `NotFound`: one
    is on no list."""
    report = ForgetReport()
    with working_alone(root):
        known = {rule.pattern for rule in forgotten_at(root).rules}
        wanted = [read_pattern(one) for one in patterns]
        if missing := sorted(set(wanted) - known):
            raise NotFound(f"{missing[0]} was not taken down here: `webmill forget {root} --show` lists what was")
        had_originals = bool(list_originals(root))
        close_archives(root)
        report.restored = restore_originals(root)
        mend_receipts(root)
        report.removed = sorted(set(wanted))
        change_rules(list_path(root), remove=wanted)
        _note_for_user(report, remove=wanted)
        _apply(root, settings, report, rewrite=had_originals, storage=storage, progress=progress)
    return report


def finish_forget(
    root: Path,
    settings: Settings,
    *,
    storage: str | None = None,
    progress: ProgressReporter,
    now: datetime | None = None,
) -> ForgetReport:
    """Delete for good what was kept aside, versions that hold something, and the blobs that nothing needs any more. The
    search index is made anew: an engine keeps what was deleted until it merges its files."""
    report = ForgetReport()
    with working_alone(root):
        report.deleted = drop_originals(root)
        versions = open_versions(storage or str(root))
        if history.read_last_record(versions):
            kept = len(history.list_versions(versions))
            closed = find_withdrawn(versions, forgotten_at(root)).versions
            removed = collect_garbage(
                versions, keep=kept, now=now or datetime.now(UTC), grace=timedelta(0), without=closed
            )
            report.deleted += removed.purged + removed.files
            if removed.waiting_for:
                report.problems.append(f"a publication is at work ({removed.waiting_for[0]}): run it again later")
            folder = index_folder(search_address(settings.search.url, root))
            if folder and folder.is_dir():
                rebuild_index(root, settings.search, progress=progress, storage=storage)
                shutil.rmtree(folder.parent / REPLACED, ignore_errors=True)
        report.rules = len(forgotten_at(root).rules)
    return report


def read_reason(text: str) -> str:
    if len(text) > LONGEST_REASON:
        raise WrongUse(f"a reason of {len(text):,} characters: {LONGEST_REASON} are allowed")
    return text


@contextmanager
def working_alone(root: Path) -> Iterator[None]:
    atomic.make_folder(root / FOLDER)
    with lock.exclusive(root / FOLDER, "work", doing="taking pages down"):
        atomic.remove_stale_temps(root / FOLDER)
        yield


def _note_for_user(report: ForgetReport, *, add: Iterable[ForgetRule] = (), remove: Iterable[str] = ()) -> None:
    try:
        change_rules(user_list_path(), add=add, remove=remove)
    except (WebmillError, OSError) as error:
        report.problems.append(
            f"your own list {user_list_path()} cannot be written, so other collections may still ask for it: {error}"
        )


def _apply(
    root: Path,
    settings: Settings,
    report: ForgetReport,
    *,
    rewrite: bool,
    storage: str | None,
    progress: ProgressReporter,
) -> None:
    """Bring everything in line with the list, as far as it is not."""
    forgotten = forgotten_at(root)
    report.rules = len(forgotten.rules)
    _index(root, settings, progress)  # says which archives hold something
    if rewrite and forgotten:
        _rewrite(root, forgotten, report, progress)
        _index(root, settings, progress)
    report.archives = len(closed_archives(root))
    report.originals = len(list_originals(root))
    _forget_quality(root, forgotten)
    _curate(root, settings, report, progress)
    versions = open_versions(storage or str(root))
    if storage:
        versions.write(LIST, encode_rules(forgotten.rules))
    withdrawn = _publish(root, settings, versions, report, storage=storage, progress=progress)
    for name in withdrawn.versions:  # an index of a past version is made when somebody wants it
        shutil.rmtree(PublishFolders(root).search_history / name, ignore_errors=True)
    _search(root, settings, versions, storage=storage, progress=progress)
    note_versions(root, forgotten, withdrawn.versions, withdrawn.blobs)
    report.closed_versions, report.closed_blobs = len(withdrawn.versions), len(withdrawn.blobs)
    report.problems += [f"version {name} cannot be read, and is closed" for name in withdrawn.damaged]


def _index(root: Path, settings: Settings, progress: ProgressReporter) -> None:
    for crawl in crawls_with_archives(root):
        index_crawl(crawl, settings, progress=progress)


def _rewrite(root: Path, forgotten: Forgotten, report: ForgetReport, progress: ProgressReporter) -> None:
    keys = closed_archives(root)
    elsewhere = uploaded_files(root)
    with progress("Rewriting", total=len(keys), unit="files") as bar:
        for key in keys:
            if not (root / key).is_file():
                where = elsewhere[key].place if key in elsewhere else "elsewhere"
                report.problems.append(f"{key} lies {where}: rewrite it there")
                continue
            for each in (*derived_keys(root, key), key):  # the archive last: it is what says that there is work
                done = rewrite_archive(root, each, forgotten)
                report.records += done.records
                if done.records:
                    report.rewritten.append(each)
                if done.problem:
                    report.problems.append(f"{each}: {done.problem}")
            bar.advance()
    report.rows, problems = rewrite_documents(root, forgotten)
    report.problems += problems


def _forget_quality(root: Path, forgotten: Forgotten) -> None:
    """Delete what `webmill qa` found of these pages, with its pictures."""
    for file in (root / QUALITY).glob("*.json"):
        try:
            url = msgspec.json.decode(file.read_bytes(), type=_PageOf).url
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if forgotten.covers(url):
            for picture in (root / QUALITY).glob(f"{file.stem}-*.png"):
                picture.unlink(missing_ok=True)
            file.unlink(missing_ok=True)


def _curate(root: Path, settings: Settings, report: ForgetReport, progress: ProgressReporter) -> None:
    """Decide anew about the corpus, which names documents; where that fails, it goes until somebody makes it."""
    if not decisions_folder(root).is_dir():
        return
    try:
        corpus = open_corpus(root)
        curate_collection(
            root, settings, progress=progress, origin=corpus.decided.documents or None, recipe=corpus.recipe
        )
    except (WebmillError, OSError) as error:
        shutil.rmtree(decisions_folder(root), ignore_errors=True)
        report.problems.append(f"the corpus was removed, as it could not be made again: {error}")


def _publish(
    root: Path,
    settings: Settings,
    versions: Storage,
    report: ForgetReport,
    *,
    storage: str | None,
    progress: ProgressReporter,
) -> WithdrawnContent:
    """Publish a version without it where the live one has it, and return what is closed then."""
    withdrawn = find_withdrawn(versions, forgotten_at(root))
    last = history.read_last_record(versions)
    is_named = last is not None and last.commit.live.version in withdrawn.versions
    if last is None or not (is_named or report.removed):
        return withdrawn
    if not last.commit.live.run.startswith("documents-") or not PublishFolders(root).documents.is_dir():
        if is_named:
            report.problems.append("the live version still names it, closed: publish again (`webmill publish run`)")
        return withdrawn
    try:
        refuse_lost_parts(root)
        refuse_lost_removals(root)
        published = publish_collection(root, settings, progress=progress, storage=storage, force=is_named)
    except WebmillError as error:
        report.problems.append(f"no version was published: {error}")
        return withdrawn
    if published.published.is_new:
        report.version = published.published.version.version
        withdrawn = find_withdrawn(versions, forgotten_at(root))
    return withdrawn


def _search(
    root: Path, settings: Settings, versions: Storage, *, storage: str | None, progress: ProgressReporter
) -> None:
    """Compare the search index with the version, document by document."""
    folder = index_folder(search_address(settings.search.url, root))
    if history.read_last_record(versions) and (folder is None or folder.is_dir()):
        try:
            update_index(root, settings.search, progress=progress, storage=storage, work=reconcile)
        except BadInput:  # it is damaged, or of another webmill, and may hold it all the same
            rebuild_index(root, settings.search, progress=progress, storage=storage)

"""`webmill extract`: documents of a collection's own archives, as far as they are new.

    COLLECTION/documents/             what was made: data files, nothing else
    COLLECTION/.webmill/extract/      settings, tasks, receipts, errors

Archives never change once they have their name, so a file is read once.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from webmill.collection import ARCHIVE_ENDINGS, PublishFolders, is_archive_name, list_crawls
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.formats.warc.typed_records import FileType
from webmill.index.archives import find_archives
from webmill.infra import atomic
from webmill.infra.checksums import seal_json
from webmill.infra.custom_function import read_function
from webmill.infra.executor.backends import open_executor
from webmill.infra.queue.sqlite_reader import view_file
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.extract.jobs import DATASET_FILE, TASKS, ExtractJob, lock_job, open_tasks, run_job
from webmill.pipeline.extract.lost_parts import find_lost_parts
from webmill.pipeline.extract.manifest import TaskFiles
from webmill.pipeline.extract.output import SETTINGS, OutputShape, describe_difference, format_flags, read_shape
from webmill.pipeline.extract.plan import ArchiveFetching, DocumentFilter, ExtractPlan, OutputTarget, choose_recipe
from webmill.pipeline.extract.receipts import FOLDER, list_output_files
from webmill.pipeline.extract.tasks import Task, task_id
from webmill.pipeline.extract.totals import ExtractReport
from webmill.pipeline.ignore_rules import ignored_elements
from webmill.pipeline.progress import ProgressReporter
from webmill.settings import ExtractSettings, Settings

log = logging.getLogger(__name__)

OnRefused = Callable[[str, str, str], None]  # path, reason, message
NON_PAGE_SUBSETS = ("crawldiagnostics", "robotstxt")  # subsets of a crawl that hold none
MAX_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def extract_collection(
    root: Path,
    settings: Settings,
    *,
    progress: ProgressReporter,
    refuse: OnRefused = lambda *_: None,
    retry: bool = False,
    from_scratch: bool = False,
) -> ExtractReport:
    """Make documents of new archives; with `retry`, also of those that failed before.

    `refuse` is called with each file that is not an archive: path, reason, message.
    """
    shape = output_shape(settings.extract)
    if from_scratch:
        delete_extraction(root)
    job = extract_job(root, shape, extract_plan(root, settings, shape), refuse=refuse)
    if retry:
        with lock_job(job.folder), closing(open_tasks(job.folder, attempts=job.attempts)) as tasks:
            tasks.requeue()
    with closing(open_executor(settings.executor.url, workers=settings.executor.jobs)) as executor:
        return run_job(job, executor, progress=progress)


def output_shape(settings: ExtractSettings) -> OutputShape:
    """Return the shape of the output. Misconfigured: an extra is missing, or the filters contradict each other."""
    keep = DocumentFilter(
        min_text=settings.min_text,
        max_text=settings.max_text,
        languages=settings.languages,
        what="captures" if settings.all_captures else "documents",
    )
    recipe = choose_recipe(settings.extractor, links=settings.links)
    function = read_function(settings.function) if settings.function else None
    shape = OutputShape(recipe=recipe, keep=keep, format=settings.format, function=function)
    shape.check()
    return shape


def extract_plan(root: Path, settings: Settings, shape: OutputShape) -> ExtractPlan:
    place = PublishFolders(root)
    return ExtractPlan(
        name=root.name,
        source=str(root),
        output=OutputTarget(to=str(place.documents), format=shape.format),
        errors=OutputTarget(to=str(place.extract_state / "errors"), compression="none"),
        state=str(place.extract_state),
        recipe=shape.recipe,
        ignored=ignored_elements(settings.changes),
        keep=shape.keep,
        function=shape.function,
        fetching=ArchiveFetching(http=settings.http),
        killable=settings.executor.url != "inline",
    )


def extract_job(root: Path, shape: OutputShape, plan: ExtractPlan, *, refuse: OnRefused) -> ExtractJob:
    """Return the work there is in a collection. Misconfigured: its documents were made with other settings, or by an
    earlier webmill.
    """
    place = PublishFolders(root)
    atomic.make_folder(place.extract_state)
    check_shape(root, shape)
    crawls = list_crawls(root)

    def tasks() -> Iterator[Task]:
        found = {key for crawl in crawls for key in find_archives(crawl, refuse=refuse) if holds_pages(key)}
        for key in sorted(found):
            yield archive_task(key, shape)

    def lost() -> Iterator[str]:
        for part in find_lost_parts(root):
            log.warning("a part of the documents is made again", extra={"file": part.file, "why": part.fault})
            yield part.task

    return ExtractJob(folder=place.extract_state, plan=plan, tasks=tasks, lost=lost)


def archive_task(key: str, shape: OutputShape) -> Task:
    digest = hashlib.sha256(msgspec.json.encode(shape)).hexdigest()
    files: TaskFiles = {FileType.WARC: key}
    return Task(task_id(task_name(key), files, digest=digest), files)


def count_known_archives(root: Path, keys: Iterable[str]) -> int:
    """Return how many of these archives are tasks already, without writing anything."""
    folder = PublishFolders(root).extract_state
    try:
        shape = read_shape(LocalStorage(folder))
        with view_file(folder / TASKS) as queue:
            known = {entry.id for entry in queue.entries()}
    except NotFound:
        return 0
    return sum(archive_task(key, shape).id in known for key in keys)


def check_shape(root: Path, shape: OutputShape) -> None:
    """Record the settings that documents are made with. Misconfigured: there are documents made with others."""
    refuse_outdated(root)
    notes = LocalStorage(PublishFolders(root).extract_state)
    if not (PublishFolders(root).extract_state / SETTINGS).exists():
        notes.write(SETTINGS, seal_json(msgspec.json.encode(shape)))
        return
    try:
        there = read_shape(notes)
    except BadInput as error:
        raise Misconfigured(
            f"{PublishFolders(root).extract_state / SETTINGS} is damaged, or the documents in {root} were made by "
            f"another webmill: {_from_scratch_hint(root)}"
        ) from error
    if there != shape:
        raise Misconfigured(_describe_conflict(root, there, shape))


def _describe_conflict(root: Path, there: OutputShape, given: OutputShape) -> str:
    made, wanted = (
        describe_difference(there, given, language="--language"),
        format_flags(there, given, language="--language"),
    )
    return (
        f"the documents in {root} were made with {made}: say the same with flags, or in [extract] of webmill.toml; or "
        + _from_scratch_hint(root, wanted)
    )


def _from_scratch_hint(root: Path, flags: str = "") -> str:
    return f"`webmill extract {root} {flags}--from-scratch` makes them again"


def refuse_outdated(root: Path) -> None:
    """Misconfigured: the documents of this collection were made by an earlier webmill."""
    if is_outdated(root):
        raise Misconfigured(f"the documents in {root} were made by an earlier webmill: {_from_scratch_hint(root)}")


def is_outdated(root: Path) -> bool:
    """Return whether an earlier webmill has extracted here: it kept a dataset for each time."""
    return any((root / "extract").glob("*/dataset.json"))


def delete_extraction(root: Path) -> None:
    """Remove the documents that were made of a collection's archives, and what is known of their making.

    Only files that receipts name: whatever else lies in `documents` is not ours to remove. Conflict while it runs.
    """
    place = PublishFolders(root)
    atomic.make_folder(place.extract_state)
    with lock_job(place.extract_state):
        delete_receipted_files(place, LocalStorage(place.extract_state))
        delete_outdated(root)
        shutil.rmtree(place.extract_state)  # last: killed before, the next one knows what to remove


def delete_receipted_files(place: PublishFolders, receipts: LocalStorage) -> None:
    if place.documents.is_dir():
        documents = LocalStorage(place.documents)
        for name in list_output_files(receipts):
            documents.delete(name)


def delete_outdated(root: Path) -> None:
    """Remove what an earlier webmill made: it had a dataset for each time, and receipts among the documents."""
    place = PublishFolders(root)
    if not is_outdated(root):
        return
    if place.documents.is_dir():
        delete_receipted_files(place, LocalStorage(place.documents))
        shutil.rmtree(place.documents / FOLDER, ignore_errors=True)
    for dataset in (root / "extract").glob("*/dataset.json"):
        delete_dataset_files(dataset.parent)
    with suppress(OSError):  # something else is in it
        (root / "extract").rmdir()


def delete_dataset_files(folder: Path) -> None:
    """Remove a dataset of an earlier webmill; files of others in its folder stay."""
    for path in folder.iterdir():
        if DATASET_FILE.fullmatch(path.name) and not path.is_symlink():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with suppress(OSError):  # something else is in it
        folder.rmdir()


def holds_pages(key: str) -> bool:
    folders = key.split("/")[:-1]
    return is_archive_name(key) and not (folders and folders[-1] in NON_PAGE_SUBSETS)


def task_name(key: str) -> str:
    """Return a name for the files made of an archive, by which a person recognises it."""
    name = key.rpartition("/")[2].lower()
    stem = next(
        (
            name.removesuffix(ending)
            for ending in sorted(ARCHIVE_ENDINGS, key=len, reverse=True)
            if name.endswith(ending)
        ),
        name,
    )
    return _UNSAFE.sub("-", key.rpartition("/")[2][: len(stem)]).strip("-.")[:MAX_NAME] or "archive"

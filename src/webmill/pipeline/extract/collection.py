"""`webmill extract`: documents of a collection's own archives, as far as they are new.

    COLLECTION/documents/             what was made: data files, nothing else
    COLLECTION/.webmill/extract/      settings, tasks, receipts, errors

Archives never change once they have their name, so a file is read once.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders, list_crawls
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.extract.custom import read_function
from webmill.formats.warc.typed_records import FileType
from webmill.index.archives import ENDINGS, find_archives
from webmill.infra import atomic
from webmill.infra.executor.backends import open_executor
from webmill.infra.queue.sqlite_reader import view_file
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.extract.jobs import TASKS, Job, open_tasks, run_job, running
from webmill.pipeline.extract.output import SETTINGS, Shape, described, read_shape, typed
from webmill.pipeline.extract.plan import Fetching, Keep, Plan, Target, recipe_of
from webmill.pipeline.extract.receipts import FOLDER, files_named
from webmill.pipeline.extract.tasks import Task, task_id
from webmill.pipeline.extract.totals import ExtractReport
from webmill.pipeline.progress import ProgressReporter
from webmill.settings import ExtractSettings, Settings

Refuse = Callable[[str, str, str], None]  # path, reason, message
NO_PAGES = ("crawldiagnostics", "robotstxt")  # subsets of a crawl that hold none
LONGEST_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


def extract_collection(
    root: Path,
    settings: Settings,
    *,
    progress: ProgressReporter,
    refuse: Refuse = lambda *_: None,
    retry: bool = False,
    from_scratch: bool = False,
) -> ExtractReport:
    """Make documents of the archives that are new. `retry`: of those that failed before, too.

    `refuse` is told of files that are no archives: path, reason, message.
    """
    shape = shape_of(settings.extract)
    if from_scratch:
        forget(root)
    job = job_of(root, shape, plan_of(root, settings, shape), refuse=refuse)
    if retry:
        with running(job.folder), closing(open_tasks(job.folder, attempts=job.attempts)) as tasks:
            tasks.requeue()
    with closing(open_executor(settings.executor.url, workers=settings.executor.jobs)) as executor:
        return run_job(job, executor, progress=progress)


def shape_of(settings: ExtractSettings) -> Shape:
    """Return what shapes the documents. Misconfigured: an extra is missing, or the filters make no sense."""
    keep = Keep(
        min_text=settings.min_text,
        max_text=settings.max_text,
        languages=settings.languages,
        what="captures" if settings.all_captures else "documents",
    )
    recipe = recipe_of(settings.extractor, links=settings.links)
    function = read_function(settings.function) if settings.function else None
    shape = Shape(recipe=recipe, keep=keep, format=settings.format, function=function)
    shape.check()
    return shape


def plan_of(root: Path, settings: Settings, shape: Shape) -> Plan:
    place = PublishFolders(root)
    return Plan(
        name=root.name,
        source=str(root),
        output=Target(to=str(place.documents), format=shape.format),
        errors=Target(to=str(place.extract_state / "errors"), compression="none"),
        state=str(place.extract_state),
        recipe=shape.recipe,
        keep=shape.keep,
        function=shape.function,
        fetching=Fetching(http=settings.http),
        killable=settings.executor.url != "inline",
    )


def job_of(root: Path, shape: Shape, plan: Plan, *, refuse: Refuse) -> Job:
    """Return the work there is in a collection. Misconfigured: its documents were made with other settings, or by an
    earlier webmill.
    """
    place = PublishFolders(root)
    atomic.make_folder(place.extract_state)
    check_layout(root, shape)
    crawls = list_crawls(root)

    def tasks() -> Iterator[Task]:
        found = {key for crawl in crawls for key in find_archives(crawl, refuse=refuse) if holds_pages(key)}
        for key in sorted(found):
            yield task_of(key, shape)

    return Job(folder=place.extract_state, plan=plan, tasks=tasks)


def task_of(key: str, shape: Shape) -> Task:
    digest, files = hashlib.sha256(msgspec.json.encode(shape)).hexdigest(), {FileType.WARC: key}
    return Task(task_id(name_of(key), files, digest=digest), files)


def known_archives(root: Path, keys: Iterable[str]) -> int:
    """Return how many of these archives are tasks already, by reading alone."""
    folder = PublishFolders(root).extract_state
    try:
        shape = read_shape(LocalStorage(folder))
        with view_file(folder / TASKS) as queue:
            known = {entry.id for entry in queue.entries()}
    except (NotFound, BadInput):
        return 0
    return sum(task_of(key, shape).id in known for key in keys)


def check_layout(root: Path, shape: Shape) -> None:
    """Note the settings that documents are made with. Misconfigured: there are others, made in another way."""
    refuse_old(root)
    notes = LocalStorage(PublishFolders(root).extract_state)
    if not (PublishFolders(root).extract_state / SETTINGS).exists():
        notes.write(SETTINGS, msgspec.json.encode(shape) + b"\n")
        return
    try:
        there = read_shape(notes)
    except BadInput as error:
        raise Misconfigured(f"the documents in {root} were made by another webmill: {_anew(root)}") from error
    if there != shape:
        raise Misconfigured(_other_settings(root, there, shape))


def _other_settings(root: Path, there: Shape, given: Shape) -> str:
    made, wanted = described(there, given, language="--language"), typed(there, given, language="--language")
    return (
        f"the documents in {root} were made with {made}: say the same with flags, or in [extract] of webmill.toml; or "
        + _anew(root, wanted)
    )


def _anew(root: Path, flags: str = "") -> str:
    return f"`webmill extract {root} {flags}--from-scratch` makes all of them anew"


def refuse_old(root: Path) -> None:
    """Misconfigured: the documents of this collection were made by an earlier webmill."""
    if is_old(root):
        raise Misconfigured(f"the documents in {root} were made by an earlier webmill: {_anew(root)}")


def is_old(root: Path) -> bool:
    """Return whether an earlier webmill has extracted here: it kept a dataset for each time."""
    return any((root / "extract").glob("*/dataset.json"))


def forget(root: Path) -> None:
    """Remove the documents that were made of a collection's archives, and what is known of their making.

    Only files that receipts name: whatever else lies in `documents` is not ours to remove. Conflict while it runs.
    """
    place = PublishFolders(root)
    atomic.make_folder(place.extract_state)
    with running(place.extract_state):
        remove_documents(place, LocalStorage(place.extract_state))
        forget_old(root)
        shutil.rmtree(place.extract_state)  # last: killed before, the next one knows what to remove


def remove_documents(place: PublishFolders, receipts: LocalStorage) -> None:
    if place.documents.is_dir():
        documents = LocalStorage(place.documents)
        for name in files_named(receipts):
            documents.delete(name)


def forget_old(root: Path) -> None:
    """Remove what an earlier webmill made: it had a dataset for each time, and receipts among the documents."""
    place = PublishFolders(root)
    if not is_old(root):
        return
    if place.documents.is_dir():
        remove_documents(place, LocalStorage(place.documents))
        shutil.rmtree(place.documents / FOLDER, ignore_errors=True)
    for dataset in (root / "extract").glob("*/dataset.json"):
        shutil.rmtree(dataset.parent)
    with suppress(OSError):  # something else is in it
        (root / "extract").rmdir()


def holds_pages(key: str) -> bool:
    folders = key.split("/")[:-1]
    return key.lower().endswith(ENDINGS) and not (folders and folders[-1] in NO_PAGES)


def name_of(key: str) -> str:
    """Return a name for the files made of an archive, by which a person recognises it."""
    name = key.rpartition("/")[2].lower()
    stem = next(
        (name.removesuffix(ending) for ending in sorted(ENDINGS, key=len, reverse=True) if name.endswith(ending)), name
    )
    return _UNSAFE.sub("-", key.rpartition("/")[2][: len(stem)]).strip("-.")[:LONGEST_NAME] or "archive"

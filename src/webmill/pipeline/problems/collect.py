"""Collect the problems of all stages."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from webmill.errors import WebmillError
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.problems.alerts import alert_problems
from webmill.pipeline.problems.crawl import crawl_problems
from webmill.pipeline.problems.extract import extract_problems
from webmill.pipeline.problems.publish import publish_problems
from webmill.pipeline.problems.rejects import cut_problems, index_problems, reject_problems
from webmill.pipeline.problems.tasks import queue_files, task_problems
from webmill.pipeline.problems.types import ProblemExample, ProblemGroup, ProblemReport, clip_text
from webmill.pipeline.problems.uploads import upload_problems
from webmill.pipeline.status.collection import read_crawl_statuses

Reader = Callable[[], Iterable[ProblemGroup]]


def collect_problems(root: Path, *, versions: Storage | None = None, folder: str = "") -> ProblemReport:
    """Return all that went wrong in the collection in `root`. A part that cannot be read is itself a problem.

    `versions`: where they are, if not in `root`. `folder`: the collection as commands name it.
    """
    folder = shlex.quote(folder or str(root)).rstrip("/")
    every = readers(root, versions or LocalStorage(root), folder)
    found = [group for stage, read in every for group in _read(stage, read, folder)]
    found.sort(key=lambda group: group.severity != "error")  # stable: stages stay in their order
    return ProblemReport(root=str(root), time=time.time(), groups=found)


def count_problems(report: ProblemReport) -> str:
    """Return the counts in words, or an empty string if there are none."""
    parts = [(report.errors, "problem"), (report.warnings, "warning")]
    return ", ".join(f"{count:,} {word}{'s' * (count != 1)}" for count, word in parts if count)


def readers(root: Path, versions: Storage, folder: str) -> Iterator[tuple[str, Reader]]:
    yield "crawl", lambda: crawl_problems(root, read_crawl_statuses(root), folder=folder)
    yield "archive", partial(cut_problems, root, folder=folder)
    yield "archive", partial(upload_problems, root, folder=folder)
    yield "index", partial(reject_problems, root, folder=folder)
    yield "index", partial(index_problems, root, folder=folder)
    yield "extract", partial(extract_problems, root, folder=folder)
    for name, file in queue_files(root).items():
        yield "tasks", partial(task_problems, name, file, folder=folder)
    yield "publish", partial(publish_problems, versions, folder=folder)
    yield "alert", partial(alert_problems, root, folder=folder)


def _read(stage: str, read: Reader, folder: str) -> Iterator[ProblemGroup]:
    try:
        yield from read()
    except (WebmillError, OSError, ValueError, RecursionError) as error:  # msgspec's among them: not what we wrote
        message = str(error)
        if isinstance(error, OSError) and error.filename:
            message = f"{os.fsdecode(error.filename)}: {error.strerror}"
        yield ProblemGroup(
            stage=stage,
            cause="unreadable",
            severity="error",
            title=f"The state of this stage cannot be read ({stage})",
            count=1,
            examples=[ProblemExample(stage, clip_text(message))],
            advice="Check the collection for damage; the finding names the repair.",
            command=f"webmill doctor {folder}",
        )

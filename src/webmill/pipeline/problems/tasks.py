"""Tasks that failed: the dead letters of every queue that is a file of the collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from webmill.collection import PublishFolders
from webmill.errors import NotFound
from webmill.infra.queue.sqlite_reader import view_file
from webmill.pipeline.dataset.folder import find_datasets
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.problems.types import ProblemGroup, ProblemTally

MAX_LETTERS = 10_000  # of a queue that are read for their reasons
MAX_DATASETS = 1000


def queue_files(root: Path) -> dict[str, Path]:
    """Return the files of a collection's queues, by the name that a retry has."""
    datasets = [*find_datasets(root / "datasets")][:MAX_DATASETS] if (root / "datasets").is_dir() else []
    return {
        "extract": PublishFolders(root).extract_state / TASKS,
        "publish": PublishFolders(root).queue,
        "queue": root / "queue.sqlite",
        **{f"dataset:{path.name}": path / TASKS for path in datasets},
    }


def task_problems(name: str, file: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the failed tasks of a queue, grouped by the beginning of their reason."""
    tally = ProblemTally()
    try:
        with view_file(file) as queue:
            failed = queue.stats().buried
            for number, letter in enumerate(queue.dead_letters()) if failed else ():
                if number == MAX_LETTERS:
                    break
                tally.add(cause_of(letter.reason), letter.id, message=letter.reason, time=letter.when)
    except NotFound:
        return
    stage = "dataset" if name.startswith("dataset:") else "extract" if name == "queue" else name
    for cause, found in tally.causes():
        yield ProblemGroup(
            stage=stage,
            cause="failed_task",
            severity="error",
            title=f"Tasks failed: {cause}",
            count=found.count,
            is_estimate=failed > MAX_LETTERS,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice="Remove the cause, then put the tasks back into their queue; a worker or the next run does them.",
            command=f"webmill dead requeue {dead_folder(name, folder)} --all",
            retry=name,
        )


def dead_folder(name: str, folder: str) -> str:
    return f"{folder}/datasets/{name.removeprefix('dataset:')}" if name.startswith("dataset:") else folder


def cause_of(reason: str) -> str:
    """Return the beginning of a reason, in which tasks that failed alike are alike."""
    return reason.partition("\n")[0].partition(": ")[0].strip()[:100] or "no reason given"

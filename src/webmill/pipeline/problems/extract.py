"""Captures that no document could be made of, and damage that extraction met."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import NotFound, WebmillError
from webmill.extract.outcomes import OUTCOMES, REJECTED
from webmill.infra.queue.sqlite_reader import view_file
from webmill.model import Document
from webmill.pipeline.documents import open_documents
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.problems.types import MAX_EXAMPLES, ProblemGroup, ProblemTally

MAX_TASKS = 200_000
MAX_FILES = 200  # of errors, and of documents, that are read for examples
MAX_ROWS = 50_000  # of documents
MAX_BYTES = 4 << 20
MEANINGS = {outcome.name: outcome.meaning for outcome in OUTCOMES}


class _MadeByTask(msgspec.Struct):
    outcomes: dict[str, int] = {}
    left_out: dict[str, int] = {}
    reasons: dict[str, int] = {}


class _ErrorLine(msgspec.Struct, rename="camel"):
    reason: str = ""
    error_message: str = ""
    url: str | None = None
    document_id: str = ""


_error = msgspec.json.Decoder(_ErrorLine)


def extract_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the causes for which captures have no document."""
    rejected, damaged, is_cut = ProblemTally(), ProblemTally(), False
    state = PublishFolders(root).extract_state
    try:
        with view_file(state / TASKS) as queue:
            for number, entry in enumerate(queue.entries()):
                if is_cut := number >= MAX_TASKS:
                    break
                if entry.result:
                    made = msgspec.json.decode(entry.result, type=_MadeByTask)
                    count_result(made, rejected, damaged, time=entry.changed)
    except NotFound:
        return
    for cause, subject, message in islice(rejected_captures(root, wanted={*counted(rejected)}), MAX_ROWS):
        rejected.add_example(cause, subject, message=message)
    for cause, subject, message in error_lines(state / "errors"):
        if cause in counted(damaged):
            damaged.add_example(cause, subject, message=message)
    yield from groups(rejected, "Captures that could not be read", is_cut=is_cut, folder=folder)
    yield from groups(damaged, "Damage in archives", is_cut=is_cut, folder=folder)


def counted(tally: ProblemTally) -> set[str]:
    return {cause for cause, _ in tally.causes()}


def count_result(made: _MadeByTask, rejected: ProblemTally, damaged: ProblemTally, *, time: float) -> None:
    for counts in (made.outcomes, made.left_out):
        for cause, count in counts.items():
            if cause in REJECTED:
                rejected.add(cause, count=count, time=time or None)
    for cause, count in made.reasons.items():
        damaged.add(cause, count=count, time=time or None)


def groups(tally: ProblemTally, title: str, *, is_cut: bool, folder: str) -> Iterator[ProblemGroup]:
    for cause, found in tally.causes():
        yield ProblemGroup(
            stage="extract",
            cause=cause,
            severity="error",
            title=f"{title}: {MEANINGS.get(cause, cause.replace('_', ' '))}",
            count=found.count,
            is_estimate=is_cut,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice="Check the archives they are in; a newer webmill may read them, when all is extracted again.",
            command=f"webmill extract {folder} --from-scratch",
        )


def rejected_captures(root: Path, *, wanted: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield outcome, URL and error of rows that say why a capture was not read; of the first files and rows only."""
    if not wanted:
        return
    try:
        files = open_documents(str(root))
        names = files.files()[:MAX_FILES]
    except WebmillError:
        return
    left, found = MAX_ROWS, dict.fromkeys(wanted, 0)
    for name in names:
        try:
            for row in islice(files.read(name, columns=("url", "outcome", "error")), left):
                left -= 1
                if isinstance(row, Document) and row.outcome in found and found[row.outcome] < MAX_EXAMPLES:
                    found[row.outcome] += 1
                    yield row.outcome, row.url, row.error or ""
        except WebmillError:
            continue
        if left <= 0 or all(count >= MAX_EXAMPLES for count in found.values()):
            return


def error_lines(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield reason, subject and message of error records, up to a number of files and bytes."""
    left = MAX_BYTES
    for file in islice(sorted(folder.glob("*.jsonl")), MAX_FILES):
        if not file.is_file():
            continue
        with file.open("rb") as stream:
            while left > 0 and (text := stream.readline(left)):
                left -= len(text)
                try:
                    line = _error.decode(text)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
                yield line.reason, line.url or line.document_id, line.error_message

"""Measuring as tasks: one for each file of documents that has not been measured by all steps of the recipe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from webmill.curate.arrow import join_columns
from webmill.curate.attributes import AttributeStore, DocumentPart
from webmill.curate.measuring import BASE, measure_batch, needed_columns, small_batches
from webmill.curate.recipe import CurateRecipe
from webmill.errors import BadInput, Conflict
from webmill.pipeline.curate.sources import DocumentColumns, read_columns
from webmill.pipeline.documents import open_documents

MAX_REPORTED = 20


class MeasureTask(msgspec.Struct, frozen=True, kw_only=True):
    """A file of documents to be measured, and by which steps: their keys."""

    documents: str
    part: DocumentPart
    recipe: CurateRecipe
    store: Path
    keys: tuple[str, ...]


class MeasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many documents were measured, and the first rows that could not be read."""

    documents: int
    problems: list[str]


def attribute_keys(recipe: CurateRecipe) -> list[str]:
    return [BASE, *dict.fromkeys(recipe.keys())]


def find_tasks(
    recipe: CurateRecipe, parts: Sequence[DocumentPart], store: AttributeStore, *, documents: str
) -> list[MeasureTask]:
    """Return a task for each file that lacks attributes."""
    keys = attribute_keys(recipe)
    tasks = []
    for part in parts:
        lacking = tuple(key for key in keys if not store.has(key, part))
        if lacking:
            tasks.append(MeasureTask(documents=documents, part=part, recipe=recipe, store=store.folder, keys=lacking))
    return tasks


def measure_part(task: MeasureTask) -> MeasureResult:
    """Measure a file of documents and write its attributes, those that reports need last."""
    problems: list[BadInput] = []
    known = task.recipe.keys()
    if not {BASE, *known} >= set(task.keys):
        raise Conflict("a file that the recipe names has other bytes here, or has changed meanwhile: run it again")
    measured = [
        measure_batch(task.recipe, columns, task.keys, known=known)
        for columns in small_batches(_readable(task, problems))
    ] or [measure_batch(task.recipe, {name: [] for name in needed_columns(task.recipe)}, task.keys, known=known)]
    store = AttributeStore(task.store)
    for key in reversed(task.keys):
        unreadable = len(problems) if key == BASE else 0
        store.write(key, task.part, join_columns([batch[key] for batch in measured]), unreadable=unreadable)
    documents = store.rows(task.keys[0], task.part)
    reported = [str(problem) for problem in problems[:MAX_REPORTED]]
    return MeasureResult(documents=documents, problems=reported)


def _readable(task: MeasureTask, problems: list[BadInput]) -> Iterator[DocumentColumns]:
    """Yield the rows of the file that can be read; a damaged file ends early, as everywhere."""
    files = open_documents(task.documents)
    try:
        for columns, bad in read_columns(files, task.part.key, needed_columns(task.recipe)):
            problems.extend(bad)
            yield columns
    except BadInput as error:
        problems.append(error)

"""Measure the documents of one batch by all steps of a recipe that ask for it, each on the text that it sees."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from webmill.curate.arrow import column_array, import_arrow
from webmill.curate.attributes import ID
from webmill.curate.recipe import CurateRecipe
from webmill.curate.steps import CurateBatch, host_of

BASE = "documents-1"  # the key of the attributes that every recipe needs
BASE_COLUMNS = ("id", "url", "date", "language")
MAX_CHARS = 1 << 22  # of a text: a longer one is removed
BATCH_CHARS = 1 << 18  # of a batch: its arrays fit in a core's cache
NO_TEXT, TOO_LONG = 1, 2  # why a document has no place in a corpus, whatever the recipe

Measured = dict[str, dict[str, Any]]  # by the key of the step


def needed_columns(recipe: CurateRecipe) -> tuple[str, ...]:
    """Return the columns of documents that a recipe reads."""
    wanted = [*BASE_COLUMNS, "text", "outcome", *(name for step in recipe.steps for name in step.columns())]
    return tuple(dict.fromkeys(wanted))


def measure_batch(
    recipe: CurateRecipe, columns: Mapping[str, Sequence[Any]], keys: Collection[str], *, known: Sequence[str]
) -> Measured:
    """Return what the steps whose keys are asked for measure. `known` are the keys of all steps."""
    texts, flaws = usable_texts(columns)
    measured: Measured = {BASE: base_columns(columns, texts, flaws)} if BASE in keys else {}
    batch = CurateBatch(texts, columns)
    last = max((number for number, key in enumerate(known) if key in keys), default=-1)
    for number, (step, key) in enumerate(zip(recipe.steps[: last + 1], known, strict=False)):
        if key in keys and key not in measured:
            measured[key] = {ID: column_array(ID, columns["id"]), **step.measure(batch)}
        if step.rewrites and number < last:
            batch = batch.with_texts(applied(step.languages, batch, step.rewrite(batch)))
    return measured


def applied(languages: Sequence[str], batch: CurateBatch, rewritten: Sequence[str]) -> list[str]:
    """Return the rewritten texts of documents that the step is for, and the others as they were."""
    if not languages:
        return list(rewritten)
    pairs = zip(batch.columns["language"], batch.text.texts, rewritten, strict=True)
    return [new if language in languages else old for language, old, new in pairs]


def usable_texts(columns: Mapping[str, Sequence[Any]]) -> tuple[list[str], list[int]]:
    """Return the texts, and what is wrong with each: those with flaws are measured as empty."""
    texts, flaws = [], []
    for text in columns["text"]:
        flaw = NO_TEXT if not text or text.isspace() else TOO_LONG if len(text) > MAX_CHARS else 0
        texts.append("" if flaw else text)
        flaws.append(flaw)
    return texts, flaws


def base_columns(columns: Mapping[str, Sequence[Any]], texts: Sequence[str], flaws: Sequence[int]) -> dict[str, Any]:
    """Return what reports and the choice among duplicates need to know of documents."""
    arrow, _ = import_arrow()
    return {
        ID: column_array(ID, columns["id"]),
        "url": column_array("url", columns["url"]),
        "host": arrow.array([host_of(url) for url in columns["url"]], arrow.string()),
        "date": np.array([_microseconds(date) for date in columns["date"]], np.int64),
        "language": arrow.array(columns["language"], arrow.string()),
        "chars": np.fromiter(map(len, texts), np.int64, len(texts)),
        "flaw": np.array(flaws, np.int8),
        "id_hash": np.array([_hash64(id_) for id_ in columns["id"]], np.uint64),
    }


def _microseconds(date: datetime | None) -> int:
    """Return the time as a number; documents without one come last."""
    return int(date.timestamp() * 1_000_000) if date else np.iinfo(np.int64).max


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def small_batches(
    batches: Iterable[Mapping[str, Sequence[Any]]], *, chars: int = BATCH_CHARS
) -> Iterator[dict[str, list[Any]]]:
    """Yield rows in batches whose texts have about `chars` characters."""
    for columns in batches:
        first, size = 0, 0
        for number, text in enumerate(columns["text"]):
            size += len(text or "") + 1
            if size >= chars:
                yield {name: list(values[first : number + 1]) for name, values in columns.items()}
                first, size = number + 1, 0
        if size:
            yield {name: list(values[first:]) for name, values in columns.items()}

"""Why a document is in a corpus or not, with every number that was measured and its limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.curate.attributes import AttributeStore, DocumentPart
from webmill.curate.decisions import CorpusDecisions
from webmill.curate.measuring import BASE
from webmill.curate.steps import CurateStep
from webmill.errors import NotFound
from webmill.pipeline.curate.run import attribute_store, open_corpus


class ExplainedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A number that a step measured, its limits, and whether it is beyond one of them."""

    name: str
    value: float | None
    least: float | None = None
    most: float | None = None
    broken: bool = False


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    numbers: list[ExplainedNumber]
    removed_here: bool = False
    concerned: bool = True  # the step is for documents of this language


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided of a document, and what each step measured. `same_as` is the document that it repeats."""

    id: str
    url: str
    kept: bool
    step: str | None
    reason: str | None
    same_as: str | None = None
    steps: list[ExplainedStep]


def explain_document(root: Path, named: str) -> Iterator[Explanation]:
    """Yield an explanation for each document with this id or URL. `NotFound`: there is none."""
    corpus, store = open_corpus(root), attribute_store(root)
    found = False
    for part, row, decision in corpus.find(named):
        found = True
        yield Explanation(
            id=decision["id"],
            url=decision["url"],
            kept=decision["kept"],
            step=decision["step"],
            reason=decision["reason"],
            same_as=_same_as(corpus, decision),
            steps=[_explained_step(corpus, store, part, row, number, decision) for number in _steps(corpus)],
        )
    if not found:
        raise NotFound(f"no document with the id or URL {named} in the corpus; `webmill curate run` takes in new ones")


def _steps(corpus: CorpusDecisions) -> range:
    return range(len(corpus.recipe.steps))


def _explained_step(
    corpus: CorpusDecisions, store: AttributeStore, part: DocumentPart, row: int, number: int, decision: dict[str, Any]
) -> ExplainedStep:
    step = corpus.recipe.steps[number]
    values = _values(store, corpus.recipe.key_of(number), part, row)
    removed_here = decision["step"] == step.title
    if removed_here and step.is_global and decision["value"] is not None:
        values["removed"] = decision["value"]  # known when all documents are
    language = store.table(BASE, part, ["language"]).column("language")[row].as_py()
    concerned = not step.languages or language in step.languages
    numbers = list(_numbers(step, values, language)) if concerned else []
    if (parts := decision.get(f"parts_{number}")) is not None:
        numbers.append(ExplainedNumber(name="parts_removed", value=len(parts)))
    return ExplainedStep(step=step.title, numbers=numbers, removed_here=removed_here, concerned=concerned)


def _values(store: AttributeStore, key: str, part: DocumentPart, row: int) -> dict[str, float]:
    columns = store.read(key, part)
    return {
        name: float(values[row]) for name, values in columns.items() if isinstance(values, np.ndarray) and name != "id"
    }


def _numbers(step: CurateStep, values: dict[str, float], language: str | None) -> Iterator[ExplainedNumber]:
    """Yield every number that has a limit, as often as it has one, then the others; no hashes."""
    limited = set()
    for limit in step.limits_for(language):
        value = values.get(limit.column)
        if value is None:
            continue
        limited.add(limit.column)
        broken = bool(limit.is_broken(np.array([value]))[0])
        yield ExplainedNumber(name=limit.column, value=_plain(value), least=limit.least, most=limit.most, broken=broken)
    if not step.is_global:
        for name in sorted(values.keys() - limited):
            yield ExplainedNumber(name=name, value=_plain(values[name]))


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value


def _same_as(corpus: CorpusDecisions, decision: dict[str, Any]) -> str | None:
    """Return the URL and id of the document that a duplicate repeats."""
    if decision["same_row"] is None:
        return str(decision["same_file"]) if decision["same_file"] else None
    part = next(part for part in corpus.parts if part.key == decision["same_file"])
    row = corpus.table(part, ["id", "url"]).slice(decision["same_row"], 1).to_pylist()[0]
    return f"{row['url']} ({row['id']})"

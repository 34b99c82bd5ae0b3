"""What a mix decided, on disk: for each document whether it is kept, and why not; and the report of it.

    corpus/decisions/FILE-DIGEST.parquet    id, url, kept, step, reason, value, limit, same_file, same_row, parts_N
    corpus/decisions/report.json            per step: in, out, reasons with examples; distributions before and after
    corpus/decisions/recipe.json            the recipe with every threshold, and the files of documents

They come together and are replaced together. `same_file` and `same_row` say which document a duplicate repeats, and
`parts_N` which lines or paragraphs of a kept document step N leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.curate.arrow import encode_table, import_arrow, read_table
from webmill.curate.attributes import DocumentPart, is_part_name
from webmill.curate.characters import Array
from webmill.curate.dedup.steps import DuplicateStep
from webmill.curate.measuring import BASE
from webmill.curate.mixing import DUPLICATE, INPUT, INPUT_REASONS, NOBODY, CorpusMix, Verdicts
from webmill.curate.recipe import CurateRecipe
from webmill.curate.report import CurateReport, Distributions, ReasonCount, StepCounts, part_values
from webmill.errors import BadInput, NotFound

REPORT, RECIPE = "report.json", "recipe.json"
EXAMPLES = 5
EARLIER = "an earlier corpus"


class DecidedRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """What decisions were made from."""

    recipe: CurateRecipe
    parts: tuple[DocumentPart, ...]
    documents: str = ""  # where they are, if not in the collection


def is_decision_file(name: str) -> bool:
    return is_part_name(name) or name in (REPORT, RECIPE)


def write_decisions(mix: CorpusMix, folder: Path, *, documents: str) -> CurateReport:
    """Write the decisions of a mix into a folder that nobody reads yet; return the report."""
    before, after = Distributions(), Distributions()
    alive = mix.verdicts.alive
    counts = _Counts(mix)
    for number, part in enumerate(mix.parts):
        first, size = mix.offsets[number], mix.sizes[number]
        base = mix.store.table(BASE, part)
        columns = decision_columns(mix, first, size, base)
        (folder / part.name).write_bytes(encode_table(columns))
        values = part_values(base)
        before.add(values)
        after.add(values, alive[first : first + size])
        counts.add(base, first, size)
    report = CurateReport(
        recipe=mix.recipe.name,
        unreadable=sum(mix.store.unreadable(BASE, part) for part in mix.parts),
        documents=mix.offsets[-1],
        kept=int(np.count_nonzero(alive)),
        steps=counts.steps(),
        before=before.summary(),
        after=after.summary(),
    )
    decided = DecidedRecipe(recipe=mix.recipe, parts=tuple(mix.parts), documents=documents)
    (folder / REPORT).write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    (folder / RECIPE).write_bytes(msgspec.json.format(msgspec.json.encode(decided)) + b"\n")
    return report


def decision_columns(mix: CorpusMix, first: int, size: int, base: Any) -> dict[str, Any]:
    """Return the columns of the documents from number `first` on."""
    arrow, _ = import_arrow()
    verdicts, here = mix.verdicts, slice(first, first + size)
    steps, values = verdicts.steps[here], verdicts.values[here]
    languages = base.column("language").combine_chunks().dictionary_encode()
    codes = languages.indices.fill_null(len(languages.dictionary)).to_numpy().astype(np.int64)
    names = [*languages.dictionary.to_pylist(), None]
    numbers = ((steps.astype(np.int64) - Verdicts.KEPT) << 48) + (verdicts.reasons[here].astype(np.int64) << 32) + codes
    every, which = np.unique(numbers, return_inverse=True)
    triples = [((one >> 48) + Verdicts.KEPT, (one >> 32) & 0xFFFF, names[one & 0xFFFFFFFF]) for one in every.tolist()]
    found = [reason_of(mix.recipe, step, reason) for step, reason, _ in triples]
    limits = [_limit_of(mix.recipe, *triple) for triple in triples]
    return {
        "id": base.column("id").combine_chunks(),
        "url": base.column("url").combine_chunks(),
        "kept": steps == Verdicts.KEPT,
        "step": arrow.array([step for step, _ in found], arrow.string()).take(which),
        "reason": arrow.array([reason for _, reason in found], arrow.string()).take(which),
        "value": arrow.array(values, mask=np.isnan(values)),
        "limit": arrow.array(limits, arrow.float64()).take(which),
        **_same_columns(mix, verdicts.keepers[here]),
        **_removed_parts(mix, first, size),
    }


def reason_of(recipe: CurateRecipe, step: int, reason: int) -> tuple[str | None, str | None]:
    """Return the step and the reason in words; nothing for a document that is kept."""
    if step == Verdicts.KEPT:
        return None, None
    if step == INPUT:
        return "input", INPUT_REASONS[reason]
    one = recipe.steps[step]
    return one.title, DUPLICATE if isinstance(one, DuplicateStep) else one.limits()[reason].reason


def _limit_of(recipe: CurateRecipe, step: int, reason: int, language: str | None) -> float | None:
    if step < 0 or not (limits := recipe.steps[step].limits_for(language)):
        return None
    limit = limits[reason]
    return limit.least if limit.least is not None else limit.most


def _same_columns(mix: CorpusMix, keepers: Array) -> dict[str, Any]:
    arrow, _ = import_arrow()
    known = (keepers != NOBODY) & (keepers >= 0)
    places = np.where(known, keepers, 0)
    parts = np.searchsorted(mix.offsets, places, side="right") - 1
    rows = places - np.asarray(mix.offsets)[parts]
    numbers = np.where(keepers < 0, len(mix.parts), np.where(known, parts, len(mix.parts) + 1))
    used, which = np.unique(numbers, return_inverse=True)
    names = [_file_name(mix, number) for number in used.tolist()]
    files = arrow.array(names, arrow.string()).take(which)
    return {"same_file": files, "same_row": arrow.array(rows, mask=~known)}


def _file_name(mix: CorpusMix, number: int) -> str | None:
    return mix.parts[number].key if number < len(mix.parts) else EARLIER if number == len(mix.parts) else None


def _removed_parts(mix: CorpusMix, first: int, size: int) -> dict[str, Any]:
    arrow, _ = import_arrow()
    columns = {}
    for number, (marks, bounds) in mix.removed_parts.items():
        edges = bounds[first : first + size + 1]
        marked = np.flatnonzero(marks[edges[0] : edges[-1]])
        offsets = np.searchsorted(marked, edges - edges[0]).astype(np.int32)
        owners = np.searchsorted(edges - edges[0], marked, side="right") - 1
        numbers = (marked - (edges[owners] - edges[0])).astype(np.int32)
        columns[f"parts_{number}"] = arrow.ListArray.from_arrays(offsets, arrow.array(numbers))
    return columns


class _Counts:
    """How many documents came to each step, how many it removed for which reason, and some of them."""

    def __init__(self, mix: CorpusMix) -> None:
        self._mix = mix
        self._found: dict[int, dict[str, ReasonCount]] = {}

    def add(self, base: Any, first: int, size: int) -> None:
        verdicts = self._mix.verdicts
        steps, reasons = verdicts.steps[first : first + size], verdicts.reasons[first : first + size]
        pairs = np.unique(np.stack((steps, reasons))[:, steps != Verdicts.KEPT], axis=1).T
        for step, reason in pairs.tolist():
            rows = np.flatnonzero((steps == step) & (reasons == reason))
            name = reason_of(self._mix.recipe, step, reason)[1] or ""
            known = self._found.setdefault(step, {}).setdefault(name, ReasonCount())
            known.count += len(rows)
            for row in rows[: EXAMPLES - len(known.examples)].tolist():
                value = float(verdicts.values[first + row])
                known.examples.append(f"{base.column('url')[row]}" + ("" if np.isnan(value) else f" ({value:.4g})"))

    def steps(self) -> list[StepCounts]:
        left = self._mix.offsets[-1]
        counted = []
        for number, title in enumerate(("input", *(step.title for step in self._mix.recipe.steps)), INPUT):
            reasons = self._found.get(number, {})
            removed = sum(one.count for one in reasons.values())
            counted.append(
                StepCounts(step=title, documents=left, removed=removed, reasons=dict(sorted(reasons.items())))
            )
            left -= removed
        return counted


class CorpusDecisions:
    """The decisions of a corpus, read back. `NotFound`: none were made yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.decided: DecidedRecipe = self._decode(RECIPE, DecidedRecipe)

    @property
    def recipe(self) -> CurateRecipe:
        return self.decided.recipe

    @property
    def parts(self) -> Sequence[DocumentPart]:
        return self.decided.parts

    def report(self) -> CurateReport:
        report: CurateReport = self._decode(REPORT, CurateReport)
        return report

    def table(self, part: DocumentPart, columns: Sequence[str] | None = None) -> Any:
        return read_table(self.folder / part.name, columns, repair="run `webmill curate run` again")

    def kept(self, part: DocumentPart) -> Array:
        return np.asarray(self.table(part, ["kept"]).column("kept").to_numpy(), bool)

    def find(self, named: str) -> Iterator[tuple[DocumentPart, int, dict[str, Any]]]:
        """Yield the documents with this id or URL: their part, row and decision."""
        from pyarrow import compute

        for part in self.parts:
            table = self.table(part)
            hits = compute.or_(compute.equal(table.column("id"), named), compute.equal(table.column("url"), named))
            for row in np.flatnonzero(hits.to_numpy()).tolist():
                yield part, row, table.slice(row, 1).to_pylist()[0]

    def _decode(self, name: str, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode((self.folder / name).read_bytes(), type=kind)
        except FileNotFoundError:
            raise NotFound(f"no corpus in {self.folder.parent}: make one with `webmill curate run`") from None
        except msgspec.MsgspecError as error:
            raise BadInput(
                f"{error}; run `webmill curate run` again", reason="bad_decisions", source=str(self.folder / name)
            ) from error

"""The mix: thresholds applied, step by step, to what was measured. Which documents are kept, and why others are not.

It reads attributes, never text. A step sees the documents that all steps before it have kept, over the whole corpus.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from webmill.curate.arrow import as_array, import_arrow
from webmill.curate.attributes import AttributeStore, DocumentPart, numbers_only
from webmill.curate.characters import Array
from webmill.curate.dedup.clusters import (
    UnionFind,
    choose_keepers,
    connected,
    equal_pairs,
    key_passes,
)
from webmill.curate.dedup.minhash import similarity
from webmill.curate.dedup.steps import HOST, DuplicateStep, NearDuplicates, RepeatedParts
from webmill.curate.measuring import BASE
from webmill.curate.recipe import CurateRecipe
from webmill.curate.steps import CurateStep, judge

INPUT = -1  # the number of the step that removes what has no text
INPUT_REASONS = ("no_text", "text_too_long")
DUPLICATE = "duplicate"
NOBODY = np.iinfo(np.int64).max  # the keeper of a document that repeats none
MAPPED_PARTS = 1 << 28  # lines of a corpus from which on their marks are in files
SMALL_BYTES = 256 << 20  # of keys that are kept in memory
PAIRS_AT_ONCE = 1 << 18  # of signatures to compare


class EarlierPart(msgspec.Struct, frozen=True):
    """Attributes of an earlier corpus, and which of its documents that corpus keeps."""

    store: AttributeStore
    key: str
    part: DocumentPart
    kept: Array


class Verdicts:
    """For each document: the step that removed it (`KEPT`: none), the reason, the number, whom it repeats."""

    KEPT = -2

    def __init__(self, size: int) -> None:
        self.steps = np.full(size, self.KEPT, np.int16)
        self.reasons = np.zeros(size, np.int16)
        self.values = np.full(size, np.nan, np.float64)
        self.keepers = np.full(size, NOBODY)  # of duplicates: a document, or -1 and less, of an earlier corpus

    @property
    def alive(self) -> Array:
        return np.asarray(self.steps == self.KEPT)

    def remove(self, places: Array, *, step: int, reasons: Array | int, values: Array | float = np.nan) -> None:
        self.steps[places] = step
        self.reasons[places] = reasons
        self.values[places] = values


class CorpusMix:
    """One mix of a corpus: `parts` are its files of documents, in order."""

    def __init__(
        self,
        recipe: CurateRecipe,
        store: AttributeStore,
        parts: Sequence[DocumentPart],
        *,
        work: Path,
        earlier: Sequence[Sequence[EarlierPart]] = (),
    ) -> None:
        self.recipe, self.store, self.parts, self.work = recipe, store, parts, work
        self._earlier = earlier or [() for _ in recipe.steps]
        self.sizes = [store.rows(BASE, part) for part in parts]
        self.offsets = [0, *accumulate(self.sizes)]
        self.verdicts = Verdicts(self.offsets[-1])
        self._read_languages: tuple[int, Any] = (-1, None)  # of the part that was looked at last
        self.removed_parts: dict[int, tuple[Array, Array]] = {}  # by step: marks of lines, offsets of documents

    def run(self) -> Verdicts:
        """Apply every step, in order."""
        self._remove_flawed()
        for number, step in enumerate(self.recipe.steps):
            if isinstance(step, DuplicateStep):
                self._remove_duplicates(number, step)
            elif isinstance(step, RepeatedParts):
                self._remove_repeats(number, step)
            else:
                self._apply_limits(number, step)
        return self.verdicts

    # --- steps that look at one document ---

    def _remove_flawed(self) -> None:
        for part, first in zip(self.parts, self.offsets, strict=False):
            flaws = self.store.read(BASE, part, ["flaw"])["flaw"]
            places = np.flatnonzero(flaws)
            self.verdicts.remove(places + first, step=INPUT, reasons=flaws[places] - 1)

    def _apply_limits(self, number: int, step: CurateStep) -> None:
        key, limits = self.recipe.key_of(number), step.limits()
        own_limits = {language: step.limits_for(language) for language in step.own_languages()}
        every = [*limits, *(limit for own in own_limits.values() for limit in own)]
        wanted = {limit.column for limit in every if limit.is_active}
        if not wanted:
            return
        for part in range(len(self.parts)):
            columns = numbers_only(self.store.read(key, self.parts[part], wanted))
            broken, values = judge(limits, columns, size=self.sizes[part])
            for language in self._languages_of(part, own_limits):
                own = np.flatnonzero(self._are_in(part, (language,)))
                chosen = {name: column[own] for name, column in columns.items()}
                broken[own], values[own] = judge(own_limits[language], chosen, size=len(own))
            self._remove_broken(number, step, part, broken, values)

    def _remove_broken(self, number: int, step: CurateStep, part: int, broken: Array, values: Array) -> None:
        first, size = self.offsets[part], self.sizes[part]
        hit = np.flatnonzero((broken >= 0) & self._concerned(step, part))
        hit = hit[self.verdicts.steps[first : first + size][hit] == Verdicts.KEPT]
        self.verdicts.remove(first + hit, step=number, reasons=broken[hit], values=values[hit])

    def _concerned(self, step: CurateStep, part: int) -> Array:
        """Return which documents of a part a step is for."""
        return self._are_in(part, step.languages) if step.languages else np.ones(self.sizes[part], bool)

    def _languages_of(self, part: int, wanted: Collection[str]) -> list[str]:
        """Return which of these languages documents of a part are in."""
        return [name for name in self._language(part).unique().to_pylist() if name in wanted] if wanted else []

    def _are_in(self, part: int, languages: Sequence[str]) -> Array:
        """Return which documents of a part are in one of these languages."""
        among = _arrow_compute().is_in(self._language(part), value_set=import_arrow()[0].array(languages))
        return np.asarray(among.to_numpy(zero_copy_only=False), bool)

    def _language(self, part: int) -> Any:
        if part != self._read_languages[0]:
            self._read_languages = part, self.store.read(BASE, self.parts[part], ["language"])["language"]
        return self._read_languages[1]

    # --- steps that look at all documents ---

    def _remove_duplicates(self, number: int, step: DuplicateStep) -> None:
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            found = DuplicateSearch(self, number, step, self._earlier[number], Path(folder))
            removed, keepers = found.duplicates()
        self.verdicts.remove(removed, step=number, reasons=0)
        self.verdicts.keepers[removed] = keepers

    def _remove_repeats(self, number: int, step: RepeatedParts) -> None:
        key = self.recipe.key_of(number)
        counts = [self._part_counts(key, part) for part in self.parts]
        per_document = np.concatenate([np.zeros(0, np.int64), *counts])
        bounds = np.concatenate(([0], np.cumsum(per_document)))
        offsets = bounds[self.offsets].tolist()
        marks, alive = (self._flags(f"{name}-{number}", offsets[-1]) for name in ("marks", "alive"))
        documents_alive = self._alive_for(step)

        def hashes_of(part: int) -> Array:
            return _flat(self.store.read(key, self.parts[part], ["hashes"])["hashes"])

        for part, (first, size) in enumerate(zip(self.offsets, self.sizes, strict=False)):
            here = np.repeat(documents_alive[first : first + size], per_document[first : first + size])
            alive[offsets[part] : offsets[part + 1]] = here & (hashes_of(part) != 0)
        passes = key_passes(hashes_of, offsets, alive)
        step.mark(passes, bounds, marks, lambda: self._pages_of_hosts(key, documents_alive))
        self.removed_parts[number] = marks, bounds
        self._limit_repeats(number, step, key, marks, bounds)

    def _pages_of_hosts(self, key: str, alive: Array) -> Array:
        """Return for each document how many its host has of those that are there."""
        hosts = [self.store.read(key, part, [HOST])[HOST] for part in self.parts]
        names, which = np.unique(np.concatenate([np.zeros(0, np.uint64), *hosts]), return_inverse=True)
        return np.bincount(which[alive], minlength=len(names))[which]

    def _flags(self, name: str, size: int) -> Array:
        """Return a flag for each line of the corpus: in memory, or in a file if there are very many."""
        if size < MAPPED_PARTS:
            return np.zeros(size, bool)
        return np.memmap(self.work / f"{name}.bool", bool, "w+", shape=(size,))

    def _alive_for(self, step: CurateStep) -> Array:
        concerned = [self._concerned(step, part) for part in range(len(self.parts))]
        return np.asarray(self.verdicts.alive & np.concatenate([np.zeros(0, bool), *concerned]))

    def _part_counts(self, key: str, part: DocumentPart) -> Array:
        return np.asarray(
            _arrow_compute().list_value_length(self.store.read(key, part, ["lengths"])["lengths"]), np.int64
        )

    def _limit_repeats(self, number: int, step: RepeatedParts, key: str, marks: Array, bounds: Array) -> None:
        for part, (first, size) in enumerate(zip(self.offsets, self.sizes, strict=False)):
            lengths = _flat(self.store.read(key, self.parts[part], ["lengths"])["lengths"]).astype(np.float64)
            edges = bounds[first : first + size + 1] - bounds[first]
            marked = marks[bounds[first] : bounds[first + size]]
            gone = np.concatenate(([0.0], np.cumsum(lengths * marked)))
            every = np.concatenate(([0.0], np.cumsum(lengths)))
            whole = every[edges[1:]] - every[edges[:-1]]
            share = np.divide(gone[edges[1:]] - gone[edges[:-1]], whole, out=np.zeros(size), where=whole > 0)
            broken, values = judge(step.limits(), {"removed": share}, size=size)
            self._remove_broken(number, step, part, broken, values)


class DuplicateSearch:
    """The search of one step for documents that belong together. Those of earlier corpora come first in its numbers."""

    def __init__(
        self, mix: CorpusMix, number: int, step: DuplicateStep, earlier: Sequence[EarlierPart], folder: Path
    ) -> None:
        self.mix, self.step, self.earlier, self.folder = mix, step, earlier, folder
        self.key = mix.recipe.key_of(number)
        self.before = sum(len(one.kept) for one in earlier)
        own = [self.before + offset for offset in mix.offsets]
        self.offsets = [*accumulate((len(one.kept) for one in earlier), initial=0)][:-1] + own
        self.alive = np.concatenate([np.zeros(0, bool), *(one.kept for one in earlier), mix._alive_for(step)])
        self._is_small = len(self.alive) * (len(step.key_columns()) + 1) * 8 <= SMALL_BYTES
        self._kept: dict[int, dict[str, Array]] = {}
        self._leave_out_invalid()

    def _column(self, part: int, name: str) -> Array:
        """Return a column of a part; those of a small corpus are read once."""
        if not self._is_small:
            return self._read(part, [name])[name]
        if part not in self._kept:
            self._kept[part] = self._read(part, [self.step.valid_column(), *self.step.key_columns()])
        return self._kept[part][name]

    def _read(self, part: int, names: Sequence[str]) -> dict[str, Array]:
        if part < len(self.earlier):
            one = self.earlier[part]
            return one.store.read(one.key, one.part, names)
        return self.mix.store.read(self.key, self.mix.parts[part - len(self.earlier)], names)

    def _leave_out_invalid(self) -> None:
        for part, (first, end) in enumerate(zip(self.offsets, self.offsets[1:], strict=False)):
            self.alive[first:end] &= self._column(part, self.step.valid_column()) > 0

    def duplicates(self) -> tuple[Array, Array]:
        """Return the documents that are not kept, and for each the one that is: negative if in an earlier corpus."""
        sets = UnionFind(len(self.alive), folder=self.folder)
        signatures = self._signatures() if isinstance(self.step, NearDuplicates) and self.step.verify else None
        for name in self.step.key_columns():
            passes = key_passes(lambda part, name=name: self._column(part, name), self.offsets, self.alive)  # type: ignore[misc]
            for keys, members in passes:
                ones, others, leaders = equal_pairs(keys, members)
                if signatures is not None:
                    self._join_verified(sets, signatures, ones, others)
                    self._join_verified(sets, signatures, leaders, others)
                else:
                    sets.join(ones, others)
        members, roots = connected(sets, self.alive)
        removed, keepers = choose_keepers(members, roots, self._ranks(members))
        own = removed >= self.before
        return removed[own] - self.before, keepers[own] - self.before

    def _ranks(self, members: Array) -> list[Array]:
        """Return by what the documents of a set are compared; the least is kept."""
        is_own = members >= self.before
        rest = members[is_own] - self.before
        size = len(members)
        chars: Array = np.zeros(size, np.int64)
        dates: Array = np.zeros(size, np.int64)
        hashes: Array = np.zeros(size, np.uint64)
        hosts: Array = np.zeros(size, np.int8)
        found = self._base(rest)
        chars[is_own], dates[is_own], hashes[is_own], hosts[is_own] = found
        by_rule = {"longest": [-chars, dates], "earliest": [dates, -chars], "first": []}[self.step.keep]
        return [is_own, hosts, *by_rule, *([hashes] if self.step.keep != "first" else [])]

    def _base(self, members: Array) -> tuple[Array, Array, Array, Array]:
        """Return characters, dates, hashes of the ids, and 0 for preferred hosts, of documents in order."""
        pieces: list[list[Array]] = [[], [], [], []]
        compute = _arrow_compute()
        preferred = import_arrow()[0].array(self.step.prefer_hosts, import_arrow()[0].string())
        for part, first, size in zip(self.mix.parts, self.mix.offsets, self.mix.sizes, strict=False):
            inside = members[np.searchsorted(members, first) : np.searchsorted(members, first + size)] - first
            if not len(inside):
                continue
            columns = self.mix.store.read(BASE, part, ["chars", "date", "id_hash", "host"])
            others = ~np.asarray(compute.is_in(columns["host"].take(inside), value_set=preferred))
            for piece, values in zip(pieces, (columns["chars"], columns["date"], columns["id_hash"]), strict=False):
                piece.append(values[inside])
            pieces[3].append(others.astype(np.int8))
        chars, dates, hashes, hosts = map(_joined, pieces)
        return chars, dates, hashes, hosts

    # --- verification ---

    def _signatures(self) -> Array:
        """Return all signatures, in a file: 8 bytes a document and band."""
        names = self.step.key_columns()
        shape = (len(self.alive), len(names))
        if not shape[0]:
            return np.zeros(shape, np.uint64)
        matrix: Array = np.memmap(self.folder / "signatures.u64", np.uint64, "w+", shape=shape)
        for part, (first, end) in enumerate(zip(self.offsets, self.offsets[1:], strict=False)):
            for band, name in enumerate(names):
                matrix[first:end, band] = self._column(part, name)
        return matrix

    def _join_verified(self, sets: UnionFind, signatures: Array, ones: Array, others: Array) -> None:
        assert isinstance(self.step, NearDuplicates)
        for first in range(0, len(ones), PAIRS_AT_ONCE):
            left, right = ones[first : first + PAIRS_AT_ONCE], others[first : first + PAIRS_AT_ONCE]
            index = similarity(np.asarray(signatures[left]), np.asarray(signatures[right]), rows=self.step.rows)
            alike = index >= (self.step.verify or 0.0)
            sets.join(left[alike], right[alike])


def _joined(pieces: Sequence[Array]) -> Array:
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _flat(lists: Any) -> Array:
    return np.asarray(as_array(lists.flatten()))


def _arrow_compute() -> Any:
    import_arrow()
    from pyarrow import compute

    return compute

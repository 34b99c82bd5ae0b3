"""Which URLs are known, exactly: sorted runs of their 128-bit hashes, and a table in memory of the newest.

Filters give the quick no, one for the runs of each size (`run_groups`); a "maybe" is decided by the hashes themselves.
When the table is full it becomes a run of level 0; eight runs of a level are merged into one of the next, a slice at a
time, so that no caller waits long and memory stays what it is. A hash is in one place only, hence its place never
matters to an answer.

The runs that count are those in the SQLite table `run`. What the table in memory holds is in the frontier's journal,
from which it is filled again after a kill.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from hashlib import blake2b
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np

from webmill.crawl.frontier.hashes import HASH_SIZE, HashQuery, Indexes, Numbers, find_maybe, join_hashes, make_query
from webmill.crawl.frontier.sorted_hash_run import (
    HASHES_PER_WORD,
    HashRun,
    HashSource,
    MemoryRun,
    WriteSteps,
    filter_words,
    write_run,
)
from webmill.infra import atomic, sqlite

log = logging.getLogger(__name__)

MERGE_FAN_IN = 8  # runs of a level that are merged into one
MAX_VERIFIED = 1 << 25  # hashes of a run that is read through when it is opened: about half a second
MAX_FILTER_SIZE = 16 << 20  # bytes of such a filter: of a level with eight runs of a million hashes


def hash_url(url: bytes) -> bytes:
    return blake2b(url, digest_size=HASH_SIZE).digest()


class RunMerge(msgspec.Struct):
    into: int
    sources: list[int]
    steps: WriteSteps


class SeenUrls:
    def __init__(
        self,
        folder: Path,
        database: sqlite.Database,
        *,
        fan: int = MERGE_FAN_IN,
        hashes_per_word: int = HASHES_PER_WORD,
    ) -> None:
        atomic.make_folder(folder)
        self._folder, self._database = folder, database
        self._fan, self._hashes_per_word = fan, hashes_per_word
        self._sparse = hashes_per_word / fan  # of a filter that is laid together with those of a level
        self._newest: set[bytes] = set()
        self._runs: dict[int, HashRun] = {}
        self._levels: dict[int, int] = {}
        self._merges: dict[int, RunMerge] = {}
        self._groups: list[RunGroup] = []
        self._last = 0
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        for number, level in self._database.read("SELECT number, level FROM run ORDER BY number"):
            run = HashRun(self._path(number))
            self._runs[number], self._levels[number] = run, level
            if run.count <= MAX_VERIFIED:
                run.verify()
            self._last = number
        atomic.remove_stale_temps(self._folder)
        for path in self._folder.glob("*.run"):  # written, and killed before it counted; or merged into another
            if path.stem not in map(run_name, self._runs):
                path.unlink()
        self._order()

    def __len__(self) -> int:
        """Return the size of the table in memory."""
        return len(self._newest)

    def unknown(self, hashes: Sequence[bytes]) -> list[bool]:
        """Return for each whether it is new. Of equal ones among them all are."""
        newest, rows = self._newest, join_hashes(hashes)
        answers = np.array([hash_ not in newest for hash_ in hashes], np.bool_)
        # In the order of the hashes, which is that of all runs: neighbours lie in the same pages of memory.
        places = np.argsort(rows["high"].astype(np.uint64))
        places = places[answers[places]]
        left = make_query(rows[places])
        for group in self._groups:
            answers[places[group.find(left)]] = False
            rest = np.flatnonzero(answers[places])
            places, left = places[rest], left.at(rest)
        new: list[bool] = answers.tolist()
        return new

    def add(self, hashes: Iterable[bytes]) -> None:
        self._newest.update(hashes)

    @contextmanager
    def flushing(self) -> Iterator[int]:
        """Write the table in memory as a run; it counts when the caller's block has registered it, durably."""
        number = self._next_number()
        for _ in self._write(number, [MemoryRun(self._newest)]):
            pass
        with self._adopting(number, level=0):
            yield number
        self._newest = set()

    def register(self, run: sqlite.Run, number: int, *, level: int = 0) -> None:
        run("INSERT INTO run (number, level) VALUES (?, ?)", (number, level))

    def advance(self, hashes: int) -> None:
        """Continue merges, as far as that many new URLs pay for: each level is ready before its next is due."""
        if not hashes:
            return
        self._start_merges()
        for level, merge in list(self._merges.items()):
            try:
                self._step(level, merge, hashes=hashes + hashes // 4)
            except BaseException:
                del self._merges[level]  # begun anew the next time
                raise

    def _start_merges(self) -> None:
        busy = {number for merge in self._merges.values() for number in merge.sources}
        idle = sorted((level, number) for number, level in self._levels.items() if number not in busy)
        for level, group in groupby(idle, key=lambda entry: entry[0]):
            sources = [number for _, number in group][: self._fan]
            if len(sources) == self._fan and level not in self._merges:
                into = self._next_number()
                runs = [self._runs[number] for number in sources]
                self._merges[level] = RunMerge(into, sources, self._write(into, runs))

    def _write(self, number: int, sources: Sequence[HashSource]) -> WriteSteps:
        """Write a run, with a sparse filter for a group of its level, where that is not too large."""
        count = sum(source.count for source in sources)
        is_sparse = 8 * filter_words(count, self._sparse) <= MAX_FILTER_SIZE
        room = self._sparse if is_sparse else self._hashes_per_word
        return write_run(self._path(number), sources, hashes_per_word=room)

    def _step(self, level: int, merge: RunMerge, *, hashes: int) -> None:
        for done in merge.steps:
            hashes -= done
            if hashes <= 0:
                return
        with self._adopting(merge.into, level=level + 1), self._database.write() as run:
            self.register(run, merge.into, level=level + 1)
            self._database.many("DELETE FROM run WHERE number = ?", ((number,) for number in merge.sources))
        del self._merges[level]
        for number in merge.sources:
            self._drop(number)
        log.info("seen_merged", extra={"runs": len(merge.sources), "level": level + 1})

    @contextmanager
    def _adopting(self, number: int, *, level: int) -> Iterator[None]:
        """Open a new run before the block, so that nothing can fail once the block has made it count."""
        new = HashRun(self._path(number))
        try:
            yield
        except BaseException:
            new.close()
            raise
        self._runs[number], self._levels[number] = new, level
        self._order()

    def _drop(self, number: int) -> None:
        del self._levels[number]
        old = self._runs.pop(number)
        self._order()
        old.close()
        try:
            old.path.unlink()
        except OSError as error:  # it no longer counts: removed when the frontier is opened the next time
            log.warning("seen_run_left", extra={"path": str(old.path), "why": str(error)})

    def _order(self) -> None:
        self._groups = group_runs(list(self._runs.values()), before=self._groups, hashes_per_word=self._sparse)

    def _next_number(self) -> int:
        self._last += 1
        return self._last

    def _path(self, number: int) -> Path:
        return self._folder / f"{run_name(number)}.run"

    def __iter__(self) -> Iterator[bytes]:
        for run in self._runs.values():
            yield from run
        yield from self._newest

    def paths(self) -> list[Path]:
        """Return the files of the runs that count."""
        return [run.path for run in self._runs.values()]

    def close(self) -> None:
        for merge in self._merges.values():
            merge.steps.close()  # removes its draft
        self._merges.clear()
        self._groups = []
        for run in self._runs.values():
            run.close()
        self._runs.clear()


def run_name(number: int) -> str:
    return f"{number:08d}"


class RunGroup:
    """Runs of one size, which are searched together: one filter over the filters of all of them.

    Their filters have as many words and are sparse, each with room for what a whole level has: laid one over the other,
    word by word, they are the filter that one run of all their hashes would have. So a frontier asks two or three
    filters, whether it has one million URLs or ten, and not one for each of twenty runs. Runs that are not sparse (the
    largest, and those of an earlier webmill) are asked alone. `before` is the group of this size before: what was laid
    together need not be again.
    """

    def __init__(self, runs: Sequence[HashRun], *, before: RunGroup | None = None) -> None:
        self.runs = runs
        self.count = sum(run.count for run in runs)
        self._words = reduce(np.bitwise_or, self._parts(before))

    def _parts(self, before: RunGroup | None) -> list[Numbers]:
        if before is None or not set(before.runs) <= set(self.runs):
            return [run.words for run in self.runs]
        return [before._words, *(run.words for run in self.runs if run not in before.runs)]

    def maybe(self, hashes: HashQuery) -> Indexes:
        """Return the indexes of those that one of the runs may hold, by the filter."""
        return find_maybe(self._words, hashes)

    def find(self, hashes: HashQuery) -> Indexes:
        """Return the indexes of those that one of the runs holds, exactly."""
        maybe = self.maybe(hashes)
        found, some = [], hashes.at(maybe)
        for run in self.runs:
            here = find_maybe(run.words, some)
            found.append(maybe[here[run.holds(some.at(here))]])
        return np.concatenate(found)


def group_runs(runs: Sequence[HashRun], *, before: Sequence[RunGroup], hashes_per_word: float) -> list[RunGroup]:
    """Return groups of the runs, the largest first: most answers are there. `hashes_per_word`: of a sparse filter."""
    known = {group.runs[0].word_count: group for group in before if len(group.runs) > 1}
    sparse: dict[int, list[HashRun]] = {}
    found: list[RunGroup] = []
    for run in runs:
        if _is_sparse(run, hashes_per_word):
            sparse.setdefault(run.word_count, []).append(run)
        else:
            found.append(RunGroup([run]))
    found += (RunGroup(group, before=known.get(words)) for words, group in sparse.items())
    return sorted(found, key=lambda group: -group.count)


def _is_sparse(run: HashRun, hashes_per_word: float) -> bool:
    """Tell whether several such runs fit into one filter."""
    is_small = run.words.nbytes <= MAX_FILTER_SIZE and run.word_count & (run.word_count - 1) == 0
    return is_small and run.count <= 1.5 * hashes_per_word * run.word_count

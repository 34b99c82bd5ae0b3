"""Runs that are asked together answer as each of them would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from webmill.crawl.frontier.hashes import join_hashes, make_query
from webmill.crawl.frontier.seen_urls import MAX_FILTER_SIZE, RunGroup, SeenUrls, group_runs
from webmill.crawl.frontier.sorted_hash_run import HashRun, MemoryRun, filter_words, write_run
from webmill.crawl.frontier.sqlite_state import SqliteState

SPARSE = 0.5  # hashes per word


def hashes_of(dice: random.Random, count: int) -> set[bytes]:
    return {dice.randbytes(16) for _ in range(count)}


@contextmanager
def opened(folder: Path, tables: list[set[bytes]], *, hashes_per_word: float = SPARSE) -> Iterator[list[HashRun]]:
    with ExitStack() as stack:
        runs = []
        for number, table in enumerate(tables):
            path = folder / f"{number}.run"
            for _ in write_run(path, [MemoryRun(table)], hashes_per_word=hashes_per_word):
                pass
            runs.append(stack.enter_context(closing(HashRun(path))))
        yield runs


def found(groups: list[RunGroup], hash_: bytes) -> list[bool]:
    return [group.find(make_query(join_hashes([hash_]))).tolist() == [0] for group in groups]


def test_runs_of_one_size_are_one_group_that_holds_what_each_holds(tmp_path: Path) -> None:
    dice = random.Random(1)
    tables = [hashes_of(dice, 500) for _ in range(5)]
    with opened(tmp_path, tables) as runs:
        (group,) = group_runs(runs, before=[], hashes_per_word=SPARSE)
        assert group.count == 2500
        assert all(found([group], hash_) == [True] for table in tables for hash_ in table)
        strangers = hashes_of(dice, 2000)
        assert not any(found([group], hash_) == [True] for hash_ in strangers)
        maybe = group.maybe(make_query(join_hashes(sorted(strangers))))
        assert len(maybe) < 60  # as one run of all of them: 0.6 %


@pytest.mark.parametrize("kept", [0, 2, 4], ids=["without those before", "more than before", "less than before"])
def test_a_group_that_is_made_of_the_one_before_is_the_same(tmp_path: Path, kept: int) -> None:
    dice = random.Random(2)
    with opened(tmp_path, [hashes_of(dice, 300) for _ in range(4)]) as runs:
        before = group_runs(runs[:kept], before=[], hashes_per_word=SPARSE) if kept else []
        now = runs[1:] if kept == 4 else runs
        (group,) = group_runs(now, before=before, hashes_per_word=SPARSE)
        (fresh,) = group_runs(now, before=[], hashes_per_word=SPARSE)
        assert group._words.tolist() == fresh._words.tolist()


def test_what_is_not_sparse_and_what_is_of_another_size_is_asked_alone(tmp_path: Path) -> None:
    dice = random.Random(3)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        opened(tmp_path / "a", [hashes_of(dice, 4000) for _ in range(2)], hashes_per_word=4.0) as dense,
        opened(tmp_path / "b", [hashes_of(dice, 500), hashes_of(dice, 500), hashes_of(dice, 4000)]) as sparse,
    ):
        groups = group_runs([*dense, *sparse], before=[], hashes_per_word=SPARSE)
        assert [(len(group.runs), group.count) for group in groups] == [(1, 4000)] * 3 + [(2, 1000)]


def test_ten_times_as_many_urls_are_asked_of_hardly_more_filters(tmp_path: Path) -> None:
    dice = random.Random(4)
    state = SqliteState(tmp_path / "state.sqlite")
    with closing(state), closing(SeenUrls(tmp_path / "seen", state.database)) as seen:
        most = 0
        for _ in range(77):  # as of ten million, in small
            table = hashes_of(dice, 128)
            seen.add(table)
            with seen.flushing() as number, state.database.write() as run:
                seen.register(run, number)
            seen.advance(128)
            most = max(most, len(seen._groups))
            assert not any(seen.unknown(list(table)))
        assert most <= 3
        assert all(seen.unknown(list(hashes_of(dice, 500))))


@pytest.mark.parametrize("more", [0, 99], ids=["as planned", "a little more, as a table always has"])
def test_runs_of_the_largest_level_that_is_laid_together_are_sparse(tmp_path: Path, more: int) -> None:
    fan, planned = 64, MAX_FILTER_SIZE // 8 // 64
    state = SqliteState(tmp_path / "state.sqlite")
    with closing(state), closing(SeenUrls(tmp_path / "seen", state.database, fan=fan, hashes_per_word=1)) as seen:
        seen.add(hashes_of(random.Random(5), planned + more))
        with seen.flushing() as number, state.database.write() as run:
            seen.register(run, number)
        (group,) = seen._groups
        assert group.runs[0].word_count == MAX_FILTER_SIZE // 8 == filter_words(planned, 1 / fan)

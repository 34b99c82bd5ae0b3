"""Readers that look again and again while an index is rebuilt again and again: each answer is of one whole generation.

webmill and pywb never fail; DuckDB, which lists files and then opens them one by one, may have to ask again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.index_samples import at_rest, index, indexes, lines_of, put, tables, warc
from webmill.index.lookup.indexes import open_index
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.pipeline.index import IndexingOptions

GENERATIONS = 8
OPTIONS = IndexingOptions(shards=4, lines=5)
Answers = dict[str, int]  # digest of an answer -> its generation


def digest(lines: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(line.rstrip(b"\n") + b"\n" for line in lines)).hexdigest()


def make_generation(root: Path, number: int) -> None:
    """One archive is as always, so that some shards and tables stay; the other is another one each time."""
    if not (root / "a.warc.gz").exists():
        put(root, "a.warc.gz", warc(*range(0, 350, 7)))  # all of them h0
    put(root, "b.warc.gz", warc(*range(number, number + 50 + 7 * number)))


@contextmanager
def watched(target: Callable[..., None], *arguments: object) -> Iterator[Any]:
    """A process that answers; `looks.value` counts its answers, `seen` gets them all when it is told to stop."""
    context = multiprocessing.get_context("spawn")
    stop, looks, seen = context.Event(), context.Value("q"), context.Queue()
    process = context.Process(target=target, args=(*arguments, stop, looks, seen))
    process.start()

    def wait_for_looks() -> None:
        begun = looks.value
        while looks.value < begun + 2:
            assert process.is_alive(), "the reader died"
            time.sleep(0.001)

    def finish() -> Counter[str]:
        stop.set()
        answers: Counter[str] = seen.get(timeout=60)
        process.join()
        return answers

    try:
        yield wait_for_looks, finish
    finally:
        process.kill()
        process.join()
        seen.close()


def repeat(ask: Callable[[], str], stop: Any, looks: Any, seen: Any) -> None:
    answers: Counter[str] = Counter()
    while not stop.is_set():
        answers[ask()] += 1
        looks.value += 1
    seen.put(answers)


def rebuild(root: Path, expected: Callable[[Path], str], wait_for_looks: Callable[[], None]) -> Answers:
    """All generations, three times over; each stays until somebody has looked."""
    generations: Answers = {}
    for turn in range(3):
        for number in range(GENERATIONS):
            make_generation(root, number)
            index(root, OPTIONS, clock=at_rest)
            if not turn:
                generations[expected(root)] = number
            wait_for_looks()
    assert len(generations) == GENERATIONS
    return generations


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "c"
    make_generation(root, 0)
    index(root, OPTIONS)
    return root


def look_up_anew(folder: Path, stop: Any, looks: Any, seen: Any) -> None:
    everything = Query(range=url_range("*.example.org"))
    repeat(lambda: digest(run_query(open_index(folder), everything)), stop, looks, seen)


def look_up_for_long(folder: Path, stop: Any, looks: Any, seen: Any) -> None:
    everything, opened = Query(range=url_range("*.example.org")), open_index(folder)
    repeat(lambda: digest(run_query(opened, everything)), stop, looks, seen)


@pytest.mark.parametrize("reader", [look_up_anew, look_up_for_long])
def test_lookups_during_rebuilds_see_whole_generations_only(root: Path, reader: Callable[..., None]) -> None:
    with watched(reader, indexes(root)) as (wait_for_looks, finish):
        generations = rebuild(root, lambda root: digest(lines_of(root)), wait_for_looks)
        answers = finish()
    print(f"{answers.total()} answers, {len(answers)} generations")
    assert set(answers) == set(generations)


def query_parquet(folder: Path, stop: Any, looks: Any, seen: Any) -> None:
    import duckdb

    def ask() -> str:
        try:
            return parquet_digest(folder)
        except duckdb.IOException:
            return "again"

    repeat(ask, stop, looks, seen)


def parquet_digest(folder: Path) -> str:
    import duckdb

    files = str(folder / "*.parquet")
    rows = duckdb.sql(f"SELECT url, epoch(fetch_time), warc_record_offset FROM '{files}' ORDER BY ALL").fetchall()
    return digest(repr(row).encode() for row in rows)


def test_duckdb_sees_whole_versions_of_the_tables_only(root: Path) -> None:
    with watched(query_parquet, tables(root)) as (wait_for_looks, finish):
        generations = rebuild(root, lambda root: parquet_digest(tables(root)), wait_for_looks)
        answers = finish()
    again = answers.pop("again", 0)
    print(f"{answers.total()} answers, {len(answers)} versions; {again} had to be asked again")
    assert set(answers) <= set(generations)
    assert len(answers) > GENERATIONS // 2


def test_a_search_through_all_folders_finds_no_tables_in_the_making(root: Path) -> None:
    import duckdb

    make_generation(root, 1)
    index(root, OPTIONS)  # now there is also the version just replaced
    everything = root / "cc-index" / "table" / "**" / "*.parquet"
    rows = duckdb.sql(f"SELECT count(*), min(crawl), max(subset) FROM read_parquet('{everything}')").fetchall()
    assert rows == [(len(lines_of(root)), "TEST-2024", "warc")]


LOOP = """
import hashlib, sys
from pywb.warcserver.index.zipnum import ZipNumIndexSource

for line in sys.stdin:  # anew each time, as each request of a server that was just started
    source = ZipNumIndexSource(sys.argv[1], {})
    params = {"url": "example.org", "matchType": "domain"}
    found = b"".join(cdx.cdxline.rstrip(b"\\n") + b"\\n" for cdx in source.load_index({**params, "pageSize": "1000"}))
    print(hashlib.sha256(found).hexdigest(), flush=True)
"""


@pytest.mark.slow
def test_pywb_during_rebuilds_sees_whole_generations_only(root: Path, judges: Path) -> None:
    with watched(ask_pywb, judges, indexes(root)) as (wait_for_looks, finish):
        generations = rebuild(root, lambda root: digest(lines_of(root)), wait_for_looks)
        answers = finish()
    print(f"{answers.total()} answers, {len(answers)} generations")
    assert set(answers) <= set(generations)
    assert len(answers) > GENERATIONS // 2


def ask_pywb(judges: Path, folder: Path, stop: Any, looks: Any, seen: Any) -> None:
    command = [str(judges / "python"), "-W", "ignore", "-c", LOOP, str(folder / "cluster.idx")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pywb:
        assert pywb.stdin
        assert pywb.stdout
        stdin, stdout = pywb.stdin, pywb.stdout

        def ask() -> str:
            stdin.write("\n")
            stdin.flush()
            return stdout.readline().strip()

        repeat(ask, stop, looks, seen)
        stdin.close()

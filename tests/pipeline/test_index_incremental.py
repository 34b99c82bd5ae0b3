"""Whatever happens to the archives between incremental runs: the bytes are those of a run from scratch."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from tests.pipeline.index_samples import (
    at_rest,
    index,
    index_from_scratch,
    indexes,
    leftovers,
    published,
    put,
    record,
    shard_names,
    tables,
    warc,
)
from webmill.errors import NotFound
from webmill.index.cdxj.excessive import ExcessPolicy
from webmill.pipeline.index import IndexingOptions, IndexReport

NUMBERS = st.integers(0, 400)
NAMES = st.sampled_from(
    ["a.warc.gz", "b.warc.gz", "one/a.warc.gz", "two/a.warc.gz", "crawl-data/TEST-2024/x/ä b.warc.gz"]
)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # thousands of syncs
BLOCKLIST = b"^org,example,h3)\n"


RUNS: list[IndexReport] = []


class Changes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.base = Path(
            tempfile.mkdtemp(prefix="webmill-test-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self.root = self.base / "collection"
        self.root.mkdir()
        self.blocklist = put(self.base, "blocklist", BLOCKLIST)
        self.options = IndexingOptions(shards=2, lines=5)

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    @property
    def archives(self) -> list[Path]:
        files = [file for file in self.root.rglob("*.warc.gz") if file.is_file()]
        return sorted(file for file in files if file.relative_to(self.root).parts[0] not in ("cdxj", "cc-index"))

    def choose(self, data: st.DataObject) -> Path:
        return data.draw(st.sampled_from(self.archives))

    # --- to archives ---

    @rule(name=NAMES, numbers=st.lists(NUMBERS, min_size=1, max_size=12))
    def add(self, name: str, numbers: list[int]) -> None:
        put(self.root, name, warc(*numbers))

    @rule(name=NAMES, numbers=st.lists(NUMBERS, min_size=2, max_size=5), cut=st.integers(1, 300))
    def add_a_torn_one(self, name: str, numbers: list[int], cut: int) -> None:
        put(self.root, name, warc(*numbers)[:-cut])

    @rule(name=NAMES, data=st.sampled_from([b"", b"no archive at all", b"\x1f\x8b\x08"]))
    def add_a_bad_one(self, name: str, data: bytes) -> None:
        put(self.root, name, data)

    @precondition(lambda self: self.archives)
    @rule(data=st.data(), number=NUMBERS)
    def append(self, data: st.DataObject, number: int) -> None:
        with self.choose(data).open("ab") as file:
            file.write(record(number))

    @precondition(lambda self: self.archives)
    @rule(data=st.data(), number=NUMBERS)
    def rewrite_in_place_with_the_size_and_time_it_had(self, data: st.DataObject, number: int) -> None:
        file = self.choose(data)
        before = file.stat()
        content = record(number)
        with file.open("r+b") as out:
            out.write(content[: before.st_size].ljust(before.st_size, b"\0"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    @precondition(lambda self: self.archives)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.choose(data).unlink()

    @precondition(lambda self: self.archives)
    @rule(data=st.data(), moment=st.sampled_from([0, 10**9, 2 * 10**18]))
    def touch(self, data: st.DataObject, moment: int) -> None:
        os.utime(self.choose(data), ns=(moment, moment))

    @precondition(lambda self: self.archives)
    @rule(data=st.data(), name=NAMES)
    def rename(self, data: st.DataObject, name: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        self.choose(data).replace(self.root / name)

    # --- to options ---

    @rule(
        shards=st.integers(1, 4),
        parquet=st.booleans(),
        blocks=st.booleans(),
        limit=st.sampled_from([None, 1, 2]),
        field=st.booleans(),
    )
    def choose_options(self, shards: int, parquet: bool, blocks: bool, limit: int | None, field: bool) -> None:
        self.options = IndexingOptions(
            shards=shards,
            lines=5,
            parquet=parquet,
            blocklist=self.blocklist if blocks else None,
            max_captures=limit,
            keep=ExcessPolicy(count=1),
            collection_field=field,
        )

    @rule(rules=st.sampled_from([BLOCKLIST, b"^org,example,h4)\n", b"# nothing\n"]))
    def change_the_blocklist(self, rules: bytes) -> None:
        self.blocklist.write_bytes(rules)

    # --- to what was made ---

    @precondition(lambda self: list(self.root.glob("cdxj/*.cdxj")))
    @rule(data=st.data(), harm=st.sampled_from(["delete", "cut", "change"]))
    def harm_a_cdxj(self, data: st.DataObject, harm: str) -> None:
        self.harm(data.draw(st.sampled_from(sorted(self.root.glob("cdxj/*.cdxj")))), harm)

    @precondition(lambda self: shard_names(self.root))
    @rule(data=st.data(), harm=st.sampled_from(["delete", "cut", "change"]))
    def harm_what_is_published(self, data: st.DataObject, harm: str) -> None:
        files = [indexes(self.root) / name for name in (*shard_names(self.root), "cluster.idx", "cluster.loc")]
        files += sorted(tables(self.root).glob("*.parquet"))
        files += sorted((self.root / "crawl-data").glob("*/*.paths.gz"))
        self.harm(data.draw(st.sampled_from(files)), harm)

    @rule()
    def lose_the_state(self) -> None:
        for file in self.root.glob("cdxj/state.sqlite*"):
            file.unlink()

    def harm(self, file: Path, harm: str) -> None:
        if not file.exists():
            return
        if harm == "delete":
            file.unlink()
        elif harm == "cut":
            os.truncate(file, file.stat().st_size // 2)
        elif file.stat().st_size:
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)

    # --- and then ---

    @rule()
    def index_files_at_rest(self) -> None:
        self.index_and_compare(clock=at_rest)

    @rule()
    def index_files_just_changed(self) -> None:
        self.index_and_compare(clock=time.time_ns)

    @precondition(lambda self: self.archives)
    @rule(data=st.data(), number=NUMBERS)
    def append_and_index(self, data: st.DataObject, number: int) -> None:
        self.append(data, number)
        self.index_files_at_rest()

    def index_and_compare(self, *, clock: Callable[[], int]) -> None:
        if not self.archives and not (self.root / "cdxj" / "state.sqlite").exists():
            with pytest.raises(NotFound):
                index(self.root, self.options, clock=clock)
            return
        report = index(self.root, self.options, clock=clock)
        expected = index_from_scratch(self.root, self.base / "elsewhere", self.options)
        assert published(self.root) == expected
        assert leftovers(self.root) == []
        RUNS.append(report)


def test_any_changes_between_incremental_runs_give_the_bytes_of_a_run_from_scratch() -> None:
    RUNS.clear()
    chosen = settings(max_examples=60, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Changes, settings=chosen)  # type: ignore[no-untyped-call]
    kept = sum(report.warcs - report.indexed for report in RUNS)
    print(f"{len(RUNS)} runs, {kept} archives not read again")
    assert len(RUNS) > 100
    assert kept > 10, "these were no incremental runs"

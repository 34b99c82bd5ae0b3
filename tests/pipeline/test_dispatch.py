"""The batcher, from an index to a queue: the cases of the reference, and what went wrong in it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.range_server import RangeServer, serving
from tests.pipeline.dispatch_samples import capture, captures, in_blocks, messages_of, read_plainly, write_index
from webmill.commoncrawl.batch import parse_batch_id
from webmill.commoncrawl.selection import Selection, merge_ranges
from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.formats.cdx.query import key_range
from webmill.index.lookup.sorted_file import Pages
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Mark, Message
from webmill.infra.queue.memory import MemoryQueue
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.base import Readable
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.dispatch.batcher import (
    BatcherContext,
    BatcherOptions,
    BatcherReport,
    IndexSource,
    cut_batches,
    dispatch,
)
from webmill.pipeline.dispatch.blocks import ShardReader, find_summary_ranges, read_summary
from webmill.pipeline.dispatch.metrics import ALL

ENGLISH = Selection(statuses=("200",), languages=("eng",))


def source_at(cluster: Path, *, shards: Any = None) -> IndexSource:
    storage = LocalStorage(cluster.parent)
    return IndexSource("test", storage, cluster.name, shards or ShardLocations(storage, cluster.name, elsewhere={}))


def run(
    source: IndexSource,
    wanted: Selection,
    queue: SqliteQueue,
    root: Path,
    *,
    executor: Executor | None = None,
    metrics: Metrics | None = None,
    restart: bool = False,
    **options: Any,
) -> BatcherReport:
    return dispatch(
        source,
        wanted,
        queue,
        root=root,
        executor=executor,
        options=BatcherOptions(**options),
        around=BatcherContext(metrics or Metrics(ALL), sleep=lambda _: None),
        restart=restart,
    )


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with closing(MemoryQueue()) as queue:
        yield queue


def taken(queue: SqliteQueue) -> dict[str, bytes]:
    """Everything that is in the queue, in order; an id that comes twice fails."""
    found: dict[str, bytes] = {}
    with queue.consume() as consumer:
        while delivery := consumer.receive(timeout=0):
            assert delivery.id not in found
            found[delivery.id] = delivery.body
            delivery.ack()
    return found


def rejects_of(report: BatcherReport) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(report.rejected_file).read_text().splitlines()]


def is_english(_: str, __: str, fields: dict[str, Any]) -> bool:
    return fields["status"] == "200" and "eng" in fields.get("languages", "").split(",")


# --- the reference's own cases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "publishes"),
    [
        ([capture("a)/", status="301", languages=None)], 0),
        ([capture("a)/", status="301")], 0),
        ([capture("a)/"), capture("a)/b")], 3),
    ],
    ids=["redirect without languages", "redirect with languages", "two pages"],
)
def test_three_blocks_in_batches_of_two(lines: list[bytes], publishes: int, tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", [lines] * 3)
    report = run(source_at(cluster), ENGLISH, queue, tmp_path, batch_size=2)
    assert (report.batches, report.published, len(taken(queue))) == (publishes, publishes, publishes)


def test_a_summary_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "cluster.idx").write_bytes(
        b"0,100,22,165)/ 20240722120756\tcdx-00000.gz\t0\t188224\t1\n"
        b"101,141,199,66)/robots.txt 20240714155331\tcdx-00000.gz\t188224\t178351\t2\n"
        b"104,223,1,100)/ 20240714230020\tcdx-00000.gz\t366575\t178055\t3"
    )
    storage = LocalStorage(tmp_path)
    stat = storage.stat("cluster.idx")
    found = [row.block for row in read_summary(storage, stat, find_summary_ranges(Pages(storage, stat), ()), start=0)]
    assert [(block.key, block.offset, block.length, block.number) for block in found] == [  # type: ignore[union-attr]
        (b"0,100,22,165)/ 20240722120756", 0, 188224, 1),
        (b"101,141,199,66)/robots.txt 20240714155331", 188224, 178351, 2),
        (b"104,223,1,100)/ 20240714230020", 366575, 178055, 3),
    ]


def test_a_quote_at_the_start_of_a_line_swallows_nothing(tmp_path: Path, queue: MemoryQueue) -> None:
    blocks = [[capture('"quoted)/')], [capture("a)/")], [capture("b)/")]]
    run(source_at(write_index(tmp_path / "index", blocks)), ENGLISH, queue, tmp_path)
    assert [found[0] for found in messages_of(taken(queue).values())] == ['"quoted)/', "a)/", "b)/"]


def test_batches_are_full_across_blocks_and_the_rest_comes_last(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(500), 7))
    report = run(source_at(cluster), ENGLISH, queue, tmp_path, batch_size=10)
    bodies = taken(queue)
    sizes = [len(json.loads(body)) for body in bodies.values()]
    expected = [found for found in read_plainly(cluster) if is_english(*found)]
    assert messages_of(bodies.values()) == expected
    assert sizes == [10] * (len(expected) // 10) + [len(expected) % 10] * bool(len(expected) % 10)
    assert [parse_batch_id(id_) for id_ in bodies] == [(report.run, number + 1) for number in range(len(sizes))]
    counts = report.counts
    assert counts.lines == 500 == counts.accepted + sum(counts.filtered.values())


# --- the same batches, however they are made --------------------------------------------------------------------------


def test_any_concurrency_gives_the_same_batches_under_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(2000), 15), shards=3)
    found = []
    pool: Executor = PoolExecutor(workers=2)
    ways: list[tuple[int, int, Executor | None]] = [(1, 1, None), (8, 3, None), (2, 7, InlineExecutor()), (4, 5, pool)]
    for number, (concurrency, at_once, executor) in enumerate(ways):
        monkeypatch.setattr("webmill.pipeline.dispatch.blocks.BLOCKS_AT_ONCE", at_once)
        with closing(MemoryQueue()) as queue:
            run(
                source_at(cluster),
                ENGLISH,
                queue,
                tmp_path / str(number),
                executor=executor,
                concurrency=concurrency,
                batch_size=9,
            )
            found.append(taken(queue))
    assert len(found[0]) > 10
    assert found[1:] == found[:1] * 3


def test_other_questions_have_other_ids(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(60), 15))
    asked: list[tuple[Selection, dict[str, Any]]] = [
        (Selection(), {}),
        (ENGLISH, {}),
        (Selection(sample=0.5), {}),
        (Selection(sample=0.5, seed=1), {}),
        (Selection(), {"batch_size": 7}),
        (Selection(), {"dedup": True}),
        (Selection(), {"limit": 7}),
    ]
    runs = {run(source_at(cluster), wanted, queue, tmp_path, **options).run for wanted, options in asked}
    assert len(runs) == len(asked)
    same = run(source_at(cluster), Selection(), queue, tmp_path, concurrency=2, max_queued=99)
    assert same.run in runs


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 6), st.integers(5, 40), st.data())
def test_batches_do_not_depend_on_where_groups_end(
    weights: list[int], size: int, most: int, data: st.DataObject
) -> None:
    items = [b"x" * weight for weight in weights]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("webmill.pipeline.dispatch.batcher.MAX_BATCH_BYTES", most)
        *whole, rest = cut_batches(items, size=size)
        found, carry = [], list[bytes]()
        while items:
            taken_now = data.draw(st.integers(1, len(items)))
            *batches, carry = cut_batches(carry + items[:taken_now], size=size)
            found += batches
            items = items[taken_now:]
    assert (found, carry) == (whole, rest)
    assert all(len(batch) <= size and (len(batch) == 1 or len(b"".join(batch)) <= most) for batch in whole)


# --- narrowing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [False, True], ids=["bisected", "so many that the whole summary is read"])
def test_patterns_give_each_capture_once_and_ask_only_for_their_blocks(
    many: bool, tmp_path: Path, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr("webmill.pipeline.dispatch.blocks.MAX_BISECTED", 2)
    cluster = write_index(tmp_path / "index", in_blocks(captures(3000), 10))
    hosts = ("h0007", "h0100", "h0149", "h9999")
    ranges = [key_range(f"{host}.com", "domain") for host in hosts]
    ranges += [key_range("h0007.com/p1", "prefix"), key_range("h0007.com", "host")]
    report = run(source_at(cluster), Selection(ranges=merge_ranges(ranges)), queue, tmp_path)
    expected = [found for found in read_plainly(cluster) if re.match(r"com,(h0007|h0100|h0149)\)", found[0])]
    assert messages_of(taken(queue).values()) == expected
    assert report.counts.blocks < 20


def test_neighbouring_blocks_come_in_one_request(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(600), 10), shards=2)
    with serving() as server:
        put(server, cluster.parent)
        report = run(http_source(server), Selection(), queue, tmp_path)
        asked = [path for _, path, _ in server.requests if "cdx-" in path]
    assert report.counts.blocks == 60
    assert len(asked) == 2
    assert messages_of(taken(queue).values()) == read_plainly(cluster)


def put(server: RangeServer, folder: Path) -> None:
    server.values |= {file.name: file.read_bytes() for file in folder.iterdir()}


def http_source(server: RangeServer) -> IndexSource:
    storage: Readable = HttpStorage(server.url, user_agent="test")
    return IndexSource("test", storage, "cluster.idx", ShardLocations(storage, "cluster.idx", elsewhere={}))


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damage_is_kept_with_its_place_and_everything_else_flows(tmp_path: Path, queue: MemoryQueue) -> None:
    lines = captures(300)
    blocks = in_blocks(lines, 10)
    blocks[3][4] = b"com,h0001)/ 20240101000000 {torn"
    cluster = write_index(tmp_path / "index", blocks, shards=3)
    rows_ = cluster.read_bytes().splitlines(keepends=True)
    rows_[5] = b"no columns at all\n"
    rows_[7] = rows_[7].replace(b"cdx-00000.gz", b"cdx-00009.gz")
    rows_[8] = rows_[8].replace(b"cdx-00000.gz", b"../up.gz")
    rows_.insert(9, b"x" * 70_000 + b"\n")
    cluster.write_bytes(b"".join(rows_))
    spoil(cluster.parent / "cdx-00001.gz", rows_[13])  # one block of the second shard
    metrics = Metrics(ALL)
    report = run(source_at(cluster), Selection(), queue, tmp_path, metrics=metrics)
    reported = [(reject["kind"], reject["reason"]) for reject in rejects_of(report)]
    assert sorted(reported) == sorted(
        [
            ("line", "bad_json"),
            ("summary", "bad_summary"),
            ("download", "not_found"),
            ("download", "not_found"),
            ("summary", "line_too_long"),
            ("block", "bad_gzip"),
        ]
    )
    (line,) = [reject for reject in rejects_of(report) if reject["kind"] == "line"]
    assert (line["source"], line["line"]) == ("cdx-00000.gz", 5)
    assert report.counts.rejected == 6
    # rows 5, 7, 8 and the spoiled one are lost, and one line
    assert report.counts.accepted == 300 - 4 * 10 - 1 == len(messages_of(taken(queue).values()))
    shown = metrics.render().decode()
    for name, value in (("cdx_download", 2), ("cdx_parse", 3), ("json_parse", 1), ("publish", 0)):
        assert f"\nbatcher_{name}_errors_total {value}.0\n" in shown


def spoil(shard: Path, row: bytes) -> None:
    _, _, offset, length, _ = row.split(b"\t")
    data = bytearray(shard.read_bytes())
    middle = int(offset) + int(length) // 2
    data[middle : middle + 8] = b"\xff" * 8
    shard.write_bytes(data)


def test_a_block_that_is_cut_is_a_reject(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(40), 10), shards=1)
    rows_ = cluster.read_bytes().splitlines(keepends=True)
    key, name, offset, length, number = rows_[1].split(b"\t")
    rows_[1] = b"\t".join([key, name, offset, b"%d" % (int(length) - 5), number])
    cluster.write_bytes(b"".join(rows_))
    report = run(source_at(cluster), Selection(), queue, tmp_path)
    assert [(reject["kind"], reject["reason"]) for reject in rejects_of(report)] == [("block", "truncated")]
    assert report.counts.accepted == 30


def test_an_index_of_nothing_gives_nothing(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = tmp_path / "cluster.idx"
    cluster.write_bytes(b"")
    assert run(source_at(cluster), Selection(), queue, tmp_path).batches == 0
    assert run(source_at(cluster), Selection(), queue, tmp_path).nothing_to_do


def test_a_server_that_ignores_ranges_is_not_believed(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(100), 10), shards=1)
    with serving() as server:
        put(server, cluster.parent)
        whole = server.values["cdx-00000.gz"]
        server.lies["cdx-00000.gz"] = lambda handler: handler.answer(200, whole)
        with pytest.raises(Unavailable, match="status 200"):
            run(http_source(server), Selection(), queue, tmp_path)
        assert taken(queue) == {}
        del server.lies["cdx-00000.gz"]
        assert run(http_source(server), Selection(), queue, tmp_path).counts.accepted == 100
    assert messages_of(taken(queue).values()) == read_plainly(cluster)


# --- going on ---------------------------------------------------------------------------------------------------------


class Failing:
    """Shards that are out of reach from the nth read on."""

    def __init__(self, inner: ShardReader, *, reads: int) -> None:
        self._inner, self._left = inner, reads
        self._lock = threading.Lock()

    def read(self, name: str, *, start: int, length: int) -> bytes:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise Unavailable("out of reach")
        return self._inner.read(name, start=start, length=length)


@pytest.mark.parametrize("dedup", [False, True], ids=["all", "each digest once"])
def test_broken_off_again_and_again_it_publishes_each_batch_once(
    dedup: bool, tmp_path: Path, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webmill.pipeline.dispatch.blocks.BLOCKS_AT_ONCE", 6)
    monkeypatch.setattr("webmill.pipeline.dispatch.batcher.BLOCKS_IN_A_PIECE", 2)
    monkeypatch.setattr("webmill.pipeline.dispatch.batcher.SAVE_EVERY", 2)
    cluster = damaged_index(tmp_path / "index")
    options: dict[str, Any] = {"batch_size": 7, "dedup": dedup, "max_queued": 5}
    with closing(MemoryQueue()) as other:
        whole = run(source_at(cluster), ENGLISH, other, tmp_path / "whole", **{**options, "max_queued": 10_000})
        expected = taken(other)
    found: dict[str, bytes] = {}
    for reads in range(1, 200):
        shards = Failing(source_at(cluster).shards, reads=reads % 9)
        source = source_at(cluster, shards=shards)
        around = BatcherContext(Metrics(ALL), sleep=lambda _: found.update(new(taken(queue), found)))
        try:
            report = dispatch(
                source,
                ENGLISH,
                queue,
                root=tmp_path,
                executor=InlineExecutor(),
                options=BatcherOptions(**options),
                around=around,
            )
        except Unavailable:
            found.update(new(taken(queue), found))
            continue
        break
    found.update(new(taken(queue), found))
    assert reads > 5
    assert found == expected
    assert report.resumed
    assert (report.counts, report.batches) == (whole.counts, whole.batches)
    assert rejects_of(report) == rejects_of(whole)
    assert report.counts.rejected == 1 + 7 + 7


def damaged_index(folder: Path) -> Path:
    """Damage of every kind, here and there."""
    blocks = in_blocks(captures(1500), 10)
    blocks[40][0] = b"torn"
    cluster = write_index(folder, blocks)
    lines = cluster.read_bytes().splitlines(keepends=True)
    for number in range(7):
        lines[20 * number + 3] = b"not a line of a summary\n"
        lines[20 * number + 5] = re.sub(rb"\tcdx-\d+", b"\tnowhere", lines[20 * number + 5])
    cluster.write_bytes(b"".join(lines))
    return cluster


class Broken(Exception):
    pass


class Fragile(MemoryQueue):
    """Breaks when it publishes, before or after it did."""

    left = 0

    def publish(self, messages: Iterable[Message], *, mark: Mark | None = None) -> int:
        self.left -= 1
        if self.left == 0:
            raise Broken
        count = super().publish(messages, mark=mark)
        if self.left == 1:
            self.left = 0
            raise Broken
        return count


def test_broken_off_between_the_windows_of_a_group_it_publishes_each_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = damaged_index(tmp_path / "index")
    with closing(MemoryQueue()) as other:
        whole = run(source_at(cluster), ENGLISH, other, tmp_path / "whole", batch_size=4, dedup=True)
        expected = taken(other)
    monkeypatch.setattr("webmill.pipeline.dispatch.batcher.PUBLISH_WINDOW", 3)
    monkeypatch.setattr("webmill.pipeline.dispatch.batcher.BLOCKS_IN_A_PIECE", 20)
    found: dict[str, bytes] = {}
    breaks = 0
    with closing(Fragile()) as queue:
        for lives in range(2, 100):
            queue.left = 2 + lives % 4
            monkeypatch.setattr("webmill.pipeline.dispatch.blocks.BLOCKS_AT_ONCE", 20 + lives % 7)
            try:
                report = run(source_at(cluster), ENGLISH, queue, tmp_path, batch_size=4, dedup=True)
            except Broken:
                breaks += 1
                found.update(new(taken(queue), found))
                continue
            break
        found.update(new(taken(queue), found))
    assert breaks > 3
    assert found == expected
    assert report.counts == whole.counts
    assert sorted(map(str, rejects_of(report))) == sorted(map(str, rejects_of(whole)))  # other groups, another order


def new(some: dict[str, bytes], before: dict[str, bytes]) -> dict[str, bytes]:
    assert not some.keys() & before.keys(), "published twice"
    return some


def test_each_digest_comes_once_and_the_first_of_it(tmp_path: Path, queue: MemoryQueue) -> None:
    blocks = in_blocks(captures(400), 10)
    blocks[2][0] = capture(blocks[2][0].split(b" ")[0].decode(), digest=None)
    cluster = write_index(tmp_path / "index", blocks)
    report = run(source_at(cluster), Selection(), queue, tmp_path, dedup=True)
    seen: set[str] = set()
    expected = []
    for found in read_plainly(cluster):
        digest = found[2].get("digest")
        if digest is None or digest not in seen:
            expected.append(found)
            seen.add(digest or "")
    assert messages_of(taken(queue).values()) == expected
    assert report.counts.filtered["duplicate"] == 400 - len(expected) > 0


@pytest.mark.parametrize("limit", [1, 49, 50, 51, 10_000])
def test_a_limit_counts_captures(limit: int, tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(300), 10))
    report = run(source_at(cluster), Selection(), queue, tmp_path, limit=limit)
    assert messages_of(taken(queue).values()) == read_plainly(cluster)[:limit]
    assert report.counts.accepted == min(limit, 300)


def test_another_index_under_a_checkpoint_is_refused(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(100), 10))
    broken = source_at(cluster, shards=Failing(source_at(cluster).shards, reads=0))
    with pytest.raises(Unavailable):
        run(broken, Selection(), queue, tmp_path, batch_size=3)
    run(source_at(cluster), Selection(), queue, tmp_path, batch_size=3, limit=9)  # another question: not concerned
    half = source_at(cluster, shards=Failing(source_at(cluster).shards, reads=1))
    with pytest.raises(Unavailable):
        run(half, Selection(), queue, tmp_path, batch_size=3)
    write_index(tmp_path / "index", in_blocks(captures(200), 10))
    with pytest.raises(Conflict, match=r"choose another --output \(.*--from-scratch"):
        run(source_at(cluster), Selection(), queue, tmp_path, batch_size=3)
    taken(queue)
    assert run(source_at(cluster), Selection(), queue, tmp_path, batch_size=3, restart=True).counts.accepted == 200
    assert len(messages_of(taken(queue).values())) == 200
    write_index(tmp_path / "index", in_blocks(captures(250), 10))
    with pytest.raises(Conflict, match="--from-scratch"):  # also when all of the old one was published
        run(source_at(cluster), Selection(), queue, tmp_path, batch_size=3)


def test_digests_that_are_lost_are_noticed(tmp_path: Path, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webmill.pipeline.dispatch.blocks.BLOCKS_AT_ONCE", 1)
    cluster = write_index(tmp_path / "index", in_blocks(captures(100), 10))
    half = source_at(cluster, shards=Failing(source_at(cluster).shards, reads=5))
    with pytest.raises(Unavailable):
        run(half, Selection(), queue, tmp_path, dedup=True, batch_size=2)
    for file in tmp_path.glob("*/digests.sqlite*"):
        file.unlink()
    with pytest.raises(Misconfigured, match="--from-scratch"):
        run(source_at(cluster), Selection(), queue, tmp_path, dedup=True, batch_size=2)


def test_it_waits_while_the_queue_is_full(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(500), 10))
    found: dict[str, bytes] = {}
    most = 0

    def sleep(_: float) -> None:
        nonlocal most
        most = max(most, queue.stats().ready)
        found.update(taken(queue))

    dispatch(
        source_at(cluster),
        Selection(),
        queue,
        root=tmp_path,
        executor=InlineExecutor(),
        options=BatcherOptions(batch_size=5, max_queued=3),
        around=BatcherContext(Metrics(ALL), sleep=sleep),
    )
    found.update(taken(queue))
    assert most == 3
    assert messages_of(found.values()) == read_plainly(cluster)


def test_two_batchers_of_one_selection_do_not_run_at_once(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(100), 10))

    def also(_: int) -> None:
        with pytest.raises(Conflict, match="another process"):
            run(source_at(cluster), Selection(), queue, tmp_path)

    dispatch(
        source_at(cluster),
        Selection(),
        queue,
        root=tmp_path,
        executor=InlineExecutor(),
        options=BatcherOptions(),
        around=BatcherContext(Metrics(ALL), total=also),
    )


def test_metrics_have_the_names_of_the_reference(tmp_path: Path, queue: MemoryQueue) -> None:
    cluster = write_index(tmp_path / "index", in_blocks(captures(500), 10))
    metrics = Metrics(ALL)
    report = run(source_at(cluster), ENGLISH, queue, tmp_path, metrics=metrics)
    shown = dict(re.findall(r"^(batcher_\w+) (\S+)$", metrics.render().decode(), re.MULTILINE))
    shown = {name: float(value) for name, value in shown.items() if not name.endswith("_created")}
    filtered = report.counts.filtered
    assert shown == {
        "batcher_batches_total": report.batches,
        "batcher_documents_total": 500,
        "batcher_documents_empty_filtered_total": 0,
        "batcher_documents_language_filtered_total": filtered["language"],
        "batcher_documents_status_filtered_total": filtered["status"],
        "batcher_documents_accepted_total": report.counts.accepted,
        "batcher_cluster_idx_progress_percent": 100,
        "batcher_cdx_chunks_processed_total": 50,
        "batcher_cdx_chunks_total": 50,
        "batcher_cdx_download_errors_total": 0,
        "batcher_cdx_parse_errors_total": 0,
        "batcher_json_parse_errors_total": 0,
        "batcher_publish_errors_total": 0,
    }

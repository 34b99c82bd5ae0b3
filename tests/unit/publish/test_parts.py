"""Rows, shards, differences, names of files, the guard."""

from __future__ import annotations

import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput, Misconfigured
from webmill.infra.storage.base import check_key
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish.blobs import BlobStore
from webmill.publish.diff import diff_indexes
from webmill.publish.facets import check_facets, file_names
from webmill.publish.guard import VersionShrunk, check_size
from webmill.publish.holder import Holder, is_running, this_process
from webmill.publish.publication import Publication
from webmill.publish.rows import SortedRows
from webmill.publish.shards import MAX_SHARD, cut_into_shards, find_item, read_index, read_items, write_index
from webmill.publish.types import ItemIndex, PublishedItem, encode


def item_of(id_: str, text: str, title: str = "") -> PublishedItem:
    return PublishedItem(id_, "source", f"{zlib.crc32(text.encode()):064x}", metadata={"title": title})


def index_from(storage: MemoryStorage, items: dict[str, PublishedItem], *, inline: int = 3) -> ItemIndex:
    rows = sorted((id_.encode(), encode(item)) for id_, item in items.items())
    return read_index(write_index(rows, put=BlobStore(storage).put_bytes, inline=inline), source="test")


IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.integers(0, 400).map(str)
ITEMS = st.dictionaries(IDS, st.tuples(st.integers(0, 3).map(str), st.sampled_from("ab")), max_size=150)


@given(old=ITEMS, changes=ITEMS, gone=st.sets(st.integers(0, 400).map(str)))
@settings(deadline=None, max_examples=60)
def test_a_difference_is_what_a_comparison_of_two_dicts_says(
    old: dict[str, tuple[str, str]], changes: dict[str, tuple[str, str]], gone: set[str]
) -> None:
    storage = MemoryStorage()
    new = {id_: what for id_, what in {**old, **changes}.items() if id_ not in gone}
    was, now = ({id_: item_of(id_, *what) for id_, what in items.items()} for items in (old, new))
    indexes = index_from(storage, was), index_from(storage, now)
    assert [item.id for item in read_items(storage, indexes[1])] == sorted(now)
    found = {
        difference.id: (difference.change, difference.old, difference.new)
        for difference in diff_indexes(storage, *indexes)
    }
    expected = {id_: ("removed", was[id_].hash, None) for id_ in was.keys() - now.keys()}
    expected |= {id_: ("added", None, now[id_].hash) for id_ in now.keys() - was.keys()}
    for id_ in was.keys() & now.keys():
        if was[id_].hash != now[id_].hash:
            expected[id_] = ("changed", was[id_].hash, now[id_].hash)
        elif was[id_] != now[id_]:
            expected[id_] = ("relabelled", was[id_].hash, now[id_].hash)
    assert found == expected
    for id_ in [*now, "not there", ""]:
        assert find_item(storage, indexes[1], id_) == now.get(id_)


def test_an_item_that_comes_or_goes_changes_the_shards_beside_it_only() -> None:
    rows = [(f"page/{number:05}".encode(), b"{}") for number in range(3000)]
    before = {tuple(shard) for shard in map(tuple, cut_into_shards(rows))}
    for at in range(0, 3000, 100):
        fewer = {tuple(shard) for shard in map(tuple, cut_into_shards(rows[:at] + rows[at + 1 :]))}
        assert len(before ^ fewer) <= 3
    assert 50 < len(before) < 200


def test_no_choice_of_ids_makes_a_shard_without_end() -> None:
    assert max(len(shard) for shard in cut_into_shards([(b"same", b"{}")] * 5000)) == MAX_SHARD


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"count":1}',
        b'{"count":0,"items":[],"shards":[]}',
        b'{"count":"x"}',
        b'{"count":1,"items":[{"id":"a","source":"b","hash":"../../etc"}]}',
        b'{"count":"\xff"}',
    ],
    ids=range(8),
)
def test_what_is_no_index_is_bad_input(data: bytes) -> None:
    with pytest.raises(BadInput, match="bad_json"):
        read_index(data, source="x")


@given(rows=st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=20))), run_bytes=st.integers(0, 2000))
@settings(deadline=None)
def test_rows_come_sorted_however_many_runs_they_take(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[bytes, bytes]], run_bytes: int
) -> None:
    ordered = SortedRows(tmp_path_factory.mktemp("rows"), "x", run_bytes=run_bytes)
    for row in rows:
        ordered.add(*row)
    assert [*ordered] == [*ordered] == sorted(rows)


@given(st.sets(st.text(max_size=300)))
@settings(deadline=None)
def test_every_value_of_a_facet_gets_a_file_of_its_own_on_any_file_system(values: set[str]) -> None:
    values = {value for value in values if value.isprintable() or value.encode(errors="ignore").decode() == value}
    names = file_names(sorted(values))
    assert names.keys() == values
    assert len({name.casefold() for name in names.values()}) == len(values)
    for name in names.values():
        check_key(f"snapshots/00000001-00000000/index/facet/{name}.json")


@pytest.mark.parametrize("facet", ["", "a/b", "..", "all", "Upper", "x" * 51])
def test_what_is_no_name_of_a_facet_is_told_to_the_operator(facet: str) -> None:
    with pytest.raises(Misconfigured):
        check_facets([facet])


CASES = [
    (100, 100, True),
    (100, 85, True),
    (100, 80, True),
    (100, 79, False),
    (100, 70, False),
    (0, 50, True),
    (100, 0, False),
]


@pytest.mark.parametrize(("before", "now", "fine"), [*CASES, (100, 150, True), (0, 0, False), (9, 1, True)])
def test_the_guard_lets_through_what_can_be_believed(before: int, now: int, fine: bool) -> None:
    if fine:
        check_size(before=before, now=now, fresh=now)
    else:
        with pytest.raises(VersionShrunk):
            check_size(before=before, now=now, fresh=now)


def test_a_process_is_known_as_long_as_it_is_there() -> None:
    holder = this_process()
    if holder is None:
        pytest.skip("processes cannot be told apart here")
    assert is_running(holder) is True
    assert is_running(Holder(holder.machine, holder.pid, "1")) is False  # another one had its number
    assert is_running(Holder(holder.machine, 2**22 + 1, "1")) is False
    assert is_running(Holder("another machine", holder.pid, holder.started)) is None


BAD_ITEMS = [
    PublishedItem("", "s", "0" * 64),
    PublishedItem("a", "s", "short"),
    PublishedItem("\ud800", "s", "0" * 64),
    PublishedItem("a", "s", "0" * 64, metadata={"x": "y" * (1 << 20)}),
]


@pytest.mark.parametrize("bad", BAD_ITEMS, ids=["no-id", "no-hash", "surrogate", "too-large"])
def test_what_is_no_item_is_refused(bad: PublishedItem) -> None:
    with Publication.begin(MemoryStorage()) as publication, pytest.raises(BadInput):
        publication.add(bad)


def test_items_are_not_held_in_memory(tmp_path: Path) -> None:
    """What a publication holds of 60,000 items is bounded: the sorted runs are on disk."""
    rows = SortedRows(tmp_path, "x", run_bytes=1 << 20)
    tracemalloc.start()
    for number in range(60_000):
        rows.add(str(number * 7919 % 60_000).encode(), b"x" * 200)
    shards = sum(1 for _ in cut_into_shards(rows))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shards > 1000
    assert most < 6 << 20

"""Pages: each line in just one of them, and only their blocks are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.zipnum_samples import build, make_lines, make_queries, opened, scan
from webmill.errors import BadInput
from webmill.formats.cdx.query import KeyRange, key_range
from webmill.index.lookup.indexes import FlatIndex, MergedIndex, ZipNumIndex
from webmill.index.lookup.paging import count_pages, page_of
from webmill.infra.storage.base import Stat
from webmill.infra.storage.local import LocalStorage

LINES = make_lines(1200)
QUERIES = make_queries(LINES, 300)


@pytest.fixture(scope="module", params=["numbers", "no numbers"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ZipNumIndex:
    folder = tmp_path_factory.mktemp("index")
    build(folder, LINES, block=7, shard_size=5000)
    if request.param == "no numbers":
        rows = (folder / "cluster.idx").read_bytes().splitlines()
        (folder / "cluster.idx").write_bytes(b"".join(row.rpartition(b"\t")[0] + b"\n" for row in rows))
        (folder / "cluster.idx.crc32").unlink()  # as of an index that others have made
    return opened(folder)


def pages(index: ZipNumIndex | MergedIndex, wanted: KeyRange, size: int) -> list[list[bytes]]:
    count = count_pages(index, wanted, size=size)
    assert count.pages == -(-count.blocks // size) or isinstance(index, MergedIndex)
    return [list(page_of(index, wanted, number=number, size=size).lines(wanted)) for number in range(count.pages)]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(QUERIES), st.integers(1, 9))
def test_all_pages_together_are_the_whole_answer(index: ZipNumIndex, query: tuple[str, str], size: int) -> None:
    wanted = key_range(*query)  # type: ignore[arg-type]
    assert [line for page in pages(index, wanted, size) for line in page] == scan(LINES, wanted)


def test_pages_of_several_indexes_follow_each_other(tmp_path: Path) -> None:
    for name, lines in (("a", LINES[::2]), ("b", LINES[1::2])):
        build(tmp_path / name, lines)
    both = MergedIndex([opened(tmp_path / "a"), opened(tmp_path / "b")])
    wanted = key_range("com", "domain")
    found = pages(both, wanted, 3)
    assert sorted(line for page in found for line in page) == scan(LINES, wanted)
    assert all(page == sorted(page) for page in found)


def test_the_first_page_is_there_even_of_nothing(index: ZipNumIndex) -> None:
    nothing = key_range("0.0.0.0")
    assert count_pages(index, nothing).pages == 0
    assert list(page_of(index, nothing, number=0).lines(nothing)) == []
    with pytest.raises(BadInput, match="Page 1 invalid: First Page is 0, Last Page is 0"):
        page_of(index, nothing, number=1)


def test_a_page_past_the_last_is_told_with_the_last(index: ZipNumIndex) -> None:
    wanted = key_range("com", "domain")
    last = count_pages(index, wanted, size=4).pages - 1
    assert list(page_of(index, wanted, number=last, size=4).lines(wanted))
    with pytest.raises(BadInput, match=f"Page {last + 1} invalid: First Page is 0, Last Page is {last}"):
        page_of(index, wanted, number=last + 1, size=4)


def test_a_page_reads_no_block_of_another(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=20)
    shard = bytearray((tmp_path / "cdx-00000.gz").read_bytes())
    shard[: len(shard) // 2] = bytes(len(shard) // 2)  # whoever reads these blocks fails
    (tmp_path / "cdx-00000.gz").write_bytes(shard)
    wanted = KeyRange(b"", b"\xff")
    index = opened(tmp_path)
    last = count_pages(index, wanted, size=2).pages - 1
    found = list(page_of(index, wanted, number=last, size=2).lines(wanted))
    assert found
    assert found == LINES[-len(found) :]


def test_a_flat_index_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "x.cdxj").write_bytes(LINES[0])
    with pytest.raises(BadInput, match="no_pages"):
        count_pages(FlatIndex(LocalStorage(tmp_path), "x.cdxj"), key_range("a.com"))


class ReplacedOnce(LocalStorage):
    """Of an index that another takes the place of just after it was looked at."""

    replaced = False

    def stat(self, key: str) -> Stat:
        seen = super().stat(key)
        if not self.replaced:
            self.replaced = True
            build(self.root, LINES, block=50)
        return seen


def test_pages_are_those_of_the_new_index_when_it_was_replaced_meanwhile(tmp_path: Path) -> None:
    everything = KeyRange(b"", b"\xff")
    build(tmp_path, LINES[:100], block=50)
    assert count_pages(ZipNumIndex(ReplacedOnce(tmp_path)), everything, size=4).blocks == len(LINES) // 50
    build(tmp_path, LINES[:100], block=50)
    page = page_of(ZipNumIndex(ReplacedOnce(tmp_path)), everything, number=1, size=4)
    assert list(page.lines(everything)) == LINES[200:400]
    build(tmp_path, LINES[:100], block=50)
    assert len(list(ZipNumIndex(ReplacedOnce(tmp_path)).slice_blocks(everything, first=1, count=9))) == 9

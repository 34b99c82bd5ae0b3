"""From a urlkey to the capture that a search hit leads to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, write
from tests.unit.index.zipnum_samples import build
from webmill.collection import Collection
from webmill.errors import NotFound
from webmill.formats.cdx.query import KeyRange
from webmill.index.lookup.indexes import CaptureIndex, open_index
from webmill.index.lookup.newest import last_lines, newest_captures, open_collection_index
from webmill.model import CaptureRef

KEY = "com,a)/page"


def line(day: int, key: str = KEY, **fields: str) -> bytes:
    place = {"filename": "w.warc.gz", "offset": str(day), "length": "7", "status": "200"}
    return capture(key, f"202401{day:02}000000", **place | fields)


def index_of(folder: Path, lines: Sequence[bytes]) -> CaptureIndex:
    return open_index(write(folder / "x.cdxj", sorted(lines)))


def day_of(captured: CaptureRef | None) -> int | None:
    return captured.offset if captured else None


STORIES = {
    "the last of several": ([line(1), line(3), line(2)], 3),
    "an error after it": ([line(1), line(2, status="503"), line(3, status="404")], 1),
    "a redirect after it": ([line(1), line(2, status="301")], 1),
    "a revisit after it": ([line(1), line(2, mime="warc/revisit"), line(3, mime="warc/revisit", status="304")], 1),
    "only revisits": ([line(1, mime="warc/revisit"), line(2, mime="warc/revisit")], 2),
    "only revisits without a body": ([line(n, mime="warc/revisit", status=s) for n, s in ((1, "-"), (2, "304"))], 2),
    "revisits of a redirect and of an error": ([line(n, mime="warc/revisit", status=f"{n}04") for n in (4, 5)], None),
    "a part of it later": ([line(1), line(2, status="206")], 1),
    "only another 2xx": ([line(1, status="203"), line(2, status="500")], 1),
    "a place that is none": ([line(1), line(2, offset="-5"), line(3, length="9" * 30), line(4, offset="x")], 1),
    "a line that is none": ([line(1), f"{KEY} 20240102000000 rubbish\n".encode()], 1),
    "no status at all": ([line(1, status="-"), line(2, status="")], None),
    "a page beside it": ([line(1, key=KEY + "2"), line(2, key="com,a)/pag")], None),
    "nothing": ([], None),
}


@pytest.mark.parametrize(("lines", "day"), STORIES.values(), ids=STORIES)
def test_the_newest_good_capture_is(tmp_path: Path, lines: list[bytes], day: int | None) -> None:
    assert day_of(newest_captures(index_of(tmp_path, lines), [KEY]).get(KEY)) == day


def test_all_that_is_needed_to_read_it_is_told(tmp_path: Path) -> None:
    found = newest_captures(index_of(tmp_path, [line(5, url="https://a.com/page")]), [KEY, "com,b)/", KEY])
    assert found == {
        KEY: CaptureRef(
            url="https://a.com/page",
            urlkey=KEY,
            timestamp="20240105000000",
            filename="w.warc.gz",
            offset=5,
            length=7,
        )
    }


class Counted:
    """An index that counts what is read of it."""

    def __init__(self, index: CaptureIndex) -> None:
        self._index, self.read = index, 0

    def lines(self, wanted: KeyRange) -> object:
        for each in self._index.lines(wanted):
            self.read += 1
            yield each

    batches = lines


@given(st.lists(st.integers(0, 10**14 - 1), max_size=60), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_of_very_many_captures_the_last_ones_are_found(
    tmp_path_factory: pytest.TempPathFactory, moments: list[int], most: int
) -> None:
    lines = sorted(capture(KEY, f"{moment:014}", number=str(number)) for number, moment in enumerate(moments))
    counted = Counted(index_of(tmp_path_factory.mktemp("index"), [*lines, line(1, key=KEY + "/")]))
    found = last_lines(counted, KEY, most=most)  # type: ignore[arg-type]
    assert len(found) <= most
    assert bool(found) == bool(lines)
    assert {each.split(b" ")[1] for each in found[-1:]} == {each.split(b" ")[1] for each in lines[-1:]}
    assert counted.read <= (most + 1) * 50


def test_a_zipnum_index_comes_before_the_files_it_is_made_of(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="webmill index"):
        open_collection_index(tmp_path)
    collection = Collection(tmp_path, "one")
    collection.cdxj.mkdir()
    write(collection.cdxj / "a.cdxj", [line(1)])
    write(collection.cdxj / "b.cdxj", [line(2)])
    assert day_of(newest_captures(open_collection_index(tmp_path), [KEY])[KEY]) == 2
    for name, day in (("one", 3), ("two", 4)):
        folder = Collection(tmp_path, name).zipnum
        folder.mkdir(parents=True)
        build(folder, [line(day)], block=20, shard_size=5000)
    assert day_of(newest_captures(open_collection_index(tmp_path), [KEY])[KEY]) == 4

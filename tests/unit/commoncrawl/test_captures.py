"""Fetching the captures of a batch, from servers that are honest and others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import RangeServer, serving
from webmill.commoncrawl.capture_fetcher import CaptureFetcher, WholeFileRule
from webmill.commoncrawl.ranges import RangeLimits
from webmill.commoncrawl.whole_files import WholeFiles
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra.storage.base import Readable
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.model import CaptureRef

VALUE = bytes(range(256)) * 40


@pytest.fixture
def server() -> Iterator[RangeServer]:
    with serving() as running:
        running.values["a"] = VALUE
        running.values["b"] = VALUE[::-1]
        yield running


@contextmanager
def fetching(storage: Readable, **options: Any) -> Iterator[CaptureFetcher]:
    options = {"concurrency": 3, "limits": RangeLimits(gap=16, most=1 << 20, item=5000)} | options
    fetcher = CaptureFetcher(storage, **options)
    try:
        yield fetcher
    finally:
        fetcher.close()


def item(filename: str, offset: int, length: int) -> CaptureRef:
    return CaptureRef(url="https://example.com/", filename=filename, offset=offset, length=length)


def fetch(storage: Readable, *places: tuple[str, int, int], **options: Any) -> list[Any]:
    items = {number: item(*place) for number, place in enumerate(places)}
    with fetching(storage, **options) as fetcher:
        found = dict(fetcher.fetch(items))
    assert found.keys() == items.keys()
    return [found[number] for number in sorted(found)]


def http(server: RangeServer) -> HttpStorage:
    return HttpStorage(server.url, user_agent="tests")


def asked(server: RangeServer) -> list[str]:
    return sorted(f"{path} {headers.get('Range', '')}" for _, path, headers in server.requests)


def test_captures_come_from_few_requests_each_with_its_own_bytes(server: RangeServer) -> None:
    with http(server) as storage:
        found = fetch(storage, ("a", 100, 50), ("b", 7, 9), ("a", 5, 90), ("a", 5000, 1))
    assert found == [VALUE[100:150], VALUE[::-1][7:16], VALUE[5:95], VALUE[5000:5001]]
    assert asked(server) == ["/data/a bytes=5-149", "/data/a bytes=5000-5000", "/data/b bytes=7-15"]


def test_what_cannot_be_had_is_told_for_that_capture_alone(server: RangeServer) -> None:
    beyond = len(VALUE) - 5
    with http(server) as storage:
        found = fetch(
            storage,
            ("a", beyond - 10, 10),
            ("a", beyond, 10),
            ("none", 0, 1),
            ("../x", 0, 1),
            ("a", 0, 6000),
            ("b", 0, 2),
        )
    assert found[0] == VALUE[beyond - 10 : beyond]
    assert found[5] == VALUE[::-1][:2]
    assert isinstance(found[2], NotFound)
    assert [error.reason for error in (found[1], found[3], found[4])] == ["bad_range", "bad_key", "too_large"]
    assert all(isinstance(error, BadInput) for error in (found[1], found[3], found[4]))


def test_a_server_that_ignores_ranges_is_not_believed(server: RangeServer) -> None:
    server.lies["a"] = lambda handler: handler.answer(200, VALUE)
    with http(server) as storage, fetching(storage) as fetcher, pytest.raises(Unavailable, match="status 200"):
        list(fetcher.fetch({0: item("a", 5, 10)}))


def test_a_body_that_ends_early_is_not_taken(server: RangeServer) -> None:
    def short(handler: Any) -> None:
        handler.answer(206, b"12345", length=10, **{"Content-Range": f"bytes 5-14/{len(VALUE)}"})
        handler.close_connection = True

    server.lies["a"] = short
    with http(server) as storage, fetching(storage) as fetcher, pytest.raises(Unavailable):
        list(fetcher.fetch({0: item("a", 5, 10)}))


def test_downloads_that_nobody_waits_for_any_more_are_dropped(server: RangeServer) -> None:
    with http(server) as storage, fetching(storage, concurrency=2) as fetcher:
        captures = fetcher.fetch({number: item("a", 100 * number, 10) for number in range(50)})
        next(captures)
        captures.close()
    assert len(server.requests) < 10


# --- whole files ------------------------------------------------------------------------------------------------------

SPREAD = [("a", start, 400) for start in range(0, 10_000, 1000)]


def whole(folder: Path, *, most: int = 1 << 20, share: float = 0.2) -> WholeFileRule:
    return WholeFileRule(WholeFiles(folder, most=most, sleep=lambda _: None), share=share)


def expected(places: list[tuple[str, int, int]]) -> list[bytes]:
    return [VALUE[offset : offset + length] for _, offset, length in places]


def test_a_file_of_which_much_is_wanted_is_downloaded_once(server: RangeServer, tmp_path: Path) -> None:
    with http(server) as storage:
        rule = whole(tmp_path / "cache")
        assert fetch(storage, *SPREAD, whole=rule) == expected(SPREAD)
        assert fetch(storage, *SPREAD, whole=rule) == expected(SPREAD)
    assert [(command, headers.get("Range")) for command, _, headers in server.requests] == [
        ("HEAD", None),
        ("GET", None),
        ("HEAD", None),
    ]


@pytest.mark.parametrize(("places", "options"), [(SPREAD, {"share": 0.9}), (SPREAD, {"most": 100}), (SPREAD[:2], {})])
def test_a_file_is_not_downloaded_for_little_nor_beyond_the_cache(
    server: RangeServer, tmp_path: Path, places: list[tuple[str, int, int]], options: dict[str, Any]
) -> None:
    with http(server) as storage:
        assert fetch(storage, *places, whole=whole(tmp_path / "cache", **options)) == expected(places)
    assert sum(command == "GET" for command, _, _ in server.requests) == len(places)


def test_a_download_that_breaks_goes_on_where_it_was(server: RangeServer, tmp_path: Path) -> None:
    def broken(handler: Any) -> None:
        if handler.command == "HEAD" or handler.headers.get("Range"):
            handler.honest(value)
        else:
            handler.answer(200, value[:150_000], length=len(value), etag=etag)
            handler.close_connection = True

    value = server.values["a"] = VALUE * 20
    places = [("a", start, 5000) for start in range(0, 200_000, 10_000)]
    with http(server) as storage:
        etag = storage.stat("a").etag
        server.lies["a"] = broken
        found = fetch(storage, *places, whole=whole(tmp_path / "cache"))
    assert found == [value[offset : offset + length] for _, offset, length in places]
    assert asked(server)[-1] == f"/data/a bytes={128 << 10}-{len(value) - 1}"


def test_the_file_that_was_not_used_for_the_longest_time_makes_room(tmp_path: Path) -> None:
    storage = MemoryStorage()
    for name in "abc":
        storage.write(name, VALUE)
    folder = tmp_path / "cache"
    files = WholeFiles(folder, most=2 * len(VALUE))
    downloads: list[int] = []
    for name in "abacab":
        with files.open(storage, storage.stat(name), on_download=downloads.append) as file:
            assert file.read() == VALUE
        assert sum(path.stat().st_size for path in folder.iterdir()) <= files.most
    assert sum(downloads) == 4 * len(VALUE)  # a, b, c, and b again


def test_a_file_that_was_replaced_is_another_file(server: RangeServer, tmp_path: Path) -> None:
    rule = whole(tmp_path / "cache")
    with http(server) as storage:
        fetch(storage, *SPREAD, whole=rule)
        server.values["a"] = VALUE[::-1]
        other = [VALUE[::-1][offset : offset + length] for _, offset, length in SPREAD]
        assert fetch(storage, *SPREAD, whole=rule) == other

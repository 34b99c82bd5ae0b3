"""Parts of a capture: what players of sound and film ask for, on both origins."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.serve.warc_fixtures import collection, response, revisit, serve_both_origins
from webmill.pipeline.capture_reader import PIECE
from webmill.serve.captures.response import SKIPPED, slice_pieces

SITE, WHEN = "https://film.example", "20230401120000"
FILM = random.Random(5).randbytes(2 * SKIPPED + 12_345)
SIZE = len(FILM)
VIDEO = (("Content-Type", "video/mp4"),)
TEXT = b"the text of all " * 100  # 1600 bytes
PARTS = {
    "all": "bytes 0-1599/1600",
    "first": "bytes 0-1599/5000",
    "later": "bytes 1000-2599/5000",
    "unknown": "bytes 1000-2599/*",
    "short": "bytes 0-99/5000",
    "impossible": "bytes 0-1599/1000",
    "odd": "pages 1-2/3",
}


def records() -> Iterator[bytes]:
    yield response(f"{SITE}/film", WHEN, FILM, head=VIDEO)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n"
    yield revisit(f"{SITE}/film", "20230501120000", FILM, date=WHEN, block=head)
    yield response(f"{SITE}/small", WHEN, TEXT, head=(*VIDEO, ("Content-Encoding", "identity")))
    yield response(f"{SITE}/coded", WHEN, gzip.compress(TEXT, mtime=0), head=(*VIDEO, ("Content-Encoding", "gzip")))
    yield response(f"{SITE}/chunked", WHEN, b"3\r\nthe\r\n0\r\n\r\n", head=(*VIDEO, ("Transfer-Encoding", "chunked")))
    yield response(f"{SITE}/page", WHEN, b"<p>a page</p>")
    yield response(f"{SITE}/gone", WHEN, TEXT, head=VIDEO, status="404 Not Found")
    yield response(f"{SITE}/empty", WHEN, b"", head=VIDEO)
    for name, stated in PARTS.items():
        yield response(
            f"{SITE}/part/{name}", WHEN, TEXT, head=(*VIDEO, ("Content-Range", stated)), status="206 Partial Content"
        )
    yield response(f"{SITE}/part/none", WHEN, TEXT, head=VIDEO, status="206 Partial Content")
    yield response(
        f"{SITE}/part/page",
        WHEN,
        b"<p>a page</p>",
        head=(("Content-Type", "text/html"), ("Content-Range", "bytes 0-12/99")),
        status="206 Partial Content",
    )


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, TestClient]]:
    root = collection(tmp_path_factory.mktemp("film"), records())
    with serve_both_origins(root) as (own, replay):
        yield {"raw": own, "web": replay}


@pytest.mark.parametrize("place", ["raw", "web"])
@pytest.mark.parametrize("when", [WHEN, "20230501120000"])
@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("0-", 0, SIZE),
        ("0-0", 0, 1),
        ("100-199", 100, 200),
        (f"{SKIPPED + 7}-{SKIPPED + 6 + PIECE}", SKIPPED + 7, SKIPPED + 7 + PIECE),
        ("-500", SIZE - 500, SIZE),
        (f"{SIZE - 1}-{SIZE + 99}", SIZE - 1, SIZE),
    ],
)
def test_a_range_is_given(
    origins: dict[str, TestClient], place: str, when: str, asked: str, start: int, end: int
) -> None:
    answer = origins[place].get(f"/{place}/{when}/{SITE}/film", headers={"Range": f"bytes={asked}"})
    assert answer.status_code == 206
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert answer.headers["Content-Length"] == str(end - start)
    assert answer.headers["Content-Type"] == "video/mp4"
    assert answer.content == FILM[start:end]


@pytest.mark.parametrize("place", ["raw", "web"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Range": "bytes=0-1,5-6"},
        {"Range": "bytes=9-1"},
        {"Range": "lines=1-2"},
        {"Range": "bytes=0-1", "If-Range": '"a"'},
    ],
)
def test_all_is_given_with_its_length_when_no_single_range_is_asked_for(
    origins: dict[str, TestClient], place: str, headers: dict[str, str]
) -> None:
    answer = origins[place].get(f"/{place}/{WHEN}/{SITE}/film", headers=headers)
    assert (answer.status_code, answer.headers["Accept-Ranges"]) == (200, "bytes")
    assert answer.headers["Content-Length"] == str(SIZE)
    assert answer.content == FILM


@pytest.mark.parametrize("place", ["raw", "web"])
def test_a_range_behind_the_end_is_refused(origins: dict[str, TestClient], place: str) -> None:
    answer = origins[place].get(f"/{place}/{WHEN}/{SITE}/film", headers={"Range": f"bytes={SIZE}-"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{SIZE}")
    empty = origins[place].get(f"/{place}/{WHEN}/{SITE}/empty", headers={"Range": "bytes=0-"})
    assert empty.status_code == 416


@pytest.mark.parametrize("place", ["raw", "web"])
@pytest.mark.parametrize("name", ["coded", "chunked"])
def test_what_is_coded_has_no_ranges(origins: dict[str, TestClient], place: str, name: str) -> None:
    answer = origins[place].get(f"/{place}/{WHEN}/{SITE}/{name}", headers={"Range": "bytes=1-2"})
    assert (answer.status_code, answer.headers["Accept-Ranges"]) == (200, "none")
    assert answer.content.startswith(b"the")


def test_a_page_that_is_rewritten_and_a_missing_one_are_given_whole(origins: dict[str, TestClient]) -> None:
    page = origins["web"].get(f"/web/{WHEN}/{SITE}/page", headers={"Range": "bytes=1-2"})
    assert (page.status_code, page.content) == (200, b"<p>a page</p>")
    gone = origins["web"].get(f"/web/{WHEN}/{SITE}/gone", headers={"Range": "bytes=1-2"})
    assert (gone.status_code, gone.content) == (404, TEXT)


def test_what_is_not_coded_at_all_may_say_so(origins: dict[str, TestClient]) -> None:
    answer = origins["raw"].get(f"/raw/{WHEN}/{SITE}/small", headers={"Range": "bytes=4-7"})
    assert (answer.status_code, answer.content) == (206, TEXT[4:8])


def test_a_head_has_no_range(origins: dict[str, TestClient]) -> None:
    answer = origins["raw"].head(f"/raw/{WHEN}/{SITE}/film", headers={"Range": "bytes=0-1"})
    assert (answer.status_code, answer.headers["Content-Length"]) == (200, str(SIZE))


def test_damage_behind_the_range_does_not_matter_and_damage_within_breaks_the_answer(tmp_path: Path) -> None:
    root = collection(tmp_path, [response(f"{SITE}/film", WHEN, FILM, head=VIDEO)])
    archive = next(root.glob("crawl-data/**/*.warc.gz"))
    data = bytearray(archive.read_bytes())
    data[-2000:-1000] = bytes(1000)
    archive.write_bytes(data)
    with serve_both_origins(root) as (own, _):
        answer = own.get(f"/raw/{WHEN}/{SITE}/film", headers={"Range": "bytes=5-9"})
        assert (answer.status_code, answer.content) == (206, FILM[5:10])
        with pytest.raises(RuntimeError, match="already started"):  # the connection breaks
            own.get(f"/raw/{WHEN}/{SITE}/film", headers={"Range": f"bytes={SKIPPED}-"})


def test_the_way_to_a_range_is_cut_into_short_pieces_of_work() -> None:
    pieces = (FILM[at : at + PIECE] for at in range(0, SIZE, PIECE))
    found = [*slice_pieces(pieces, 2 * SKIPPED, 2 * SKIPPED + 10)]
    assert found == [b"", b"", FILM[2 * SKIPPED : 2 * SKIPPED + 10]]


@pytest.mark.parametrize(
    ("name", "asked", "start", "end", "stated"),
    [
        ("all", "0-", 0, 1600, "bytes 0-1599/1600"),
        ("all", "-100", 1500, 1600, "bytes 1500-1599/1600"),
        ("first", "0-", 0, 1600, "bytes 0-1599/5000"),
        ("first", "100-199", 100, 200, "bytes 100-199/5000"),
        ("later", "1000-", 0, 1600, "bytes 1000-2599/5000"),
        ("later", "2000-4000", 1000, 1600, "bytes 2000-2599/5000"),
        ("unknown", "1500-", 500, 1600, "bytes 1500-2599/*"),
        ("short", "0-9", 0, 10, "bytes 0-9/1600"),
        ("impossible", "0-9", 0, 10, "bytes 0-9/1600"),
        ("odd", "0-9", 0, 10, "bytes 0-9/1600"),
        ("none", "0-9", 0, 10, "bytes 0-9/1600"),
    ],
)
def test_of_what_was_archived_in_part_a_range_is_that_of_the_whole(
    origins: dict[str, TestClient], name: str, asked: str, start: int, end: int, stated: str
) -> None:
    answer = origins["web"].get(f"/web/{WHEN}/{SITE}/part/{name}", headers={"Range": f"bytes={asked}"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (206, stated)
    assert answer.content == TEXT[start:end]


@pytest.mark.parametrize(
    ("name", "asked", "stated"),
    [
        ("first", "1600-", "bytes */5000"),
        ("first", "-100", "bytes */5000"),
        ("later", "0-", "bytes */5000"),
        ("later", "0-2000", "bytes */5000"),
        ("unknown", "9999-", "bytes */*"),
    ],
)
def test_a_range_whose_beginning_was_not_archived_is_refused(
    origins: dict[str, TestClient], name: str, asked: str, stated: str
) -> None:
    answer = origins["web"].get(f"/web/{WHEN}/{SITE}/part/{name}", headers={"Range": f"bytes={asked}"})
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, stated)


@pytest.mark.parametrize("name", [*PARTS, "none", "page"])
def test_who_asks_for_no_range_gets_all_that_there_is_of_it_and_no_206(
    origins: dict[str, TestClient], name: str
) -> None:
    answer = origins["web"].get(f"/web/{WHEN}/{SITE}/part/{name}")
    assert (answer.status_code, "Content-Range" in answer.headers) == (200, False)
    assert answer.content == (b"<p>a page</p>" if name == "page" else TEXT)
    stated = {**PARTS, "page": "bytes 0-12/99"}.get(name)
    assert answer.headers.get("X-Archive-Orig-Content-Range") == stated

"""/raw/TIMESTAMP/URL: what was archived, and nothing of it runs."""

from __future__ import annotations

import gzip
import io
import random
import tracemalloc
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from starlette.testclient import TestClient
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

from tests.serve.asgi_client import asgi_client
from tests.serve.conftest import site_of
from tests.serve.warc_fixtures import collection, record, response, revisit, serve_both_origins
from webmill.pipeline.capture_reader import PIECE, open_capture
from webmill.pipeline.captures import nearest_captures
from webmill.serve.app import application

SITE, WHEN = "https://made.example", "20230401120000"
SCRIPT = b"<script>alert(1)</script>"
ACTIVE = [
    *("text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml", "text/javascript"),
    *("application/pdf", "text/css", "application/x-shockwave-flash", "multipart/x-mixed-replace", "message/rfc822"),
    *("TEXT/HTML", "text/html;charset=x", "text/plain, text/html", "", "nonsense", "application/warc"),
]
INERT = ["image/png", "text/plain; charset=utf-8"]
CODED: list[tuple[tuple[tuple[str, str], ...], bytes]] = [
    ((("Content-Encoding", "gzip"),), gzip.compress(b"the text", mtime=0)),
    ((("Transfer-Encoding", "chunked"),), b"3\r\nthe\r\n5\r\n text\r\n0\r\n\r\n"),
    ((("Content-Encoding", "gzip"),), b"the text"),  # as crawlers leave it that have undone it
    ((("Transfer-Encoding", "chunked"),), b"the text"),
    ((("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")), b"the text"),
    ((("Content-Length", "8"),), b"\r\nthe text"),  # two empty lines, as some crawls of 2018 have them
    ((), b"the text"),
]
ADDRESSES = [f"{SITE}/a?b=1&c=2", f"{SITE}/x%2Fy", f"{SITE}/p?u=http://q.example//r"]
LARGE = bytes(range(256)) * (12 << 10)  # 3 MiB
ODD = (
    ("Content-Type", "text/plain"),
    ("Set-Cookie", "a=1"),
    ("Strict-Transport-Security", "max-age=1"),
    ("X-Odd", "a\rSet-Cookie: b=2\x00"),
    ("bad name", "x"),
    *((f"X-Many-{number}", "y" * 1000) for number in range(50)),
)
BODY, OTHER = b"the same words", f"{SITE}/revisit/other"
REVISITS = [
    response(f"{SITE}/revisit", "20230101000000", BODY),
    revisit(f"{SITE}/revisit", "20230102000000", BODY),
    revisit(OTHER, "20230103000000", BODY, uri=f"{SITE}/revisit", date="20230101000000"),
    revisit(
        f"{SITE}/revisit", "20230104000000", BODY, date="20230102000000", block=b"HTTP/1.1 304 Not Modified\r\n\r\n"
    ),
    revisit(f"{SITE}/revisit", "20230105000000", BODY, date="20220101000000"),  # a wrong date: the digest is right
    revisit(f"{SITE}/revisit", "20230106000000", BODY, block=b""),
]
LOST = {
    "alone": [revisit(f"{SITE}/alone", WHEN, b"gone")],
    "to-nothing": [revisit(f"{SITE}/to-nothing", WHEN, b"gone", date="20230101000000")],
    "itself": [revisit(f"{SITE}/itself", WHEN, b"loop", date=WHEN)],
    "circle": [
        revisit(f"{SITE}/circle", WHEN, b"loop", date="20230402000000"),
        revisit(f"{SITE}/circle", "20230402000000", b"loop", date=WHEN),
    ],
    "deep": [
        revisit(f"{SITE}/deep", f"202304{day:02}120000", b"chain", date=f"202304{day + 1:02}120000")
        for day in range(1, 20)
    ],
}


def records() -> Iterator[bytes]:
    yield from (response(url, WHEN, url.encode()) for url in ADDRESSES)
    for number, kind in enumerate(ACTIVE + INERT):
        yield response(f"{SITE}/type/{number}", WHEN, SCRIPT, head=(("Content-Type", kind),))
    for number, (head, body) in enumerate(CODED):
        yield response(f"{SITE}/coded/{number}", WHEN, body, head=head)
    yield response(f"{SITE}/odd", WHEN, b"x", head=ODD)
    yield response(f"{SITE}/large", WHEN, LARGE, head=(("Content-Type", "video/mp4"),))
    bomb = (("Content-Type", "text/plain"), ("Content-Encoding", "gzip"))
    yield response(f"{SITE}/bomb", WHEN, gzip.compress(bytes(20 << 20), mtime=0), head=bomb)
    yield record("resource", f"{SITE}/resource", WHEN, b"plain words", (("Content-Type", "text/plain"),))
    yield from REVISITS
    for made in LOST.values():
        yield from made


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, TestClient]]:
    with serve_both_origins(collection(tmp_path_factory.mktemp("made"), records())) as clients:
        yield clients


@pytest.fixture
def made(clients: tuple[TestClient, TestClient]) -> TestClient:
    return clients[0]


def test_a_page_is_given_as_it_was_archived(client: TestClient) -> None:
    answer = client.get("/raw/20220310080000/https://town.example/")
    assert answer.status_code == 200
    assert b"The ferry leaves at nine." in answer.content
    assert b'href="/news"' in answer.content  # not rewritten
    assert answer.headers["Memento-Datetime"] == "Thu, 10 Mar 2022 08:00:00 GMT"
    assert answer.headers["X-Archive-Orig-Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Archive-Orig-Status"] == "200 Said"
    for part in (
        '<https://town.example/>; rel="original"',
        "/timegate/https://town.ex",
        "/timemap/link/https://town.ex",
    ):
        assert part in answer.headers["Link"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("2", "20220310080000"),
        ("2022", "20220310080000"),
        ("20220", "20220310080000"),
        ("202303", "20230401120000"),
        ("20230401120001", "20230401120000"),
        ("20230401120459", "20230401120500"),
        ("2025", "20240401100000"),
        ("9999", "20240401100000"),
    ],
)
def test_the_nearest_capture_is_found(client: TestClient, asked: str, found: str) -> None:
    answer = client.get(f"/raw/{asked}/https://town.example/", follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/raw/{found}/https://town.example/")


@pytest.mark.parametrize(
    "asked", ["town.example/", "https:/town.example/", "https%3A%2F%2Ftown.example%2F", "HTTPS://TOWN.example"]
)
def test_an_address_may_be_written_in_several_ways(client: TestClient, asked: str) -> None:
    assert b"The ferry leaves at nine." in client.get(f"/raw/20220310080000/{asked}").content


@pytest.mark.parametrize("url", ADDRESSES)
def test_the_query_slashes_and_escapes_belong_to_the_address(made: TestClient, url: str) -> None:
    assert made.get(f"/raw/{WHEN}/{url}").content == url.encode()


@pytest.mark.parametrize(
    "path",
    [
        *("/raw/", "/raw/2023", "/raw/2023/", "/raw/x/https://town.example/", "/raw/2023/http://["),
        *("/raw/20231301/https://town.example/", "/raw/2023other_/https://town.example/"),
        "/raw/202304011200001/https://town.example/",
    ],
)
def test_what_is_no_address_is_refused(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 400


def test_what_was_never_captured_is_not_found(client: TestClient) -> None:
    assert client.get("/raw/2023/https://nowhere.example/").status_code == 404


def test_the_record_itself_is_the_bytes_of_the_archive(client: TestClient, sample_root: Path) -> None:
    answer = client.get("/raw/20220310080000warc_/https://town.example/")
    assert answer.headers["Content-Type"] == "application/warc"
    assert any(answer.content in file.read_bytes() for file in (sample_root / "crawl-data").rglob("*.warc.gz"))
    read = next(ArchiveIterator(io.BytesIO(answer.content)))
    assert read.rec_headers["WARC-Target-URI"] == "https://town.example/"
    assert b"The ferry leaves at nine." in read.content_stream().read()


def test_the_nearest_record_is_found_too(client: TestClient) -> None:
    answer = client.get("/raw/2022warc_/https://town.example/", follow_redirects=False)
    assert answer.headers["Location"] == "/raw/20220310080000warc_/https://town.example/"


# --- types (V11) ---


@pytest.mark.parametrize("number", range(len(ACTIVE)), ids=ACTIVE)
def test_what_could_be_active_is_a_file_to_save(made: TestClient, number: int) -> None:
    answer = made.get(f"/raw/{WHEN}/{SITE}/type/{number}")
    assert answer.content == SCRIPT
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{WHEN}-{number}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


@pytest.mark.parametrize("number", range(len(INERT)), ids=INERT)
def test_what_can_do_nothing_is_shown(made: TestClient, number: int) -> None:
    answer = made.get(f"/raw/{WHEN}/{SITE}/type/{len(ACTIVE) + number}")
    assert (answer.headers["Content-Type"], answer.headers["Content-Disposition"]) == (INERT[number], "inline")
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"


def test_archived_headers_come_under_another_name_and_without_line_breaks(made: TestClient) -> None:
    answer = made.get(f"/raw/{WHEN}/{SITE}/odd")
    assert not {"set-cookie", "strict-transport-security"} & set(answer.headers)
    assert answer.headers["X-Archive-Orig-Set-Cookie"] == "a=1"
    assert answer.headers["X-Archive-Orig-X-Odd"] == "a Set-Cookie: b=2"
    assert sum(len(name) + len(value) for name, value in answer.headers.items()) < 20_000


# --- bodies ---


@pytest.mark.parametrize("number", range(len(CODED)))
def test_codings_are_undone_where_they_are_there(made: TestClient, number: int) -> None:
    assert made.get(f"/raw/{WHEN}/{SITE}/coded/{number}").content == b"the text"


def test_a_bomb_ends_at_a_limit(made: TestClient) -> None:
    assert 0 < len(made.get(f"/raw/{WHEN}/{SITE}/bomb").content) < 5 << 20


def test_a_large_body_is_streamed_whole(made: TestClient) -> None:
    answer = made.get(f"/raw/{WHEN}/{SITE}/large")
    assert answer.headers["Content-Length"] == str(len(LARGE))
    assert answer.content == LARGE


def test_for_the_head_of_a_large_body_no_more_is_read(tmp_path: Path) -> None:
    site = site_of(
        collection(tmp_path, [response(f"{SITE}/large", WHEN, LARGE, head=(("Content-Type", "video/mp4"),))])
    )
    with asgi_client(application(site)) as ask:
        answer = ask(f"/raw/{WHEN}/{SITE}/large", method="HEAD")
    assert (answer.status, answer["content-type"], answer.body) == (200, "video/mp4", b"")
    assert answer["content-length"] == str(len(LARGE))


def test_a_bomb_behind_an_honest_beginning_never_is_in_memory(tmp_path: Path) -> None:
    """What came before it allows it to be large."""
    packer = zstandard.ZstdCompressor().compressobj()
    packed = packer.compress(random.Random(1).randbytes(1 << 20))
    packed += b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    site = site_of(collection(tmp_path, [response(f"{SITE}/", WHEN, packed, head=(("Content-Encoding", "zstd"),))]))
    index = site.index()
    line = next(nearest_captures(index, f"{SITE}/", moment=WHEN))
    archived = open_capture(index, site.files, line.capture)
    tracemalloc.start()
    try:
        sizes = [len(piece) for piece in archived.content()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        archived.close()
    assert (sum(sizes), max(sizes)) == (101 << 20, PIECE)
    assert peak < 32 << 20


def test_a_resource_record_has_its_own_type(made: TestClient) -> None:
    answer = made.get(f"/raw/{WHEN}/{SITE}/resource")
    assert (answer.text, answer.headers["Content-Type"]) == ("plain words", "text/plain")


def test_a_damaged_record_is_not_found_and_the_disk_not_told_of(tmp_path: Path) -> None:
    url = f"{SITE}/damaged"
    root = collection(tmp_path, [response(url, WHEN, b"x" * 1000)])
    (file,) = (root / "crawl-data").rglob("*.warc.gz")
    with serve_both_origins(root) as (own, _):
        for damage in (bytes(file.stat().st_size), b""):
            file.write_bytes(damage)
            answer = own.get(f"/raw/{WHEN}/{url}")
            assert answer.status_code == 404
            assert str(tmp_path) not in answer.text
            assert own.get(f"/raw/{WHEN}warc_/{url}").status_code == 404
        file.unlink()
        assert own.get(f"/raw/{WHEN}/{url}").status_code == 404


# --- revisits (V10) ---


def test_a_revisit_has_the_body_of_its_original_and_its_own_date(client: TestClient) -> None:
    answer = client.get("/raw/20230401120500/https://town.example/")
    assert b"The ferry leaves at noon." in answer.content
    assert answer.headers["Memento-Datetime"] == "Sat, 01 Apr 2023 12:05:00 GMT"


@pytest.mark.parametrize("day", [2, 3, 4, 5, 6])
def test_a_revisit_is_resolved_by_what_it_refers_to_or_by_its_digest(made: TestClient, day: int) -> None:
    answer = made.get(f"/raw/2023010{day}000000/{OTHER if day == 3 else f'{SITE}/revisit'}")
    assert (answer.status_code, answer.content) == (200, BODY)
    assert answer.headers["X-Archive-Orig-Status"] == "200 OK"


def test_a_revisit_of_what_was_posted_is_resolved_by_its_own_key(tmp_path: Path) -> None:
    url, early, late = f"{SITE}/ask", "20230101000000", "20230102000000"
    asked = b"POST /ask HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\n" + b'{"q":1}'
    members = []
    for answer, when in ((response(url, early, BODY), early), (revisit(url, late, BODY, date=early), late)):
        kind = "response" if when == early else "revisit"
        answered = uuid.uuid5(uuid.NAMESPACE_URL, f"{kind} {url} {when}")
        members += [answer, record("request", url, when, asked, (("WARC-Concurrent-To", f"<urn:uuid:{answered}>"),))]
    with serve_both_origins(collection(tmp_path / "made", members)) as (own, _):
        found = own.get(f"/raw/{late}/{url}?__wb_method=POST&q=1")
        assert (found.status_code, found.content) == (200, BODY)


@pytest.mark.parametrize("name", LOST)
def test_a_revisit_that_leads_nowhere_is_clearly_not_found(clients: tuple[TestClient, TestClient], name: str) -> None:
    own, replay = clients
    answer = own.get(f"/raw/{WHEN}/{SITE}/{name}")
    assert answer.status_code == 404
    assert "this capture" in answer.json()["message"]
    assert replay.get(f"/web/{WHEN}/{SITE}/{name}").status_code == 404
    page = own.get(f"/web/{WHEN}/{SITE}/{name}")
    assert (page.status_code, "This capture" in page.text) == (404, True)
    assert own.get(f"/raw/{WHEN}warc_/{SITE}/{name}").status_code == 200  # the record is there

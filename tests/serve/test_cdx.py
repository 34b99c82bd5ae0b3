"""The CDX API: outputs, what is told when, several crawls, damage. That answers are pywb's is in test_cdx_pywb.py."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from starlette.testclient import TestClient

from tests.serve.cdx_samples import NAME, make_captures, put_index
from tests.serve.conftest import ADDRESS, site_of
from tests.serve.sample_collection import NAME as SAMPLE
from tests.unit.index.zipnum_samples import build
from webmill.formats.cdx.cdxj import CdxjLine, format_line
from webmill.index.lookup.block_cache import BlockCache
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.local import LocalStorage
from webmill.serve.app import application
from webmill.serve.cdx import served_index
from webmill.serve.cdx.served_index import ServedIndex

LINES = make_captures(1500, seed=5)
EVEN, ODD = "EVEN-2024", "ODD-2024"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("two")
    put_index(root, LINES[::2], name=EVEN)
    put_index(root, LINES[1::2], name=ODD)
    return root


@pytest.fixture
def both(two: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(two) as client:
        yield client


def objects(text: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in text.splitlines()]


# --- outputs ----------------------------------------------------------------------------------------------------------


def test_each_address_has_the_output_its_clients_expect(client: TestClient) -> None:
    asked = {"url": "town.example/gone", "fl": "status,mime"}
    pywb, common_crawl = client.get(f"/{SAMPLE}/cdx", params=asked), client.get(f"/{SAMPLE}-index", params=asked)
    assert pywb.text == 'example,town)/gone 20230401120002 {"status":"404","mime":"text/html"}\n'
    assert pywb.headers["content-type"] == "text/x-cdxj; charset=utf-8"
    assert (common_crawl.text, common_crawl.headers["content-type"]) == ("404 text/html\n", "text/plain; charset=utf-8")
    answer = client.get("/cdx", params=asked | {"output": "json"})
    assert objects(answer.text) == [{"status": "404", "mime": "text/html"}]
    assert answer.headers["content-type"] == "text/x-ndjson; charset=utf-8"


def test_answers_are_packed_for_those_who_take_that(both: TestClient) -> None:
    asked = {"url": "*.com", "output": "json"}
    for printed in ("identity, gzip;q=0", "gzip; q=0.000", "*;q=0"):
        plain = both.get("/cdx", params=asked, headers={"Accept-Encoding": printed})
        assert "content-encoding" not in plain.headers
    assert len(objects(plain.text)) > 1000
    with both.stream("GET", "/cdx", params=asked, headers={"Accept-Encoding": "br, gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in packed.headers["vary"].lower()
        assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
    short = both.get("/cdx", params={"url": "*.com", "showNumPages": "true"}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in short.headers


def test_a_key_is_json_whatever_is_in_it(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    lines = [
        b'com,a)/"x\\ 20240101000000 {"url": "u"}\n',
        b"com,a)/b 20240101000000 {}\n",
        b'com,a)/c 20240101000000 {"n": 1e400, "o": {"p": [null]}}\n',
        b'com,a)/caf\xe9 20240101000000 {"url": "u"}\n',
    ]
    put_index(tmp_path, lines)
    with client_of(tmp_path) as client:
        found = objects(client.get("/cdx", params={"url": "a.com/*", "output": "json"}).text)
    assert [line["urlkey"] for line in found] == ['com,a)/"x\\', "com,a)/b", "com,a)/c", "com,a)/café"]


def test_no_field_makes_a_line_of_its_own(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    url = "http://a.com/\r\ncom,evil)/ 20240101000000\u2028 x"
    put_index(tmp_path, [format_line(CdxjLine("com,a)/", "20240101000000", {"url": url}))])
    with client_of(tmp_path) as client:
        text = client.get("/cdx", params={"url": "a.com", "output": "text", "fl": "url,nosuch"}).text
    assert text == "http://a.com/%0D%0Acom,evil)/ 20240101000000%E2%80%A8 x -\n"


def test_captures_collapse_as_at_the_internet_archive(client: TestClient) -> None:
    asked = {"url": "town.example/clock", "output": "text", "fl": "timestamp"}
    assert len(client.get("/cdx", params=asked).text.splitlines()) == 72
    by_month = client.get("/cdx", params=asked | {"collapse": "timestamp:6"}).text.split()
    assert by_month == [f"2024{month:02d}01000000" for month in range(1, 13)]
    twice = client.get("/cdx", params=[*asked.items(), ("collapse", "timestamp:6"), ("collapse", "urlkey")])
    assert twice.text.split() == ["20240101000000"]


def test_a_head_is_that_of_the_answer(client: TestClient, both: TestClient) -> None:
    assert both.head("/cdx", params={"url": "*.com"}).status_code == 200
    answer = client.head("/cdx", params={"url": "town.example/gone"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


# --- what is told -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, 'The "url" param is required'),
        ({"url": "*"}, 'The "url" param is required'),
        ({"url": "*."}, 'The "url" param is required'),
        ({"url": "a.com", "matchType": "fuzzy"}, "matchType=fuzzy not supported"),
        ({"url": "a.com", "output": "xml"}, "output=xml not supported"),
        ({"url": "a.com", "sort": "random"}, "sort=random not supported"),
        ({"url": "a.com", "closest": "soon"}, "not a date"),
        ({"url": "a.com", "from": "20241301"}, "not a date"),
        ({"url": "a.com", "to": "2024x"}, "not a date"),
        ({"url": "a.com", "limit": "-1"}, "Invalid value for limit="),
        ({"url": "a.com", "limit": "9" * 50}, "Invalid value for limit="),
        ({"url": "a.com", "limit": "100001", "sort": "reverse"}, "limit must be at most 100000"),
        ({"url": "a.com", "page": "x"}, "Invalid value for page="),
        ({"url": "a.com", "pageSize": "0"}, "Invalid value for pageSize="),
        ({"url": "a.com", "collapse": "timestamp:x"}, "collapse must be FIELD or FIELD:N"),
        ({"url": "a.com", "collapseTime": "0"}, "Invalid value for collapseTime="),
        ({"url": "a.com", "filter": "~url:("}, "missing )"),
        ({"url": "a.com", "filter": r"~url:(a)\1"}, "invalid escape"),
        ({"url": "a.com", "fl": ",".join("x" * 21)}, "at most 20"),
        ({"url": "*.com", "page": "9999"}, "Page 9999 invalid: First Page is 0, Last Page is "),
    ],
)
def test_what_is_asked_wrongly_is_told(both: TestClient, asked: dict[str, str], message: str) -> None:
    for path in ("/cdx", f"/{EVEN}-index"):
        answer = both.get(path, params=asked)
        assert answer.status_code == 400
        assert message in answer.json()["message"]


def test_nothing_found_is_told_to_those_who_want_json_and_as_common_crawl_does(client: TestClient) -> None:
    asked = {"url": "nowhere.example"}
    empty = client.get("/cdx", params=asked)
    assert (empty.status_code, empty.text) == (200, "")
    for path, output in (("/cdx", "json"), (f"/{SAMPLE}-index", "text"), (f"/{SAMPLE}-index", "json")):
        answer = client.get(path, params=asked | {"output": output})
        assert (answer.status_code, answer.json()) == (404, {"message": "No Captures found for: nowhere.example"})


def test_a_crawl_that_is_not_there_ends_also_those_who_turn_pages(
    client: TestClient, tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    """cdx_toolkit takes 404 for a page without captures, and asks for the next one, for ever."""
    assert client.get("/OTHER-index", params={"url": "a.com", "page": "0"}).status_code == 404
    assert client.get("/OTHER-index", params={"url": "a.com", "page": "1"}).status_code == 400
    assert client.get("/OTHER/cdx", params={"url": "a.com"}).json() == {"message": "there is no crawl OTHER here"}
    with client_of(tmp_path) as empty:
        assert empty.get("/cdx", params={"url": "a.com"}).status_code == 404
        assert empty.get("/collinfo.json").json() == []


@pytest.mark.timeout(60)
def test_a_pattern_that_explodes_elsewhere_is_answered(both: TestClient) -> None:
    answer = both.get("/cdx", params={"url": "*.com", "filter": "~url:^(.*a)*(.*b)*(.*c)*x$", "output": "text"})
    assert (answer.status_code, answer.text) == (200, "")


# --- several crawls ---------------------------------------------------------------------------------------------------


def test_all_crawls_are_asked_as_one(both: TestClient) -> None:
    asked = {"url": "*.com", "output": "text"}
    expected = [line.decode().rstrip("\n") for line in LINES if line.startswith(b"com,")]
    assert both.get("/cdx", params=asked).text.splitlines() == expected
    assert both.get(f"/{EVEN}/cdx", params=asked).text.splitlines() == [
        line.decode().rstrip("\n") for line in LINES[::2] if line.startswith(b"com,")
    ]


def test_pages_of_all_crawls_hold_every_capture_once(both: TestClient) -> None:
    asked = {"url": "*.com", "output": "text", "pageSize": "7"}
    count = both.get("/cdx", params=asked | {"showNumPages": "true"}).json()
    each = [both.get(f"/{name}/cdx", params=asked | {"showNumPages": "true"}).json() for name in (EVEN, ODD)]
    assert count == {"pages": each[0]["pages"] + each[1]["pages"], "pageSize": 7, "blocks": count["blocks"]}
    assert count["blocks"] == each[0]["blocks"] + each[1]["blocks"]
    pages = [both.get("/cdx", params=asked | {"page": str(page)}).text.splitlines() for page in range(count["pages"])]
    expected = [line.decode().rstrip("\n") for line in LINES if line.startswith(b"com,")]
    assert sorted(line for page in pages for line in page) == sorted(expected)
    assert both.get("/cdx", params=asked | {"page": str(count["pages"])}).status_code == 400


def test_crawls_are_listed_as_common_crawls_are(both: TestClient, client: TestClient) -> None:
    assert client.get("/collinfo.json").json() == [
        {
            "id": SAMPLE,
            "name": SAMPLE,
            "timegate": f"{ADDRESS}/{SAMPLE}/timegate/",
            "cdx-api": f"{ADDRESS}/{SAMPLE}-index",
            "from": "2022-03-10T08:00:00",
            "to": "2024-12-15T02:00:00",
        }
    ]
    listed = both.get("/collinfo.json").json()
    assert {crawl["id"] for crawl in listed} == {EVEN, ODD}
    assert all(crawl["from"] < crawl["to"] for crawl in listed)
    for crawl in listed:
        assert both.get(crawl["cdx-api"], params={"url": "*.com", "limit": "1"}).status_code == 200


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damage_is_an_error_and_never_a_shorter_answer(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    folder = put_index(tmp_path, LINES)
    shard = max(folder.glob("cdx-*.gz"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    shard.write_bytes(data)
    with client_of(tmp_path) as client:
        asked = {"url": json.loads(LINES[-1].split(b" ", 2)[2])["url"], "output": "json"}
        answer = client.get(f"/{NAME}-index", params=asked)
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text
        shard.unlink()
        assert client.get(f"/{NAME}-index", params=asked).status_code == 503
        assert client.get("/collinfo.json").json()[0]["id"] == NAME


def test_an_index_that_is_replaced_is_seen_at_once(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    folder = put_index(tmp_path, LINES[:10])
    asked = {"url": json.loads(LINES[-1].split(b" ", 2)[2])["url"]}
    with client_of(tmp_path) as client:
        assert client.get(f"/{NAME}-index", params=asked).status_code == 404
        build(folder, LINES)
        assert client.get(f"/{NAME}-index", params=asked).status_code == 200


class CountingStorage(LocalStorage):
    """How often something was read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads = 0

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        self.reads += 1
        return super().read(key, start=start, length=length, etag=etag)

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        self.reads += 1
        return super().open(key, start=start, length=length, etag=etag)


@pytest.mark.parametrize("damaged", [False, True])
def test_the_list_of_crawls_reads_an_index_once_for_each_state_of_it(
    tmp_path: Path, damaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_index, "RECHECK_SECONDS", 3600.0)
    folder = put_index(tmp_path, LINES[:100], name="A")
    site = site_of(tmp_path)
    storage = CountingStorage(folder)
    site._indexes["A"] = ServedIndex(storage, name="A", kept=BlockCache())
    with TestClient(application(site), base_url=ADDRESS) as client:
        for lines in (LINES[:200], LINES[:300]):
            write_index([lines], folder, lines=20)
            if damaged:
                with (folder / "cluster.idx").open("ab") as summary:
                    summary.write(b"no line of a summary\n")
            before = storage.reads
            first = client.get("/collinfo.json").json()
            read = storage.reads
            assert read > before
            assert [client.get("/collinfo.json").json() for _ in range(3)] == [first] * 3
            assert storage.reads == read
            assert ("from" in first[0]) is not damaged

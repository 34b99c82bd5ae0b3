"""/documents and /documents/item: lists of any length in pages, parts of them, and one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.serve.published_items import assert_harmless, publish
from tests.serve.sample_collection import SCRIPT
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish.blobs import BlobStore
from webmill.publish.shards import read_index, write_index
from webmill.publish.types import PublishedItem, encode
from webmill.serve.api.items import ItemLookup, id_ranges

HASH = "0" * 64
LARGE = {f"notice/{number:03d}": {"title": f"Notice {number}", "text": "…", "campus": "Seoul"} for number in range(230)}
ODD = {
    "odd/script": {"title": SCRIPT, "text": SCRIPT, "url": "javascript:alert(1)", "note": SCRIPT},
    "odd/\u202ebidi": {"title": "\u202eelttil", "text": "a\u2067b\x00c", "language": "ara"},
    "odd/long": {"title": "Long", "text": "word " * 50_000, "language": "eng"},
    "odd/huge": {"title": "Huge", "text": "x" * (5 << 20)},
    "odd/none": {"title": "", "text": "", "url": ""},
}


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three versions; the first two without what is odd."""
    root = tmp_path_factory.mktemp("board")
    publish(root, {**LARGE, "notice/000": {"title": "Before", "text": "Before"}})
    publish(root, LARGE)
    publish(root, {**LARGE, **ODD})
    return root


@pytest.fixture
def board_client(board: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(board) as client:
        yield client


# --- lists ---


def test_the_list_shows_titles_addresses_and_counts(client: TestClient) -> None:
    page = client.get("/documents")
    seen = assert_harmless(page.text)
    assert "7 documents" in seen.text
    assert 'lang="zh" dir="auto">北京通知' in page.text
    assert "https://서울.example/공지" in seen.text
    assert "/documents?facet=language%3Dkor" in seen.links
    assert SCRIPT in seen.text


def test_pages_of_the_list_have_every_document_once(board_client: TestClient) -> None:
    ids: list[str] = []
    for offset in range(0, 300, 100):
        ids += [item["id"] for item in board_client.get(f"/api/documents?offset={offset}").json()["items"]]
    assert ids == sorted({**LARGE, **ODD})
    page = assert_harmless(board_client.get("/documents?page=5").text)
    assert "235 documents, 201 to 235" in page.text
    assert "/documents?page=4" in page.links


def test_a_page_behind_the_last_is_empty_and_leads_back(board_client: TestClient) -> None:
    assert "/documents" in assert_harmless(board_client.get("/documents?page=999").text).links


@pytest.mark.parametrize(
    ("prefix", "count"),
    [("town.example", 3), ("https://town.example/n", 1), ("*.example", 7), ("example,town)/h", 1), ("서울.example", 1)],
)
def test_a_part_is_chosen_by_address_host_domain_or_id(client: TestClient, prefix: str, count: int) -> None:
    found = client.get("/api/documents", params={"prefix": prefix}).json()
    assert found["total"] == len(found["items"]) == count


def test_ids_that_are_no_addresses_have_beginnings_too(board_client: TestClient) -> None:
    assert board_client.get("/api/documents?prefix=notice/01&limit=1").json()["total"] == 10


def test_a_part_of_a_facet_of_an_older_version(board_client: TestClient) -> None:
    old = board_client.get("/api/versions").json()["versions"][0]["version"]
    asked = {"version": old, "facet": "campus=Seoul", "prefix": "notice/"}
    assert board_client.get("/api/documents", params=asked).json()["total"] == 229
    page = assert_harmless(board_client.get("/documents", params=asked).text)
    assert "229 documents" in page.text
    assert "campus: Seoul" in page.text
    assert f"/documents?prefix=notice%2F&version={old}" in page.links  # without the facet


def test_a_part_that_is_empty_says_what_to_try(client: TestClient) -> None:
    page = assert_harmless(client.get("/documents", params={"prefix": '"><script>'}).text)
    assert "No document matches" in page.text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("facet=language%3Dxxx", 404),
        ("facet=nonsense", 404),
        ("version=00000009-00000000", 404),
        ("version=../x", 400),
        (f"prefix={'x' * 4001}", 400),
        ("page=0&limit=0", 400),
        ("page=x&offset=x", 400),
    ],
)
def test_what_is_not_there_or_no_number_is_refused(client: TestClient, asked: str, status: int) -> None:
    page = client.get(f"/documents?{asked}", headers={"Accept": "text/html"})
    assert page.status_code == status
    assert_harmless(page.text)
    assert client.get(f"/api/documents?{asked}").status_code == status


def test_where_nothing_is_published_the_page_names_the_command(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    with client_of(tmp_path) as client:
        page = client.get("/documents")
        assert page.status_code == 200
        assert "webmill publish documents" in assert_harmless(page.text).text
        assert client.get("/api/documents").status_code == 404
        assert client.get("/api/versions").json() == {"versions": []}


# --- one ---


def test_a_document_leads_to_its_captures_content_and_changes(client: TestClient, sample_root: Path) -> None:
    page = assert_harmless(client.get("/documents/item", params={"id": "example,town)/"}).text)
    assert "The ferry leaves at noon." in page.text
    assert {"/web/20240401100000/https://town.example/", "https://town.example/"} <= set(page.links)
    assert "/history?url=https%3A%2F%2Ftown.example%2F" in page.links
    (blob,) = {link for link in page.links if link.startswith("/blobs/")}
    assert (sample_root / blob.lstrip("/")).is_file()
    assert any(link.startswith("/versions/diff?from=00000001-") for link in page.links)


def test_what_changed_a_document_is_told_by_version(board_client: TestClient) -> None:
    entry = board_client.get("/api/documents/item", params={"id": "notice/000"}).json()
    assert [(change["version"][:8], change["change"]) for change in entry["changes"]] == [
        ("00000002", "changed"),
        ("00000001", "added"),
    ]
    assert entry["content"] == {"title": "Notice 0", "text": "…"}


def test_a_document_as_it_was_says_so(board_client: TestClient) -> None:
    old = board_client.get("/api/versions").json()["versions"][0]["version"]
    page = assert_harmless(board_client.get("/documents/item", params={"id": "notice/000", "version": old}).text)
    assert "Before" in page.text
    assert "Current version" in page.text


@pytest.mark.parametrize("id_", sorted(ODD), ids=range(len(ODD)))
def test_what_strangers_publish_stays_text(board_client: TestClient, id_: str) -> None:
    page = board_client.get("/documents/item", params={"id": id_})
    assert page.status_code == 200
    seen = assert_harmless(page.text)
    assert len(page.text) < 200_000
    if id_ == "odd/script":
        assert seen.text.count(SCRIPT) >= 3  # title, text, note
    if id_ == "odd/long":
        assert "The first 100,000 characters" in seen.text
    if id_ == "odd/huge":
        assert "The text is too long to show here" in seen.text


@pytest.mark.parametrize(
    ("asked", "status"), [("", 400), ("id=nothing", 404), (f"id={'x' * 5000}", 400), ("id=%00", 404)]
)
def test_a_document_that_is_not_there(client: TestClient, asked: str, status: int) -> None:
    assert client.get(f"/documents/item?{asked}").status_code == status


def test_a_blob_that_is_damaged_is_told(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    publish(tmp_path, {"a": {"title": "A", "text": "whole"}})
    (blob,) = (tmp_path / "blobs" / "sha256").iterdir()
    blob.write_bytes(b'{"title": "A", "text": "other"}')
    with client_of(tmp_path) as client:
        answer = client.get("/documents/item?id=a")
        assert answer.status_code == 503
        assert "damaged" in answer.json()["message"]


# --- places in an index ---


@given(ids=st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=60), probe=st.text(max_size=3), data=st.data())
@settings(deadline=None, max_examples=60)
def test_places_are_those_of_a_sorted_list(ids: set[str], probe: str, data: st.DataObject) -> None:
    storage = MemoryStorage()
    rows = sorted((id_.encode(), encode(PublishedItem(id_, "s", HASH))) for id_ in ids if id_.isprintable())
    index = write_index(rows, put=BlobStore(storage).put_bytes, inline=data.draw(st.sampled_from([0, 5, 100])))
    items = ItemLookup(storage, read_index(index, source="all.json"))
    keys = [key for key, _ in rows]
    assert len(items) == len(keys)
    start, count = data.draw(st.integers(0, 70)), data.draw(st.integers(0, 70))
    assert [item.id.encode() for item in items.read(start, count)] == keys[start : start + count]
    assert items.position_of(probe.encode()) == sum(key < probe.encode() for key in keys)
    first, last = items.bounds(id_ranges(probe)[0])
    assert keys[first:last] == [key for key in keys if key.startswith(probe.encode())]

"""/search and /api/search: what is found, marked, counted, filtered; and what strangers type and publish."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.pipeline.test_search_feed import progress
from tests.sentence_models import write_static_model
from tests.serve.conftest import ADDRESS
from tests.serve.published_items import assert_harmless, publish, update_search
from tests.serve.sample_collection import SCRIPT, run
from tests.serve.sample_collection import page as page_of
from tests.serve.warc_fixtures import collection, response, revisit, serve_both_origins
from webmill.pipeline.search.collection import update_index
from webmill.search.base import SearchAnswer, SearchRequest
from webmill.search.query import parse
from webmill.serve.api import links
from webmill.serve.api.engine import SharedEngine
from webmill.serve.app import application
from webmill.serve.open_site import open_site
from webmill.settings import SearchSettings, Settings

END = '"><script>alert(1)</script>'  # of an attribute, if it could
HOSTILE = (
    *('"', "'", "\\", "(", ")", "a OR", "OR", "-", "*", "**", '""', "title:", "site:*", "lang:xx", "[a TO b]", "a~2"),
    *(END, "<script>alert(1)</script>", "{{7*7}}", "%00", "\x00", "\u202eevil", "\ufeff", "😀"),
    *("a" * 30_000, "a " * 5_000, '"' * 3_000, "é" * 2_500, "a*" * 900),
)
FERRY = "/web/20240401100000/https://town.example/"  # the newest capture of the page
BOARD = {
    "notice/1": {"title": SCRIPT, "text": f"harbour {SCRIPT}", "language": "eng", "url": "javascript:alert(1)"},
    "notice/2": {"title": "\u202eelttil\u202c <b>bold</b>", "text": "harbour \u2066hidden\u2069 \x07", "url": "data:a"},
    "notice/3": {"title": "", "text": "harbour & <i>tea</i>", "url": f"https://board.example/{END}"},
    f"n{END}": {"title": "{{7*7}}", "text": "harbour " * 3, "language": "<b>", "campus": END},
}
WRONG = (
    *("since=yesterday", "until=2024-02-31", "sort=best", "page=0", "page=-1", "page=x", "page=1001", "page=²"),
    *("offset=10001", "limit=101", "facet=campus", "facet==x"),
    *("&".join(f"site=s{number}.example" for number in range(21)), f"language={'x' * 301}"),
)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What strangers publish, and 30 reports of January."""
    root = tmp_path_factory.mktemp("board")
    reports = {
        f"report/{day:02d}": {
            "title": f"Report {day}", "text": "The report of a day", "language": "eng",
            "campus": "Seoul" if day % 3 else "Suwon", "date": f"2024-01-{day:02d}",
        }
        for day in range(1, 31)
    }  # fmt: skip
    publish(root, {**BOARD, **reports})
    update_search(root)
    return root


@pytest.fixture
def board_client(board: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(board) as client:
        yield client


# --- by meaning, like a document, one of many ---


def test_meaning_is_refused_in_words_where_there_is_no_model(board_client: TestClient) -> None:
    answer = board_client.get("/api/search", params={"q": "report", "mode": "both"})
    assert answer.status_code == 400
    assert "no sentence model" in answer.text
    page = board_client.get("/search", params={"q": "report", "mode": "meaning"})
    assert page.status_code == 200
    assert "This server has no sentence model" in page.text
    assert 'name="mode"' not in page.text


def test_meaning_is_a_switch_where_there_is_a_model(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    write_static_model(tmp_path / "model")
    publish(tmp_path, {"notice/1": {"title": "Cats", "text": "A kitten."}, "notice/2": {"title": "B", "text": "Rain."}})
    settings = Settings(search=SearchSettings(model="model"))
    update_index(tmp_path, settings.search, progress=progress)
    site = open_site(tmp_path, settings, address=ADDRESS, replay_address="http://127.0.0.1:2", secret=b"x")
    client = TestClient(application(site), base_url=ADDRESS)
    assert client.get("/api/search", params={"q": "feline"}).json()["total"] == 0
    first = client.get("/api/search", params={"q": "feline", "mode": "meaning"}).json()["hits"][0]
    assert (first["id"], first["matched"]) == ("notice/1", "meaning")
    page = client.get("/search", params={"q": "feline", "mode": "both"}).text
    assert 'value="both" checked' in page
    assert "Cats" in assert_harmless(page).text


def test_titles_are_suggested_while_a_query_is_typed(board_client: TestClient) -> None:
    titles = board_client.get("/api/suggest", params={"q": "repo"}).json()["titles"]
    assert len(titles) == 8
    assert all(title.startswith("Report ") for title in titles)
    assert board_client.get("/api/suggest", params={"q": "report 30"}).json()["titles"] == ["Report 30"]
    for nothing in ("", "r", "-", "nowhere", END, "x" * 900):
        assert board_client.get("/api/suggest", params={"q": nothing}).json()["titles"] == []


def test_documents_like_one_are_found_and_near_duplicates_collapsed(board_client: TestClient) -> None:
    like = board_client.get("/api/search", params={"like": "report/01", "limit": 100}).json()
    assert "report/01" not in [hit["id"] for hit in like["hits"]]
    assert len(like["hits"]) == like["total"] == 29
    collapsed = board_client.get("/api/search", params={"q": "report", "collapse": "yes"}).json()
    assert (len(collapsed["hits"]), collapsed["hits"][0]["similar"]) == (1, 29)  # their texts are the same
    page = board_client.get("/search", params={"q": "report", "collapse": "yes"}).text
    assert "and 29 like it" in page
    assert board_client.get("/api/search", params={"like": "nobody"}).status_code == 404
    assert board_client.get("/api/search", params={"as_of": "soon"}).status_code == 400
    assert board_client.get("/api/search", params={"as_of": "1999"}).status_code == 404


# --- what is found ---


@pytest.mark.parametrize(
    ("word", "title", "language"),
    [
        ("도서관", "공지사항", "ko"),
        ("図書館", "東京のお知らせ", "ja"),
        ("图书馆", "北京通知", "zh"),
        ("bücherei", "Öffnungszeiten", "de"),
    ],
)
def test_words_of_all_scripts_are_found_and_marked(client: TestClient, word: str, title: str, language: str) -> None:
    page = client.get("/search", params={"q": word})
    assert f'lang="{language}" dir="auto">{title}</bdi>' in page.text
    assert f"<mark>{word.capitalize()}</mark>" in page.text
    assert "1 document" in assert_harmless(page.text).text


def test_a_hit_leads_to_document_archived_page_captures_and_original(client: TestClient) -> None:
    found = assert_harmless(client.get("/search", params={"q": "ferry"}).text).links
    assert "/documents/item?id=example%2Ctown%29%2F" in found
    assert "/web/20240401100000/https://town.example/" in found
    assert "/history?url=https%3A%2F%2Ftown.example%2F" in found
    assert "https://town.example/" in found


def test_a_word_that_is_mistyped_is_answered_with_what_was_meant(client: TestClient) -> None:
    page = assert_harmless(client.get("/search", params={"q": "ferrry"}).text)
    assert "No results for ferrry" in page.text
    assert "/search?q=ferry" in page.links


def test_a_title_leads_to_the_archived_page_and_its_text_is_beside_it(client: TestClient) -> None:
    page = assert_harmless(client.get("/search", params={"q": "ferry"}).text)
    title, text = (page.links.index(wanted) for wanted in (FERRY, "/documents/item?id=example%2Ctown%29%2F"))
    assert title < text
    assert client.get(FERRY).status_code == 200


def test_a_hit_that_repeats_another_address_has_its_archived_page(tmp_path: Path) -> None:
    url, copied = "https://town.example/", "https://town.example/print"
    body = page_of("Timetable", "The ferry leaves at noon.")
    records = [response(url, "20240101000000", body)]
    records.append(revisit(copied, "20240102000000", body, date="20240101000000", uri=url))
    root = collection(tmp_path / "a", records)
    publish(root, {"example,town)/print": {"title": "Timetable", "text": "The ferry leaves at noon.", "url": copied}})
    update_search(root)
    with serve_both_origins(root) as (own, replay):
        page = assert_harmless(own.get("/search", params={"q": "ferry"}).text)
        assert f"/web/20240102000000/{copied}" in page.links
        assert own.get(f"/web/20240102000000/{copied}").status_code == 200
        assert "The ferry leaves at noon." in replay.get(f"/web/20240102000000mp_/{copied}").text


def test_nothing_found_says_what_to_try(client: TestClient) -> None:
    page = assert_harmless(client.get("/search", params={"q": "zeppelin", "language": "kor"}).text)
    assert "Language: Korean" in page.text
    assert "No results for zeppelin" in page.text
    assert "/search?q=zeppelin" in page.links


def test_where_nothing_is_indexed_the_page_names_the_command(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    with client_of(tmp_path) as client:
        page = client.get("/search", params={"q": "a"})
        assert page.status_code == 200
        assert "webmill search update" in assert_harmless(page.text).text
        answer = client.get("/api/search", params={"q": "a"})
        assert answer.status_code == 404
        assert "webmill search update" in answer.json()["message"]


# --- narrowing down ---


def test_a_count_is_a_link_that_filters_and_a_chip_takes_it_away(board_client: TestClient) -> None:
    page = assert_harmless(board_client.get("/search", params={"q": "report"}).text)
    assert "30 documents, 1 to 10" in page.text
    assert "/search?q=report&facet=campus%3DSuwon" in page.links
    fewer = assert_harmless(board_client.get("/search?q=report&facet=campus%3DSuwon").text)
    assert "10 documents" in fewer.text
    assert "/search?q=report" in fewer.links


def test_values_of_one_name_are_alternatives(board_client: TestClient) -> None:
    both = {"q": "report", "facet": ["campus=Suwon", "campus=Seoul"]}
    assert board_client.get("/api/search", params=both).json()["total"] == 30


def test_a_period_ends_before_its_last_day_and_orders_by_time(board_client: TestClient) -> None:
    asked = {"q": "report", "since": "2024-01-10", "until": "2024-01-12", "sort": "newest"}
    found = board_client.get("/api/search", params=asked).json()
    assert [hit["id"] for hit in found["hits"]] == ["report/11", "report/10"]
    assert found["hits"][0]["date"] == "2024-01-11T00:00:00Z"


def test_pages_follow_on_one_another(board_client: TestClient) -> None:
    ids: list[str] = []
    for page in (1, 2, 3):
        asked = {"q": "report", "sort": "oldest", "page": str(page)}
        ids += [hit["id"] for hit in board_client.get("/api/search", params=asked).json()["hits"]]
    assert ids == [f"report/{day:02d}" for day in range(1, 31)]
    second = assert_harmless(board_client.get("/search?q=report&page=2").text)
    assert "30 documents, 11 to 20" in second.text
    assert {"/search?q=report", "/search?q=report&page=3"} <= set(second.links)


def test_a_page_behind_the_last_leads_back(board_client: TestClient) -> None:
    page = assert_harmless(board_client.get("/search?q=report&page=900").text)
    assert "There are only 30 results" in page.text
    assert "/search?q=report" in page.links


# --- strangers ---


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_a_query(client: TestClient, query: str) -> None:
    page = client.get("/search", params={"q": query})
    assert page.status_code == 200
    assert_harmless(page.text)
    assert client.get("/api/search", params={"q": query}).status_code == 200


def test_what_strangers_publish_stays_text(board_client: TestClient) -> None:
    page = assert_harmless(board_client.get("/search", params={"q": "harbour"}).text)
    assert "4 documents" in page.text
    assert SCRIPT in page.text
    assert "elttil <b>bold</b>" in page.text
    assert "{{7*7}}" in page.text
    assert f"https://board.example/{quote(END, safe='()/')}" in page.links


def test_only_addresses_of_the_web_become_links(board_client: TestClient) -> None:
    found = assert_harmless(board_client.get("/search", params={"q": "harbour"}).text).links
    assert not [link for link in found if link.startswith(("javascript", "data"))]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "JavaScript://x", "data:text/html,x", "//x", "http:x", "", " http://x/"]
)
def test_what_is_no_address_of_the_web_has_no_original(url: str) -> None:
    assert links.original(url) == ""


def test_filters_that_strangers_named_stay_text(board_client: TestClient) -> None:
    page = board_client.get("/search", params={"q": "harbour", "facet": f"campus={END}"})
    assert "1 document" in assert_harmless(page.text).text


@pytest.mark.parametrize("asked", WRONG)
def test_what_cannot_be_understood_is_told(client: TestClient, asked: str) -> None:
    page = client.get(f"/search?q=ferry&{asked}")
    assert page.status_code == 200
    assert 'class="notice warn" role="alert"' in page.text
    answer = client.get(f"/api/search?q=ferry&{asked}")
    assert answer.status_code == 400
    assert answer.json()["message"]


def test_a_query_that_is_cut_is_told(client: TestClient) -> None:
    assert "Only the first 2,000 characters" in client.get("/search", params={"q": "ferry " * 400}).text


# --- for programs ---


def test_json_has_the_names_that_are_promised(client: TestClient, sample_root: Path) -> None:
    answer = client.get("/api/search", params={"q": "도서관"})
    assert answer.headers["content-type"] == "application/json"
    found: dict[str, Any] = answer.json()
    assert found.keys() == {
        "query",
        "total",
        "offset",
        "limit",
        "suggestion",
        "hits",
        "facets",
        "behind",
        "next_cursor",
    }
    (hit,) = found["hits"]
    text, marks = hit["snippet"]["text"], hit["snippet"]["marks"]
    assert [text[start:end] for start, end in marks] == ["도서관"]
    assert (sample_root / "blobs" / "sha256" / f"{hit['hash']}.json").is_file()
    assert (sample_root / "snapshots" / hit["version"]).is_dir()
    assert hit["title"] == {"text": "공지사항", "marks": []}
    assert hit["capture"]["timestamp"] == "20240404100000"
    assert hit["capture"]["replay"] == f"/web/20240404100000/{hit['url']}"
    assert (sample_root / hit["capture"]["filename"]).stat().st_size >= hit["capture"]["offset"] + hit["capture"][
        "length"
    ]
    assert found["facets"]["language"] == [{"value": "kor", "count": 1}]


# --- the engine ---


def test_an_index_that_is_brought_up_to_date_or_made_anew_is_seen(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    with client_of(tmp_path) as client:

        def total() -> int:
            return int(client.get("/api/search", params={"q": "lighthouse"}).json().get("total", -1))

        assert total() == -1
        publish(tmp_path, {"a": {"title": "A lighthouse", "text": ""}})
        update_search(tmp_path)
        assert total() == 1
        publish(tmp_path, {name: {"title": "A lighthouse", "text": ""} for name in "ab"})
        assert total() == 1
        assert "older than the live version" in client.get("/search").text
        update_search(tmp_path)
        assert total() == 2
        publish(tmp_path, {name: {"title": "A lighthouse", "text": ""} for name in "abc"})
        run("search", "rebuild", tmp_path)
        assert total() == 3


def test_an_index_that_is_damaged_is_no_fault_of_who_asks(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    publish(tmp_path, {"a": {"title": "A lighthouse", "text": ""}})
    update_search(tmp_path)
    (tmp_path / "search" / "meta.json").write_bytes(b"{")
    with client_of(tmp_path) as client:
        answer = client.get("/api/search", params={"q": "lighthouse"})
        assert answer.status_code == 503
        assert "webmill search rebuild" in answer.json()["message"]


class Slow:
    """An engine whose searches end when they are told to."""

    def __init__(self) -> None:
        self.began, self.may_end, self.closed = threading.Event(), threading.Event(), threading.Event()

    def search(self, request: SearchRequest) -> SearchAnswer:
        del request
        self.began.set()
        assert self.may_end.wait(60)
        assert not self.closed.is_set()
        return SearchAnswer(total=7, hits=[])

    def cursor(self) -> str:
        return "v"

    def close(self) -> None:
        assert not self.closed.is_set()
        self.closed.set()


def test_an_engine_that_was_replaced_is_closed_after_its_last_query(tmp_path: Path) -> None:
    opened: list[Slow] = []

    def open_engine() -> Any:
        opened.append(Slow())
        return opened[-1]

    mark = tmp_path / "meta.json"
    mark.write_bytes(b"1")
    kept = SharedEngine(open_engine, mark)
    found: list[int] = []
    query = SearchRequest(query=parse("a"))
    thread = threading.Thread(target=lambda: found.append(kept.search(query)[0].total))
    thread.start()
    while not opened:
        thread.join(0.01)
    first = opened[0]
    assert first.began.wait(60)
    mark.write_bytes(b"22")
    later = threading.Thread(target=lambda: found.append(kept.search(query)[0].total))
    later.start()
    while len(opened) < 2:
        later.join(0.01)
    assert not first.closed.is_set()
    for engine in opened:
        engine.may_end.set()
    thread.join()
    later.join()
    assert found == [7, 7]
    assert first.closed.is_set()
    assert not opened[1].closed.is_set()
    kept.close()
    assert opened[1].closed.is_set()

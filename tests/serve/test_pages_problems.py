"""/problems: everything that went wrong, by cause; no page says that nothing did while there is any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.pipeline.crawling import Linked, Setup, crawl_here
from tests.serve.conftest import ADDRESS, site_of
from tests.serve.sample_collection import SCRIPT, bury
from webmill.infra.lock import exclusive
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.model import ArchiveReject
from webmill.serve.app import application
from webmill.settings import ServeSettings, Settings
from webmill.testing import HttpReply, TestWeb

HTML = {"Accept": "text/html", "Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
REJECTS = [ArchiveReject(f"broken-{number}.warc.gz", "not_warc", f"no archive {SCRIPT}") for number in range(30)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bury(tmp_path)
    (tmp_path / "rejected").mkdir()
    lines = b"".join(msgspec.json.encode(reject) + b"\n" for reject in REJECTS)
    (tmp_path / "rejected" / "index.jsonl").write_bytes(lines)
    return tmp_path


@pytest.fixture
def own(root: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def text_of(client: TestClient, path: str) -> str:
    page = client.get(path)
    assert SCRIPT not in page.text
    return " ".join(LexborHTMLParser(page.text).css("main")[0].text(separator=" ").split())


def form(client: TestClient) -> dict[str, str]:
    (found,) = LexborHTMLParser(client.get("/problems").text).css("form[action='/problems/retry']")
    return {str(field.attributes["name"]): str(field.attributes["value"]) for field in found.css("input")}


def test_the_overview_and_the_tasks_tell_of_problems_in_any_stage(own: TestClient) -> None:
    overview, tasks = text_of(own, "/"), text_of(own, "/tasks")
    assert "Problems 31 needs attention" in overview
    assert "31 problems, 0 warnings" in tasks


def test_the_page_has_each_cause_with_cases_a_count_of_the_rest_and_what_to_do(own: TestClient) -> None:
    text = text_of(own, "/problems")
    assert "20 examples, and 10 more" in text
    assert "broken-0.warc.gz" in text
    assert "webmill index" in text
    assert "job-1" in text


def test_programs_get_the_same(own: TestClient, root: Path) -> None:
    reply = own.get("/api/problems")
    groups = reply.json()["groups"]
    assert sorted((group["stage"], group["count"]) for group in groups) == [("index", 30), ("publish", 1)]
    assert str(root) not in reply.text


def test_a_part_that_cannot_be_read_names_no_folder_of_this_machine(own: TestClient, root: Path) -> None:
    (root / "cdxj").mkdir()
    (root / "cdxj" / "state.sqlite").write_bytes(b"no database")
    for path in ("/problems?retried=0", "/api/problems"):
        reply = own.get(path).text
        assert "cannot be read" in reply
        assert str(root) not in reply


def test_the_button_retries_and_its_problem_is_gone(own: TestClient, root: Path) -> None:
    sent = own.post("/problems/retry", data=form(own), headers=HTML)
    assert sent.status_code == 200  # after the redirect
    assert "1 task queued for retry." in sent.text
    assert "job-1" not in sent.text
    with closing(SqliteQueue(root / "publish" / "queue.sqlite")) as queue:
        assert queue.stats().ready == 1


@pytest.mark.parametrize("change", [{"stamp": "0" * 64}, {"stamp": ""}, {"name": "extract"}])
def test_a_button_of_somebody_else_retries_nothing(own: TestClient, root: Path, change: dict[str, str]) -> None:
    assert own.post("/problems/retry", data=form(own) | change, headers=HTML).status_code == 403
    with closing(SqliteQueue(root / "publish" / "queue.sqlite")) as queue:
        assert queue.stats().buried == 1


def test_a_program_with_the_token_retries_without_a_form(root: Path) -> None:
    site = site_of(root, settings=Settings(serve=ServeSettings(token="a token of the tests")))
    with TestClient(application(site), base_url=ADDRESS) as client:
        data, asked = {"name": "publish"}, {"Authorization": "Bearer a token of the tests"}
        assert client.post("/problems/retry", data=data).status_code == 401
        assert client.post("/problems/retry", data=data, headers=asked, follow_redirects=False).status_code == 303
        unknown = client.post("/problems/retry", data={"name": "../x"}, headers=asked)
        assert unknown.status_code == 404


def test_pages_that_a_crawl_did_not_get_are_fetched_again_by_a_button(
    client_of: Callable[[Path], TestClient], tmp_path: Path
) -> None:
    site = Linked(3, **{"2": HttpReply(status=404)})
    with TestWeb(hosts=0, sites={"linked.names.test": site}) as web:
        crawl_here(tmp_path, Setup(seeds=("http://linked.names.test/",), resolve=dict(web.resolve)))
    with client_of(tmp_path) as client:
        assert form(client)["name"] == "crawl:http_404"
        sent = client.post("/problems/retry", data=form(client), headers=HTML)
        assert "1 URL to be fetched again, by the next run." in sent.text
        with exclusive(tmp_path / "frontier", "crawl", doing="crawling"):
            sent = client.post("/problems/retry", data=form(client), headers=HTML)
        assert "The running crawl fetches them again." in sent.text


def test_a_collection_without_problems_says_so(client_of: Callable[[Path], TestClient], tmp_path: Path) -> None:
    with client_of(tmp_path) as client:
        assert "No problems." in text_of(client, "/problems")
        assert "Problems 0 none found" in text_of(client, "/")

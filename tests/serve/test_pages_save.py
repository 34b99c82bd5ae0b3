"""/save: one page now, fetched by a process of its own, followed on a page of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.pipeline.watched_site import HOME, HOST, WatchedSite, watch
from tests.serve.browser import NewTab, needs_browser, serving
from tests.serve.conftest import ADDRESS, site_of
from tests.serve.server_process import wait_until_true
from tests.serve.test_pages_browser import Watched, keep_picture, problems
from webmill.pipeline import save_jobs
from webmill.pipeline.save_jobs import AT_ONCE, SaveJob, find_job, jobs_folder, start_job, take_slot, write_job
from webmill.serve.app import application
from webmill.settings import ServeSettings, Settings
from webmill.testing import HttpReply, TestWeb

PAGE = f"{HOME}a"
HTML = {"Accept": "text/html", "Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def root(memory_folder: Path) -> Iterator[Path]:
    site = WatchedSite("/a")
    site.replies["/styled"] = HttpReply(body=b"<html><body>Styled<img src=/i.png></body></html>")
    site.replies["/i.png"] = HttpReply(body=b"\x89PNG", media_type="image/png")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(memory_folder / "saved", web)
        yield memory_folder / "saved"


@pytest.fixture
def own(root: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def form(text: str) -> dict[str, str]:
    (found,) = LexborHTMLParser(text).css("form[action='/save']")
    return {
        str(field.attributes["name"]): str(field.attributes.get("value") or "")
        for field in found.css("input")
        if field.attributes.get("type") != "checkbox"
    }


def ended(root: Path, id_: str) -> SaveJob:
    def look() -> SaveJob | None:
        job = find_job(root, id_, now=time.time())
        return job if job.state in ("saved", "failed") else None

    return wait_until_true(look, "the job ends")


def post(own: TestClient, fields: dict[str, str], **headers: str) -> Any:
    return own.post("/save", data=fields, headers={**HTML, **headers}, follow_redirects=False)


def test_a_page_is_saved_by_a_job_and_then_shown(own: TestClient, root: Path) -> None:
    answer = post(own, {**form(own.get("/").text), "url": PAGE})
    assert answer.status_code == 303
    path = answer.headers["location"]
    assert own.get(path).status_code == 200
    job = ended(root, path.rpartition("/")[2])
    assert job.state == "saved", job.message
    page = LexborHTMLParser(own.get(path).text)
    shown = page.css_first("a.button.primary").attributes["href"]
    assert str(shown).endswith(PAGE)
    assert own.get(str(shown)).status_code == 200
    assert own.get(f"/api{path}").json()["path"] == shown
    assert PAGE in LexborHTMLParser(own.get("/save").text).css_first("tbody").text()


def test_what_cannot_be_saved_says_why(own: TestClient, root: Path) -> None:
    fields = form(own.get("/save?url=x").text)
    assert fields["url"] == "x"
    for url in ("", "file:///etc/passwd", "javascript:alert(1)", "--job=x"):
        assert post(own, {**fields, "url": url}).status_code == 400, url
    answer = post(own, {**fields, "url": "http://10.1.2.3.names.test/<script>"})
    job = ended(root, answer.headers["location"].rpartition("/")[2])
    assert job.state == "failed"
    text = own.get(answer.headers["location"]).text
    assert "<script>" not in text.partition("<main")[2]
    assert "Not saved" in text
    assert own.get("/save/0000000000000000").status_code == 404
    assert own.get("/save/..%2f..%2fwebmill").status_code == 404


def test_without_stamp_or_token_nothing_is_fetched(own: TestClient, root: Path) -> None:
    assert post(own, {"url": PAGE}).status_code == 403
    assert post(own, {**form(own.get("/save").text), "url": PAGE}, Origin="http://evil.example").status_code == 403
    assert not jobs_folder(root).exists()


def test_a_server_that_others_reach_saves_only_with_its_token(root: Path) -> None:
    public = ServeSettings(host="0.0.0.0")
    with TestClient(application(site_of(root, Settings(serve=public))), base_url=ADDRESS) as client:
        text = client.get("/save").text
        assert not LexborHTMLParser(text).css("form[action='/save']")
        assert "--token" in text
        stamp = site_of(root).sign("save")
        assert post(client, {"url": PAGE, "stamp": stamp}).status_code == 403
    guarded = ServeSettings(host="0.0.0.0", token="secret-token")
    with TestClient(application(site_of(root, Settings(serve=guarded))), base_url=ADDRESS) as client:
        fields = {**form(client.get("/save").text), "url": PAGE}
        assert post(client, fields).status_code == 401
        headers = {"Authorization": "Bearer secret-token", "Accept": "application/json"}
        job = client.post("/save", data={"url": PAGE}, headers=headers).json()
        assert ended(root, job["id"]).state == "saved"


def test_only_a_few_are_saved_at_once(own: TestClient, root: Path) -> None:
    fields = {**form(own.get("/save").text), "url": PAGE}
    jobs_folder(root).mkdir(parents=True)
    with ExitStack() as held:
        for _ in range(AT_ONCE):
            take_slot(jobs_folder(root), held)
        assert post(own, fields).status_code == 503
    assert ended(root, post(own, fields).headers["location"].rpartition("/")[2]).state == "saved"


def test_a_job_whose_process_was_killed_has_failed(root: Path) -> None:
    jobs_folder(root).mkdir(parents=True)
    for id_, state in (("0" * 16, "running"), ("1" * 16, "waiting")):
        write_job(jobs_folder(root), SaveJob(id=id_, url=PAGE, created=time.time() - 100, state=state))  # type: ignore[arg-type]
        assert find_job(root, id_, now=time.time()).state == "failed"


def test_old_jobs_are_forgotten(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(save_jobs, "KEPT", 3)
    jobs_folder(root).mkdir(parents=True)
    for number in range(9):
        write_job(jobs_folder(root), SaveJob(id=f"{number:016x}", url=PAGE, created=float(number), state="saved"))
    job = start_job(root, PAGE, page_resources=False, now=time.time())
    assert sorted(path.stem for path in jobs_folder(root).glob("*.json"))[:3] == [f"{one:016x}" for one in (6, 7, 8)]
    assert ended(root, job.id).state == "saved"


class TestInTheBrowser:
    pytestmark = needs_browser

    @pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
    def test_a_reader_saves_a_page_and_sees_it(self, new_tab: NewTab, root: Path, scheme: str, width: int) -> None:
        with serving(root) as origins:
            watched = Watched(new_tab(width=width, color_scheme=scheme), origins.address)
            watched.go("/")
            keep_picture(watched.page, f"save-field-{scheme}-{width}")
            watched.page.get_by_label("Save a page now").fill(f"{HOME}styled")
            watched.page.get_by_role("button", name="Save").click()
            watched.page.get_by_role("heading", name="Saved", exact=True).wait_for()
            assert problems(watched.page) == []
            watched.check()
            keep_picture(watched.page, f"save-job-{scheme}-{width}")
            assert "i.png" in watched.page.inner_text("table")
            watched.page.get_by_role("link", name="Show the page as it was saved").click()
            watched.page.frame_locator("iframe").get_by_text("Styled").wait_for()
            keep_picture(watched.page, f"save-shown-{scheme}-{width}")
            watched.go("/save")
            assert problems(watched.page) == []
            keep_picture(watched.page, f"save-page-{scheme}-{width}")

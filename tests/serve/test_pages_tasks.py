"""/tasks: what failed, and another try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.conftest import ADDRESS, site_of
from tests.serve.sample_collection import SCRIPT, bury
from webmill.infra.queue.base import Message, QueueStats
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.publish.publication import Publication
from webmill.publish.types import PublishedItem, PublishProblem
from webmill.serve.app import application
from webmill.settings import ServeSettings, Settings

HTML = {"Accept": "text/html", "Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bury(tmp_path)
    return tmp_path


@pytest.fixture
def own(root: Path, client_of: Callable[[Path], TestClient]) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def queue_of(root: Path) -> SqliteQueue:
    return SqliteQueue(root / "publish" / "queue.sqlite", max_attempts=1, lease=60.0)


def stats(root: Path) -> QueueStats:
    with closing(queue_of(root)) as queue:
        return queue.stats()


def form(text: str, action: str) -> dict[str, str]:
    found = LexborHTMLParser(text).css(f"form[action='{action}']")[0]
    return {str(field.attributes["name"]): str(field.attributes["value"]) for field in found.css("input")}


def test_a_failed_task_is_shown_with_its_reason_as_text(own: TestClient) -> None:
    text = own.get("/tasks").text
    assert SCRIPT not in text
    row = LexborHTMLParser(text).css("tbody tr")[0].text(separator=" ")
    assert f"HTTP 500 from the board {SCRIPT}" in row
    assert "job-1" in row


def test_looking_changes_nothing_also_where_a_lease_is_over_and_a_version_is_old(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    bury(tmp_path)
    file = tmp_path / "publish" / "queue.sqlite"
    with closing(SqliteQueue(file, lease=0.001)) as queue:
        queue.publish([Message("over", b"{}")])
        assert queue.consume().receive(timeout=60)
    with closing(apsw.Connection(str(file))) as connection:  # as an earlier webmill would have left it
        connection.execute("PRAGMA user_version=1")
        connection.execute("DROP TABLE mark")
        connection.execute("ALTER TABLE message DROP COLUMN changed")
        connection.execute("ALTER TABLE message DROP COLUMN result")
    before = snapshot(tmp_path)
    with client_of(tmp_path) as client:
        assert "job-1" in client.get("/tasks").text
        assert client.get("/tasks/drop", params={"queue": "publish", "id": "job-1"}).status_code == 200
        assert client.get("/").status_code == 200
    assert snapshot(tmp_path) == before


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_retry_button_queues_it_again_and_leads_back(own: TestClient, root: Path) -> None:
    answer = own.post("/tasks/retry", data=form(own.get("/tasks").text, "/tasks/retry"), headers=HTML)
    assert answer.status_code == 200
    assert answer.history[0].status_code == 303
    assert "1 task queued for retry." in answer.text
    assert stats(root) == QueueStats(ready=1, leased=0, delayed=0, buried=0)


def test_all_of_a_queue_are_retried_by_one_button(own: TestClient, root: Path) -> None:
    with closing(queue_of(root)) as queue:
        queue.publish([Message(f"more-{number}", b"{}") for number in range(3)])
        with queue.consume() as consumer:
            while delivery := consumer.receive(timeout=0.1):
                delivery.bury("it did not work")
    (all_of_them,) = (each for each in LexborHTMLParser(own.get("/tasks").text).css("form") if each.css("[value='*']"))
    fields = {str(field.attributes["name"]): str(field.attributes["value"]) for field in all_of_them.css("input")}
    assert "4 tasks queued for retry." in own.post("/tasks/retry", data=fields, headers=HTML).text
    assert stats(root).ready == 4


def test_a_task_is_dropped_only_after_a_question(own: TestClient, root: Path) -> None:
    link = LexborHTMLParser(own.get("/tasks").text).css("a.danger")[0].attributes["href"]
    question = own.get(str(link)).text
    assert "Drop this task?" in question
    assert SCRIPT not in question
    assert stats(root).buried == 1
    answer = own.post("/tasks/drop", data=form(question, "/tasks/drop"), headers=HTML)
    assert "1 task dropped." in answer.text
    assert stats(root) == QueueStats(ready=0, leased=0, delayed=0, buried=0)


@pytest.mark.parametrize("action", ["retry", "drop"])
@pytest.mark.parametrize("wrong", ["", "0" * 64, "é"], ids=["none", "another", "no hex"])
def test_without_our_stamp_nothing_is_done(own: TestClient, root: Path, action: str, wrong: str) -> None:
    fields = {"queue": "publish", "id": "job-1", "stamp": wrong}
    assert own.post(f"/tasks/{action}", data=fields, headers=HTML).status_code == 403
    assert stats(root).buried == 1


def test_a_stamp_is_good_for_one_action_on_one_task(own: TestClient, root: Path) -> None:
    fields = form(own.get("/tasks").text, "/tasks/retry")
    assert own.post("/tasks/drop", data=fields, headers=HTML).status_code == 403
    assert own.post("/tasks/retry", data=fields | {"id": "*"}, headers=HTML).status_code == 403
    assert own.post("/tasks/retry", data=fields | {"queue": "extract"}, headers=HTML).status_code == 403
    stamp = site_of(root).sign("drop publish *")  # of ours, for what no button does
    assert (
        own.post("/tasks/drop", data={"queue": "publish", "id": "*", "stamp": stamp}, headers=HTML).status_code == 200
    )
    assert stats(root).buried == 1


def test_a_program_that_bears_the_token_needs_no_form_and_others_are_asked_for_it(root: Path) -> None:
    settings = Settings(serve=ServeSettings(token="hush"))
    fields = {"queue": "publish", "id": "*"}
    with TestClient(application(site_of(root, settings)), base_url=ADDRESS) as client:
        stamped = form(client.get("/tasks").text, "/tasks/retry")
        assert client.post("/tasks/retry", data=stamped, headers=HTML).status_code == 401
        assert client.post("/tasks/retry", data=fields, auth=("me", "hush")).status_code == 403  # no stamp
        assert stats(root).buried == 1
        answer = client.post("/tasks/retry", data=fields, headers={"Authorization": "Bearer hush"})
        assert "1 task queued for retry." in answer.text
    assert stats(root).ready == 1


def test_another_site_cannot_press_the_button_even_with_the_stamp(own: TestClient, root: Path) -> None:
    fields = form(own.get("/tasks").text, "/tasks/retry")
    for reported in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert own.post("/tasks/retry", data=fields, headers=reported).status_code == 403
    assert stats(root).buried == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"stamp=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"&".join(b"a=b" for _ in range(100)), "application/x-www-form-urlencoded"),
        (b"a=\xff\xfe", "application/x-www-form-urlencoded"),
        (b"a=%ff%fe", "application/x-www-form-urlencoded"),
        (b"{}", "application/json"),
        (b"--x--", "multipart/form-data; boundary=x"),
        (b"", ""),
    ],
    ids=["too long", "too many", "no ASCII", "no UTF-8", "JSON", "parts", "nothing"],
)
def test_what_is_no_small_form_is_refused(own: TestClient, root: Path, body: bytes, kind: str) -> None:
    answer = own.post("/tasks/retry", content=body, headers=HTML | {"Content-Type": kind})
    assert answer.status_code == 400
    assert stats(root).buried == 1


def test_a_task_that_is_gone_meanwhile_is_no_error(own: TestClient, root: Path) -> None:
    fields = form(own.get("/tasks").text, "/tasks/retry")
    own.post("/tasks/retry", data=fields, headers=HTML)
    assert "0 tasks queued for retry." in own.post("/tasks/retry", data=fields, headers=HTML).text
    assert own.get("/tasks/drop", params={"queue": "publish", "id": "job-1"}).status_code == 404


@pytest.mark.parametrize(
    "did", ["?did=<script>&count=1", "?did=retry&count=<b>", "?did=drop&count=99999999999", "?count=1"]
)
def test_a_strangers_word_of_what_was_done_is_not_told(own: TestClient, did: str) -> None:
    assert not LexborHTMLParser(own.get(f"/tasks{did}").text).css(".notice.good")


def test_failed_tasks_of_datasets_are_told_with_the_command_that_plans_them_again(own: TestClient, root: Path) -> None:
    folder = root / "datasets" / "news"
    folder.mkdir(parents=True)
    (folder / "dataset.json").write_text("{}")
    with closing(SqliteQueue(folder / "tasks.sqlite", remember=True)) as queue, queue.consume() as consumer:
        queue.publish([Message("000000-a", b"x"), Message("000001-b", b"y")])
        delivery = consumer.receive(timeout=0)
        assert delivery
        delivery.bury(f"bad gzip {SCRIPT}")
    before = snapshot(folder)
    text = own.get("/tasks").text
    assert SCRIPT not in text
    assert "webmill dataset tasks redrive news" in text
    assert "bad gzip" in text
    assert snapshot(folder) == before  # looking changes nothing


def test_what_went_wrong_with_the_live_version_is_told(own: TestClient, root: Path) -> None:
    storage = LocalStorage(root)
    for at, keep in ((datetime(2024, 1, 1, tzinfo=UTC), False), (datetime(2024, 1, 2, tzinfo=UTC), True)):
        with Publication.begin(storage, now=lambda at=at: at) as publication:
            hash_ = publication.put({"title": "x"})
            publication.add(PublishedItem("good/1", "good", hash_))
            if keep:
                publication.keep_source("away")
                publication.report(
                    PublishProblem(
                        stage="fetch", source="away", url="javascript:alert(1)", message=SCRIPT, retryable=True
                    )
                )
            else:
                publication.add(PublishedItem("away/1", "away", hash_))
            publication.commit()
    text = own.get("/tasks").text
    page = LexborHTMLParser(text)
    assert SCRIPT not in text
    assert not page.css("a[href^='javascript']")
    rows = [" ".join(row.text(separator=" ").split()) for row in page.css("tr")]
    assert any("away stale 1 1 2024-01-01 00:00 UTC" in row for row in rows)
    assert any(f"{SCRIPT} may help" in row for row in rows)


def test_a_queue_that_is_damaged_is_told_and_the_others_are_shown(own: TestClient, root: Path) -> None:
    (root / "queue.sqlite").write_bytes(b"not a database" * 1000)
    answer = own.get("/tasks")
    assert answer.status_code == 200
    assert "The queue cannot be read" in answer.text
    assert "job-1" in answer.text


def test_the_town_is_not_changed_by_looking(client: TestClient, sample_root: Path, tmp_path: Path) -> None:
    before = sorted(str(path.relative_to(sample_root)) for path in sample_root.rglob("*"))
    for path in ("/", "/crawl", "/tasks", "/settings"):
        assert client.get(path).status_code == 200
    after = sorted(str(path.relative_to(sample_root)) for path in sample_root.rglob("*"))
    assert [path for path in after if not path.endswith(("-wal", "-shm"))] == [
        path for path in before if not path.endswith(("-wal", "-shm"))
    ]

"""`webmill status`: every stage at a glance, by reading alone, whatever state it is in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.serve.sample_collection import NAME, Visit, archive, page
from tests.unit.cli.command import PROGRAM, webmill
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import StatusFile
from webmill.infra.lock import exclusive
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.publish import due
from webmill.pipeline.status.files import MAX_FILES, measure_folder
from webmill.publish.publication import Publication
from webmill.publish.types import PublishedItem


@pytest.fixture
def place(sample_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample_root, tmp_path / "news"))


def look(root: Path) -> dict[str, object]:
    ended = webmill("status", root, "--json")
    assert ended.code == 0, ended.err
    reported: dict[str, object] = json.loads(ended.out)
    return reported


def tree(root: Path) -> Iterator[tuple[str, int, bytes]]:
    for path in sorted(root.rglob("*")):
        yield str(path), path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b""


def test_every_stage_of_a_collection_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.parent)
    assert webmill("index", "news/").code == 0  # a copy has other inodes
    ended = webmill("status", "news/")
    reported = ended.out.decode()
    assert ended.code == 0, ended.err
    for words in (
        f"archive    {NAME}: 2 WARC files, ",
        f"index      {NAME}: 87 captures, made ",
        "queue      publish: 0 waiting, 0 in progress, 1 failed",
        "why: webmill dead list news\n",
        "publish    2 versions; live 00000002-",
        "search     7 documents, up to the live version",
        " used here, ",
        "next       webmill run news\n",
    ):
        assert words in reported
    assert max(map(len, reported.splitlines())) <= 80, reported
    assert "\x1b" not in reported


def test_the_json_is_one_object_with_the_same_facts(place: Path) -> None:
    reported = look(place)
    assert reported["root"] == str(place)
    assert reported["crawls"] == []
    assert reported["queues"] == [
        {
            "name": "publish",
            "file": str(place / "publish" / "queue.sqlite"),
            "stats": {"ready": 0, "leased": 0, "delayed": 0, "buried": 1, "done": 0},
        }
    ]
    assert reported["search"]["documents"] == reported["publish"]["documents"] == 7  # type: ignore[index]
    assert reported["problems"] == []
    assert reported["next"] == f"webmill run {place}"


@pytest.mark.parametrize(
    ("end", "waiting", "next_"),
    [
        ("stopped", 7, "webmill crawl news"),
        ("seconds", 7, "webmill crawl news"),
        ("", 0, "webmill crawl news"),  # killed before it could tell what waits
        ("pages", 7, "webmill run news"),
        ("finished", 0, "webmill run news"),
    ],
)
def test_a_crawl_by_hand_that_was_broken_off_is_next(
    place: Path, monkeypatch: pytest.MonkeyPatch, end: str, waiting: int, next_: str
) -> None:
    monkeypatch.chdir(place.parent)
    frontier = place / "frontier"
    frontier.mkdir()
    clock = time.time
    StatusFile(frontier, name=NAME, started=clock(), clock=clock).write(
        CrawlProgress(shard=-1, waiting=waiting), end=end
    )
    assert f"next       {next_}\n" in webmill("status", "news").out.decode()


@pytest.mark.parametrize(
    ("ends", "wakes", "is_due"),
    [
        (["waiting"], [86_400.0], False),
        (["waiting"], [-1.0], True),
        (["waiting"], [None], True),  # it did not tell
        (["waiting", "waiting"], [None, 86_400.0], False),  # of two nodes one has nothing
        (["waiting", "waiting"], [86_400.0, -1.0], True),
        (["waiting", "stopped"], [86_400.0, 86_400.0], True),
        (["finished"], [None], False),  # what waits is of domains that were excluded
    ],
)
def test_a_crawl_is_due_when_something_may_be_asked(
    place: Path, ends: list[str], wakes: list[float | None], is_due: bool
) -> None:
    frontier, now = place / "frontier", time.time()
    frontier.mkdir()
    (place / "seeds.txt").write_text("http://a.example/\n")
    for slot, (end, wake) in enumerate(zip(ends, wakes, strict=True)):
        seen = CrawlProgress(shard=-1, waiting=7, next_due=None if wake is None else now + wake)
        status = StatusFile(frontier, name=NAME, started=now, clock=time.time, slot=f"{slot}" * (len(ends) > 1))
        status.write(seen, end=end)
    due_stages = {one["stage"] for one in look(place)["due"]}  # type: ignore[attr-defined]
    assert ("crawl" in due_stages) == is_due


def test_looking_changes_nothing(place: Path) -> None:
    before = [*tree(place)]
    webmill("status", place)
    assert [*tree(place)] == before


def test_a_folder_that_may_not_be_written_to_is_told_as_well(place: Path) -> None:
    shutil.rmtree(place / "search")  # its engine takes a lock of its own
    for path in [place, *place.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        reported = look(place)
    finally:
        for path in [place, *place.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert reported["problems"] == []


def test_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    ended = webmill("status", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert f"next       webmill init {tmp_path} URL" in ended.out.decode()
    assert [*tmp_path.iterdir()] == []


def test_archives_that_came_changed_or_went_make_the_index_due(place: Path) -> None:
    one, other = sorted(place.rglob("*.warc.gz"))
    shutil.copy(one, one.with_name("new.warc.gz"))
    os.utime(one)
    other.unlink()
    reported = look(place)
    [index] = reported["indexes"]  # type: ignore[misc]
    assert (index["new"], index["changed"], index["gone"]) == (1, 1, 1)
    assert {"stage": "index", "why": f"{NAME}: archives 1 new, 1 changed, 1 gone"} in reported["due"]  # type: ignore[operator]
    printed = " ".join(webmill("status", place).out.decode().split())
    assert "behind the archives: 1 new, 1 changed, 1 deleted (" in printed
    assert "new.warc.gz" in printed


def test_an_index_without_its_state_is_told_by_its_blocks_and_time(place: Path) -> None:
    shutil.rmtree(place / "cdxj")
    [index] = look(place)["indexes"]  # type: ignore[misc]
    assert (index["captures"], index["blocks"], index["new"]) == (None, 1, 0)


def test_a_search_index_that_lacks_the_live_version_is_due(place: Path) -> None:
    assert webmill("publish", "rollback", place, "previous").code == 0
    reported = look(place)
    assert {"stage": "search", "why": "a newer version is live"} in reported["due"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("part", "file"),
    [
        ("crawl", "frontier/status.json"),
        ("index", "cdxj/state.sqlite"),
        ("publish", "snapshots/_history/000000000002.json"),
        ("search", "search/meta.json"),
        ("queue", "queue.sqlite"),
        ("extract", ".webmill/extract/tasks.sqlite"),
        ("datasets", "datasets/x/dataset.json"),
        ("settings", "webmill.toml"),
    ],
)
def test_a_damaged_part_is_a_line_and_the_others_are_told(part: str, file: str, place: Path) -> None:
    (place / file).parent.mkdir(parents=True, exist_ok=True)
    (place / file).write_bytes(bytes(range(256)) * 9)
    ended = webmill("status", place)
    reported = " ".join(ended.out.decode().split())
    assert (ended.code, ended.err) == (0, "")
    assert f"PROBLEM {part}: " in reported
    assert f"archive {NAME}: 2 WARC files" in reported
    assert part in [problem["part"] for problem in look(place)["problems"]]  # type: ignore[attr-defined]


def test_a_queue_that_is_written_to_at_this_moment_is_told_as_it_is(place: Path) -> None:
    with closing(SqliteQueue(place / "queue.sqlite")) as queue:
        queue.publish([Message("a", b"1"), Message("b", b"2")])
        names = {path.name for path in place.iterdir()}
        [found] = [one for one in look(place)["queues"] if one["name"] == "extract"]  # type: ignore[attr-defined]
        assert found["stats"]["ready"] == 2
        assert {path.name for path in place.iterdir()} == names
        queue.publish([Message("c", b"3")])
        assert queue.stats().ready == 3


def test_rejects_are_counted_with_the_file_to_look_into(tmp_path: Path) -> None:
    (tmp_path / "rejected").mkdir()
    (tmp_path / "rejected" / "index.jsonl").write_text('{"file": "a"}\n' * 3)
    (tmp_path / "rejected" / "import-x.jsonl").write_text('{"file": "a"}\n' * 20_000)
    reported = {one["stage"]: (one["count"], one["is_estimate"]) for one in look(tmp_path)["rejects"]}  # type: ignore[attr-defined]
    assert reported == {"index": (3, False), "import-x": (20_000, True)}
    printed = " ".join(webmill("status", tmp_path).out.decode().split())
    assert f"rejects 3 of index: {tmp_path}/rejected/index.jsonl" in printed


def test_names_that_are_no_utf_8_are_told_in_json_too(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"news\xff")
    try:
        root.mkdir()
    except OSError:
        pytest.skip("names are UTF-8 here")
    assert look(root)["root"] == str(root)


def test_only_files_are_opened_to_count_rejects(tmp_path: Path) -> None:
    (tmp_path / "rejected" / "a.jsonl").mkdir(parents=True)
    os.mkfifo(tmp_path / "rejected" / "b.jsonl")
    (tmp_path / "rejected" / "index.jsonl").write_text('{"file": "a"}\n')
    reported = look(tmp_path)
    assert [one["stage"] for one in reported["rejects"]] == ["index"]  # type: ignore[attr-defined]
    assert reported["problems"] == []


def test_seeds_that_cannot_be_looked_for_are_a_line(place: Path) -> None:
    (place / "webmill.toml").write_text(f'[crawl]\nseeds = "{"x" * 300}"\n')
    reported = look(place)
    assert [problem["part"] for problem in reported["problems"]] == ["run"]  # type: ignore[attr-defined]
    assert reported["archives"]


def test_documents_may_go_while_they_are_looked_at(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := place / "documents" / "part-0.parquet").parent.mkdir(exist_ok=True)
    file.touch()
    with os.scandir(file.parent) as entries:
        found = [entry for entry in entries if entry.name == file.name]
    file.unlink()
    monkeypatch.setattr(due, "document_files", lambda _: iter(found))
    assert due.reason_not_to_publish(place) == "there are no documents yet"


def test_a_run_finds_the_new_document_behind_more_than_a_glance_sees(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := place / "documents" / "part-0.parquet").parent.mkdir(exist_ok=True)
    file.touch()
    [old], [new] = (
        [entry for entry in os.scandir(one.parent) if entry.name == one.name] for one in (Path(os.__file__), file)
    )
    monkeypatch.setattr(due, "document_files", lambda _: iter([old] * MAX_FILES + [new]))
    assert due.reason_not_to_publish(place) == ""
    assert due.reason_not_to_publish(place, most=MAX_FILES) == "no documents since the live version"


def published_at(place: Path, at: datetime, *, run: str) -> None:
    """A version that was begun and ended then."""
    storage = LocalStorage(place)
    with Publication.begin(storage, run=run, now=lambda: at, started=at) as publication:
        hash_ = publication.put({"text": "one"})
        publication.add(PublishedItem("a", "documents", hash_))
        publication.commit()


def test_no_look_hides_what_came_after_it(tmp_path: Path) -> None:
    (file := tmp_path / "documents" / "part-0.parquet").parent.mkdir()
    file.touch()
    now, hour = datetime.now(UTC), timedelta(hours=1)
    nothing = "no documents since the live version"
    published_at(tmp_path, now - 3 * hour, run="first")
    assert due.reason_not_to_publish(tmp_path) == ""
    due.record_check(LocalStorage(tmp_path), now - 2 * hour)
    assert due.reason_not_to_publish(tmp_path) == ""
    due.record_check(LocalStorage(tmp_path), now + hour)  # by a clock that was set back since
    assert due.reason_not_to_publish(tmp_path) == ""
    due.record_check(LocalStorage(tmp_path), datetime.now(UTC) + timedelta(milliseconds=50))
    deadline = time.monotonic() + 60
    while due.reason_not_to_publish(tmp_path) != nothing and time.monotonic() < deadline:
        time.sleep(0.05)
    assert due.reason_not_to_publish(tmp_path) == nothing
    # Another publisher was at work all the while, and ends after that look with what it had found before the document.
    file.touch()
    storage = LocalStorage(tmp_path)
    with Publication.begin(storage, run="second", started=now - 2 * hour) as publication:
        due.record_check(storage, datetime.now(UTC))
        publication.add(PublishedItem("a", "documents", publication.put({"text": "two"})))
        publication.commit()
    assert due.reason_not_to_publish(tmp_path) == ""


def test_a_version_of_a_clock_that_was_set_back_hides_nothing(tmp_path: Path) -> None:
    (file := tmp_path / "documents" / "part-0.parquet").parent.mkdir()
    file.touch()
    published_at(tmp_path, datetime.now(UTC) + timedelta(hours=1), run="first")
    assert due.reason_not_to_publish(tmp_path) == ""


def test_what_is_more_than_a_glance_is_at_least_so_much(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"12")
    assert (measure_folder(tmp_path, most=3).files, measure_folder(tmp_path, most=3).is_whole) == (3, False)
    assert (measure_folder(tmp_path, most=5).bytes, measure_folder(tmp_path, most=5).is_whole) == (10, True)


def test_what_is_due_is_what_a_run_does(tmp_path: Path) -> None:
    visit = Visit("https://a.example/", "20240101000000", page("A page", "The ferry leaves"))
    archive(tmp_path, [visit], name="ONE")
    archive(tmp_path, [visit], name="TWO")
    assert [due["stage"] for due in look(tmp_path)["due"]] == ["index", "extract"]  # type: ignore[attr-defined]
    assert webmill("run", tmp_path).code == 0
    reported = look(tmp_path)
    assert (reported["due"], reported["problems"], reported["next"]) == ([], [], "")
    assert [one["crawl"] for one in reported["indexes"]] == ["ONE", "TWO"]  # type: ignore[attr-defined]
    assert (reported["extract"]["done"], reported["extract"]["documents"]) == (2, 2)  # type: ignore[index]
    assert reported["search"]["documents"] == 1  # type: ignore[index]


def test_while_a_run_is_at_work_there_is_nothing_to_type(place: Path) -> None:
    (place / "documents").mkdir(exist_ok=True)
    (place / "documents" / "new.jsonl").write_text('{"url": "https://a.example/", "text": "Ferry"}\n')
    with exclusive(place, "run", doing="running all stages"):
        printed = webmill("status", place).out.decode()
    assert "publish: documents that no version has" in printed
    assert "next       nothing to do: `webmill run` is active" in printed


def test_colours_are_left_out_where_nobody_wants_them(place: Path) -> None:
    for wish, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        printed = on_a_terminal("status", place, wish)
        assert b"crawl" in printed
        assert (b"\x1b[" in printed) == coloured


def on_a_terminal(command: str, root: Path, wish: dict[str, str]) -> bytes:
    ours, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | wish
    with subprocess.Popen([*PROGRAM, command, root], stdout=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        try:
            while data := os.read(ours, 1 << 16):
                printed += data
        except OSError:  # on Linux that is how it ends
            pass
        os.close(ours)
        assert process.wait(120) == 0
    return printed

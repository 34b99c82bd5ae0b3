"""The log of a crawl: a line for each visit, filtered, followed, rotated, read in spite of damage; and its reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.watched_site import HOME, HOST, WatchedSite, watch
from tests.unit.cli.command import webmill
from webmill.crawl import visit_log
from webmill.crawl.frontier.base import LastVisit, VisitDone
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit_log import LogFilter, VisitLog, VisitLogLine, VisitLogReader
from webmill.testing import HttpReply, TestWeb

DEAD = "http://www.dead.test/"


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "logged"


def log_of(root: Path, *flags: str) -> list[dict[str, Any]]:
    ended = webmill("log", root, *flags, "--json")
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.lines]


def result(url: str, *, time: float = 1.0, status: int = 200, error: str = "") -> VisitResult:
    return VisitResult(token=0, outcome=VisitDone(LastVisit(url=url, time=time, status=status, error=error)))


def test_every_visit_has_a_line_with_what_came_of_it(root: Path) -> None:
    site = WatchedSite("/a", "/b")
    site.replies["/old"] = HttpReply(status=301, headers=(("Location", "/a"),))
    site.linked = {"/a", "/b", "/gone", "/old"}
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, HOME, DEAD)
        assert webmill("run", root, "--stage", "crawl").code == 0
    found = {one["url"]: one for one in log_of(root)}
    page = found[f"{HOME}a"]
    assert (page["status"], page["path"], page["via"], page["mime"]) == (200, "L", HOME, "text/html")
    assert page["size"] > 200
    assert page["digest"].startswith("sha1:")
    assert found[f"{HOME}robots.txt"]["path"] == "P"
    assert found[HOME]["status"] == 200
    assert "path" not in found[HOME]
    assert found[f"{HOME}old"]["status"] == 301
    assert found[DEAD]["error"].startswith("robots_unreachable")
    assert [one["url"] for one in log_of(root, "--status", "4xx")] == [f"{HOME}gone"]
    assert [one["url"] for one in log_of(root, "--error", "http_404")] == [f"{HOME}gone"]
    assert {one["url"] for one in log_of(root, "--error", "any")} == {f"{HOME}gone", DEAD}
    assert {one["url"] for one in log_of(root, "dead.test")} == {DEAD}
    assert len(log_of(root, f"{HOME}a")) == 1
    assert log_of(root, "--since", "2100-01-01") == []
    assert len(log_of(root, "--since", "1h", "--last", "2")) == 2
    text = webmill("log", root, f"{HOME}gone").out.decode()
    assert "404" in text
    assert webmill("log", root, "--since", "yesterday").code == 2


def test_a_saved_page_is_in_the_log(root: Path) -> None:
    with TestWeb(hosts=1, sites={HOST: WatchedSite("/a")}) as web:
        watch(root, web)
        assert webmill("save", root, f"{HOME}a").code == 0
    assert [one["url"] for one in log_of(root)] == [f"{HOME}robots.txt", f"{HOME}a"]


def test_a_torn_line_is_skipped_and_counted_and_the_next_one_is_whole(tmp_path: Path) -> None:
    log = VisitLog(tmp_path, "00")
    log.write([result("https://a.test/1"), result("https://a.test/2")], now=1.0)
    log.close()
    (file,) = (tmp_path / "log").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    log = VisitLog(tmp_path, "00")
    log.write([result("https://a.test/3")], now=1.0)
    log.close()
    reader = VisitLogReader(tmp_path)
    assert [visit.url for visit in reader.visits()] == ["https://a.test/1", "https://a.test/3"]
    assert reader.unreadable == 1


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"\xff\xfe", b'{"time":"x","url":1}', b"x" * 200_000, b"[" * 60_000])
def test_no_line_of_somebody_else_stops_a_reader(tmp_path: Path, line: bytes) -> None:
    log = VisitLog(tmp_path, "00")
    log.write([result("https://a.test/1")], now=1.0)
    log.close()
    (tmp_path / "log" / "01-000001.jsonl").write_bytes(line + b"\n")
    reader = VisitLogReader(tmp_path)
    assert [visit.url for visit in reader.visits()] == ["https://a.test/1"]
    assert reader.unreadable > 0


def test_a_log_is_rotated_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit_log, "FILE_BYTES", 2000)
    monkeypatch.setattr(visit_log, "KEPT_FILES", 3)
    for part in range(4):  # processes that come after one another
        log = VisitLog(tmp_path, "00")
        for number in range(100):
            log.write([result(f"https://a.test/{part}/{number}", time=float(100 * part + number))], now=1.0)
        log.close()
    files = sorted((tmp_path / "log").iterdir())
    assert len(files) == 3
    assert all(file.stat().st_size <= 2000 for file in files)
    visits = [visit.url for visit in VisitLogReader(tmp_path).visits()]
    assert visits[-1] == "https://a.test/3/99"
    assert visits == [f"https://a.test/3/{number}" for number in range(100 - len(visits), 100)]
    newest = [visit.url for visit in VisitLogReader(tmp_path).visits(newest_bytes=300)]
    assert newest == visits[-len(newest) :]
    assert 0 < len(newest) < len(visits)


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a file where the folder should be")
    log = VisitLog(tmp_path, "00")
    log.write([result("https://a.test/1")], now=1.0)
    (tmp_path / "log").unlink()
    log.write([result("https://a.test/2")], now=1.0)
    log.close()
    assert [visit.url for visit in VisitLogReader(tmp_path).visits()] == ["https://a.test/2"]


def test_a_reader_follows_what_is_added_also_over_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit_log, "FILE_BYTES", 400)
    log, number = VisitLog(tmp_path, "00"), 0
    log.write([result("https://a.test/before")], now=1.0)

    def sleep(_: float) -> None:
        nonlocal number
        number += 1
        log.write([result(f"https://a.test/{number}")], now=1.0)

    found: list[VisitLogLine] = []
    for visit in VisitLogReader(tmp_path).follow(LogFilter(host="a.test"), sleep=sleep):
        found.append(visit)
        if len(found) == 20:
            break
    assert [visit.url for visit in found] == [f"https://a.test/{number}" for number in range(1, 21)]


def test_reports_count_hosts_types_status_codes_and_seeds(root: Path) -> None:
    site = WatchedSite("/a", "/b")
    site.linked = {"/a", "/b", "/gone"}
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, HOME, DEAD)
        assert webmill("run", root, "--stage", "crawl").code == 0

    def rows(kind: str) -> dict[str, Any]:
        ended = webmill("report", root, kind, "--json")
        assert ended.code == 0, ended.err
        return {row.get("name") or row["seed"]: row for row in json.loads(ended.out)["rows"]}

    hosts = rows("hosts")
    assert (hosts[HOST]["visits"], hosts[HOST]["errors"]) == (5, 1)
    assert hosts["www.dead.test"]["errors"] == hosts["www.dead.test"]["visits"] > 0
    assert rows("types")["text/html"]["visits"] >= 3
    assert rows("status")["404"]["visits"] == 1
    seeds = rows("seeds")
    assert (seeds[HOME]["status"], seeds[HOME]["state"]) == (200, "visited")
    assert seeds[DEAD]["error"]
    assert HOST in webmill("report", root, "hosts").out.decode()
    assert webmill("report", root, "colours").code == 2


def test_an_empty_log_is_no_error(root: Path) -> None:
    root.mkdir()
    assert webmill("log", root).code == 0
    assert webmill("report", root, "hosts").code == 0

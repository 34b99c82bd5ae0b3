"""What went wrong in any stage is in one place, by cause, with what to do."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.pipeline import watched_site
from tests.pipeline.crawling import Linked, Setup, crawl_here
from tests.pipeline.watched_site import WatchedSite, watch
from tests.serve.sample_collection import NAME, archive, bury, visits
from webmill.cli.main import webmill
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.model import ArchiveReject
from webmill.pipeline.problems import ProblemGroup, RetryResult, collect_problems, retry_problem
from webmill.pipeline.problems import crawl as crawl_part
from webmill.pipeline.problems import rejects as rejects_part
from webmill.pipeline.problems.types import MAX_CAUSES, MAX_EXAMPLES, MAX_TEXT, ProblemTally
from webmill.testing import Cut, HttpReply, ScriptedReply, TestWeb

HOST, DOWN = "linked.names.test", "down.names.test"
ROBOTS = b"User-agent: *\nDisallow: /2\n"
TORN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<p>the beginning"


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"WEBMILL_EXECUTOR_URL": "inline"}).invoke(webmill, ["-q", *map(str, arguments)])


def find(root: Path, cause: str) -> ProblemGroup:
    (group,) = (group for group in collect_problems(root).groups if group.cause == cause)
    return group


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of a site with pages that are gone, fail, are forbidden and break off, and a host that is down."""
    root = tmp_path_factory.mktemp("crawled")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        torn = ScriptedReply(steps=(TORN, Cut.FIN))
        site = Linked(6, robots=ROBOTS, **{"3": HttpReply(status=404), "4": HttpReply(status=501), "5": torn})
        with TestWeb(hosts=0, sites={HOST: site}) as web:
            resolve = dict(web.resolve) | {DOWN: ("127.0.0.1", closed.getsockname()[1])}
            crawl_here(root, Setup(seeds=(f"http://{HOST}/", f"http://{DOWN}/"), resolve=resolve))
    return root


def test_a_crawl_names_the_urls_of_each_failure(crawled: Path) -> None:
    report = collect_problems(crawled)
    subjects = {group.cause: {one.subject for one in group.examples} for group in report.groups}
    assert subjects == {
        "status_404": {f"http://{HOST}/3"},
        "status_501": {f"http://{HOST}/4"},
        "robots": {f"http://{HOST}/2"},
        "robots_unreachable": {f"http://{DOWN}/"},
        "truncated_disconnect": {f"http://{HOST}/5"},
    }
    severities = {group.cause: group.severity for group in report.groups}
    assert severities["status_501"] == severities["robots_unreachable"] == "error"
    assert severities["status_404"] == severities["robots"] == severities["truncated_disconnect"] == "warning"
    commands = {group.cause: group.command for group in report.groups}
    assert commands["status_501"] == f"webmill frontier retry {crawled} --error http_501"
    assert all(group.first and group.last and group.first <= group.last for group in report.groups)


def test_urls_of_a_cause_are_fetched_again_by_the_retry_of_their_group(memory_folder: Path) -> None:
    root, site = memory_folder / "watched", WatchedSite("/a", "/b", "/c")
    site.replies = {"/b": HttpReply(status=404), "/c": ScriptedReply(steps=(TORN, Cut.FIN))}
    with TestWeb(hosts=1, sites={watched_site.HOST: site}) as web:
        watch(root, web, every="1d")
        assert run("run", root, "--stage", "crawl").exit_code == 0
        causes = {group.cause: group for group in collect_problems(root).groups}
        assert set(causes) == {"status_404", "truncated_disconnect"}
        site.replies.clear()
        for group in causes.values():
            assert retry_problem(root, group.retry) == RetryResult("URL", 1)
        assert run("run", root, "--stage", "crawl").exit_code == 0
    assert [site.times(path) for path in ("/a", "/b", "/c")] == [1, 2, 3], "what broke off was asked for twice"
    assert collect_problems(root).groups == []


def test_only_the_newest_visits_are_looked_at_and_that_is_told(crawled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_part, "MAX_VISITS", 2)
    groups = collect_problems(crawled).groups
    assert sum(group.count for group in groups) <= 2
    assert all(group.is_estimate for group in groups)


def damaged_collection(root: Path) -> Path:
    """A town in which three files are no archives and one capture is torn."""
    archive(root, visits())
    for number in range(3):
        (root / f"broken-{number}.warc.gz").write_bytes(b"this is no archive")
    (file,) = (path for path in root.rglob("*.warc.gz") if path.parent.name == "warc")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    assert run("index", root, "--name", NAME).exit_code == 3
    assert run("extract", root).exit_code == 3
    return root


def test_refused_archives_and_rejected_captures_are_told_by_command_status_and_doctor(tmp_path: Path) -> None:
    root = damaged_collection(tmp_path / "town")
    by_stage = {group.stage for group in collect_problems(root).groups}
    assert by_stage == {"index", "extract"}
    subjects = {one.subject.partition(" ")[0] for group in collect_problems(root).groups for one in group.examples}
    assert {f"broken-{number}.warc.gz" for number in range(3)} <= subjects

    told = run("problems", root)
    assert told.exit_code == 3
    assert "broken-0.warc.gz" in told.output
    assert f"webmill index {root}" in told.output
    printed = json.loads(run("problems", root, "--json").stdout)
    assert sum(group["count"] for group in printed["groups"]) == collect_problems(root).errors

    assert f"webmill problems {root}" in run("status", root).output
    assert json.loads(run("status", root, "--json").stdout)["wrong"]["errors"] == collect_problems(root).errors
    findings = [json.loads(line) for line in run("doctor", root, "--json").stdout.splitlines()]
    assert [one["repair"] for one in findings if one["part"] == "problems"] == [f"webmill problems {root}"]


def test_a_collection_without_problems_has_none(tmp_path: Path) -> None:
    archive(tmp_path, visits())
    assert run("index", tmp_path, "--name", NAME).exit_code == 0
    assert collect_problems(tmp_path).groups == []
    assert run("problems", tmp_path).exit_code == 0


def test_failed_tasks_are_put_back_by_the_retry_of_their_group(tmp_path: Path) -> None:
    bury(tmp_path)
    group = find(tmp_path, "failed_task")
    assert (group.stage, group.count, group.examples[0].subject) == ("publish", 1, "job-1")
    assert retry_problem(tmp_path, group.retry) == RetryResult("task", 1)
    assert collect_problems(tmp_path).groups == []
    queue = SqliteQueue(tmp_path / "publish" / "queue.sqlite")
    assert (queue.stats().ready, queue.stats().buried) == (1, 0)
    queue.close()


@pytest.mark.parametrize("name", ["", "nothing", "../../etc", "dataset:../..", "extract", "crawl:", "crawl:../.."])
def test_a_retry_of_nothing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Exception, match="nothing to retry"):
        retry_problem(tmp_path, name)


def test_a_part_that_cannot_be_read_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    bury(tmp_path)
    (tmp_path / "cdxj").mkdir()
    (tmp_path / "cdxj" / "state.sqlite").write_bytes(b"SQLite format 3\0" + bytes(4000))
    (tmp_path / "latest.json").write_text("{")
    causes = [(group.stage, group.cause) for group in collect_problems(tmp_path).groups]
    assert ("index", "unreadable") in causes
    assert ("publish", "failed_task") in causes


def make_rejects(root: Path, line: Callable[[int], bytes], *, lines: int) -> None:
    (root / "rejected").mkdir()
    (root / "rejected" / "index.jsonl").write_bytes(b"".join(map(line, range(lines))))


def test_many_rejects_of_many_causes_stay_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejects_part, "MAX_BYTES", 200_000)

    def line(number: int) -> bytes:
        return (
            msgspec.json.encode(ArchiveReject(f"{number}-" + "x" * 1000, f"cause-{number % 100}", "m" * 1000)) + b"\n"
        )

    make_rejects(tmp_path, line, lines=2000)
    groups = collect_problems(tmp_path).groups
    assert len(groups) <= MAX_CAUSES + 1
    assert all(group.is_estimate and len(group.examples) <= MAX_EXAMPLES for group in groups)
    assert all(len(one.subject) <= MAX_TEXT >= len(one.message) for group in groups for one in group.examples)


def test_hostile_lines_of_rejects_are_counted_and_printed_as_text(tmp_path: Path) -> None:
    lines = [b"\xff\n", b"[" * 50_000 + b"\n", b'{"reason": 3}\n', b'{"reason":"bad","file":"\\u001b[2Jx"}\n']
    make_rejects(tmp_path, lines.__getitem__, lines=len(lines))
    assert {group.cause: group.count for group in collect_problems(tmp_path).groups} == {"unreadable_line": 3, "bad": 1}
    assert "\x1b" not in run("problems", tmp_path).output


def test_a_tally_counts_what_it_does_not_keep() -> None:
    tally = ProblemTally()
    for number in range(1000):
        tally.add(f"cause-{number}", "\udcff")
    assert sum(found.count for _, found in tally.causes()) == 1000
    assert len([*tally.causes()]) == MAX_CAUSES + 1
    assert all(one.subject == "\\udcff" for _, found in tally.causes() for one in found.examples)

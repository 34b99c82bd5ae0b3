"""A frontier is backed up while its crawl runs, restored elsewhere, and the crawl finished there: nothing is lost.

Every page has one link to it, from a page of another host, so a letter between the processes that got lost would cost
all pages behind it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record
from tests.pipeline.crawling import Setup, captures, counts, crawl_here, frontiers, seen_by, start, visits
from tests.unit.cli.command import webmill
from webmill.crawl.backends import crawl_backends
from webmill.crawl.frontier.base import ClaimRequest, FrontierUpdate, LastVisit, TurnOutcomes, VisitDone
from webmill.crawl.frontier_admin import commands
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import crawl_frontier
from webmill.crawl.frontier_admin.frontier_copy import COPY_FOLDER
from webmill.crawl.layout import load_or_create_layout
from webmill.crawl.options import CrawlRules
from webmill.crawl.scheduler.inbox import publish_links
from webmill.crawl.status_file import read_status
from webmill.infra import atomic
from webmill.model import Link
from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, TestWeb

PATIENCE = 120.0
POINTS = int(os.environ.get("WEBMILL_TEST_KILLS", "4")) * 2
HOSTS, PAGES = 12, 160
DELAY = 0.15


class Tree:
    """Page N links to 2N + 1 and 2N + 2, each of another host."""

    def __init__(self, pages: int) -> None:
        self._pages = pages

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/robots.txt":
            return HttpReply(body=b"User-agent: *\nAllow: /\n", media_type="text/plain")
        number = int(request.path.removeprefix("/"))
        links = "".join(f'<a href="{url_of(next_)}">x</a>' for next_ in children_of(number, self._pages))
        return HttpReply(body=f"<html><body>{request.host} {number} {'text ' * 80}{links}</body></html>".encode())

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        yield from ()


def children_of(number: int, pages: int) -> list[int]:
    return [next_ for next_ in (2 * number + 1, 2 * number + 2) if next_ < pages]


def url_of(number: int) -> str:
    return f"http://www.d{number % HOSTS}.test/{number}"


@pytest.fixture
def base() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def tree(pages: int = PAGES) -> Iterator[tuple[TestWeb, Setup]]:
    sites = {f"www.d{number}.test": Tree(pages) for number in range(HOSTS)}
    with TestWeb(hosts=0, sites=sites) as web:
        resolve = dict(web.resolve)
        rules = CrawlRules(scope="any", sitemaps=False)
        yield web, Setup(seeds=(url_of(0),), resolve=resolve, processes=2, delay=DELAY, window=1.5, rules=rules)


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def back_up_while_it_runs(root: Path, web: TestWeb, setup: Setup, targets: list[str], *, every: int) -> None:
    """Again and again; then the crawl is stopped."""
    process = start(root, setup)
    try:
        for number, target in enumerate(targets, start=1):
            wait_for(lambda number=number: len(web.log) >= number * every, process)
            ended = webmill("-q", "frontier", "backup", root, target)
            assert ended.code == 0, ended.err
        assert not (root / "frontier" / COPY_FOLDER).exists()
    finally:
        end(process)


def finish_elsewhere(root: Path, web: TestWeb, setup: Setup, target: str) -> None:
    """What the backup knew as visited is not asked again; all the rest is found."""
    assert webmill("-q", "frontier", "restore", target, root).code == 0
    before = {url for url, visit in visits(root).items() if visit.status == 200}
    web.log.settle()  # what the first crawl had asked last
    asked_before = len(web.log)
    assert crawl_here(root, setup).end == "finished"
    web.log.settle()
    everything = {url_of(number) for number in range(PAGES)}
    assert {url for url, visit in visits(root).items() if visit.status == 200} == everything
    asked = counts(one for one in seen_by(list(web.log.visits())[asked_before:]) if not one.is_robots)
    assert set(asked) == everything - before
    assert set(asked.values()) <= {1}


def test_backed_up_while_it_runs_a_crawl_is_finished_elsewhere(base: Path) -> None:
    with tree() as (web, setup):
        target = str(base / "backup")
        back_up_while_it_runs(base / "crawl", web, setup, [target], every=40)
        finish_elsewhere(base / "again", web, setup, target)
    both = {url for root in ("crawl", "again") for _, url, _ in captures(base / root)}
    assert both >= {url_of(number) for number in range(PAGES)}


@pytest.mark.server("s3")
def test_a_backup_may_lie_in_a_bucket(base: Path, s3_url: str) -> None:
    target = bucket_of(s3_url, "frontier-backup")
    root = filled(base / "crawl")
    assert webmill("-q", "frontier", "backup", root, target).code == 0
    second = webmill("-q", "frontier", "backup", root, target)
    assert second.code == 1
    assert "there is a backup already" in second.err
    assert webmill("-q", "frontier", "restore", target, base / "again").code == 0
    assert contents(base / "again") == contents(root)


def test_nothing_is_restored_of_a_backup_that_is_damaged(base: Path) -> None:
    root, target = filled(base / "crawl"), base / "backup"
    assert webmill("-q", "frontier", "backup", root, target).code == 0
    files = sorted(path for path in target.rglob("*") if path.is_file() and "lock" not in path.as_posix())
    for path in files:
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1])) if whole else (b"x",):
            path.write_bytes(damaged)
            ended = webmill("-q", "frontier", "restore", target, base / "again")
            if path.name == "manifest.json" and path.parent == target and ended.code == 0:  # a blank at its end
                shutil.rmtree(base / "again")
                continue
            assert ended.code == 1, path
            assert not (base / "again" / "frontier").exists()
        path.unlink()
        assert webmill("-q", "frontier", "restore", target, base / "again").code == 1
        path.write_bytes(whole)
    assert webmill("-q", "frontier", "restore", target, base / "again").code == 0
    assert contents(base / "again") == contents(root)


def test_a_folder_that_has_a_frontier_is_left_as_it_is(base: Path) -> None:
    root, target = filled(base / "crawl"), base / "backup"
    assert webmill("-q", "frontier", "backup", root, target).code == 0
    ended = webmill("-q", "frontier", "restore", target, root)
    assert ended.code == 1
    assert "has a frontier already" in ended.err
    assert webmill("-q", "frontier", "restore", base / "nothing", base / "again").code == 1


def test_a_restored_crawl_is_called_what_it_was(base: Path) -> None:
    root, target = filled(base / "crawl"), base / "backup"
    assert webmill("-q", "frontier", "backup", root, target).code == 0
    assert webmill("-q", "frontier", "restore", target, base / "again").code == 0
    ended = webmill("-q", "crawl", base / "again", "--contact", "me@example.org", "--max-time", "1ms")
    assert ended.code in (0, 3), ended.err  # 3: a name was looked up in that time, and is not there
    assert read_status(base / "again" / "frontier").name == "crawl"


@needs_killer
@pytest.mark.crash
def test_killed_at_any_call_a_backup_or_restore_leaves_nothing_half(base: Path) -> None:
    root = filled(base / "crawl")
    expected = contents(root)
    kills = lost = 0
    with Stage("webmill.cli.main", under=base) as stage:
        done = stage.warm_up("-q", "frontier", "backup", root, base / "backup")
        assert done.code == 0, done.output
        for at in points(len(done.calls)):
            target = base / f"backup-{at}"
            assert stage.run("-q", "frontier", "backup", root, target, at=at).killed
            if not (target / "manifest.json").exists():
                assert stage.run("-q", "frontier", "backup", root, target).code == 0
        shutil.rmtree(base / "backup")
        (base / f"backup-{at}").rename(base / "backup")  # the manifest of this one was there when it was killed
        whole = stage.run("-q", "frontier", "restore", base / "backup", base / "again")
        assert whole.code == 0, whole.output
        assert contents(base / "again") == expected
        for at in points(len(whole.calls)):
            again = base / f"again-{at}"
            assert stage.run("-q", "frontier", "restore", base / "backup", again, at=at).killed
            kills += 1
            if not (again / "frontier").exists():
                assert stage.run("-q", "frontier", "restore", base / "backup", again).code == 0
            lost += len(urls_of(expected) - urls_of(contents(again)))
            assert contents(again) == expected
            assert not list(again.glob(".webmill-draft*"))
    every = kills * len(urls_of(expected))
    record("frontier (embedded)", "kill -9 before a durable call", injected=kills, acknowledged=every, lost=lost)


def points(calls: int) -> list[int]:
    """Some of them, the last ones among them: that is where it begins to count."""
    return sorted({*range(1, calls, max(1, calls // POINTS)), *range(calls - 3, calls)})


def filled(root: Path) -> Path:
    """Two shards with something in each place, and a letter on its way."""
    place = crawl_frontier(root, crawl_backends(), frontier_backend(), name=root.name)
    atomic.make_folder(place.folder)
    load_or_create_layout(place.paths, 2)
    atomic.write_bytes(place.paths.seeds, b"http://www.d0.test/\n")
    links = [Link(f"http://www.d{number % 20}.test/{number}", depth=number % 3) for number in range(100)]
    commands.add_urls(place, links)
    commands.exclude_domains(place, ["d7.test"])
    with place.frontiers() as shards:
        for frontier in shards:
            for turn in frontier.claim(ClaimRequest(turns=5, urls_per_turn=2, now=4e9, lease=9.0, hold=0.0)):
                done = VisitDone(LastVisit(url=turn.items[0].url, time=4e9, status=200))
                frontier.commit(FrontierUpdate(settled=[TurnOutcomes(turn.token, [done], next=4e9)]), now=4e9)
    with place.inbox(1) as box:
        publish_links(box, [Link("http://www.messages.test/")])
    return root


def contents(root: Path) -> dict[str, Any]:
    place = crawl_frontier(root, crawl_backends(), frontier_backend(), name=root.name)
    with frontiers(root) as shards:
        return {
            "waiting": sorted(link.url for one in shards for link in one.waiting()),
            "visited": sorted(visit.url for one in shards for visit in one.visits()),
            "excluded": sorted(name for one in shards for name in one.excluded()),
            "letters": [list(place.backend.read_messages(place.paths.inbox(shard))) for shard in range(2)],
            "seeds": place.paths.seeds.read_bytes(),
        }


def urls_of(contents: dict[str, Any]) -> set[str]:
    return {*contents["waiting"], *contents["visited"]}


def bucket_of(s3_url: str, name: str) -> str:
    parts = urlsplit(s3_url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}-{uuid.uuid4().hex[:8]}").geturl()


@pytest.mark.soak
def test_every_one_of_many_backups_is_whole(base: Path) -> None:
    """The moments differ; a letter may be anywhere."""
    with tree() as (web, setup):
        targets = [str(base / f"backup-{number}") for number in range(8)]
        back_up_while_it_runs(base / "crawl", web, setup, targets, every=15)
        for number, target in enumerate(targets):
            finish_elsewhere(base / f"again-{number}", web, setup, target)

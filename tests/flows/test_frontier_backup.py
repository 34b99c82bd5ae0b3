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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.crawling import Setup, captures, counts, crawl_here, seen_by, start, visits
from tests.unit.cli.command import webmill
from webmill.flows.crawl.options import Rules
from webmill.flows.frontier.copying import FOLDER
from webmill.testing import Answer, Page, Reply, Request, TestWeb

PATIENCE = 120.0
HOSTS, PAGES = 12, 160
DELAY = 0.15


class Tree:
    """Page N links to 2N + 1 and 2N + 2, each of another host."""

    def __init__(self, pages: int) -> None:
        self._pages = pages

    def answer(self, request: Request) -> Answer:
        if request.path == "/robots.txt":
            return Reply(body=b"User-agent: *\nAllow: /\n", media_type="text/plain")
        number = int(request.path.removeprefix("/"))
        links = "".join(f'<a href="{url_of(next_)}">x</a>' for next_ in children_of(number, self._pages))
        return Reply(body=f"<html><body>{request.host} {number} {'text ' * 80}{links}</body></html>".encode())

    def pages(self, version: int) -> Iterator[Page]:
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
        rules = Rules(scope="any", sitemaps=False)
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
        assert not (root / "frontier" / FOLDER).exists()
    finally:
        end(process)


def finish_elsewhere(root: Path, web: TestWeb, setup: Setup, target: str) -> None:
    """What the backup knew as visited is not asked again; all the rest is found."""
    assert webmill("-q", "frontier", "restore", target, root).code == 0
    before = {url for url, visit in visits(root).items() if visit.status == 200}
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


@pytest.mark.soak
def test_every_one_of_many_backups_is_whole(base: Path) -> None:
    """The moments differ; a letter may be anywhere."""
    with tree() as (web, setup):
        targets = [str(base / f"backup-{number}") for number in range(8)]
        back_up_while_it_runs(base / "crawl", web, setup, targets, every=15)
        for number, target in enumerate(targets):
            finish_elsewhere(base / f"again-{number}", web, setup, target)

"""A running crawl is paused by a person, and goes on when told: no request in between, nothing lost."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.pipeline.watched_site import HOME, HOST, WatchedSite, watch
from tests.serve.server_process import wait_until_true
from tests.unit.cli.command import started, webmill
from webmill.crawl.status_file import read_status
from webmill.errors import NotFound
from webmill.testing import TestWeb


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "paused"


def is_paused(root: Path) -> bool:
    return read_status(root / "frontier").total.is_paused


def has_pages(root: Path, count: int) -> bool:
    try:
        return read_status(root / "frontier").total.pages >= count
    except NotFound:
        return False


@pytest.mark.parametrize("delay", ["0s", "50ms"])
def test_no_request_is_sent_while_a_crawl_is_paused(root: Path, delay: str) -> None:
    count = 3000 if delay == "0s" else 120
    site = WatchedSite(*(f"/{number}" for number in range(count)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": f'"{delay}"', "trap_budget": "0"})  # its pages are all alike
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            assert webmill("frontier", "pause", root).code == 0
            wait_until_true(lambda: is_paused(root), "the crawl is paused")
            time.sleep(0.5)  # what was under way has ended
            before = len(site.requests)
            assert "paused" in webmill("status", root).out.decode()
            time.sleep(1.5)
            assert len(site.requests) == before < count
            assert webmill("frontier", "resume", root).code == 0
            assert crawl.wait(120) == 0
        assert {site.times(f"/{number}") for number in range(count)} == {1}


def test_a_paused_crawl_can_be_stopped_and_the_next_run_is_not_paused(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(60)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"50ms"'})
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            assert webmill("frontier", "pause", root).code == 0
            wait_until_true(lambda: is_paused(root), "the crawl is paused")
            crawl.send_signal(signal.SIGINT)
            crawl.wait(60)
        assert webmill("crawl", root).code == 0
        assert {site.times(f"/{number}") for number in range(60)} == {1}


def test_a_run_that_is_stopped_says_so_and_goes_on_the_next_time(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(60)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, every="1d", settings={"delay": '"50ms"'})
        with started("run", root, "--stage", "crawl") as process:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            process.send_signal(signal.SIGINT)
            _, printed = process.communicate(timeout=120)
        assert process.returncode == 130
        assert b"crawl: stopped after " in printed
        assert b"crawl: done" not in printed
        assert webmill("run", root, "--stage", "crawl").code == 0
        assert {site.times(f"/{number}") for number in range(60)} == {1}


def test_where_no_crawl_runs_there_is_nothing_to_pause(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        assert webmill("crawl", root, HOME).code == 0
        ended = webmill("frontier", "pause", root)
        assert (ended.code, "no crawl is running" in ended.err) == (1, True)

"""A running crawl is steered from another terminal: it stops, reads its settings again, takes URLs, leaves domains."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.test_pause import has_pages, is_paused
from tests.pipeline.watched_site import HOME, HOST, WatchedSite, change_settings, watch
from tests.serve.server_process import wait_until_true
from tests.unit.cli.command import started, webmill
from webmill.crawl.control import read_events, send_request
from webmill.testing import TestWeb

OTHER = "www.other.test"
pytestmark = pytest.mark.slow


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "steered"


def control(root: Path, *words: str) -> str:
    ended = webmill("crawl", "control", root, *words)
    assert ended.code == 0, ended.err
    return ended.err


def actions(root: Path) -> list[tuple[str, str]]:
    return [(event.action, event.details) for event in read_events(root / "frontier")]


def has(site: WatchedSite, path: str) -> Callable[[], bool]:
    return lambda: path in site.requests


def test_a_crawl_told_to_stop_ends_as_by_ctrl_c_and_goes_on_later(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(200)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"300ms"', "trap_budget": "0"})  # its pages are all alike
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            control(root, "stop")
            assert crawl.wait(60) == 130
        assert len(site.requests) < 200
        assert "not running" in webmill("crawl", "control", root, "status").out.decode()
        change_settings(root, {"delay": '"0s"'})
        assert webmill("crawl", root).code == 0
        assert {site.times(f"/{number}") for number in range(200)} == {1}
    ((action, _),) = actions(root)
    assert action == "stop"
    by = json.loads(webmill("log", root, "--control", "--json").out)["by"]
    assert "@" in by


def test_a_host_that_must_wait_long_does_not_keep_a_stop_waiting(root: Path) -> None:
    """Nothing is due for a minute: what the crawl is told reaches it all the same."""
    site, other = WatchedSite("/a", "/b"), WatchedSite("/c")
    with TestWeb(hosts=1, sites={HOST: site, OTHER: other}) as web:
        watch(root, web, settings={"delay": '"60s"', "scope": '"any"'})
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 1), "the first page")
            control(root, "add", f"http://{OTHER}/c")
            wait_until_true(has(other, "/robots.txt"), "the added URL is asked for while all else waits")
            control(root, "stop")
            assert crawl.wait(30) == 130
    assert [action for action, _ in actions(root)] == ["add", "stop"]


def test_settings_are_read_again_while_the_crawl_runs(root: Path) -> None:
    site = WatchedSite(*(f"/{kind}{number}" for kind in ("keep", "skip") for number in range(20)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"60s"'})
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 1), "the first page")
            change_settings(root, {"delay": '"0s"', "exclude": '["/skip"]', "processes": "2"})
            said = control(root, "reload")
            assert "delay: 60s → 0s" in said
            assert "exclude changed" in said
            assert "needs a new run: processes" in said
            time.sleep(1)
            crawl.terminate()
            crawl.wait(60)
        assert not [path for path in site.requests if path.startswith("/skip")]
        assert actions(root)[0][0] == "reload"


@pytest.mark.soak
def test_another_limit_and_another_delay_count_at_once(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(40)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"1s"', "max_pages": "35"})
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            change_settings(root, {"delay": '"10ms"', "max_pages": "30"})
            said = control(root, "reload")
            assert "max_pages: 35 → 30" in said
            assert crawl.wait(100) == 0
        assert len(site.requests) - site.times("/robots.txt") == 30
        assert max(site.times(f"/{number}") for number in range(40)) == 1


def test_settings_that_are_wrong_are_refused_and_change_nothing(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(200)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"300ms"', "trap_budget": "0"})  # its pages are all alike
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            file = root / "webmill.toml"
            right = file.read_text()
            file.write_text(right.replace('delay = "300ms"', 'delay = "soon"'))
            ended = webmill("crawl", "control", root, "reload")
            assert (ended.code, "soon" in ended.err) == (1, True)
            file.write_text(right.replace("[crawl]", '[crawl]\ninclude = ["("]'))
            ended = webmill("crawl", "control", root, "reload")
            assert (ended.code, "RE2" in ended.err) == (1, True)
            change_settings(root, {"delay": '"0s"'})
            file.write_text(file.read_text().replace('include = ["("]\n', ""))
            assert "delay" in control(root, "reload")
            assert crawl.wait(100) == 0
        assert {site.times(f"/{number}") for number in range(200)} == {1}


@pytest.mark.soak
def test_a_flag_counts_before_the_file_and_the_crawl_says_so(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(200)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        with started("crawl", root, HOME, "--delay", "500ms") as crawl:
            wait_until_true(lambda: has_pages(root, 1), "the crawl has begun")
            change_settings(root, {"delay": '"1ms"'})
            assert "counts before the file: delay" in control(root, "reload")
            crawl.terminate()
            crawl.wait(60)


@pytest.mark.soak
def test_domains_are_skipped_and_the_crawl_pauses_by_the_same_command(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(200)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": '"300ms"', "trap_budget": "0"})  # its pages are all alike
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: has_pages(root, 2), "the crawl has begun")
            control(root, "pause")
            wait_until_true(lambda: is_paused(root), "the crawl is paused")
            state = json.loads(webmill("crawl", "control", root, "status", "--json").out)
            assert state["nodes"][0]["state"] == "paused"
            assert [event["action"] for event in state["control"]] == ["pause"]
            control(root, "exclude", "watched.test")
            control(root, "resume")
            assert crawl.wait(60) == 0
        assert len(site.requests) < 200


def test_what_an_earlier_run_was_asked_does_not_stop_this_one(root: Path) -> None:
    site = WatchedSite("/a", "/b")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        (root / "frontier").mkdir()
        send_request(root / "frontier", "stop", by="me")
        (root / "frontier" / "control" / "torn.json").write_bytes(b'{"id":')
        assert webmill("crawl", root, HOME).code == 0
        assert site.times("/b") == 1
        assert not list((root / "frontier" / "control").glob("*.json"))


def test_where_no_crawl_runs_there_is_nothing_to_steer(root: Path) -> None:
    with TestWeb(hosts=1, sites={HOST: WatchedSite("/a")}) as web:
        watch(root, web)
        assert webmill("crawl", root, HOME).code == 0
    for action in ("stop", "reload", "resume"):
        ended = webmill("crawl", "control", root, action)
        assert (ended.code, "no crawl is running" in ended.err) == (1, True)
    assert actions(root) == []


def test_a_folder_called_control_can_be_crawled_into(memory_folder: Path) -> None:
    with TestWeb(hosts=1, sites={HOST: WatchedSite("/a")}) as web:
        root = memory_folder / "control"
        watch(root, web)
        with contextlib.chdir(memory_folder):
            assert webmill("crawl", "control", HOME).code == 0

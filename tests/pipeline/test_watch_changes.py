"""What changed on a watched site, told by the commands: by text, once, without noise."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.watched_site import HOME, HOST, WatchedSite, text, watch
from tests.unit.cli.command import webmill
from webmill.testing import HttpReply, TestWeb

RULE = f"""
[[ignore]]
match = "{HOST}/weather"
selectors = ["#now"]
patterns = ["Mood: [a-z]+"]
"""


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "watched"


def run(root: Path) -> str:
    time.sleep(1.0)
    ended = webmill("run", root)
    assert ended.code == 0, ended.err
    return ended.err


def changes(root: Path, *flags: str) -> dict[str, dict[str, Any]]:
    lines = webmill("changes", root, "--json", *flags).out.splitlines()
    return {one["url"].removeprefix(HOME[:-1]): one for one in map(json.loads, lines)}


def kinds(root: Path, *flags: str) -> dict[str, str]:
    return {path: one["kind"] for path, one in changes(root, *flags).items()}


def add_rule(root: Path, rule: str) -> None:
    with (root / "webmill.toml").open("a") as file:
        file.write(rule)


def weather(temperature: int, mood: str) -> str:
    return f"<span id=now>{temperature} degrees</span> {text('The weather')} Mood: {mood}"


def test_a_run_tells_what_changed_came_moved_and_went(root: Path) -> None:
    site = WatchedSite("/a", "/gone", "/old", "/quiet", "/same")
    site.linked = {*site.pages, "/new", "/weather"}
    site.pages["/quiet"] = f"<p>{text('Quiet page')}</p><p>Visitors: 17</p><p>It is 12:01:02</p>"
    site.pages["/weather"] = weather(7, "sunny")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        add_rule(root, RULE)
        run(root)
        assert kinds(root) == {}
        assert "is the first one" in webmill("changes", root).err

        site.pages["/a"] = text("second words of a")
        site.pages["/new"] = text("a page that is new")
        del site.pages["/old"]
        site.pages["/there"] = text("what was at the old address, in other words")
        site.replies["/old"] = HttpReply(status=301, headers=(("Location", "/there"),))
        site.pages["/quiet"] = f"<p>It is 13:02:03</p><p>{text('Quiet page')}</p><p>Visitors: 18</p>"
        site.pages["/weather"] = weather(9, "gloomy")
        del site.pages["/gone"]
        said = run(root)
        assert kinds(root) == {"/a": "changed", "/new": "added", "/old": "moved"}
        assert "unimportant" in said
        found = changes(root)
        assert found["/old"]["moved_to"] == f"{HOME}there"
        assert found["/old"]["added"].startswith("there\nwhat was at the old address")
        assert found["/a"]["added"].startswith("second words of a")
        assert found["/a"]["removed"].startswith("first words of a")
        assert 0 < found["/a"]["share"] < 0.5

        run(root)  # not found twice is gone
        assert kinds(root) == {"/gone": "removed"}
        assert kinds(root, "--since", "1") == {"/a": "changed", "/new": "added", "/old": "moved", "/gone": "removed"}
        assert kinds(root, "--since", "1", "--kind", "moved") == {"/old": "moved"}
        assert kinds(root, "--since", "1", "--site", "*.other.example") == {}
        shown = webmill("changes", root, "--version", "2").out.decode()
        assert f"> {HOME}old" in shown
        assert f"  now at {HOME}there" in shown
        assert max(map(len, shown.splitlines())) <= 80


def test_a_wrong_rule_is_told_before_the_crawl(root: Path) -> None:
    with TestWeb(hosts=1, sites={HOST: WatchedSite("/a")}) as web:
        watch(root, web)
        add_rule(root, '[[ignore]]\nmatch = "x.example"\npatterns = ["(a"]\n')
        ended = webmill("run", root)
        assert ended.code == 1
        assert "[[ignore]] number 1: patterns: missing ): (a (RE2)" in ended.err
        assert not (root / "frontier").exists()

"""Browsers, their renderers and the crawler are killed with -9 at random moments, and the crawl goes on each time.

WEBMILL_TEST_KILLS says how many kills (50 is a good number): as many as it takes, crawl after crawl of the hard pages.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.browser.archive import read_archive
from tests.browser.conftest import processes_with
from tests.browser.hard_web import HOST, PAGES
from tests.faults.matrix import record, seed
from tests.pipeline.crawling import visits
from webmill.testing import TestWeb

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "4"))
SEED = seed(25)
SHORT = ("fetch", "fetch-late", "xhr", "module", "worker", "iframe", "image-lazy", "idle")
NAMES = tuple(PAGES) if KILLS > 10 else SHORT
KINDS = (*["browser", "renderer"] * 4, "crawler", "parent")
LEFT = 10.0  # seconds: a zombie that is older was forgotten
pytestmark = [
    pytest.mark.server("chromium"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.crash,
    pytest.mark.timeout(300 + 40 * KILLS),
]
CRAWL = """import json, sys, webmill
if __name__ == '__main__':
    given = json.loads(sys.argv[1])
    given['resolve'] = {host: tuple(place) for host, place in given['resolve'].items()}
    webmill.crawl(sys.argv[2], sys.argv[3:], depth=0, **given)
"""


class KilledCrawl(msgspec.Struct):
    """A crawl that is run until it ends by itself. `acknowledged`: pages that were done when it was killed."""

    command: list[str]
    root: Path
    temporary: Path
    dice: random.Random
    left: int  # kills that are still to come
    killed: list[str] = []
    acknowledged: set[str] = msgspec.field(default_factory=set)
    zombies: dict[int, float] = {}

    def run(self) -> None:
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            environment = {**os.environ, "TMPDIR": str(self.temporary)}
            process = subprocess.Popen(self.command, env=environment, start_new_session=True)
            try:
                code = self._disturb(process)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            wait_for(lambda: not self._processes())
            if self.root.exists():
                self.acknowledged |= {url for url, visit in visits(self.root).items() if visit.status == 200}
        assert code == 0

    def _disturb(self, process: subprocess.Popen[bytes]) -> int:
        """Kill one thing after the other; return how the crawl ended."""
        while self.left:
            if _ends(process, self.dice.uniform(0.3, 3.0)):
                return process.returncode
            self._look_for_zombies(process.pid)
            kind = self._kill(process, self.dice.choice(KINDS))
            self.left -= bool(kind)
            self.killed += [kind] if kind else []
            if kind in ("crawler", "parent"):
                return process.wait()
        return process.wait(timeout=600)

    def _kill(self, process: subprocess.Popen[bytes], kind: str) -> str:
        """Kill a process of this kind; return "" where there is none."""
        if kind == "crawler":
            os.killpg(process.pid, signal.SIGKILL)
            return kind
        if kind == "parent":
            process.kill()
            return kind
        wanted = [pid for pid in self._processes() if ("--type=renderer" in _line(pid)) == (kind == "renderer")]
        wanted = [pid for pid in wanted if kind == "renderer" or "--type=" not in _line(pid)]
        if not wanted:
            return ""
        try:
            os.kill(self.dice.choice(wanted), signal.SIGKILL)
        except ProcessLookupError:
            return ""
        return kind

    def _processes(self) -> list[int]:
        """Return the processes of browsers, their children too."""
        browsers = processes_with(str(self.temporary))
        return [
            *browsers,
            *(pid for pid in processes_with("--type=") if pid not in browsers and _is_below(pid, browsers)),
        ]

    def _look_for_zombies(self, crawler: int) -> None:
        now, seen = time.monotonic(), set(_zombies_below(crawler))
        self.zombies = {pid: self.zombies.get(pid, now) for pid in seen}
        assert all(now - since < LEFT for since in self.zombies.values())


def test_killed_at_random_moments_no_page_is_lost(tmp_path: Path, hard_web: TestWeb, settings: dict[str, Any]) -> None:
    resolve = {host: list(place) for host, place in settings["resolve"].items()}
    program, temporary, dice = tmp_path / "crawl.py", tmp_path / "tmp", random.Random(SEED)
    program.write_text(CRAWL)
    temporary.mkdir()
    urls = {f"http://{HOST}/hard/{name}" for name in NAMES}
    kills, acknowledged = Counter[str](), 0
    for number in range(max(1, KILLS)):
        root = tmp_path / f"c{number}"
        command = [sys.executable, str(program), json.dumps({**settings, "resolve": resolve}), str(root), *sorted(urls)]
        crawl = KilledCrawl(command, root, temporary, dice, KILLS - kills.total())
        crawl.run()
        kills.update(crawl.killed)
        acknowledged += len(urls)
        judge(crawl, urls)
        if kills.total() >= KILLS:
            break
    print(f"seed {SEED}: {dict(kills)}, {number + 1} crawls of {len(urls)} pages, {acknowledged} acknowledged")


def judge(crawl: KilledCrawl, urls: set[str]) -> None:
    archived = read_archive(crawl.root)
    responses = Counter(url for kind, url in archived.order if kind == "response")
    lost = {url for url in urls if not responses[url] or f"urn:pageinfo:{url}" not in archived.made}
    if crawl.killed:
        numbers = {"acknowledged": len(urls), "lost": len(lost)}
        record("crawl", "kill -9 of browser, renderer or crawler", injected=len(crawl.killed), **numbers)
    assert lost == set()
    assert {url for url, visit in visits(crawl.root).items() if visit.status == 200} == urls
    for url in crawl.acknowledged & urls:  # what was done once is not done again: its records of then are there
        assert responses[url] == 1
        made = archived.order.index(("resource", f"urn:pageinfo:{url}"))
        assert made < archived.order.index(("response", url))
    assert not list(crawl.root.rglob("*.open"))


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _line(pid: int) -> str:
    with suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_text()
    return ""


def _stat(pid: int) -> list[str]:
    """Return state, parent and more of a process; nothing when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _is_below(pid: int, parents: list[int]) -> bool:
    while pid > 1:
        if pid in parents:
            return True
        stat = _stat(pid)
        pid = int(stat[1]) if stat else 0
    return False


def _zombies_below(crawler: int) -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if _stat(pid)[:1] == ["Z"] and _is_below(pid, [crawler])]


def wait_for(condition: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)

"""10,000 pages on 200 hosts are watched for ten days, 1 % change a day, half have noise; beside changedetection.io.

The pages are those of `watched_web.py`, in a process of its own whose CPU does not count: articles with a price, of
which a paragraph or the price changes; odd ones have a clock, a counter, a token and ads in another order at every
request and no validator, even ones have an ETag. Each watcher has a server of its own.

    webmill              `webmill init`, then `webmill run` once a day: crawl, index, extract, publish, search. What it
                         reports is `webmill changes`. There is no delay between two requests; all else is as it is
    changedetection.io   the URLs are added, then its batch mode checks all of them once a day, with its own defaults.
                         What it reports are new entries in the history of a watch

A day of webmill lasts `DAY` seconds (what is due depends on the time since the last visit), or as long as a run takes.
The first day, on which everything is new, does not count. A change is found if it is reported before the page changes
again; *on the day* if it is reported by the run of its day. A report is a false alarm if the page has not changed since
the one before. `BENCH_SHARE=0.1` watches a tenth of the pages and hosts; changedetection.io gets `BENCH_RIVAL_SHARE` of
the pages (0.02: it takes minutes for each hundred).
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.frame import as_installed, cpu_seconds
from benchmarks.watched_web import host_of, is_noisy, pages_changed_on, url_of

SHARE = float(os.environ.get("BENCH_SHARE", "1"))
RIVAL_SHARE = float(os.environ.get("BENCH_RIVAL_SHARE", "0.02"))
PAGES, HOSTS, DAYS = int(10_000 * SHARE), max(1, int(200 * SHARE)), 10
DAY = float(os.environ.get("BENCH_DAY", "60"))
RIVAL = Path(".venv-watchers/bin/changedetection.io")
SETTINGS = {
    "delay": '"0s"',
    "address_delay": '"0s"',
    "allow_private": "true",
    "page_resources": "false",
    "languages": "false",
    "every": f'"{DAY:.0f}s"',
}


class Watcher(Protocol):
    name: str

    def look(self) -> set[str]:
        """Look at the pages as a day's run does; return the URLs that are reported as changed."""
        ...


@dataclass
class Watched:
    """What a watcher has reported, by day; and what that took."""

    name: str
    pages: list[int]
    urls: dict[str, int]
    reports: list[set[int]] = field(default_factory=list)
    requests: int = 0
    cpu: float = 0.0
    runs: list[float] = field(default_factory=list)

    def judge(self) -> tuple[int, int, int, int]:
        """Return how many changes there were, were found, and found on their day; and false alarms."""
        changes = found = on_the_day = 0
        pending: dict[int, int] = {}  # the day of the last change that was not reported
        false = 0
        watched = set(self.pages)
        for day, reported in enumerate(self.reports, 1):
            for page in pages_changed_on(day, PAGES):
                if page in watched:
                    changes += 1
                    pending[page] = day
            for page in reported:
                since = pending.pop(page, None)
                found += since is not None
                on_the_day += since == day
                false += since is None
        return changes, found, on_the_day, false


class Webmill:
    """`webmill run`, one after the other at the interval of a day."""

    name = "webmill"

    def __init__(self, folder: Path, seeds: list[str]) -> None:
        self._root = folder / "watched"
        self._next = time.monotonic()
        self._webmill("init", str(self._root), *seeds, "--contact", "me@example.org")
        change_settings(self._root / "webmill.toml", SETTINGS)

    def look(self) -> set[str]:
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = max(self._next + DAY, time.monotonic())
        before = self._version()
        self._webmill("--quiet", "run", str(self._root))
        if not before or self._version() == before:
            return set()
        lines = self._webmill("changes", str(self._root), "--json").splitlines()
        return {one["url"] for one in map(json.loads, lines) if one["kind"] == "changed"}

    def _version(self) -> str:
        latest = self._root / "latest.json"
        return str(json.loads(latest.read_text())["version"]) if latest.exists() else ""

    def _webmill(self, *words: str) -> str:
        command = [sys.executable, "-m", "webmill", *words]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=as_installed()).stdout


class ChangeDetection:
    """changedetection.io in its batch mode: all watches are checked, then it ends."""

    name = "changedetection.io"

    def __init__(self, folder: Path, urls: list[str]) -> None:
        self._store, self._urls, self._known = folder / "store", urls, dict[str, int]()

    def look(self) -> set[str]:
        added = [] if self._known else [word for url in self._urls for word in ("-u", url)]
        recheck = ["-r", "all"] if self._known else []
        command = [str(RIVAL.absolute()), "-d", str(self._store), "-C", "-b", "-p", str(free_port()), "-l", "ERROR"]
        # Private addresses are refused by default, as by us.
        env = as_installed() | {"ALLOW_IANA_RESTRICTED_ADDRESSES": "true", "DISABLE_VERSION_CHECK": "true"}
        subprocess.run(
            [*command, *added, *recheck], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        now = dict(self._entries())
        reported = {url for url, count in now.items() if count > self._known.get(url, count)}
        self._known = now
        return reported

    def _entries(self) -> Iterator[tuple[str, int]]:
        """Yield the URL of each watch, and how many states of it are known."""
        for watch in self._store.glob("*/watch.json"):
            history = watch.with_name("history.txt")
            yield json.loads(watch.read_text())["url"], len(history.read_text().split()) if history.exists() else 0


def main() -> None:
    print(f"{PAGES:,} pages on {HOSTS} hosts, {DAYS} days of {DAY:.0f} s", flush=True)
    rows = [watch_with_webmill()]
    if RIVAL.exists():
        rows.append(watch_with_rival())
    print("\n## Pages that are watched\n")
    print(
        "| | pages | changes | found | on the day | false alarms | of reports | of looks | requests per change found",
        end="",
    )
    print(" | CPU ms per page and day |\n|---|" + "---:|" * 9)
    for row in rows:
        print_row(row)


def print_row(row: Watched) -> None:
    changes, found, on_the_day, false = row.judge()
    looks, reports = len(row.pages) * DAYS, max(1, found + false)
    noisy = sum(is_noisy(page) for page in row.pages)
    print(f"| {row.name} | {len(row.pages):,} ({noisy:,} noisy) | {changes} | {found / changes:.1%}", end="")
    print(f" | {on_the_day / changes:.1%} | {false} | {false / reports:.1%} | {false / looks:.2%}", end="")
    print(f" | {row.requests / max(1, found):.1f} | {1000 * row.cpu / looks:.1f} |", flush=True)


def watch_with_webmill() -> Watched:
    pages = list(range(PAGES))
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as folder, serving() as port:
        hosts = dict.fromkeys(host_of(page, HOSTS) for page in pages)
        return watch(Webmill(Path(folder), [f"http://{host}:{port}/" for host in hosts]), pages, port=port)


def watch_with_rival() -> Watched:
    pages = list(range(int(PAGES * RIVAL_SHARE))) if RIVAL_SHARE < 1 else list(range(PAGES))
    changed = {page for day in range(1, DAYS + 1) for page in pages_changed_on(day, PAGES)}
    # A small sample would have few changes: it is made of as many pages that change as that do not.
    pages = sorted(
        [
            *sorted(changed)[: len(pages) // 2],
            *[page for page in range(PAGES) if page not in changed][: len(pages) // 2],
        ]
    )
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as folder, serving() as port:
        return watch(
            ChangeDetection(Path(folder), [url_of(one, hosts=HOSTS, port=port) for one in pages]), pages, port=port
        )


def watch(watcher: Watcher, pages: list[int], *, port: int) -> Watched:
    """Have the pages watched; the first day, on which all is new, is not counted."""
    told = Watched(watcher.name, pages, {url_of(page, hosts=HOSTS, port=port): page for page in pages})
    watcher.look()
    before = int(fetch(port, "/requests"))
    for day in range(1, DAYS + 1):
        fetch(port, f"/day/{day}")
        cpu, started = cpu_seconds(), time.monotonic()
        reported = watcher.look()
        told.cpu += cpu_seconds() - cpu
        told.runs.append(time.monotonic() - started)
        told.reports.append({told.urls[url] for url in reported if url in told.urls})
        print(
            f"{watcher.name}, day {day}: {len(reported)} reported, {told.runs[-1]:.0f} s", file=sys.stderr, flush=True
        )
    told.requests = int(fetch(port, "/requests")) - before
    return told


@contextmanager
def serving() -> Iterator[int]:
    """Serve the pages in a process of its own; yield its port. Its CPU is not counted while it runs."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.watched_web", str(port), str(PAGES), str(HOSTS)]
    with subprocess.Popen(command) as server:
        try:
            wait_for(port)
            yield port
        finally:
            server.terminate()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            fetch(port, "/requests")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server of pages did not start")


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
        body: bytes = response.read()
    return body.decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def change_settings(file: Path, given: dict[str, str]) -> None:
    lines = file.read_text()
    for name, value in given.items():
        lines, found = re.subn(rf"^(?:# )?{name} = .*$", f"{name} = {value}", lines, count=1, flags=re.MULTILINE)
        if not found:
            raise KeyError(name)
    file.write_text(lines)


if __name__ == "__main__":
    main()

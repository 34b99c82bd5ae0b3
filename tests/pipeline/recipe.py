"""The first recipe of the README, typed as it stands there with only the address replaced, day after day.

A library lets days pass for the commands; all that a person would not type is in the environment: where
the test's web is, that it may be asked without pauses, and who is told.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.faults import built
from tests.pipeline.watched_site import HOME, HOST, WatchedSite, text
from tests.receivers import MailServer, WebhookReceiver, free_port
from webmill.testing import HttpReply, TestWeb

README = Path(__file__).parents[2] / "README.md"
DAY = 86400
AGO = 60  # days before today that it begins: times of files are not set, and must not be before those of commands
PATIENCE = 300.0  # seconds for a run on a busy machine


def recipe() -> list[list[str]]:
    """The commands of the recipe, as lists of words."""
    block = re.search(r"\*\*Watch a set of sites\.\*\*.*?\n\n((?:    [^\n]*\n)+)", README.read_text(), re.DOTALL)
    assert block
    lines = [line.partition("#")[0].strip().replace("https://example.org/", HOME) for line in block[1].splitlines()]
    commands = [shlex.split(line) for line in lines if line]
    names = ("init", "run", "serve", "changes", "status")
    assert [words[:2] for words in commands] == [["webmill", name] for name in names]
    return commands


class Recipe:
    """A folder in which the recipe is typed. `day` is the day of the commands."""

    def __init__(self, folder: Path, web: TestWeb, hook: WebhookReceiver, mail: MailServer) -> None:
        self.folder, self.root = folder, folder / "news"
        self.init, self.run, self.serve, self.changes, self.status = recipe()
        self.port = free_port()
        self._clock = folder / "clock"
        self.killed_in = Counter[str]()  # stages that were under way when a run was killed
        address, port = web.resolve[HOST]
        rules = [{"to": hook.address, "secret": "key"}, {"to": "mailto:me@example.org"}]
        self._environment = {
            **os.environ,
            "LD_PRELOAD": str(built("wall_clock.c")),
            "WALL_CLOCK_FILE": str(self._clock),
            "WALL_CLOCK_BOOT": str(AGO * DAY),
            "WEBMILL_CRAWL_ALLOW_PRIVATE": "true",
            "WEBMILL_CRAWL_RESOLVE": f"{HOST}={address}:{port}",
            "WEBMILL_CRAWL_PROCESSES": "1",
            "WEBMILL_CRAWL_LANGUAGES": "false",
            "WEBMILL_INDEX_PARQUET": "false",
            "WEBMILL_EXTRACT_EXTRACTOR": "plain",
            "WEBMILL_CRAWL_DELAY": "0s",
            "WEBMILL_CRAWL_ADDRESS_DELAY": "0s",
            "WEBMILL_CRAWL_RETRY_WAIT": "0s",
            "WEBMILL_ALERTS_RULES": json.dumps(rules),
            "WEBMILL_ALERTS_ALLOW_PRIVATE": "true",
            "WEBMILL_ALERTS_MAIL_SERVER": mail.address,
            "WEBMILL_SERVE_PORT": str(self.port),
        }
        self.set_day(0)

    def set_day(self, day: int) -> None:
        self._clock.write_bytes(struct.pack("=q", (day - AGO) * DAY))

    def typed(self, words: list[str]) -> subprocess.Popen[str]:
        """Type a command; it has a process group of its own, to be killed as a whole."""
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, words: list[str]) -> None:
        process = self.typed(words)
        err = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0, err

    def run_to_its_end(self) -> list[str]:
        """Type `run` and let it come to where it waits for the next day; return what it said."""
        process = self.typed(self.run)
        lines = _read(process, until=lambda line: line.startswith("next run in"))
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, lines
        return lines

    def run_and_kill(self, *, after: float, line: str = "", event: threading.Event | None = None) -> None:
        """Type `run` and kill it, with all its processes: some seconds after it has begun, after it has said a line, or
        after something happened."""
        process, said, has_said = self.typed(self.run), list[str](), threading.Event()
        assert process.stderr
        reader = threading.Thread(target=_listen, args=(process.stderr, said, line, has_said), daemon=True)
        reader.start()
        if line:
            _wait_for(has_said, process)
        if event:
            _wait_for(event, process)
        time.sleep(after)
        is_running = process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
        reader.join(PATIENCE)
        process.stderr.close()
        if is_running:
            self.killed_in[stage_of(said)] += 1

    @property
    def kills(self) -> int:
        """Return how many runs were killed in a stage: before and after the stages there is nothing to lose."""
        return self.killed_in.total() - self.killed_in["between"]

    @contextmanager
    def served(self) -> Iterator[str]:
        """Type `serve`; yield its address."""
        process = self.typed(self.serve)
        try:
            lines = _read(process, until=lambda line: line.startswith("serving"))
            assert lines, "it serves"
            yield f"http://127.0.0.1:{self.port}"
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=PATIENCE)


def _read(process: subprocess.Popen[str], *, until: Callable[[str], bool]) -> list[str]:
    assert process.stderr
    lines = []
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if until(lines[-1]):
            break
    return lines


def _listen(stream: IO[str], said: list[str], wanted: str, has_said: threading.Event) -> None:
    for line in stream:
        said.append(line)
        if wanted and line.startswith((wanted, "next run in")):  # what would be the end of waiting for nothing
            has_said.set()


def stage_of(said: list[str]) -> str:
    """Return the stage that a run had begun and not done after these lines; "between" stages, before and after them."""
    begun = [found[1] for line in said if (found := re.match(r"(crawl|index|extract|publish|search|alert): ", line))]
    is_done = bool(begun) and any(line.startswith(f"{begun[-1]}: done") for line in said)
    return begun[-1] if begun and not is_done else "between"


def _wait_for(event: threading.Event, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not event.wait(0.005) and process.poll() is None and time.monotonic() < deadline:
        pass


class ChangingSite:
    """A site on which pages come, change, move and go each day, and what it did: `expected` as (kind, path, day)."""

    def __init__(self, days: int) -> None:
        self._days = days
        names = ["/always", *(f"/{kind}-{day}" for day in range(1, days + 1) for kind in ("goes", "moves"))]
        self.site = WatchedSite(*names)
        self.expected: set[tuple[str, str, int]] = set()

    def change(self, day: int) -> None:
        """Do what happens on a day: every page has other words, one is new, one has moved and one is gone."""
        site = self.site
        del site.pages[f"/goes-{day}"]
        del site.pages[f"/moves-{day}"]
        site.replies[f"/moves-{day}"] = HttpReply(status=301, headers=(("Location", f"/moved-{day}"),))
        for path in site.pages:
            site.pages[path] = text(words_of(path, day))
            self.expected.add(("changed", path, day))
        site.pages |= {path: text(words_of(path, day)) for path in (f"/new-{day}", f"/moved-{day}")}
        self.expected |= {
            ("added", f"/new-{day}", day),
            ("moved", f"/moves-{day}", day),
            ("removed", f"/goes-{day}", day),
        }


def words_of(path: str, day: int) -> str:
    return f"words of {path.strip('/')} on day {day}"


def told_of(change: dict[str, Any]) -> tuple[str, str, int]:
    """What a message or an entry of a feed tells, as `expected` has it."""
    path = change["url"].removeprefix(f"http://{HOST}")
    if change["kind"] in ("changed", "added"):
        found = re.search(r"on day (\d+)", change.get("added", ""))
        return change["kind"], path, int(found[1]) if found else 0
    return change["kind"], path, int(path.rpartition("-")[2])

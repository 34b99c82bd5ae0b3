"""Whole runs while the wall clock jumps: nothing is lost, nothing is done twice.

libfaketime sets the clock of whole runs. It is told to leave the monotonic clock alone, which no system sets.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.pipeline.watched_site import HOST, WatchedSite, watch
from tests.services.base import find, install
from webmill.testing import TestWeb

HOUR, DAY = 3600, 86400
JUMPS = [(-DAY, DAY), (HOUR, -HOUR), (DAY, -DAY), (-HOUR, HOUR)]  # from the start on, and in the middle
PAGES = 20
SOURCE = Path(__file__).parents[1] / "faults" / "wall_clock.c"
FAKETIME = "libfaketimeMT.so.1"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("cc")
    if not compiler or sys.platform != "linux":
        pytest.skip("the clock is set by a library that a C compiler makes, on Linux")
    made = tmp_path / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return made


class FakeTime:
    """The clock that programs with this `environment` see, by libfaketime."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self.environment = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds until a jump is seen
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        replacement = self._file.with_suffix(".new")
        replacement.write_text(f"{seconds:+d}\n")
        replacement.replace(self._file)


@pytest.fixture
def faketime(tmp_path: Path) -> FakeTime:
    if sys.platform != "linux" or not (find("faketime", ()) or install("faketime")):
        pytest.skip("libfaketime is not installed (Debian: apt-get install faketime)")
    library = next(path for path in Path("/usr/lib").glob(f"**/faketime/{FAKETIME}"))
    return FakeTime(library, tmp_path / "faketime")


def test_a_sleep_is_as_long_as_it_was_told_under_libfaketime(faketime: FakeTime) -> None:
    """That of Python is refused (EINVAL), as libfaketime takes its moment for one of the wall clock."""
    faketime.set(DAY)
    program = "import sys, time; began = time.monotonic(); from webmill.infra.waiting import sleep; sleep(0.2); "
    program += "print(time.time()); sys.exit(time.monotonic() - began < 0.2)"
    environment = {**os.environ, **faketime.environment}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert float(ended.stdout) > time.time() + DAY / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then"), [*JUMPS[:2], *(pytest.param(*jump, marks=pytest.mark.soak) for jump in JUMPS[2:])]
)
def test_a_whole_run_does_not_mind_a_clock_that_jumps(
    first: int, then: int, faketime: FakeTime, tmp_path: Path
) -> None:
    """The clock is wrong from the start, and is set while pages are fetched. A second run has nothing to do."""
    root = tmp_path / "news"
    faketime.set(first)
    root.mkdir()
    with TestWeb(hosts=0, sites={"www.one.test": Linked(PAGES)}) as web:
        address, port = web.resolve["www.one.test"]
        settings = {"allow_private": True, "delay": "50ms", "address_delay": "0s", "retry_wait": "1s"}
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines.append(f'resolve = ["www.one.test={address}:{port}"]')
        text = '[http]\ncontact = "me@example.org"\n[crawl]\nprocesses = 1\n' + "\n".join(lines) + "\n"
        (root / "webmill.toml").write_text(text)
        (root / "seeds.txt").write_text("http://www.one.test/\n")
        environment = {**os.environ, "WEBMILL_TRUST": str(root), **faketime.environment}
        command = [sys.executable, "-m", "webmill", "run", str(root)]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(web.log) < PAGES // 3 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        began = datetime.fromtimestamp(time.time() + first, UTC)
        faketime.set(then)
        err = process.communicate(timeout=120)[1]
        assert process.returncode == 0, err
        assert f"{PAGES + 1} pages" in err
        assert f"{PAGES + 1} documents" in err
        again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
        paths = [entry.path for entry in web.log.visits() if entry.path != "/robots.txt"]
    assert len(paths) == len(set(paths)) == PAGES + 1
    (segment,) = (root / "crawl-data" / "news" / "segments").iterdir()
    started = datetime.strptime(segment.name, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    assert abs(started - began) < timedelta(minutes=5), "it saw the other clock"


class FastClock:
    """Runs `webmill run` with a wall clock that is wrong by as much as it is told."""

    def __init__(self, root: Path, library: Path, file: Path) -> None:
        self.root, self._file = root, file
        self._environment = {
            **os.environ,
            "WEBMILL_TRUST": str(root),
            "LD_PRELOAD": str(library),
            "WALL_CLOCK_FILE": str(file),
        }
        file.write_bytes(struct.pack("=q", 0))

    def set(self, seconds: int) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", seconds))

    def run(self, site: WatchedSite, *, then: int) -> None:
        """A run in which the clock is set once a page was asked for."""
        command = [sys.executable, "-m", "webmill", "run", str(self.root)]
        asked = len(site.requests)
        process = subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(site.requests) <= asked and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.set(then)
        err = process.communicate(timeout=120)[1]
        assert process.returncode == 0, err
        time.sleep(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), JUMPS)
def test_a_watched_collection_does_not_mind_a_clock_that_jumps(
    first: int, then: int, library: Path, tmp_path: Path
) -> None:
    """Each run looks at every page once, and seldom at one that is gone, whatever the clock says."""
    root, site = tmp_path / "watched", WatchedSite("/a", "/b", "/c", "/d")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        clock = FastClock(root, library, tmp_path / "clock")
        clock.run(site, then=first)
        del site.pages["/c"]
        clock.run(site, then=then)
        assert [site.times(path) for path in ("/a", "/b", "/c", "/d")] == [2, 2, 2, 2]
        clock.run(site, then=first)
        assert [site.times(path) for path in ("/a", "/b", "/c", "/d")] == [3, 3, 3, 3]
        clock.run(site, then=0)
        assert [site.times(path) for path in ("/a", "/b", "/d")] == [4, 4, 4]
        assert site.times("/c") in (3, 4), "twice as late each time: two intervals of a second, if the run was as short"

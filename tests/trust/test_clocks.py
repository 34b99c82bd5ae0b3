"""Whole runs while the wall clock jumps: nothing is lost, nothing is done twice.

libfaketime is not used: where it leaves the monotonic clock alone, its `clock_nanosleep` refuses every `time.sleep` of
Python 3.11 with "Invalid argument", and where it does not, that clock jumps too, which no system does.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.pipeline.watched_site import HOST, WatchedSite, watch
from webmill.testing import TestWeb

HOUR, DAY = 3600, 86400
JUMPS = [(-DAY, DAY), (HOUR, -HOUR), (DAY, -DAY), (-HOUR, HOUR)]  # from the start on, and in the middle
PAGES = 30
SOURCE = Path(__file__).parents[1] / "faults" / "wall_clock.c"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("cc")
    if not compiler or sys.platform != "linux":
        pytest.skip("the clock is set by a library that a C compiler makes, on Linux")
    made = tmp_path / "wall_clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", made, SOURCE, "-ldl"], check=True)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), JUMPS)
def test_a_whole_run_does_not_mind_a_clock_that_jumps(first: int, then: int, library: Path, tmp_path: Path) -> None:
    """The clock is wrong from the start, and is set while pages are fetched. A second run has nothing to do."""
    root, clock = tmp_path / "news", tmp_path / "clock"
    clock.write_bytes(struct.pack("=q", first))
    root.mkdir()
    with TestWeb(hosts=0, sites={"www.one.test": Linked(PAGES)}) as web:
        address, port = web.resolve["www.one.test"]
        settings = {"allow_private": True, "delay": "50ms", "address_delay": "0s", "retry_wait": "1s"}
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        lines.append(f'resolve = ["www.one.test={address}:{port}"]')
        text = '[http]\ncontact = "me@example.org"\n[crawl]\nprocesses = 1\n' + "\n".join(lines) + "\n"
        (root / "webmill.toml").write_text(text)
        (root / "seeds.txt").write_text("http://www.one.test/\n")
        environment = {
            **os.environ,
            "WEBMILL_TRUST": str(root),
            "LD_PRELOAD": str(library),
            "WALL_CLOCK_FILE": str(clock),
        }
        command = [sys.executable, "-m", "webmill", "run", str(root)]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while len(web.log) < PAGES // 3 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with clock.open("r+b") as file:
            file.write(struct.pack("=q", then))
        err = process.communicate(timeout=120)[1]
        assert process.returncode == 0, err
        assert f"{PAGES + 1} pages" in err
        assert f"{PAGES + 1} documents" in err
        again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert again.returncode == 0, again.stderr
        paths = [entry.path for entry in web.log.visits() if entry.path != "/robots.txt"]
    assert len(paths) == len(set(paths)) == PAGES + 1


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

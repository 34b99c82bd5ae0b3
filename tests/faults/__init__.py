"""Programs that die at a chosen moment: before their Nth write, sync, rename, link or unlink.

    with Stage("webmill.cli.main", under=folder) as stage:
        whole = stage.warm_up("index", folder)          # whole.calls: what there is to die before
        dead = stage.run("index", folder, at=17)        # dead.killed, dead.calls[-1] is what it did not do any more

A stage is one process that has run the program once; each run is a fork of it, and need not import and build again
what the first one did.
Linux with a C compiler only.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, Self

import pytest

COMPILER = shutil.which("cc")
needs_killer = pytest.mark.skipif(
    sys.platform != "linux" or not COMPILER, reason="kills at a chosen call need Linux and cc"
)


class Ended(NamedTuple):
    code: int  # negative: the signal
    calls: list[str]  # "rename /path", in their order
    output: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


def killer() -> Path:
    return built("killer.c")


@functools.cache
def built(source: str) -> Path:
    """A library to be preloaded, compiled once per process."""
    folder, file = Path(tempfile.mkdtemp(prefix="webmill-faults-")), Path(__file__).with_name(source)
    library = folder / f"{file.stem}.so"
    command = [str(COMPILER), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(file), "-ldl"]
    subprocess.run(command, check=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return library


class Stage:
    """`module` has a `main()` that reads `sys.argv`; calls on files below `under` count."""

    def __init__(self, module: str, *, under: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="webmill-stage-"))
        self._under = under
        environment = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
        environment |= {"LD_PRELOAD": str(killer()), "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.stage", str(killer()), module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def warm_up(self, *arguments: str | Path) -> Ended:
        """In the process that will fork. It must not leave threads or open files."""
        return self._perform(arguments, at=0, fork=False)

    def run(self, *arguments: str | Path, at: int = 0) -> Ended:
        """`at` 0: to its end."""
        return self._perform(arguments, at=at, fork=True)

    def _perform(self, arguments: tuple[str | Path, ...], *, at: int, fork: bool) -> Ended:
        assert self._process.stdin
        assert self._process.stdout
        log, output = self._folder / "log", self._folder / "output"
        log.unlink(missing_ok=True)
        order = {"argv": [*map(str, arguments)], "at": at, "fork": fork, "under": str(self._under)}
        self._process.stdin.write(json.dumps({**order, "log": str(log), "output": str(output)}) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ended(code, log.read_text().splitlines() if log.exists() else [], output.read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
        shutil.rmtree(self._folder)

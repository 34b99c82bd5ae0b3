"""What a container's engine and systemd rely on: SIGTERM ends a command, also as the first process of a container."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

WEBMILL = [sys.executable, "-m", "webmill"]
FIRST = ["unshare", "--pid", "--fork", "--kill-child"]
PATIENCE = 120.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals are looked up in /proc")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def catches(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def child_of(pid: int) -> int:
    """unshare stays outside of the namespace; what it started is the first process inside."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_for(lambda: children.read_text().split())
    return int(children.read_text().split()[0])


@pytest.fixture
def first() -> None:
    if os.geteuid() or not shutil.which("unshare") or subprocess.run([*FIRST, "true"], check=False).returncode:
        pytest.skip("needs the right to make a PID namespace")


def ended(process: subprocess.Popen[str], pid: int) -> tuple[int, str]:
    wait_for(lambda: catches(pid, signal.SIGTERM))
    os.kill(pid, signal.SIGTERM)
    printed = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, printed


def test_sigterm_ends_a_command_that_knows_nothing_of_it_as_ctrl_c_does() -> None:
    with subprocess.Popen(
        [*WEBMILL, "surt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: catches(process.pid, signal.SIGTERM))
        process.send_signal(signal.SIGTERM)
        assert process.stderr
        assert process.wait(PATIENCE) == 130
        printed = process.stderr.read()
    assert "interrupted" in printed
    assert "Traceback" not in printed


@pytest.mark.usefixtures("first")
def test_as_the_first_process_it_ends_on_sigterm_too() -> None:
    command = [*FIRST, *WEBMILL, "surt"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        pid = child_of(process.pid)
        wait_for(lambda: catches(pid, signal.SIGTERM))
        os.kill(pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 130


@pytest.mark.slow
@pytest.mark.usefixtures("first")
def test_a_server_that_is_the_first_process_answers_and_ends_well(tmp_path: Path) -> None:
    command = [*FIRST, *WEBMILL, "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        while not (line := process.stderr.readline()).startswith("serving "):
            assert process.poll() is None
        address = line.partition(" at ")[2].split()[0]
        with urllib.request.urlopen(f"{address}healthz", timeout=PATIENCE) as answer:
            assert answer.status == 200
        code, printed = ended(process, child_of(process.pid))
    assert (code, printed.strip()) == (0, "stopped")


@pytest.mark.slow
@pytest.mark.usefixtures("first")
def test_runs_on_a_schedule_that_are_the_first_process_end_at_once_between_two_runs(tmp_path: Path) -> None:
    command = [*FIRST, *WEBMILL, "run", str(tmp_path), "--every", "1d"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        while "next run" not in process.stderr.readline():
            assert process.poll() is None
        assert ended(process, child_of(process.pid))[0] == 130


def test_numbers_are_served_where_the_settings_say(tmp_path: Path) -> None:
    """In a container loopback is out of reach for a Prometheus beside it."""
    command = [*WEBMILL, "publish", "work", str(tmp_path), "--contact", "me@example.org", "--metrics-port", "0"]
    run = subprocess.run(
        [*command, "--until-empty"],
        env=os.environ | {"WEBMILL_METRICS_HOST": "127.0.0.2"},
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "metrics: http://127.0.0.2:" in run.stderr

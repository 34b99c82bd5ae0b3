from __future__ import annotations

import os
import signal
import subprocess
import sys

from webmill.infra import interrupts

CHILD = """
import os, sys
print("up", flush=True)
sys.stdin.readline()  # here Ctrl-C would be a KeyboardInterrupt
from webmill.infra import interrupts
interrupts.ignore()
print("ignores", flush=True)
sys.stdin.readline()
"""


def test_a_child_does_not_hear_what_comes_before_it_could_ignore_it() -> None:
    with interrupts.held_back():
        child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        child.send_signal(signal.SIGINT)
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"ignores\n"
        child.send_signal(signal.SIGINT)
        child.communicate(b"\n", timeout=60)
    assert child.returncode == 0


def test_the_parent_hears_what_comes_while_a_child_is_started() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with interrupts.held_back():
            os.kill(os.getpid(), signal.SIGINT)
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)

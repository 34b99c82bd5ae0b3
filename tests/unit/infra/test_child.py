"""The process below sandboxes and pools: how it starts, what it is told, how it ends."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.matrix import record
from tests.faults.pauses import pause, paused
from tests.unit.infra.processes import nothing_left_behind, wait_until_gone

from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.child import PICKLED, Child, ChildJob, ChildLimits, Death, Raised, Ready, Returned, pack_call
from webmill.infra.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


FREE = ChildLimits()


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    with nothing_left_behind():
        yield


def started(function: Callable[..., object], limits: ChildLimits = FREE) -> Child:
    child = Child(ChildJob(pickle.dumps(function), limits), PICKLED)
    assert isinstance(child.receive(), Ready)
    return child


def echo(*values: object, **named: object) -> object:
    return values, named


def refuse(source: str) -> None:
    raise BadInput("torn", reason="torn_member", source=source, offset=7)


class Stubborn(BadInput):
    """An error of our tree that cannot be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("no")


def refuse_stubbornly() -> None:
    raise Stubborn("torn", reason="torn_member")


def give_lock() -> object:
    return threading.Lock()


def leave_politely() -> None:
    sys.exit(4)


def signals() -> tuple[int, bool, int]:
    return os.getpid(), signal.getsignal(signal.SIGINT) == signal.SIG_IGN, os.getpgrp()


def print_line(words: str) -> None:
    print(words)
    sys.stdout.flush()
    os.write(2, words.encode())


def open_files() -> list[str]:
    names = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(link.readlink()))
        except FileNotFoundError:  # the listing's own
            pass
    return names


def fork_and_return() -> int:
    os.fork()
    return os.getpid()


KEPT: list[object] = []


def start_sandbox() -> int | None:
    box = Sandbox("tests.unit.infra.hostile:parse", returns=object)
    box.call(b"")
    KEPT.append(box)
    return box.pid


def test_values_pass_both_ways_at_any_size() -> None:
    child = started(echo)
    for size in (0, 1, 65536, 65537, 5 << 20):
        child.send(pack_call(b"x" * size, named=size))
        assert child.receive() == Returned(((b"x" * size,), {"named": size}))
    child.close()


def test_errors_of_our_tree_come_back_as_they_were() -> None:
    child = started(refuse)
    child.send(pack_call("a.warc.gz"))
    answer = child.receive()
    assert isinstance(answer, Raised)
    assert isinstance(answer.error, BadInput)
    assert (answer.error.reason, answer.error.source, answer.error.offset) == ("torn_member", "a.warc.gz", 7)
    assert "in refuse" in answer.trace
    child.close()


@pytest.mark.parametrize(
    ("function", "kind"), [(refuse_stubbornly, "Stubborn"), (give_lock, "TypeError"), (leave_politely, "SystemExit")]
)
def test_what_cannot_travel_comes_back_as_words(function: Callable[[], object], kind: str) -> None:
    child = started(function)
    for _ in range(2):  # and the child is still there
        child.send(pack_call())
        answer = child.receive()
        assert isinstance(answer, Raised)
        assert (answer.kind, answer.error) == (kind, None)
    child.close()


def test_a_function_of_the_main_module_is_refused_with_the_repair() -> None:
    child = Child(ChildJob(b"c__main__\nno_such_function\n.", ChildLimits()), PICKLED)
    with pytest.raises(Misconfigured, match="must be importable"):
        child.receive()


def test_a_child_has_its_own_group_and_ignores_an_interrupt() -> None:
    child = started(signals)
    os.kill(child.pid, signal.SIGINT)
    child.send(pack_call())
    assert child.receive() == Returned((child.pid, True, child.pid))
    child.close()


def test_a_child_inherits_no_file_but_its_own(tmp_path: Path) -> None:
    secret = (tmp_path / "secret").open("w")
    os.set_inheritable(secret.fileno(), True)
    child = started(open_files)
    child.send(pack_call())
    answer = child.receive()
    assert isinstance(answer, Returned)
    assert str(tmp_path / "secret") not in answer.value  # type: ignore[operator]
    child.close()
    secret.close()


def test_the_recent_output_is_that_of_the_last_call_and_holds_no_control_characters() -> None:
    child = started(print_line)
    for words in ("first", "\x1b[31mred\nline"):
        child.send(pack_call(words))
        assert child.receive() == Returned(None)
    assert child.recent_output() == "?[31mred | line | ?[31mred | line"
    child.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_the_signal_that_killed_a_child_is_named(number: signal.Signals) -> None:
    child = started(time.sleep)
    child.send(pack_call(3600))
    os.kill(child.pid, number)
    answer = child.receive()
    assert isinstance(answer, Death)
    assert f"signal {number.value} ({number.name}" in answer.reason


def test_a_copy_of_the_child_that_a_task_forked_does_not_answer() -> None:
    child = started(fork_and_return)
    for _ in range(3):
        child.send(pack_call())
        assert child.receive() == Returned(child.pid)
    child.kill()


def test_items_that_cannot_be_pickled_are_refused_before_anything_is_sent() -> None:
    child = started(echo)
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError)):
        child.send(pack_call(lambda: None))
    child.send(pack_call(1))
    assert child.receive() == Returned(((1,), {}))
    child.close()


def test_a_child_stopped_in_the_middle_is_killed_at_its_deadline() -> None:
    child = started(echo, ChildLimits(wall=1))
    os.kill(child.pid, signal.SIGSTOP)
    child.send(pack_call(b"x" * (4 << 20)))  # more than the pipe holds: the writing, too, has to end
    answer = child.receive()
    assert isinstance(answer, Death)
    assert "more than 1 s" in answer.reason
    assert answer.over_limit


CALLER = """
import pickle, time
from tests.unit.infra import test_child
from webmill.infra.child import *
child = Child(ChildJob(pickle.dumps(test_child.work), ChildLimits(wall=3)), PICKLED)
child.receive()
child.send(pack_call())
print(child.pid, flush=True)
print(child.receive(), flush=True)
"""


def work() -> None:
    """Take a second, however busy the machine is."""
    time.sleep(1.0)


@pytest.mark.crash
def test_the_time_for_which_both_were_stopped_is_not_counted() -> None:
    """As a container is that somebody pauses: the page that was being parsed is not to blame."""
    with subprocess.Popen([sys.executable, "-c", CALLER], stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout
        child = int(caller.stdout.readline())
        with paused(child, caller.pid):
            time.sleep(4.0)  # longer than the limit
        answer = caller.stdout.read()
    lost = int(not answer.startswith("Returned"))
    record("sandbox", "caller and child paused past the limit", injected=1, acknowledged=1, lost=lost)
    assert not lost, answer


@pytest.mark.crash
def test_a_child_that_alone_is_stopped_past_its_limit_is_seen_as_lost() -> None:
    """The negative control, and what the limit is for."""
    child = started(echo, ChildLimits(wall=1))
    pause(child.pid)
    child.send(pack_call(1))
    answer = child.receive()
    lost = int(isinstance(answer, Death))
    record("sandbox", "child paused past the limit", injected=1, acknowledged=1, lost=lost, control=True)
    assert lost


PARENT = """
import os, pickle, sys, time
from tests.unit.infra import hostile, test_child
from webmill.infra.child import *
busy = Child(ChildJob(pickle.dumps(hostile.loop_in_c), ChildLimits()), PICKLED)
idle = Child(ChildJob(pickle.dumps(test_child.start_sandbox), ChildLimits()), PICKLED)
for child in (busy, idle):
    child.receive()
    child.send(pack_call())
print(busy.pid, idle.pid, idle.receive().value, flush=True)
time.sleep(3600)
"""


def test_children_and_grandchildren_die_with_a_killed_parent() -> None:
    """One is deep in C code and will not look at anything; one is idle and has a sandbox of its own."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3
    for pid in pids:
        os.kill(pid, 0)  # they did live
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for pid in pids:
        wait_until_gone(pid)


def test_a_child_lives_through_interrupted_system_calls() -> None:
    """O05: signals with handlers interrupt the parent's reads and writes again and again."""
    hits = []
    before = signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    child = started(echo)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(20):
            child.send(pack_call(b"x" * (2 << 20)))
            assert child.receive() == Returned(((b"x" * (2 << 20),), {}))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    child.close()
    assert hits


def test_starting_without_a_file_descriptor_left_leaks_nothing() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    try:
        for spare in range(1, 8):
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, hard))
            with pytest.raises(Unavailable, match=os.strerror(errno.EMFILE)):
                Child(ChildJob(pickle.dumps(echo), ChildLimits()), PICKLED)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

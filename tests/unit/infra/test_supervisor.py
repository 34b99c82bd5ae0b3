from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection

import pytest
from tests.unit.infra.processes import exists, nothing_left_behind

from webmill.infra import interrupts
from webmill.infra.child import PICKLED, Child, ChildJob, ChildLimits, Death, pack_call
from webmill.infra.supervisor import ProcessGroup, RestartPolicy, Restarts, SpawnedProcess

PATIENCE = 100.0


def echo(prefix: str, parent: Connection) -> None:
    """Answer every message until the parent hangs up."""
    interrupts.ignore()
    parent.send(("ready", os.getpid()))
    try:
        while True:
            parent.send((prefix, parent.recv()))
    except EOFError:
        pass


def speak_and_die(parent: Connection) -> None:
    for number in range(100):
        parent.send(number)
    os.kill(os.getpid(), signal.SIGKILL)


def close_the_pipe_and_stay(parent: Connection) -> None:
    parent.send("last")
    parent.close()
    time.sleep(PATIENCE)


def refuse_to_end(parent: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    parent.send("ready")
    time.sleep(PATIENCE)


def leave_the_pipe_to_another(parent: Connection) -> None:
    """A process that died while what it forked holds its pipe: no hang-up tells of it."""
    if other := os.fork():
        parent.send(other)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(PATIENCE)


@pytest.fixture
def group() -> Iterator[ProcessGroup[SpawnedProcess]]:
    with nothing_left_behind(), closing(ProcessGroup[SpawnedProcess]()) as group:
        yield group


@pytest.fixture(autouse=True, scope="module")
def tracker() -> None:
    """Multiprocessing starts a process of its own with the first spawned one, and keeps it."""
    process = SpawnedProcess("first", speak_and_die)
    process.reap(PATIENCE)


def messages_until(group: ProcessGroup[SpawnedProcess], is_enough: Callable[[list[object]], bool]) -> list[object]:
    end, messages = time.monotonic() + PATIENCE, []
    while not is_enough(messages):
        assert time.monotonic() < end, messages
        for process in group.wait(0.1):
            messages += process.receive()
    return messages


def wait_for_end(group: ProcessGroup[SpawnedProcess], process: SpawnedProcess) -> list[object]:
    return messages_until(group, lambda _: process.has_ended)


def test_processes_and_their_parent_send_messages_both_ways(group: ProcessGroup[SpawnedProcess]) -> None:
    processes = [group.add(SpawnedProcess(f"echo-{name}", echo, name)) for name in "ab"]
    for process in processes:
        process.send("hello")
    messages = messages_until(group, lambda messages: len(messages) == 4)
    assert set(messages) == {("ready", process.pid) for process in processes} | {("a", "hello"), ("b", "hello")}
    group.stop(PATIENCE)
    assert [process.exit_code for process in processes] == [0, 0]
    assert len(group) == 0


def test_a_killed_process_is_reported_and_another_takes_its_place(group: ProcessGroup[SpawnedProcess]) -> None:
    first, other = (group.add(SpawnedProcess(name, echo, name)) for name in ("first", "other"))
    messages_until(group, lambda messages: len(messages) == 2)
    assert first.pid
    os.kill(first.pid, signal.SIGKILL)
    wait_for_end(group, first)
    group.reap(first)
    assert first.exit_code == -signal.SIGKILL
    assert not other.has_ended
    second = group.add(SpawnedProcess("first", echo, "first"))
    assert messages_until(group, bool) == [("ready", second.pid)]
    assert list(group) == [other, second]


def test_all_that_a_process_said_is_received_before_its_end_is_told(group: ProcessGroup[SpawnedProcess]) -> None:
    process = group.add(SpawnedProcess("short", speak_and_die))
    while process.is_alive():
        time.sleep(0.01)
    assert not process.has_ended
    assert process.receive() == list(range(100))
    assert process.has_ended


def test_a_process_that_hangs_up_has_ended_and_is_killed_when_its_grace_is_over(
    group: ProcessGroup[SpawnedProcess], caplog: pytest.LogCaptureFixture
) -> None:
    process = group.add(SpawnedProcess("mute", close_the_pipe_and_stay))
    assert wait_for_end(group, process) == ["last"]
    assert process.is_alive()
    group.reap(process, 0.01)
    assert process.exit_code == -signal.SIGKILL
    assert "killed a process that did not end in time" in caplog.text


def test_a_death_is_seen_though_another_process_holds_the_pipe(group: ProcessGroup[SpawnedProcess]) -> None:
    process = group.add(SpawnedProcess("forked", leave_the_pipe_to_another))
    [other] = wait_for_end(group, process)
    assert isinstance(other, int)
    assert exists(other)
    os.kill(other, signal.SIGKILL)


def test_stop_kills_who_does_not_end_by_himself(group: ProcessGroup[SpawnedProcess]) -> None:
    stubborn = group.add(SpawnedProcess("stubborn", refuse_to_end))
    obedient = group.add(SpawnedProcess("obedient", echo, "x"))
    messages_until(group, lambda messages: len(messages) == 2)
    group.stop(3.0)
    assert (stubborn.exit_code, obedient.exit_code) == (-signal.SIGKILL, 0)


def test_a_message_to_a_dead_process_is_dropped(group: ProcessGroup[SpawnedProcess]) -> None:
    process = group.add(SpawnedProcess("dead", echo, "x"))
    messages_until(group, bool)
    process.kill()
    wait_for_end(group, process)
    process.send("hello")
    group.reap(process)
    process.send("hello")
    process.kill()
    assert process.receive() == []
    assert process.has_ended


def test_a_waker_ends_the_wait(group: ProcessGroup[SpawnedProcess]) -> None:
    group.add(SpawnedProcess("busy", refuse_to_end))
    messages_until(group, bool)
    ours, theirs = os.pipe()
    try:
        os.write(theirs, b"!")
        began = time.monotonic()
        assert group.wait(PATIENCE, ours) == []
        assert time.monotonic() - began < PATIENCE
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_process_that_cannot_be_started_leaves_no_pipe_behind() -> None:
    with nothing_left_behind(), pytest.raises(AttributeError):
        SpawnedProcess("unpicklable", lambda parent: None)


def test_a_group_watches_children_and_reports_their_deadlines() -> None:
    """The other kind of process: `infra.child`."""
    with nothing_left_behind(), closing(ProcessGroup[Child]()) as group:
        job = ChildJob(pickle.dumps(time.sleep), ChildLimits(wall=0.1))
        child = group.add(Child(job, PICKLED))
        child.send(pack_call(PATIENCE))
        answer = None
        while not isinstance(answer, Death):
            for ready in group.wait(PATIENCE):
                assert ready is child
                answer = ready.receive()
        assert answer.over_limit
        group.reap(child)


POLICY = RestartPolicy(max_deaths=2, first_pause=1.0, longest_pause=3.0, stable_after=30.0)


def test_pauses_double_with_every_death_in_a_row_up_to_the_longest() -> None:
    now = [0.0]
    restarts = Restarts(POLICY, clock=lambda: now[0])
    for pause in (1.0, 2.0, 3.0, *[3.0] * 2000):
        restarts.on_exit(lived=0.5)
        assert not restarts.are_due
        now[0] += pause
        assert restarts.are_due


def test_restarts_are_exhausted_by_deaths_in_a_row_only() -> None:
    restarts = Restarts(POLICY)
    for _ in range(10):
        restarts.on_exit(lived=1.0)
        restarts.on_exit(lived=1.0)
        assert not restarts.are_exhausted
        restarts.mark_healthy()
    for _ in range(3):
        restarts.on_exit(lived=1.0)
    assert restarts.are_exhausted


def test_what_lived_long_is_started_again_at_once() -> None:
    restarts = Restarts(POLICY, clock=lambda: 5.0)
    restarts.on_exit(lived=31.0)
    assert restarts.are_due


def test_without_pauses_the_next_may_start_at_once() -> None:
    restarts = Restarts(RestartPolicy(max_deaths=5))
    restarts.on_exit(lived=0.0)
    assert restarts.are_due

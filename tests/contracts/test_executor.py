"""What `infra/executor/base.py` promises, over every backend."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts import executor_tasks as tasks
from tests.services.ray_cluster import FAULTY, RayCluster
from tests.unit.infra.processes import exists, nothing_left_behind, wait_until_gone
from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra.child import ChildLimits
from webmill.infra.executor.base import PAUSE, Executor, Pause, TaskDone, TaskFailed
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.executor.ray import RayExecutor

RAY = pytest.param("ray", marks=[pytest.mark.server("ray"), FAULTY])


def make(name: str, request: pytest.FixtureRequest) -> Executor:
    if name == "ray":
        return request.getfixturevalue("ray_executor")  # type: ignore[no-any-return]
    return InlineExecutor() if name == "inline" else PoolExecutor(workers=2)


@pytest.fixture(params=["inline", "pool", RAY])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    made = make(request.param, request)
    if request.param == "ray":
        yield made
    else:
        with nothing_left_behind():
            yield made


@pytest.fixture(params=["pool", RAY])
def processes(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """The executors whose workers may die."""
    made = make(request.param, request)
    if request.param == "ray":
        yield made
    else:
        with nothing_left_behind():
            yield made


def by_index(outcomes: Iterator[object]) -> list[object]:
    return sorted(outcomes, key=lambda outcome: outcome.index)  # type: ignore[attr-defined]


def test_every_item_has_one_outcome_with_its_place(executor: Executor) -> None:
    outcomes = by_index(executor.run(tasks.square, range(50)))
    assert outcomes == [TaskDone(number, number, number * number) for number in range(50)]


def test_no_items_give_no_outcomes(executor: Executor) -> None:
    assert list(executor.run(tasks.square, [])) == []


def test_an_item_may_be_none(executor: Executor) -> None:
    assert [type(outcome) for outcome in executor.run(tasks.where, [None, None])] == [TaskDone, TaskDone]


def test_settings_are_bound_with_partial(executor: Executor) -> None:
    outcomes = executor.run(functools.partial(tasks.scale, by=3), [1, 2])
    assert {outcome.value for outcome in outcomes if isinstance(outcome, TaskDone)} == {3, 6}


def test_large_values_pass(executor: Executor) -> None:
    (outcome,) = executor.run(tasks.fill, [5 << 20])
    assert isinstance(outcome, TaskDone)
    assert len(outcome.value) == 5 << 20


def test_failures_stop_nobody_and_keep_their_type(executor: Executor) -> None:
    outcomes = by_index(executor.run(tasks.fail_on_odd, range(10)))
    assert [type(outcome) for outcome in outcomes] == [TaskDone, TaskFailed] * 5
    failed = outcomes[3]
    assert isinstance(failed, TaskFailed)
    assert isinstance(failed.error, BadInput)
    assert (failed.error.reason, failed.error.offset, failed.attempts) == ("odd", 3, 1)
    assert "in fail_on_odd" in failed.trace


def test_every_kind_of_exception_is_an_outcome(executor: Executor) -> None:
    outcomes = by_index(executor.run(tasks.raise_by_name, ["unavailable", "bug", "exit", "fine"]))
    unavailable, bug, left, fine = outcomes
    assert isinstance(unavailable, TaskFailed)
    assert isinstance(unavailable.error, Unavailable)
    assert unavailable.error.retry_after == 3.0
    assert isinstance(bug, TaskFailed)
    assert (bug.reason, bug.error) == ("KeyError: 'bug'", None)
    assert isinstance(left, TaskFailed)
    assert left.reason == "SystemExit: 3"
    assert fine == TaskDone(3, "fine", "fine")


def test_misconfigured_stops_everything(executor: Executor) -> None:
    endless = iter(lambda: "misconfigured", None)
    with pytest.raises(Misconfigured, match="set the key"):
        list(executor.run(tasks.raise_by_name, endless))


def test_items_are_read_only_as_far_as_there_are_workers(executor: Executor) -> None:
    """Memory is bounded by the workers, also over an endless source and a slow reader."""
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    with closing(executor.run(tasks.square, endless())) as outcomes:
        for seen, _ in enumerate(outcomes, start=1):
            assert taken - seen <= 2
            if seen == 200:
                break


def test_a_source_that_pauses_is_asked_again_until_it_ends(executor: Executor) -> None:
    """Also at the beginning, at the end, and while nothing runs; a pause is no item."""
    source: list[int | Pause] = [PAUSE, 1, PAUSE, PAUSE, 2, 3, PAUSE]
    outcomes = by_index(executor.run(tasks.square, source))
    assert outcomes == [TaskDone(0, 1, 1), TaskDone(1, 2, 4), TaskDone(2, 3, 9)]


def test_while_a_source_pauses_what_is_done_is_handed_out(executor: Executor) -> None:
    """So a source may wait for what becomes of its own items."""
    seen: list[int] = []

    def one_after_the_other() -> Iterator[int | Pause]:
        for number in range(3):
            yield number
            while len(seen) <= number:
                yield PAUSE

    for outcome in executor.run(tasks.square, one_after_the_other()):
        seen.append(outcome.index)  # noqa: PERF401 - the source looks at it meanwhile
    assert seen == [0, 1, 2]


def test_what_a_dead_worker_held_is_tried_again_though_the_source_pauses(processes: Executor, tmp_path: Path) -> None:
    path, seen = tmp_path / "starts", list[object]()

    def source() -> Iterator[str | Pause]:
        yield str(path)
        while not seen:
            yield PAUSE

    for outcome in processes.run(tasks.die_at_first, source()):
        seen.append(outcome)
    assert seen == [TaskDone(0, str(path), 3)]


def test_a_run_is_closed_while_its_source_pauses(executor: Executor) -> None:
    def source() -> Iterator[int | Pause]:
        yield 1
        while True:
            yield PAUSE

    with closing(executor.run(tasks.square, source())) as outcomes:
        assert next(outcomes) == TaskDone(0, 1, 1)


def test_an_error_of_the_source_reaches_the_caller(executor: Executor) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise NotADirectoryError

    with pytest.raises(NotADirectoryError):
        list(executor.run(tasks.square, source()))


@pytest.mark.parametrize("how", ["segfault", "kill", "exit"])
def test_a_worker_that_dies_costs_only_its_item(processes: Executor, how: str) -> None:
    outcomes = by_index(processes.run(tasks.die, ["a", "b", how, "c", "d"], attempts=2))
    assert [type(outcome) for outcome in outcomes] == [TaskDone, TaskDone, TaskFailed, TaskDone, TaskDone]
    failed = outcomes[2]
    assert isinstance(failed, TaskFailed)
    assert failed.attempts == 2
    assert failed.item == how
    assert "the worker" in failed.reason
    if isinstance(processes, PoolExecutor):
        assert {"segfault": "signal 11", "kill": "signal 9", "exit": "status 5"}[how] in failed.reason


def test_a_lost_item_is_tried_again_in_another_worker(processes: Executor, tmp_path: Path) -> None:
    (outcome,) = processes.run(tasks.die_at_first, [str(tmp_path / "starts")], attempts=3)
    assert isinstance(outcome, TaskDone)
    assert outcome.value == 3
    assert len(set((tmp_path / "starts").read_text().split())) == 3


def test_closing_stops_what_is_running(processes: Executor, tmp_path: Path) -> None:
    path = tmp_path / "pid"
    outcomes = processes.run(tasks.announce_and_sleep, items_then_wait_for(path))
    with pytest.raises(NotADirectoryError):
        next(outcomes)
    outcomes.close()
    wait_until_gone(int(path.read_text()))


def items_then_wait_for(path: Path) -> Iterator[str]:
    """Fails when the task of its first item surely runs: the run is left by an error with a task under way."""
    yield str(path)
    wait_for(path.exists)
    assert exists(int(path.read_text()))
    raise NotADirectoryError


def wait_for(condition: Callable[[], bool], *, patience: float = 60.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_result_that_cannot_travel_fails_alone(processes: Executor) -> None:
    outcomes = by_index(processes.run(tasks.give_lock_for_two, [1, 2, 3]))
    assert [type(outcome) for outcome in outcomes] == [TaskDone, TaskFailed, TaskDone]
    assert "lock" in outcomes[1].reason  # type: ignore[attr-defined]


def test_an_item_that_cannot_travel_fails_alone(processes: Executor) -> None:
    outcomes = by_index(processes.run(tasks.where, [1, threading.Lock(), 2]))
    assert [type(outcome) for outcome in outcomes] == [TaskDone, TaskFailed, TaskDone]
    assert "cannot be sent" in outcomes[1].reason  # type: ignore[attr-defined]


def test_functions_that_workers_cannot_find_are_a_misconfiguration(
    processes: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is there for us and gone for the workers, as on a node where it is not installed."""
    (tmp_path / "only_here.py").write_text("def task(item): return item\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    (tmp_path / "only_here.py").unlink()
    with pytest.raises(Misconfigured, match="only_here"):
        list(processes.run(only_here.task, [1]))


# --- the pool alone ------------------------------------------------------------------------------------------------


def test_a_pool_uses_each_of_its_children_and_no_more() -> None:
    with nothing_left_behind():
        outcomes = list(PoolExecutor(workers=2).run(tasks.where, range(200)))
    pids = {outcome.value for outcome in outcomes if isinstance(outcome, TaskDone)}
    assert len(pids) == 2
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("limits", "words"),
    [(ChildLimits(wall=1), "took more than 1 s"), (ChildLimits(cpu=1), "used more than 1 s of CPU")],
)
def test_a_task_over_its_limit_is_killed_and_not_tried_again(limits: ChildLimits, words: str) -> None:
    with nothing_left_behind():
        (outcome,) = PoolExecutor(workers=1, limits=limits).run(tasks.loop_in_c, [1], attempts=3)
    assert isinstance(outcome, TaskFailed)
    assert words in outcome.reason
    assert outcome.attempts == 1


def test_what_a_task_prints_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    list(PoolExecutor(workers=1).run(print, ["hello from a task"]))
    assert [record.words for record in caplog.records] == ["hello from a task"]  # type: ignore[attr-defined]


# --- Ray alone -----------------------------------------------------------------------------------------------------


@FAULTY
@pytest.mark.server("ray")
def test_a_ray_client_address_works_too(cluster: RayCluster, tmp_path: Path) -> None:
    """In a process of its own: Ray has one connection per process. The task is one that every node has installed.

    The server that Ray starts for each client sometimes dies at its start, and may not wait long for itself to start.
    That is Unavailable: so try again.
    """
    script = f"""
import math, time
from webmill.errors import Unavailable
from webmill.infra.executor.ray import RayExecutor
deadline = time.monotonic() + 200
while True:
    try:
        executor = RayExecutor({cluster.client!r})
        break
    except Unavailable:
        if time.monotonic() > deadline:
            raise
print(sorted(outcome.value for outcome in executor.run(math.factorial, range(5))))
executor.close()
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout == "[1, 1, 2, 6, 24]\n"


@FAULTY
@pytest.mark.server("ray")
def test_a_lost_node_costs_a_retry_elsewhere(cluster: RayCluster, ray_executor: RayExecutor, tmp_path: Path) -> None:
    """Last of the Ray tests: it kills one of the two nodes."""
    paths = [tmp_path / "a", tmp_path / "b"]

    def kill_node_when_both_run() -> None:
        """All of it, as when a machine loses power: without its raylet alone, a worker goes on with its task."""
        wait_for(lambda: all(path.exists() and path.read_text().endswith("\n") for path in paths))
        for node, worker in (path.read_text().split() for path in paths):
            if int(node) == cluster.second_node:
                os.kill(cluster.second_node, signal.SIGKILL)
                os.kill(int(worker), signal.SIGKILL)
        (tmp_path / "go").touch()

    killer = threading.Thread(target=kill_node_when_both_run, daemon=True)
    killer.start()
    # The surviving node has one CPU, which the surviving task holds: it ends first, then the other is tried again.
    outcomes = list(ray_executor.run(tasks.wait_on_node, map(str, paths)))
    killer.join()
    assert {type(outcome) for outcome in outcomes} == {TaskDone}
    once, twice = sorted((path.read_text().splitlines() for path in paths), key=len)
    assert (len(once), len(twice)) == (1, 2)
    assert twice[0].startswith(f"{cluster.second_node} ")


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Misconfigured, match=r"pip install 'webmill\[ray\]'"):
        RayExecutor("ray:auto")


@FAULTY
@pytest.mark.server("ray")
def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    """In a process of its own, which never connects."""
    script = """
from webmill.errors import WebmillError
from webmill.infra.executor.ray import RayExecutor
for url in ("ray://127.0.0.1:1", "ray:127.0.0.1:1", "ray:nonsense"):
    try:
        RayExecutor(url)
    except WebmillError as error:
        print(type(error).__name__)
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout.split() == ["Unavailable", "Unavailable", "Misconfigured"]


@FAULTY
@pytest.mark.server("ray")
def test_a_token_that_is_missing_is_explained(tmp_path: Path) -> None:
    """In a process of its own: Ray reads its environment once. It looks for the token before it connects."""
    script = """
import socket
from webmill.errors import Misconfigured
from webmill.infra.executor.ray import RayExecutor
with socket.create_server(("127.0.0.1", 0)) as server:
    try:
        RayExecutor(f"ray:127.0.0.1:{server.getsockname()[1]}")
    except Misconfigured as error:
        print(error)
"""
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
    command = [sys.executable, "-W", "ignore", "-c", script]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "`ray get-auth-token` on the head node" in printed
    assert "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in printed

"""A parser that does the worst costs one BadInput with a reason, and the next page is parsed."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.unit.infra.hostile import Page
from tests.unit.infra.processes import nothing_left_behind, wait_until_gone

from webmill.errors import BadInput, Misconfigured
from webmill.infra.child import ChildLimits
from webmill.infra.sandbox import PARSER, Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HOSTILE = "tests.unit.infra.hostile"
TIGHT = PARSER._replace(cpu=20, wall=60, memory=256 << 20)


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    with nothing_left_behind():
        yield


def sandbox(limits: ChildLimits = TIGHT) -> Sandbox[Page]:
    return Sandbox(f"{HOSTILE}:parse", returns=Page, limits=limits)


def test_one_child_serves_many_calls() -> None:
    with sandbox() as box:
        pids = {box.call(b"page %d" % number).pid for number in range(100)}
        assert pids == {box.pid}
        assert os.getpid() not in pids


def test_large_pages_pass_whole() -> None:
    with sandbox() as box:
        assert box.call(b"x" * (8 << 20)).size == 8 << 20


@pytest.mark.parametrize(
    ("how", "limits", "reason", "words"),
    [
        ("segfault", TIGHT, "parse_crash", "signal 11 (SIGSEGV)"),
        ("abort", TIGHT, "parse_crash", "signal 6 (SIGABRT)"),
        ("leave", TIGHT, "parse_crash", "status 3"),
        ("hang_up", TIGHT, "parse_crash", "closed its pipe"),
        ("answer_garbage", TIGHT, "parse_crash", "cannot be decoded"),
        ("claim_ready", TIGHT, "parse_crash", "not due"),
        ("claim_unloadable", TIGHT, "parse_crash", "not due"),
        ("loop_in_c", TIGHT._replace(cpu=1), "parse_limit", "1 s of CPU"),
        ("sleep_for_ever", TIGHT._replace(wall=2), "parse_limit", "more than 2 s"),
        ("drip", TIGHT._replace(wall=2), "parse_limit", "more than 2 s"),
        ("announce_terabyte", TIGHT, "parse_limit", "1099511627776 bytes"),
        ("eat_memory", TIGHT, "parse_limit", "MemoryError"),
    ],
)
def test_a_child_that_fails_hard_is_replaced(how: str, limits: ChildLimits, reason: str, words: str) -> None:
    with sandbox(limits) as box:
        before = box.call(b"before").pid
        with pytest.raises(BadInput) as caught:
            box.call(b"bomb", how=how)
        assert caught.value.reason == reason
        assert words in str(caught.value)
        wait_until_gone(before)
        assert box.call(b"after").pid != before


@pytest.mark.parametrize(
    ("how", "reason", "words"),
    [
        ("refuse", "no_title", "no title"),
        ("bug", "parse_error", "KeyError"),
        ("blame_the_operator", "parse_error", "Misconfigured"),
        ("recurse", "parse_limit", "RecursionError"),
        ("fill_disk", "parse_error", "File too large"),
    ],
)
def test_a_child_that_raises_is_kept(how: str, reason: str, words: str) -> None:
    with sandbox() as box:
        before = box.call(b"before").pid
        with pytest.raises(BadInput, match=words) as caught:
            box.call(b"page", how=how)
        assert caught.value.reason == reason
        assert box.call(b"after").pid == before


def test_a_process_with_thousands_of_open_files_can_use_a_sandbox() -> None:
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with sandbox() as box:
            assert box.call(b"page").size == 4
    finally:
        for file in files:
            os.close(file)


def test_a_crash_leaves_its_last_output_and_its_python_stack() -> None:
    with sandbox() as box, pytest.raises(BadInput) as caught:
        box.call(b"", how="segfault")
    assert "about to crash" in str(caught.value)
    assert "in string_at" in str(caught.value)


def test_a_flood_of_output_neither_blocks_nor_grows() -> None:
    with sandbox() as box:
        before = box.call(b"before").pid
        for _ in range(3):
            assert box.call(b"page", how="flood_stderr").title == "page"
        assert box.pid == before


def test_a_result_over_the_limit_is_refused_and_the_child_kept() -> None:
    limits = TIGHT._replace(output=1000)
    with Sandbox(f"{HOSTILE}:parse_large", returns=str, limits=limits) as box:
        assert len(box.call(b"", size=900)) == 900
        before = box.pid
        with pytest.raises(BadInput, match="where 1000 are allowed") as caught:
            box.call(b"", size=5000)
        assert caught.value.reason == "parse_limit"
        assert box.pid == before


def test_a_forged_answer_is_never_run_as_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "owned"
    monkeypatch.setenv("WEBMILL_TEST_BOMB", str(target))
    with sandbox() as box, pytest.raises(BadInput) as caught:
        box.call(b"", how="send_pickle_bomb")
    assert caught.value.reason == "parse_crash"
    assert not target.exists()


def test_new_processes_are_refused() -> None:
    with sandbox() as box, pytest.raises(BadInput, match="BlockingIOError"):
        box.call(b"", how="fork_bomb")


def test_what_an_escaped_fork_leaves_dies_with_its_parent() -> None:
    """Where forking is allowed, the grandchild holds the pipe open after the crash: the death is seen all the same."""
    with sandbox(TIGHT._replace(may_fork=True)) as box:
        before = box.call(b"before").pid
        with pytest.raises(BadInput, match="signal 11"):
            box.call(b"", how="fork_and_stay")
        wait_until_empty(before)


def wait_until_empty(group: int, *, patience: float = 20.0) -> None:
    """They are killed; the kernel takes a moment to be done with them."""
    end = time.monotonic() + patience
    while not group_is_empty(group):
        assert time.monotonic() < end, f"group {group} still has members"
        time.sleep(0.01)


def group_is_empty(group: int) -> bool:
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            members.append(stat)
    return not members


def test_a_child_killed_while_idle_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with sandbox() as box, caplog.at_level(logging.WARNING):
        before = box.call(b"before").pid
        os.kill(before, signal.SIGKILL)
        wait_until_gone(before)
        assert box.call(b"after").pid != before
    assert "idle sandbox child died" in caplog.text


def test_a_child_is_recycled_after_its_calls() -> None:
    with Sandbox(f"{HOSTILE}:parse", returns=Page, recycle_calls=3) as box:
        pids = [box.call(b"").pid for _ in range(9)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3]


def test_a_child_that_hoards_memory_is_recycled() -> None:
    with Sandbox(f"{HOSTILE}:hoard", returns=int, limits=TIGHT, recycle_memory=120 << 20) as box:
        assert len({box.call(b"") for _ in range(20)}) > 1  # 400 MB in one child would pass its limit of 256


def test_crashes_write_no_core_files() -> None:
    with Sandbox(f"{HOSTILE}:core_limit", returns=int) as box:
        assert box.call(b"") == 0


def test_threads_may_share_one_sandbox_and_use_many() -> None:
    def work(box: Sandbox[Page]) -> list[int]:
        sizes = []
        for number in range(50):
            if number % 25 == 24:
                with pytest.raises(BadInput, match="signal 11"):
                    box.call(b"", how="segfault")
            sizes.append(box.call(b"x" * number).size)
        return sizes

    with sandbox() as one, sandbox() as two, ThreadPoolExecutor(4) as threads:
        for sizes in threads.map(work, [one, two, one, two]):
            assert sizes == list(range(50))


def test_a_child_outlives_the_thread_that_started_it() -> None:
    """What PR_SET_PDEATHSIG would break."""
    with sandbox() as box:
        with ThreadPoolExecutor(1) as thread:
            before = thread.submit(box.call, b"").result().pid
        assert box.call(b"").pid == before


@pytest.mark.parametrize("function", [f"{HOSTILE}:nothing", "no.such.module:parse", f"{HOSTILE}:__doc__"])
def test_a_function_that_cannot_be_loaded_is_a_misconfiguration(function: str) -> None:
    with Sandbox(function, returns=int) as box, pytest.raises(Misconfigured, match="cannot load"):
        box.call(b"")

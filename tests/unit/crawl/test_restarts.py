"""When the process of a shard is started again."""

from __future__ import annotations

from typing import Any, cast

import pytest

from webmill.crawl.scheduler.shard_processes import RESTARTS, ShardHandle, ShardProcesses
from webmill.errors import Misconfigured


class EndingProcess:
    """A process that says why it cannot go on, and ends."""

    deadline = None
    has_ended, lived = True, 1.0

    def __init__(self, *messages: tuple[str, str]) -> None:
        self._messages = messages

    def waitables(self) -> list[Any]:
        return []

    def is_alive(self) -> bool:
        return False

    def receive(self) -> list[Any]:
        return list(self._messages)

    def reap(self, grace: float) -> None:
        """It has ended."""


def shard_that_ends(*messages: tuple[str, str]) -> tuple[ShardProcesses, ShardHandle]:
    processes = ShardProcesses(cast("Any", None), 1, start=cast("Any", lambda *_: EndingProcess(*messages)))
    processes.add(0)
    (handle,) = processes.poll()
    return processes, handle


def test_a_shard_that_found_another_process_in_its_way_is_started_again() -> None:
    """A process that is stopped may hold the host schedule of all crawls of the machine for longer than others wait."""
    processes, handle = shard_that_ends(("lost", "hosts.sqlite is held by another process"))
    for _ in range(RESTARTS.max_deaths):
        processes.restart(handle)
        assert processes.poll() == [handle]
    with pytest.raises(Misconfigured, match="held by another process"):  # not for ever, and with the reason
        processes.restart(handle)
    assert handle.starts == 1 + RESTARTS.max_deaths


def test_a_shard_that_can_never_go_on_ends_the_crawl_at_once() -> None:
    processes, handle = shard_that_ends(("failed", "no such proxy"))
    with pytest.raises(Misconfigured, match="no such proxy"):
        processes.restart(handle)
    assert handle.starts == 1

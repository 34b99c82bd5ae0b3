"""Where the product meets the system by other ways than `seams`: boots, processes, file systems."""

from __future__ import annotations

import logging
import sys
from typing import Any

from tests.simulation import seams, sqlite_vfs
from webmill.crawl.cluster import node
from webmill.crawl.frontier import url_queue_files
from webmill.crawl.scheduler import shard_processes
from webmill.infra import clock
from webmill.infra import sqlite as product_sqlite
from webmill.infra.queue import sqlite as sqlite_queue
from webmill.infra.supervisor import ProcessGroup
from webmill.publish import holder


def install() -> None:
    sqlite_vfs.install()
    real_boot_id, real_machine, real_start_time = clock.boot_id, holder._machine, holder._start_time
    product_sqlite.refuse_network_file_system = lambda path: None  # it reads the mounts each time; this is one disk

    def boot_id() -> str:
        return seams.current.machine.boot if seams.current else real_boot_id()

    def start_time(pid: int) -> str:
        me = seams.current
        if me is None:
            return real_start_time(pid)
        return next((f"{other.pid}" for other in me.machine.processes if other.pid == pid and other.is_alive), "")

    clock.boot_id = boot_id
    holder._machine = lambda: seams.current.machine.boot if seams.current else real_machine()
    holder._start_time = start_time
    url_queue_files._syncfs = syncfs
    ProcessGroup.wait = _wait  # type: ignore[method-assign]
    node.EXCHANGE_INTERVAL, shard_processes.TICK = 3.0, 0.7  # seconds: what they exchange matters, not how often
    sqlite_queue.POLL = (0.05, 2.0)  # an empty queue is asked less often: most of a simulation would be that
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda _: None  # of connections of dead processes, which cannot close their files


def syncfs(fd: int) -> int:
    """Sync a whole disk, as the system call does."""
    me = seams.current
    assert me
    assert me.machine.disk.holds(seams.path_of(fd))
    me.step("syncfs")
    me.machine.disk.sync_all()
    return 0


def _wait(self: ProcessGroup[Any], timeout: float, *_: Any) -> list[Any]:
    """Wait for processes of a simulation, whose messages are no files that a system call could wait for."""
    assert seams.current
    seams.current.sleep(timeout)
    return list(self)

"""The process that holds a lease. Others on its machine can see whether it runs, however long it was paused."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from webmill.infra.clock import boot_id


class Holder(msgspec.Struct, frozen=True):
    """`machine` is its boot id and the namespace of `pid`; empty where the system tells neither."""

    machine: str
    pid: int
    started: str  # when it started: process ids are reused


def this_process() -> Holder | None:
    """Return this process; None where processes cannot be identified (macOS): then a lease ends by time only."""
    machine, started = _machine(), _start_time(os.getpid())
    return Holder(machine, os.getpid(), started) if machine and started else None


def is_running(holder: Holder) -> bool | None:
    """Whether the process still runs; None when it is on another machine or in another container."""
    if holder.machine != _machine():
        return None
    return _start_time(holder.pid) == holder.started


def _machine() -> str:
    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  not a path: a name of the kernel's
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return when the process started; empty when there is none, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if len(fields) < 20 or fields[0] in (b"Z", b"X") else fields[19].decode()

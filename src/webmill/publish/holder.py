"""Who holds a lease: a process that others on its machine can look up. Paused for a week, it is still there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from webmill.infra.clock import boot_id


class Holder(msgspec.Struct, frozen=True):
    """`machine` is this boot of it and the namespace in which `pid` counts; empty where the system tells neither."""

    machine: str
    pid: int
    started: str  # process ids are given out again


def this_process() -> Holder | None:
    """None where a process cannot be told from another: then only time can tell that it is gone (macOS)."""
    machine, started = _machine(), _start_of(os.getpid())
    return Holder(machine, os.getpid(), started) if machine and started else None


def is_running(holder: Holder) -> bool | None:
    """None when it cannot be known from here: another machine or another container."""
    if holder.machine != _machine():
        return None
    return _start_of(holder.pid) == holder.started


def _machine() -> str:
    try:
        return f"{boot_id()} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  not a path: a name of the kernel's
    except OSError:
        return ""


def _start_of(pid: int) -> str:
    """Empty when there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if len(fields) < 20 or fields[0] in (b"Z", b"X") else fields[19].decode()

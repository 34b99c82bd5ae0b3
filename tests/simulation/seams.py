"""Puts the world of a simulation under the modules `time`, `waiting`, `os`, `fcntl`, `secrets` and `random`.

`install` comes before the product is imported, so that a default such as `clock=time.time` is the simulated one, too.
A caller that is not a process of a simulation gets the real function.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from webmill.infra import waiting

if TYPE_CHECKING:
    from tests.simulation.world import Process

current: Process | None = None  # who runs now; `world` sets it at every switch

real_open, real_close, real_fsync, real_flock = os.open, os.close, os.fsync, fcntl.flock
real_replace, real_link, real_unlink, real_mkdir, real_rmdir = os.replace, os.link, os.unlink, os.mkdir, os.rmdir
real_kill, real_time = os.kill, time.perf_counter
LOCK_POLL = 0.002  # seconds between two tries for a lock that another process has


def install() -> None:
    """Replace the functions, once for this interpreter."""
    _install_clock()
    _install_randomness()
    _install_files()


def _either(real: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    def function(*arguments: Any, **options: Any) -> Any:
        return real(*arguments, **options) if current is None else simulated(current, *arguments, **options)

    return function


def _install_clock() -> None:
    time.time = _either(time.time, lambda me: me.machine.wall())
    time.time_ns = _either(time.time_ns, lambda me: int(me.machine.wall() * 1e9))
    time.monotonic = _either(time.monotonic, lambda me: me.machine.since_boot())
    time.clock_gettime = _either(time.clock_gettime, lambda me, _: me.machine.since_boot())
    time.sleep = _either(time.sleep, lambda me, seconds: me.sleep(seconds))
    waiting.sleep = _either(waiting.sleep, lambda me, seconds: me.sleep(seconds))


def _install_randomness() -> None:
    secrets.token_hex = _either(secrets.token_hex, lambda me, size=8: me.world.rng.randbytes(size).hex())
    secrets.randbits = _either(secrets.randbits, lambda me, bits: me.world.rng.getrandbits(bits))
    random.random = _either(random.random, lambda me: me.world.rng.random())
    random.uniform = _either(random.uniform, lambda me, low, high: me.world.rng.uniform(low, high))


def _install_files() -> None:
    os.getpid = _either(os.getpid, lambda me: me.pid)
    os.kill = _either(os.kill, _kill)
    os.fsync = _either(os.fsync, _fsync)
    os.fdatasync = _either(os.fdatasync, _fsync)
    fcntl.flock = _either(fcntl.flock, _flock)
    for name in ("replace", "rename", "link", "unlink", "mkdir", "rmdir"):
        setattr(os, name, _either(getattr(os, name), _path_call(name, getattr(os, name))))


def path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - a name of the kernel's


def _kill(me: Process, pid: int, signal: int) -> None:
    """Answer whether a process of this machine lives: the product sends no other signal than 0."""
    assert signal == 0
    if not any(other.pid == pid and other.is_alive for other in me.machine.processes):
        raise ProcessLookupError(errno.ESRCH, "No such process")


def _fsync(me: Process, fd: int) -> None:
    if me.machine.disk.holds(path_of(fd)):
        me.step("fsync")
        me.machine.disk.synced(fd)


def _flock(me: Process, file: Any, kind: int) -> None:
    """Lock without stopping the simulation; the locks of a process that is killed are freed (`Process.kill`)."""
    fd = file if isinstance(file, int) else file.fileno()
    while not kind & (fcntl.LOCK_NB | fcntl.LOCK_UN):
        try:
            real_flock(fd, kind | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            me.sleep(LOCK_POLL)
    else:
        real_flock(fd, kind)
    if kind & fcntl.LOCK_UN:
        me.locks.pop(fd, None)
    else:
        me.locks[fd] = os.fstat(fd).st_ino


def _path_call(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(me: Process, path: Any, *arguments: Any, **options: Any) -> Any:
        folder = options.get("dir_fd", options.get("src_dir_fd", options.get("dst_dir_fd")))
        where = os.fspath(path) if folder is None else path_of(folder)
        if me.machine.disk.holds(where):
            me.step(name)
        return real(path, *arguments, **options)

    return call

"""A world that runs by a seed: processes that take turns at every step, a clock that jumps to the next event.

A process is real code of the product in a greenlet. At each step that the outside could see (a sync, a rename, a
request, a sleep) it gives way: the step takes a time that the seed chooses, others run meanwhile, and faults come in
between. Nothing else decides what happens, so the same seed has the same trace, to the byte.
"""

from __future__ import annotations

import asyncio
import fcntl
import heapq
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from greenlet import getcurrent, greenlet

from tests.simulation import seams
from tests.simulation.disk import Disk

EPOCH = 1_800_000_000.0  # the wall clock when a simulation begins
MAX_EVENTS = 30_000  # of one simulation: more is a loop


class Killed(BaseException):
    """Ends a process as kill -9 does: whatever it does on its way out has no effect (`Process.step`)."""


class Violation(Exception):
    """A promise was broken."""


class Machine:
    """A machine: a disk, clocks and processes. Its wall clock may be set by anybody; its time since boot by no one."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.processes: list[Process] = []
        self.disk = Disk(world.folder / name / "boot-0")
        self.ahead = 0.0  # of the wall clock
        self.boots = 0
        self._booted_at = -1000.0

    @property
    def boot(self) -> str:
        return f"{self.name}-{self.boots}"

    def wall(self) -> float:
        return EPOCH + self.world.now + self.ahead

    def since_boot(self) -> float:
        return self.world.now - self._booted_at

    def cut_power(self) -> None:
        """End all processes; of what was not synced the disk keeps some."""
        self.world.note(self.name, "power cut")
        self.world.counts["power cuts"] += 1
        self.boots += 1
        after = self.disk.after_power_cut(self.world.folder / self.name / f"boot-{self.boots}", self.world.rng)
        for process in list(self.processes):
            process.kill(note="")
        self.disk, self._booted_at = after, self.world.now


class Process:
    def __init__(self, world: World, machine: Machine, name: str, main: Callable[[], Any]) -> None:
        self.world, self.machine, self.name = world, machine, name
        self.pid = 1000 + len(world.processes)
        self.is_alive, self.is_killed = True, False
        self.locks: dict[int, int] = {}  # descriptors, with their inodes
        self.stalled_until = 0.0
        self._greenlet = greenlet(lambda: self._run(main), parent=world.hub)
        machine.processes.append(self)

    def _run(self, main: Callable[[], Any]) -> None:
        try:
            main()
        except Killed:
            pass
        except Violation as error:
            self.world.fail(f"{self.name}: {error}")
        except Exception as error:
            if not self.is_killed:  # else it is what came of an end in the middle of it
                self.world.fail(f"{self.name}: {type(error).__name__}: {error}", cause=error)
        finally:
            self._end()

    def _end(self) -> None:
        """Free its locks, as the system does, however it ended; and let its connections change nothing any more."""
        self.is_alive, self.is_killed = False, True
        for fd, inode in self.locks.items():
            _unlock(fd, inode)
        self.locks.clear()
        if self in self.machine.processes:
            self.machine.processes.remove(self)

    def step(self, what: str) -> None:
        """Do something that takes a moment, and that others may see or disturb."""
        self.world.note(self.name, what)
        self.sleep(self.world.latency())

    def sleep(self, seconds: float) -> None:
        if self.is_killed:
            raise Killed
        self.world.after(max(seconds, 1e-6), self.resume)  # less might not be a difference to the clock
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        self.world.hub.switch()
        asyncio._set_running_loop(loop)
        if self.is_killed:
            raise Killed

    def resume(self) -> None:
        if not self.is_alive or self.is_killed:
            return
        if self.stalled_until > self.world.now:
            self.world.after(self.stalled_until - self.world.now, self.resume)
            return
        self._switch()

    def _switch(self) -> None:
        seams.current = self
        try:
            self._greenlet.switch()
        finally:
            seams.current = None

    def stall(self, seconds: float) -> None:
        """Stop it for a while, as SIGSTOP does."""
        self.world.note(self.name, f"stalled for {seconds:.1f}")
        self.stalled_until = self.world.now + seconds

    def kill(self, note: str = "killed") -> None:
        """End it. Its locks are free, and nothing of what it had not written is written any more."""
        if not self.is_alive or self.is_killed:
            return
        if note:
            self.world.note(self.name, note)
            self.world.counts["kills"] += 1
        self.is_killed = True
        if getcurrent() is self.world.hub:
            self._unwind()
        else:
            self.world.after(0.0, self._unwind)

    def _unwind(self) -> None:
        if self._greenlet and not self._greenlet.dead:
            seams.current = self
            try:
                self._greenlet.throw(Killed)
            finally:
                seams.current = None
        self._end()


def _unlock(fd: int, inode: int) -> None:
    try:
        if os.fstat(fd).st_ino == inode:
            seams.real_flock(fd, fcntl.LOCK_UN)
    except OSError:
        pass  # closed on its way out


class World:
    def __init__(self, seed: int, folder: Path, *, keep_trace: bool = False) -> None:
        self.seed, self.folder = seed, folder
        self.rng = random.Random(seed)
        self.now = self.skipped = 0.0
        self.hub = getcurrent()
        self.processes: list[Process] = []
        self.counts: Counter[str] = Counter()
        self.failure = ""
        self.cause: BaseException | None = None
        self.lines: list[str] = []
        self.events = 0
        self.slow = self.rng.choice((0.0, 0.002, 0.02))  # share of steps that take long
        self._keeps_trace, self._hash = keep_trace, blake2b(digest_size=16)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    # --- what protocols use ---

    def machine(self, name: str) -> Machine:
        return Machine(self, name)

    def start(self, machine: Machine, name: str, main: Callable[[], Any]) -> Process:
        process = Process(self, machine, name, main)
        self.processes.append(process)
        self.after(self.latency(), process.resume)
        return process

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._queue, (self.now + max(0.0, seconds), self._number, call))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def latency(self) -> float:
        if self.slow and self.chance(self.slow):
            return self.rng.uniform(0.1, 3.0)
        return self.rng.uniform(0.0001, 0.004)

    def note(self, who: str, what: str) -> None:
        line = f"{self.now:.6f} {who}: {what}"
        self._hash.update(line.encode() + b"\n")
        if self._keeps_trace:
            self.lines.append(line)

    def check(self, holds: bool, message: str) -> None:
        if not holds:
            raise Violation(message)

    def fail(self, message: str, *, cause: BaseException | None = None) -> None:
        if not self.failure:
            message = message.replace(f"{self.folder}/", "")  # which is another one each time
            self.note("world", f"VIOLATION {message}")
            self.failure, self.cause = message, cause

    # --- running ---

    def run(self, until: Callable[[], bool] = lambda: False, *, seconds: float) -> bool:
        """Run until a condition holds, something fails, nothing is left to do, or the time is over. Tell whether the
        condition holds."""
        end = self.now + seconds
        while not self.failure and not until():
            if not self._queue or self._queue[0][0] > end:
                return False
            self.now, _, call = heapq.heappop(self._queue)
            self.events += 1
            if self.events > MAX_EVENTS:
                self.fail("does not come to an end")
            try:
                call()
            except Violation as error:
                self.fail(str(error))
        return not self.failure

    def skip(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        self.run(seconds=seconds)
        self.skipped += seconds
        self.now = end

    def digest(self) -> str:
        return self._hash.hexdigest()

    def close(self) -> None:
        for process in self.processes:
            process.kill(note="")


@contextmanager
def temporary_world(seed: int, *, keep_trace: bool = False) -> Iterator[World]:
    where = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = Path(tempfile.mkdtemp(prefix="webmill-simulation-", dir=where))
    world = World(seed, folder, keep_trace=keep_trace)
    try:
        yield world
        world.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""How the contract opens frontiers of one backend. A new backend joins with a class here and its name in BENCHES."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from webmill.crawl.frontier import local, memory
from webmill.crawl.frontier.base import Frontier
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.frontier.memory import MemoryFrontier

# Everything happens often: checkpoints, merges, full files, files that are closed and opened again, wrong "maybe"s.
TINY = FrontierLimits(table=7, journal=2000, file=256, open_files=3, waiting=300, fan=2, hashes_per_word=64)


class Bench:
    durable = True  # a frontier outlives its closing

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.frontier = self.make()

    def make(self) -> Frontier:
        raise NotImplementedError

    def restored(self, backup: Path) -> Bench:
        """What was backed up, elsewhere."""
        raise NotImplementedError

    def reopen(self) -> Frontier:
        self.frontier.close()
        self.frontier = self.make()
        return self.frontier

    def close(self) -> None:
        self.frontier.close()


class MemoryBench(Bench):
    durable = False

    def make(self) -> Frontier:
        return MemoryFrontier()

    def restored(self, backup: Path) -> Bench:
        bench = MemoryBench(self.folder)
        bench.frontier = memory.restore(backup)
        return bench


class LocalBench(Bench):
    limits: FrontierLimits | None = None

    def make(self) -> Frontier:
        return LocalFrontier(self.folder / "frontier", limits=self.limits)

    def restored(self, backup: Path) -> Bench:
        folder = self.folder / "restored"
        local.restore(backup, folder / "frontier", limits=self.limits)
        return type(self)(folder)


class TinyBench(LocalBench):
    limits = TINY


BENCHES: dict[str, Callable[[Path], Bench]] = {"memory": MemoryBench, "local": LocalBench, "tiny": TinyBench}

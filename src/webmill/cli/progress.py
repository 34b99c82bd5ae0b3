"""Progress of long work on stderr: a bar on a terminal, else a plain line every few seconds; nothing when quiet."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

EVERY_SECONDS = 5.0


class Progress:
    """`with Progress(…) as p: p.advance(n)`. It can be called as often as you like."""

    def __init__(
        self,
        title: str,
        *,
        total: int | None,
        unit: str,
        quiet: bool,
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.total, self.unit, self.stream, self.clock = title, total, unit, stream, clock
        self.done = 0
        self.started = clock()
        self._next = self.started + EVERY_SECONDS
        self._show: _Bar | _Lines | None = None
        if not quiet:
            self._show = _Bar(self) if stream.isatty() else _Lines(self)

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int = 1) -> None:
        self.done += count
        if self._show is None:
            return
        now = self.clock()
        if now >= self._next:
            self._next = now + self._show.every
            self._show.update(now)

    def count(self) -> str:
        of = f" of {self.total:,}" if self.total else ""
        return f"{self.done:,}{of} {self.unit}"

    def speed(self, now: float, *, before: str = "") -> str:
        """Return `12/s`, or nothing where it would be 0/s."""
        rate = round(self.done / max(now - self.started, 1e-9))
        return f"{before}{rate:,}/s" if rate else ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show is not None:
            self._show.end(self.clock(), failed=error is not None)


class _Lines:
    """For log files: one plain line now and then."""

    every = EVERY_SECONDS

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def update(self, now: float) -> None:
        p = self.progress
        share = f" ({100 * p.done // p.total} %)" if p.total else ""
        print(f"{p.title}: {p.count()}{share}{p.speed(now, before=', ')}", file=p.stream, flush=True)

    def end(self, now: float, *, failed: bool) -> None:
        if (failed and self.progress.done) or now - self.progress.started >= EVERY_SECONDS:
            self.update(now)


class _Bar:
    """For terminals: a rich bar that goes away when the work is done. Where nobody knows how much that is, a count."""

    every = 0.1

    def __init__(self, progress: Progress) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.progress = progress
        progress._next = progress.started
        count = TextColumn("{task.fields[count]} {task.fields[speed]}")
        title = [SpinnerColumn(), TextColumn("{task.description}")]
        columns = [*title, BarColumn(), count, TimeRemainingColumn()] if progress.total else [*title, count]
        self.bar = Bar(*columns, console=Console(file=progress.stream), transient=True)
        self.task = self.bar.add_task(progress.title, total=progress.total, speed="", count=progress.count())
        self.bar.start()

    def update(self, now: float) -> None:
        p = self.progress
        self.bar.update(self.task, total=p.total, completed=p.done, speed=p.speed(now), count=p.count())

    def end(self, now: float, *, failed: bool) -> None:  # noqa: ARG002  same shape as _Lines
        self.update(now)
        self.bar.stop()

"""The progress of a crawl on stderr: a panel on a terminal, else a plain line every ten seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from webmill.cli.text import format_count, format_duration, format_size
from webmill.crawl.progress import ClusterProgress, CrawlProgress, estimate_left

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

EVERY_LINE = 10.0
EVERY_PANEL = 0.25
WINDOW = 10.0  # seconds over which speeds are measured
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
MAX_KINDS = 4  # of errors shown
AT_ONCE = "Ctrl-C again: stop at once"


class CrawlProgressView:
    """`with CrawlProgressView(...) as view: view.show(snapshot)`; it can be called as often as you like."""

    def __init__(
        self,
        *,
        quiet: bool,
        stream: TextIO,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet, self._stream, self._limit, self._clock = quiet, stream, limit, clock
        self._is_terminal = stream.isatty() and not quiet
        self._started = self._next = clock()
        self._past: deque[tuple[float, int, int]] = deque()
        self._live: Live | None = None
        self._was_stopping = False

    def __enter__(self) -> Self:
        if self._is_terminal:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._stream), refresh_per_second=4, transient=True)
            self._live.start()
        else:
            self._next += EVERY_LINE
        return self

    def show(self, seen: CrawlProgress) -> None:
        now = self._clock()
        if not seen.fetched:  # counts before the first response are of earlier runs
            self._past.clear()
            self._past.append((now, seen.pages, seen.bytes))
        if seen.is_stopping and not self._was_stopping:
            self._was_stopping, self._next = True, now
        if self._quiet or now < self._next:
            return
        self._next = now + (EVERY_PANEL if self._live else EVERY_LINE)
        self._past.append((now, seen.pages, seen.bytes))
        while len(self._past) > 2 and now - self._past[0][0] > WINDOW:
            self._past.popleft()
        if self._live:
            self._live.update(self.panel(seen, now))
        else:
            print(self.line(seen, now), file=self._stream, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    # --- how it looks ---

    def line(self, seen: CrawlProgress, now: float) -> str:
        pages, size = self._speeds()
        parts = [
            f"{format_duration(now - self._started)}  {format_count(seen.pages, 'page')} ({pages:,.1f}/s)",
            f"{format_size(seen.bytes)} ({format_size(size)}/s)",
            *([format_count(seen.page_resources, "page resource")] if seen.page_resources else []),
            f"{seen.waiting:,} waiting",
            f"{format_count(seen.turns, 'domain')} active",
        ]
        if seen.is_stopping:
            parts.append(f"stopping ({AT_ONCE})")
        elif seen.is_paused:
            parts.append("PAUSED (webmill frontier resume)")
        elif seen.held:
            parts.append(f"WAITING {seen.held}")
        elif seen.is_waiting and seen.next_due is not None:
            parts.append(f"waiting {describe_wait(seen)}")
        if left := describe_left(seen):
            parts.append(left)
        if uploads := describe_uploads(seen):
            parts.append(f"to be uploaded: {uploads}")
        if seen.errors:
            parts.append(f"errors: {format_most_frequent(seen.errors)}")
        if seen.nodes:
            parts.append(describe_nodes(seen.nodes))
            if seen.nodes.notice:
                parts.append(f"WAITING: {seen.nodes.notice}")
        return ", ".join(parts) + (f", NOT WRITING: {seen.write_error}" if seen.write_error else "")

    def panel(self, seen: CrawlProgress, now: float) -> Table:
        from rich.table import Table
        from rich.text import Text

        pages, size = self._speeds()
        of = f" of {self._limit:,}" if self._limit else ""
        rows = [
            ("pages", f"{seen.pages:,}{'' if seen.nodes else of}", f"{pages:,.1f}/s"),
            ("bytes", format_size(seen.bytes), f"{format_size(size)}/s"),
            ("waiting", format_count(seen.waiting, "URL"), format_count(seen.domains_waiting, "domain")),
            activity_row(seen),
            ("responses", format_most_frequent(seen.statuses) or "none yet", f"{format_mean_time(seen)} each"),
        ]
        if seen.page_resources:
            rows.insert(1, ("", format_count(seen.page_resources, "page resource"), "in this run"))
        if seen.nodes:
            rows.insert(0, ("crawl", describe_nodes(seen.nodes), f"{format_count(seen.nodes.pages, 'page')}{of}"))
        if seen.errors:
            rows.append(("errors", f"{sum(seen.errors.values()):,}", format_most_frequent(seen.errors)))
        if seen.refused:
            rows.append(("skipped", f"{sum(seen.refused.values()):,}", format_most_frequent(seen.refused)))
        if uploads := describe_uploads(seen):
            rows.append(("to upload", uploads, ""))
        if seen.slowest:
            host, seconds = seen.slowest[0]
            rows.append(("slowest", host[:40], f"{1000 * seconds:,.0f} ms"))
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(no_wrap=True, max_width=42)
        table.add_column(style="dim", no_wrap=True, max_width=26)
        doing, how = ("stopping", AT_ONCE) if seen.is_stopping else ("crawling", "Ctrl-C stops it")
        table.add_row(doing, format_duration(now - self._started), how)
        if left := describe_left(seen):
            table.add_row("left", left, "")
        for row in rows:  # hosts and reasons come from the web: they are text, never markup
            table.add_row(*(Text(cell, overflow="ellipsis") for cell in row))
        if seen.nodes and seen.nodes.notice:
            table.add_row(Text("WAITING", style="bold red"), Text(seen.nodes.notice, overflow="fold"), "")
        if seen.held:
            table.add_row(Text("WAITING", style="bold red"), Text(seen.held, overflow="fold"), "")
        if seen.write_error:
            table.add_row(Text("PAUSED", style="bold red"), Text(seen.write_error, overflow="fold"), "")
        return table

    def _speeds(self) -> tuple[float, float]:
        (first, pages, size), (last, pages_now, size_now) = self._past[0], self._past[-1]
        seconds = max(last - first, 1e-9)
        return ((pages_now - pages) / seconds, (size_now - size) / seconds) if last > first else (0.0, 0.0)


def describe_left(seen: CrawlProgress) -> str:
    """Return `about 40 minutes left at this pace`, of what is known now; nothing when that is less than a minute."""
    seconds = None if seen.is_stopping else estimate_left(seen)
    if seconds is None or seconds < MINUTE:
        return ""
    for length, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")):
        if seconds >= 2 * length or unit == "minute":
            return f"about {format_count(round(seconds / length), unit)} left at this pace"
    return ""


def format_most_frequent(counts: Mapping[str, int]) -> str:
    """Return the most frequent names with their counts: `timeout 12, dns_notfound 3`."""
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rest = sum(count for _, count in most[MAX_KINDS:])
    return ", ".join([f"{name} {count:,}" for name, count in most[:MAX_KINDS]] + [f"others {rest:,}"] * bool(rest))


def activity_row(seen: CrawlProgress) -> tuple[str, str, str]:
    if seen.is_paused:
        return ("active", "paused", "webmill frontier resume")
    if seen.is_waiting and seen.next_due is not None:
        return ("active", f"none; waiting for {seen.waiting_for or 'a domain'}", format_until(seen.next_due))
    return ("active", format_count(seen.turns, "domain"), f"{format_count(seen.in_hand, 'URL')} in progress")


def describe_uploads(seen: CrawlProgress) -> str:
    """Return `3 WARC files, 3,120 MB, since 14:05:09`; nothing when nothing waits."""
    since = "" if seen.uploads_since is None else f", {format_time('since', seen.uploads_since)}"
    return seen.uploads + since if seen.uploads else ""


def describe_wait(seen: CrawlProgress) -> str:
    """Return `for example.com until 14:05:09`, or without the domain if it is unknown."""
    assert seen.next_due is not None
    return f"for {seen.waiting_for} {format_until(seen.next_due)}" if seen.waiting_for else format_until(seen.next_due)


def format_until(time: float) -> str:
    """Return `until 14:05:09` in local time, with the date if it is not today."""
    return format_time("until", time)


def format_time(word: str, time: float) -> str:
    then, now = datetime.fromtimestamp(time).astimezone(), datetime.now().astimezone()
    return f"{word} {then:%H:%M:%S}" if then.date() == now.date() else f"{word} {then:%Y-%m-%d %H:%M}"


def describe_nodes(nodes: ClusterProgress) -> str:
    unowned = f", {nodes.shards_nowhere} without a node" if nodes.shards_nowhere else ""
    shards = f"{nodes.shards_here} of {format_count(nodes.shards, 'shard')} here"
    return f"{format_count(nodes.nodes, 'node')}, {shards}{unowned}"


def format_mean_time(seen: CrawlProgress) -> str:
    return f"{1000 * seen.seconds / seen.fetched:,.0f} ms" if seen.fetched else "-"

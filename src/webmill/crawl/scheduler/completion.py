"""Whether a crawl is over: a limit is reached, or all shards are idle with nothing on its way between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from webmill.crawl.options import CrawlLimits
from webmill.crawl.progress import CrawlProgress

CrawlEnd = Literal["finished", "waiting", "pages", "seconds", "bytes", "stopped"]


class ShardState(msgspec.Struct, frozen=True):
    """The progress of a shard, and which process reports it."""

    process: tuple[object, ...]
    progress: CrawlProgress


class CompletionDetector:
    """Finds the end of a crawl. `probe` is to be sent to all shards: each answers with what it finds after it.

    When two probes find all shards idle, and no process has done anything in between, no message can be on its way.
    """

    def __init__(self, limits: CrawlLimits, *, page_resources: bool = False) -> None:
        self._limits, self._fetches_resources = limits, page_resources
        self.probe = 0
        self._last_work: tuple[object, ...] | None = None

    def continue_from(self, probe: int) -> None:
        """Go on with the probes of another detector."""
        if probe > self.probe:
            self.probe, self._last_work = probe, None

    def find_end(self, shards: Sequence[ShardState] | None, *, seconds: float, bytes_: int) -> CrawlEnd | None:
        """Return why the crawl is over, or None. `shards`: all of them; None when one has not reported yet."""
        limits = self._limits
        if limits.seconds is not None and seconds >= limits.seconds:
            return "seconds"
        if limits.bytes is not None and bytes_ >= limits.bytes:
            return "bytes"
        if shards is None:
            return None
        progress = [shard.progress for shard in shards]
        if limits.pages is not None and sum(one.pages for one in progress) >= limits.pages:
            is_whole = not self._fetches_resources or self._is_quiet(
                shards, are_idle=all(one.is_exhausted for one in progress)
            )
            return "pages" if is_whole else None
        if not self._is_quiet(shards, are_idle=all(one.is_idle for one in progress)):
            return None
        return "finished" if all(one.next_due is None for one in progress) else "waiting"

    def _is_quiet(self, shards: Sequence[ShardState], *, are_idle: bool) -> bool:
        if not are_idle:
            self._last_work = None
            return False
        if any(shard.progress.probe < self.probe for shard in shards):
            return False
        work = tuple((shard.process, shard.progress.work) for shard in shards)
        is_quiet = self._last_work == work
        self._last_work = work
        self.probe += 1
        return is_quiet

"""Builds the shards of a ZipNum index from sorted CDXJ files: keys are cut into ranges, and each range is a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from webmill.index.cdxj.blocklist import Blocklist, block, load_blocklist
from webmill.index.cdxj.excessive import ExcessPolicy, drop_excessive
from webmill.index.cdxj.merge import MergeRange, merge_range, plan_ranges
from webmill.index.lines import Batch, FilterCounts
from webmill.index.zipnum.writer import SHARD_NAME, ShardTarget, ZipNumShard, write_shard
from webmill.infra.atomic import remove_stale_temps
from webmill.infra.executor.base import Executor
from webmill.infra.executor.gather import run_all


class IndexFilters(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines are left out between CDXJ and shards."""

    blocklist: Path | None = None
    blocklist_digest: str = ""  # lets a process cache the compiled rules
    max_captures: int | None = None
    keep: ExcessPolicy = ExcessPolicy()


class RangeJob(msgspec.Struct, frozen=True, kw_only=True):
    part: MergeRange
    number: int
    target: ShardTarget
    lines: int
    threads: int
    filters: IndexFilters


class RangeResult(msgspec.Struct, frozen=True):
    shard: ZipNumShard
    blocked: int
    excessive: int

    @property
    def lines_in(self) -> int:
        return self.shard.lines + self.blocked + self.excessive


def write_ranges(
    files: Sequence[Path],
    target: ShardTarget,
    *,
    shards: int,
    lines: int,
    executor: Executor,
    threads: int = 1,
    filters: IndexFilters = IndexFilters(),  # noqa: B008 - frozen
    advance: Callable[[], None] = lambda: None,
) -> list[RangeResult]:
    """Write at most `shards` shards: fewer if there are few urlkeys, one if a file cannot be cut (gzip, a pipe)."""
    parts = [part for part in plan_ranges(files, parts=shards) if part.pieces]
    jobs = [
        RangeJob(part=part, number=number, target=target, lines=lines, threads=threads, filters=filters)
        for number, part in enumerate(parts)
    ]
    return run_all(executor, write_range, jobs, advance=advance)


def write_range(job: RangeJob) -> RangeResult:
    """Merge one range of all files, filter it, and write it as one shard. May run twice."""
    blocked, excessive = FilterCounts(), FilterCounts()
    filters = job.filters
    batches: Iterable[Batch] = merge_range(job.part)
    if filters.blocklist:
        batches = block(batches, load_cached_blocklist(filters.blocklist, filters.blocklist_digest), tally=blocked)
    if filters.max_captures is not None:
        batches = drop_excessive(batches, limit=filters.max_captures, tally=excessive, keep=filters.keep)
    shard = write_shard(batches, job.target, number=job.number, lines=job.lines, threads=job.threads)
    return RangeResult(shard, blocked.removed, excessive.removed)


@lru_cache(maxsize=1)
def load_cached_blocklist(path: Path, _digest: str) -> Blocklist:
    """Load a blocklist once per process: compiling 100,000 rules takes seconds."""
    return load_blocklist(path)


@contextmanager
def remove_shards_on_failure(target: ShardTarget) -> Iterator[None]:
    """Remove the shards written in a block that raises. Publish after this block: what is published must stay."""
    before = list_shards(target.folder)
    try:
        yield
    except BaseException:
        for name in list_shards(target.folder) - before:
            (target.folder / name).unlink(missing_ok=True)
        remove_stale_temps(target.folder)  # of tasks that were stopped in the middle of a shard
        raise


def list_shards(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name)}

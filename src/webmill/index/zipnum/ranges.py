"""Sorted CDXJ files to the shards of a ZipNum index: the keys are cut into ranges, each range is a task of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import msgspec

from webmill.index.cdxj.blocklist import Blocklist, block, load_blocklist
from webmill.index.cdxj.excessive import Keep, drop_excessive
from webmill.index.cdxj.merge import Range, merge_range, plan_ranges
from webmill.index.lines import Batch
from webmill.index.tally import Tally
from webmill.index.zipnum.writer import SHARD_NAME, Shard, Target, write_shard
from webmill.infra.atomic import remove_stale_temps
from webmill.infra.executor.base import Executor
from webmill.infra.executor.gather import run_all


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out on the way from CDXJ to shards."""

    blocklist: Path | None = None
    blocklist_digest: str = ""  # a process that has compiled these rules need not do so again
    max_captures: int | None = None
    keep: Keep = Keep()


class RangeJob(msgspec.Struct, frozen=True, kw_only=True):
    part: Range
    number: int
    target: Target
    lines: int
    threads: int
    filters: Filters


class RangeDone(msgspec.Struct, frozen=True):
    shard: Shard
    blocked: int
    excessive: int

    @property
    def lines_in(self) -> int:
        return self.shard.lines + self.blocked + self.excessive


def write_ranges(
    files: Sequence[Path],
    target: Target,
    *,
    shards: int,
    lines: int,
    executor: Executor,
    threads: int = 1,
    filters: Filters = Filters(),  # noqa: B008 - frozen
    advance: Callable[[], None] = lambda: None,
) -> list[RangeDone]:
    """At most `shards`: fewer when there are fewer urlkeys, one when a file cannot be cut (gzip, a pipe)."""
    parts = [part for part in plan_ranges(files, parts=shards) if part.pieces]
    jobs = [
        RangeJob(part=part, number=number, target=target, lines=lines, threads=threads, filters=filters)
        for number, part in enumerate(parts)
    ]
    return run_all(executor, write_range, jobs, advance=advance)


def write_range(job: RangeJob) -> RangeDone:
    """Merge one range of all files, filter it, and write it as one shard. May run twice."""
    blocked, excessive = Tally(), Tally()
    filters = job.filters
    batches: Iterable[Batch] = merge_range(job.part)
    if filters.blocklist:
        batches = block(batches, compiled(filters.blocklist, filters.blocklist_digest), tally=blocked)
    if filters.max_captures is not None:
        batches = drop_excessive(batches, limit=filters.max_captures, tally=excessive, keep=filters.keep)
    shard = write_shard(batches, job.target, number=job.number, lines=job.lines, threads=job.threads)
    return RangeDone(shard, blocked.removed, excessive.removed)


@lru_cache(maxsize=1)
def compiled(path: Path, _digest: str) -> Blocklist:
    """Compiling 100,000 rules takes seconds: once per process, not once per range."""
    return load_blocklist(path)


@contextmanager
def clean_failure(target: Target) -> Iterator[None]:
    """Shards written in a block that raises go again. Publish behind this block: what is published must stay."""
    before = shards_in(target.folder)
    try:
        yield
    except BaseException:
        for name in shards_in(target.folder) - before:
            (target.folder / name).unlink(missing_ok=True)
        remove_stale_temps(target.folder)  # of tasks that were stopped in the middle of a shard
        raise


def shards_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name)}

"""Write a ZipNum index with a given number of shards: the input is cut between urlkeys, each range is a task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from webmill.errors import Unavailable
from webmill.index.merge import Range, merge_range, plan_ranges
from webmill.index.zipnum import SHARD_NAME, Shard, Target, write_shard
from webmill.infra.executor.base import Executor, Failed


class RangeTask(msgspec.Struct, frozen=True, kw_only=True):
    part: Range
    number: int
    target: Target
    lines: int
    threads: int


def write_ranges(
    file: Path, target: Target, *, shards: int, lines: int, threads: int, executor: Executor
) -> list[Shard]:
    """At most `shards`: fewer when there are fewer urlkeys, one when the file cannot be cut (gzip, a pipe)."""
    parts = plan_ranges([file], parts=shards)
    tasks = [
        RangeTask(part=part, number=number, target=target, lines=lines, threads=threads)
        for number, part in enumerate(parts)
    ]
    done: dict[int, Shard] = {}
    with closing(executor.run(write_task, tasks)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Failed):
                raise outcome.error or Unavailable(f"shard {outcome.index}: {outcome.reason}")
            done[outcome.index] = outcome.value
    return [done[number] for number in sorted(done)]


def write_task(task: RangeTask) -> Shard:
    batches = merge_range(task.part)
    return write_shard(batches, task.target, number=task.number, lines=task.lines, threads=task.threads)


@contextmanager
def clean_failure(target: Target) -> Iterator[None]:
    """Shards written in a block that raises go again. Publish behind this block: what is published must stay."""
    before = shards_in(target.folder)
    try:
        yield
    except BaseException:
        for name in shards_in(target.folder) - before:
            (target.folder / name).unlink(missing_ok=True)
        raise


def shards_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name)}

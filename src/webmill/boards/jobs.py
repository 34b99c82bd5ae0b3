"""Jobs: one board to read in one run. A job holds all that a worker needs, so that it needs no board list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

import msgspec

from webmill.boards.board_list import Board, BoardList
from webmill.errors import BadInput
from webmill.infra.queue import backends
from webmill.infra.queue.base import Message, Queue, QueueOptions
from webmill.infra.queue.leases import BROKER
from webmill.publish.fragments import RunJob, RunPlan
from webmill.publish.keys import check_run, sha256
from webmill.publish.types import PublishProblem, decode, encode
from webmill.settings import QueueSettings

QUEUE = "webmill-publish"  # its name on a broker
RUN_KIND = "boards"  # of `publish.runs.KINDS`


class BoardJob(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a message. The board's `source` is the job's identity in its run."""

    run: str
    deadline: datetime
    board: Board


def make_plan(
    run: str, boards: Iterable[Board], *, at: datetime, deadline: timedelta, broken: Iterable[PublishProblem] = ()
) -> RunPlan:
    jobs = tuple(RunJob(board.source, board.source) for board in boards)
    return RunPlan(run=run, jobs=jobs, planned_at=at, deadline=at + deadline, broken=tuple(broken))


def broken_entries(found: BoardList) -> list[PublishProblem]:
    """Return the boards left out because of a mistake in the board list: nobody meant to remove their notices.

    Not a repeated board: nothing of it is lost.
    """
    return [
        PublishProblem(stage="site_map", source=one.source or None, message=f"{one.path}: {one.message}")
        for one in found.problems
        if one.is_dropped and one.reason != "duplicate"
    ]


def make_messages(plan: RunPlan, boards: Iterable[Board]) -> Iterator[Message]:
    for board in boards:
        job = BoardJob(run=plan.run, deadline=plan.deadline, board=board)
        yield Message(message_id(plan.run, board.source), encode(job))


def message_id(run: str, source: str) -> str:
    """Return a short id: SQS takes 128 plain characters, and a source may have any."""
    return f"{run}.{sha256(source.encode(errors='surrogatepass'))[:32]}"


def parse_job(body: bytes) -> BoardJob:
    """Return the job of a message. `BadInput` for another message."""
    job = decode(body, BoardJob, source="a message")
    check_run(job.run)
    if not job.board.source:
        raise BadInput("a board without a source", reason="bad_job")
    return job


def open_job_queue(settings: QueueSettings) -> AbstractContextManager[Queue]:
    """Open the queue of jobs, as patiently as a broker that is just starting needs."""
    return backends.use_queue(settings.url, queue_options(settings), policy=BROKER)


def queue_options(settings: QueueSettings) -> QueueOptions:
    return QueueOptions(name=QUEUE, attempts=settings.attempts, lease=settings.lease, type=settings.type)

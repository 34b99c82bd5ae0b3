"""The orchestrator: a plan into the storage, a job for each board onto the queue. It fetches nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from webmill.boards.aggregator import aggregate, end_run
from webmill.boards.board_list import Board, BoardList
from webmill.boards.jobs import RUN_KIND, make_messages, make_plan, parse_job
from webmill.errors import BadInput, Conflict, NotFound, WebmillError
from webmill.infra.queue.base import Queue
from webmill.infra.retry import BackoffPolicy, retrying
from webmill.infra.storage.base import Storage
from webmill.publish import leases, run_lock
from webmill.publish.fragments import RunPlan, open_runs, write_plan
from webmill.publish.holder import Holder
from webmill.publish.publication import PublishOptions, utc_now
from webmill.publish.runs import check_kind, new_run_name
from webmill.publish.types import PublishProblem

log = logging.getLogger(__name__)

DEADLINE = timedelta(minutes=8)
MARGIN = timedelta(minutes=2)  # for the commit after the deadline


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`turn_lasts`: after so long without a renewal another run may begin. None: nobody renews, so until its end."""

    deadline: timedelta = DEADLINE
    turn_lasts: timedelta | None = None
    holder: Holder | None = None  # the process that sees the run through; None: no one process does
    publish: PublishOptions = PublishOptions()  # how a run that somebody left behind is published
    policy: BackoffPolicy = BackoffPolicy()


def start_run(
    storage: Storage,
    queue: Queue,
    boards: Sequence[Board],
    *,
    broken: Sequence[PublishProblem] = (),
    planning: RunOptions | None = None,
    now: Callable[[], datetime] = utc_now,
) -> RunPlan:
    """Begins a run. `Conflict` while another one is under way, on whichever machine. `broken`: see `RunPlan`.

    A run that was left behind is brought to its end first: published when its time is over or all is done, else given
    up. Killed anywhere, the next call does the same with this one.
    """
    planning = planning or RunOptions()
    began = now()
    run = new_run_name(RUN_KIND, began)
    lasts = planning.turn_lasts or planning.deadline + MARGIN
    run_lock.acquire(storage, run, at=began, lasts=lasts, holder=planning.holder)
    try:
        check_kind(storage, RUN_KIND, force=planning.publish.force)
        for left in open_runs(storage):
            finish_leftover_run(storage, queue, left, options=planning.publish, now=now)
        leases.acquire(storage, run, holder=planning.holder)
        plan = make_plan(run, boards, at=began, deadline=planning.deadline, broken=broken)
        write_plan(storage, plan)
        drop_outdated_dead_letters(queue, plan)
        retrying(lambda: queue.publish(make_messages(plan, boards)), policy=planning.policy)
    except WebmillError:
        end_run(storage, run)
        raise
    return plan


def finish_leftover_run(
    storage: Storage, queue: Queue, run: str, *, options: PublishOptions, now: Callable[[], datetime]
) -> None:
    try:
        outcome = aggregate(storage, queue, run, options=options, now=now)
    except NotFound:
        return
    except (BadInput, Conflict) as error:
        log.warning("a run that was left behind cannot be published", extra={"run": run, "why": str(error)})
        outcome = None
    if outcome is None:
        log.warning("a run that was left behind is given up: this one reads its boards again", extra={"run": run})
        end_run(storage, run)


def drop_outdated_dead_letters(queue: Queue, plan: RunPlan) -> None:
    """Buried jobs of earlier runs whose board is read again now: else a site that is down would bury one each time."""
    planned = {job.id for job in plan.jobs}
    outdated = [letter.id for letter in queue.dead_letters() if _source(letter.body) in planned]
    if outdated:
        log.info("buried jobs of earlier runs are dropped", extra={"jobs": queue.drop(outdated)})


def _source(body: bytes) -> str | None:
    try:
        return parse_job(body).board.source
    except BadInput:
        return None


def facet_names(found: BoardList) -> tuple[str, ...]:
    """All but the boards themselves, of which there are too many to be worth a file each."""
    return tuple(sorted({facet for board in found.boards for facet in board.facets} - {"board"}))

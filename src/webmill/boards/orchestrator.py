"""The orchestrator: stores the plan of a run, and queues a job for each board. It fetches nothing."""

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
    """`lock_ttl`: after so long without a renewal another run may start. None: nobody renews it during the run."""

    deadline: timedelta = DEADLINE
    lock_ttl: timedelta | None = None
    holder: Holder | None = None  # the process that runs it to the end; None: there is none
    publish: PublishOptions = PublishOptions()  # for a run that was left behind
    policy: BackoffPolicy = BackoffPolicy()


def start_run(
    storage: Storage,
    queue: Queue,
    boards: Sequence[Board],
    *,
    broken: Sequence[PublishProblem] = (),
    options: RunOptions | None = None,
    now: Callable[[], datetime] = utc_now,
) -> RunPlan:
    """Start a run. `Conflict` while another one is under way, on whichever machine. `broken`: see `RunPlan`.

    A run that was left behind is ended first: published if it is complete or past its deadline, else abandoned. If this
    is killed anywhere, the next call does the same with this run.
    """
    options = options or RunOptions()
    began = now()
    run = new_run_name(RUN_KIND, began)
    lasts = options.lock_ttl or options.deadline + MARGIN
    run_lock.acquire(storage, run, at=began, lasts=lasts, holder=options.holder)
    try:
        check_kind(storage, RUN_KIND, force=options.publish.force)
        for leftover in open_runs(storage):
            finish_leftover_run(storage, queue, leftover, options=options.publish, now=now)
        leases.acquire(storage, run, holder=options.holder)
        plan = make_plan(run, boards, at=began, deadline=options.deadline, broken=broken)
        write_plan(storage, plan)
        drop_outdated_dead_letters(queue, plan)
        retrying(lambda: queue.publish(make_messages(plan, boards)), policy=options.policy)
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
        log.warning("abandoning a run that was left behind: this one reads its boards again", extra={"run": run})
        end_run(storage, run)


def drop_outdated_dead_letters(queue: Queue, plan: RunPlan) -> None:
    """Drop dead letters of boards that are read again now: else a site that is down would add one each run."""
    planned = {job.id for job in plan.jobs}
    outdated = [letter.id for letter in queue.dead_letters() if _source(letter.body) in planned]
    if outdated:
        log.info("dropping dead letters of earlier runs", extra={"jobs": queue.drop(outdated)})


def _source(body: bytes) -> str | None:
    try:
        return parse_job(body).board.source
    except BadInput:
        return None


def facet_names(found: BoardList) -> tuple[str, ...]:
    """Return the facets of all boards, except the board itself: those are too many for a file each."""
    return tuple(sorted({facet for board in found.boards for facet in board.facets} - {"board"}))

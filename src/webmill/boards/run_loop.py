"""Runs from plan to version, by one process; and runs on a schedule.

run lock ─▶ plan ─▶ jobs ─▶ (workers, here or elsewhere) ─▶ all done, or the deadline ─▶ version
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from webmill.boards.aggregator import RunOutcome, aggregate, check_progress, end_run
from webmill.boards.board_list import Board
from webmill.boards.orchestrator import RunOptions, start_run
from webmill.errors import BadInput, Conflict, NotFound, Unavailable, WebmillError
from webmill.infra.queue.base import Queue
from webmill.infra.storage.base import Storage
from webmill.infra.ticker import Ticker
from webmill.publish import leases, run_lock
from webmill.publish.fragments import RunPlan, RunProgress
from webmill.publish.holder import this_process
from webmill.publish.publication import PublishOptions, utc_now
from webmill.publish.types import PublishProblem

log = logging.getLogger(__name__)

LOCK_TTL = timedelta(minutes=2)  # of a run lock that is not renewed, for other machines
POLL_INTERVAL = 0.5  # seconds between two checks of the progress
LOCKED_WAIT = 15.0  # seconds, while another machine has the run lock


class RunStopped(Exception):
    """The operator has stopped the run."""


class LocalWorkers(Protocol):
    """Workers of this process; those of other machines are not ours to watch."""

    def check(self) -> None:
        """Restart workers that died."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    stop: threading.Event
    workers: LocalWorkers | None = None
    on_progress: Callable[[RunProgress], None] = lambda _: None
    now: Callable[[], datetime] = utc_now
    poll_interval: float = POLL_INTERVAL


def run_once(
    storage: Storage,
    queue: Queue,
    boards: Sequence[Board],
    *,
    broken: Sequence[PublishProblem] = (),
    deadline: timedelta,
    options: PublishOptions,
    context: RunContext,
) -> RunOutcome:
    """Run once. `Conflict` while another run is under way. `RunStopped`: abandoned; the next run starts again.

    `broken`: see `RunPlan`.
    """
    run_options = RunOptions(deadline=deadline, lock_ttl=LOCK_TTL, holder=this_process(), publish=options)
    plan = start_run(storage, queue, boards, broken=broken, options=run_options, now=context.now)
    try:
        with keep_renewed(storage, plan.run) as check:
            wait_until_done(storage, queue, plan, context=context, check=check)
            outcome = aggregate(storage, queue, plan.run, options=options, now=context.now)
    except NotFound as error:
        raise Conflict(f"run {plan.run} was ended by another process: see `webmill publish list`") from error
    except RunStopped:
        end_run(storage, plan.run)
        raise
    except WebmillError:
        release_run_lock(storage, plan.run)  # the next run publishes or abandons what there is of it
        raise
    assert outcome, "the run is complete, or past its deadline"
    return outcome


def wait_until_done(
    storage: Storage, queue: Queue, plan: RunPlan, *, context: RunContext, check: Callable[[], None]
) -> None:
    """Wait until the run is complete or past its deadline. A storage or queue that is unavailable is asked again."""
    while True:
        check()
        try:
            progress = check_progress(storage, queue, plan)
            context.on_progress(progress)
            if progress.is_complete:
                return
        except Unavailable as error:
            log.warning("cannot read the progress of the run", extra={"run": plan.run, "why": str(error)})
        if context.now() >= plan.deadline:
            return
        if context.workers:
            context.workers.check()
        if context.stop.wait(context.poll_interval):
            raise RunStopped


def release_run_lock(storage: Storage, run: str) -> None:
    try:
        run_lock.release(storage, run)
    except WebmillError as error:
        log.warning("cannot release the run lock", extra={"run": run, "why": str(error)})


@contextmanager
def keep_renewed(storage: Storage, run: str) -> Iterator[Callable[[], None]]:
    """Renew the run lock and the lease in a thread. Yields a check that raises `Conflict` when the lock is lost."""
    lost = threading.Event()

    def renew() -> None:
        try:
            run_lock.renew(storage, run)
            leases.renew(storage, run)
        except Conflict:
            lost.set()
        except WebmillError as error:
            log.warning("cannot renew the lease of a run", extra={"run": run, "why": str(error)})

    def check() -> None:
        if lost.is_set():
            raise Conflict(
                f"run {run} did not renew its lock in time, and another one has started: this one is abandoned"
            )

    with Ticker(LOCK_TTL.total_seconds() / 6, renew, name="lease"):
        yield check


def run_every(
    once: Callable[[], None], storage: Storage, *, every: timedelta, stop: threading.Event, now: Callable[[], datetime]
) -> None:
    """Run on a schedule until `stop` is set. After a run or a sleep that took too long, one missed run is made up for.

    Several machines may do this with one storage: they share the schedule, and one of them does each run.
    """
    while not stop.is_set():
        try:
            due = run_lock.time_until_due(storage, every, now=now()).total_seconds()
            if not due:
                once()
        except Conflict as error:
            log.info("another run is under way", extra={"why": str(error)})
            due = min(LOCKED_WAIT, every.total_seconds())
        except (Unavailable, BadInput, NotFound) as error:
            log.error("a run failed: the next one comes on schedule", extra={"why": str(error)})
            due = every.total_seconds()
        except RunStopped:
            return
        stop.wait(due)

"""One run from plan to version, seen through by one process; and runs on a schedule.

turn ─▶ plan ─▶ jobs ─▶ (workers, here or elsewhere) ─▶ all done, or the deadline ─▶ version
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
from webmill.publish import leases, run_lock
from webmill.publish.fragments import RunPlan, RunProgress
from webmill.publish.holder import this_process
from webmill.publish.publication import PublishOptions, utc_now
from webmill.publish.types import PublishProblem

log = logging.getLogger(__name__)

LOCK_TTL = timedelta(minutes=2)  # without a renewal, seen from another machine
POLL_INTERVAL = 0.5  # seconds between two looks at the run
LOCKED_WAIT = 15.0  # seconds, while another machine has the turn


class RunStopped(Exception):
    """The operator has had enough."""


class LocalWorkers(Protocol):
    """Workers of our own; those of other machines are nobody's here."""

    def check(self) -> None:
        """Starts again what died."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    stop: threading.Event
    crew: LocalWorkers | None = None
    watch: Callable[[RunProgress], None] = lambda _: None
    now: Callable[[], datetime] = utc_now
    glance: float = POLL_INTERVAL


def run_once(
    storage: Storage,
    queue: Queue,
    boards: Sequence[Board],
    *,
    broken: Sequence[PublishProblem] = (),
    deadline: timedelta,
    options: PublishOptions,
    around: RunContext,
) -> RunOutcome:
    """`Conflict` while another run is under way. `RunStopped`: it is given up, and the next one begins anew.

    `broken`: see `RunPlan`.
    """
    planning = RunOptions(deadline=deadline, turn_lasts=LOCK_TTL, holder=this_process(), publish=options)
    plan = start_run(storage, queue, boards, broken=broken, planning=planning, now=around.now)
    try:
        with keep_renewed(storage, plan.run) as check:
            wait_until_done(storage, queue, plan, around=around, check=check)
            outcome = aggregate(storage, queue, plan.run, options=options, now=around.now)
    except NotFound as error:
        raise Conflict(f"run {plan.run} was ended by somebody else: see `webmill publish list`") from error
    except RunStopped:
        end_run(storage, plan.run)
        raise
    except WebmillError:
        release_run_lock(storage, plan.run)  # what there is of it is the next run's to publish or to give up
        raise
    assert outcome, "it was complete, or late"
    return outcome


def wait_until_done(
    storage: Storage, queue: Queue, plan: RunPlan, *, around: RunContext, check: Callable[[], None]
) -> None:
    """Until the run is complete or late. A store or queue that is out of reach for a moment is asked again."""
    while True:
        check()
        try:
            seen = check_progress(storage, queue, plan)
            around.watch(seen)
            if seen.is_complete:
                return
        except Unavailable as error:
            log.warning("cannot see how far the run is", extra={"run": plan.run, "why": str(error)})
        if around.now() >= plan.deadline:
            return
        if around.crew:
            around.crew.check()
        if around.stop.wait(around.glance):
            raise RunStopped


def release_run_lock(storage: Storage, run: str) -> None:
    try:
        run_lock.release(storage, run)
    except WebmillError as error:
        log.warning("a run keeps its turn", extra={"run": run, "why": str(error)})


@contextmanager
def keep_renewed(storage: Storage, run: str) -> Iterator[Callable[[], None]]:
    """Keeps the turn and the lease of a run. Gives what raises `Conflict` when the turn is lost."""
    over, lost = threading.Event(), threading.Event()

    def renew() -> None:
        while not over.wait(LOCK_TTL.total_seconds() / 6):
            try:
                run_lock.renew(storage, run)
                leases.renew(storage, run)
            except Conflict:
                lost.set()
                return
            except WebmillError as error:
                log.warning("a run's lease was not renewed", extra={"run": run, "why": str(error)})

    def check() -> None:
        if lost.is_set():
            raise Conflict(f"run {run} was not heard of for too long, and another one has begun: this one is given up")

    keeper = threading.Thread(target=renew, name="webmill-lease", daemon=True)
    keeper.start()
    try:
        yield check
    finally:
        over.set()
        keeper.join()


def run_every(
    once: Callable[[], None], storage: Storage, *, every: timedelta, stop: threading.Event, now: Callable[[], datetime]
) -> None:
    """Until `stop` is set. A tick that was missed, because a run or a sleep took longer, is made up for once.

    Several machines may do this with one storage: they share one schedule, and one of them has each run.
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
            log.error("a run failed: the next one is tried in its time", extra={"why": str(error)})
            due = every.total_seconds()
        except RunStopped:
            return
        stop.wait(due)

"""The aggregator: assembles the fragments of a run and makes the version live.

It commits when every planned job has a fragment or was abandoned, or at the deadline. An empty queue proves nothing: a
message may be held by a paused worker, or on its way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeAlias

import msgspec

from webmill.boards.jobs import BoardJob, parse_job
from webmill.errors import BadInput, NotFound, Unavailable
from webmill.infra.queue.base import DeadLetter, Queue
from webmill.infra.storage.base import Readable, Storage
from webmill.publish import history, leases, run_lock
from webmill.publish.fragments import (
    NOTES,
    Fragment,
    FragmentSummary,
    ItemNote,
    RunPlan,
    RunProgress,
    abandon_job,
    assemble,
    is_run_open,
    read_plan,
    read_progress,
    remove_run,
)
from webmill.publish.guard import VersionShrunk
from webmill.publish.manifest import read_file
from webmill.publish.publication import Publication, PublishOptions, utc_now
from webmill.publish.runs import commit_with_rebase
from webmill.publish.types import PublishProblem, Version, decode, encode
from webmill.publish.version import VersionStats

log = logging.getLogger(__name__)

NotesBySource: TypeAlias = dict[str, tuple[ItemNote, ...]]  # by source


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run. `version` is None when it was `refused`, for this reason; the one that was live before when
    nothing has changed since.
    """

    run: str
    version: str | None
    counts: VersionStats | None
    is_new: bool = True
    refused: str = ""
    planned: int = 0
    missing: int = 0  # jobs that were not done before the deadline
    failed: tuple[str, ...] = ()  # sources
    left_out: int = 0  # entries of the board list that could not be identified
    problems: tuple[PublishProblem, ...] = ()  # the first few


def aggregate(
    storage: Storage,
    queue: Queue | None,
    run: str,
    *,
    options: PublishOptions | None = None,
    now: Callable[[], datetime] = utc_now,
) -> RunOutcome | None:
    """Publish a run; None while it is not complete, and its deadline not over. `NotFound`: no such run, or it is over.

    `queue`: where jobs are dead letters that killed every worker; None if somebody else handles them
    (`abandon_dead_letters`). Several processes may call this: the run is published once.
    """
    plan = read_plan(storage, run)
    if not check_progress(storage, queue, plan).is_complete and now() < plan.deadline:
        return None
    outcome = publish_run(storage, plan, options=options or PublishOptions(), now=now)
    end_run(storage, run)
    return outcome


def check_progress(storage: Storage, queue: Queue | None, plan: RunPlan) -> RunProgress:
    """Return the progress of the run. `NotFound` when another aggregator has ended it."""
    if queue and queue.stats().buried:
        abandon_dead_letters(storage, queue.dead_letters(), plan=plan)
    progress = read_progress(storage, plan)
    if not progress.is_complete:
        check_open(storage, plan.run)
    return progress


def check_open(storage: Readable, run: str) -> None:
    if not is_run_open(storage, run):
        raise NotFound(f"run {run} is over: another aggregator has ended it")


def abandon_dead_letters(storage: Storage, letters: Iterable[DeadLetter], *, plan: RunPlan | None = None) -> int:
    """Abandon each job among the dead letters with its error, so that nobody waits for it. Return how many."""
    count = 0
    for letter in letters:
        try:
            job = parse_job(letter.body)
        except BadInput:
            continue  # of another program
        if plan is None or job.run == plan.run:
            abandon_job(storage, job.run, failed_fragment(job, letter.last_error, attempts=letter.attempts))
            count += 1
    return count


def failed_fragment(
    job: BoardJob, reason: str, *, attempts: int, problems: tuple[PublishProblem, ...] = ()
) -> Fragment:
    message = f"failed after {attempts} attempts: {reason}"
    last = PublishProblem(stage="job", source=job.board.source, url=job.board.url, message=message, retryable=True)
    return Fragment(job=job.board.source, problems=(*problems, last), failed=True)


def publish_run(storage: Storage, plan: RunPlan, *, options: PublishOptions, now: Callable[[], datetime]) -> RunOutcome:
    options = msgspec.structs.replace(options, even_if_same=options.force)
    with Publication.join(storage, plan.run, options=options, now=now, started=plan.planned_at) as publication:
        summary = assemble(storage, plan, publication)
        check_open(storage, plan.run)  # or fragments were removed while we read them
        publication.blobs.tally.add(summary.blobs)
        publication.counts.update(summary.counts)
        publication.counts["content_blobs_written"] = summary.blobs.written  # the rest are shards of indexes
        publication.attach(NOTES, encode(collect_notes(storage, summary)))
        published, refused = None, ""
        try:
            published = commit_with_rebase(publication)
        except VersionShrunk as error:
            refused = str(error)
    return RunOutcome(
        run=plan.run,
        version=published.version.version if published else None,
        counts=published.counts if published else None,
        is_new=published.is_new if published else False,
        refused=refused,
        planned=len({job.source for job in plan.jobs} | {one.source for one in plan.broken if one.source}),
        missing=len(summary.missing),
        failed=tuple(dict.fromkeys(summary.failed)),
        left_out=sum(not one.source for one in plan.broken),
        problems=tuple(summary.problems),
    )


def collect_notes(storage: Readable, summary: FragmentSummary) -> NotesBySource:
    """Return the notes of this run, and of the previous version for the sources that are kept of it."""
    try:
        before = read_notes(storage, history.live_version(storage))
    except NotFound:
        before = {}
    kept = {source: before[source] for source in (*summary.failed, *summary.missing) if source in before}
    return summary.notes | kept


def read_notes(storage: Readable, version: Version) -> NotesBySource:
    """Return the notes of a version; none if its publisher wrote none."""
    try:
        return decode(read_file(storage, version, NOTES), NotesBySource, source=NOTES)
    except NotFound:
        return {}


def end_run(storage: Storage, run: str) -> None:
    """Clean up after a run that is published, or never will be. If this is killed, the next run does it."""
    try:
        remove_run(storage, run)
        leases.release(storage, run)
        run_lock.release(storage, run)
    except Unavailable as error:
        log.warning("cannot clean up a run: the next one will do it", extra={"run": run, "why": str(error)})

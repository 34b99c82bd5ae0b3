"""A run of many workers: its plan, and one fragment for each planned job, until all are put together.

A run is complete when every planned job has a fragment, or when its deadline is over; an empty queue says nothing.
The first fragment of a job is the one that counts: a job that is delivered twice, a worker that was paused, a result
that comes late change nothing.

    leases.take(storage, run)                              # orchestrator: before the first blob is put
    write_plan(storage, Plan(run=run, jobs=…, …))
    hand_in(storage, run, Fragment(job=…, items=…))        # worker: blobs first, then this
    leases.renew(storage, run)
    if progress(storage, plan).is_complete or late: …      # aggregator
        with Publication.join(storage, run) as publication:
            assemble(storage, plan, publication)
            publication.commit()
        remove_run(storage, run)
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import Absent, Readable, Storage
from webmill.publish.nouns import Item, Problem, decode, encode
from webmill.publish.places import RUNS, check_run, sha256
from webmill.publish.snapshot import Publication


class Job(msgspec.Struct, frozen=True):
    """`id` is unique in the run (a board's id is not: 45 departments share one). `source` is what its items name, and
    what is kept when the job fails: no two jobs should share one.
    """

    id: str
    source: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    jobs: tuple[Job, ...]
    planned_at: datetime
    deadline: datetime


class Fragment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a job. `failed`: not at all, so that its source keeps what it had. `kept`: items that failed."""

    job: str
    items: tuple[Item, ...] = ()
    problems: tuple[Problem, ...] = ()
    kept: tuple[str, ...] = ()
    failed: bool = False


class Progress(msgspec.Struct, frozen=True):
    planned: int
    missing: tuple[Job, ...]

    @property
    def is_complete(self) -> bool:
        return not self.missing


def write_plan(storage: Storage, plan: Plan) -> None:
    """`Conflict` when the run has a plan already. The same plan again is fine."""
    if len({job.id for job in plan.jobs}) != len(plan.jobs):
        raise BadInput("two jobs of one id", reason="bad_plan", source=plan.run)
    _create(storage, _plan_key(plan.run), encode(plan))


def read_plan(storage: Readable, run: str) -> Plan:
    key = _plan_key(run)
    return decode(storage.read(key), Plan, source=key)


def hand_in(storage: Storage, run: str, fragment: Fragment) -> bool:
    """Whether it counts: not when another one of this job was first. Its blobs have been put (and settled)."""
    try:
        _create(storage, _fragment_key(run, fragment.job), encode(fragment))
    except Conflict:
        return False
    return True


def progress(storage: Storage, plan: Plan) -> Progress:
    there = {stat.key for stat in storage.list(_fragments_of(plan.run))}
    missing = tuple(job for job in plan.jobs if _fragment_key(plan.run, job.id) not in there)
    return Progress(len(plan.jobs), missing)


def read_fragments(storage: Readable, plan: Plan) -> Iterator[tuple[Job, Fragment | None]]:
    """Of every planned job, and of no other."""
    for job in plan.jobs:
        key = _fragment_key(plan.run, job.id)
        try:
            yield job, decode(storage.read(key), Fragment, source=key)
        except NotFound:
            yield job, None


def assemble(storage: Readable, plan: Plan, publication: Publication) -> None:
    """Adds what all jobs have found. A job without a fragment is a problem like any other, and keeps its source."""
    for job, fragment in read_fragments(storage, plan):
        if fragment is None:
            message = f"job {job.id} was not done before the deadline"
            publication.report(Problem(stage="deadline", source=job.source, message=message, retryable=True))
        for item in fragment.items if fragment else ():
            publication.add(item)
        for problem in fragment.problems if fragment else ():
            publication.report(problem)
        for id_ in fragment.kept if fragment else ():
            publication.keep_item(id_)
        if fragment is None or fragment.failed:
            publication.keep_source(job.source)


def remove_run(storage: Storage, run: str) -> None:
    """After the commit. The plan goes last: killed before, it is all there to be removed again (gc does, too)."""
    for stat in [*storage.list(_fragments_of(run))]:
        storage.delete(stat.key)
    storage.delete(_plan_key(run))


def _create(storage: Storage, key: str, data: bytes) -> None:
    try:
        storage.write(key, data, condition=Absent())
    except Conflict:
        if storage.read(key) != data:
            raise


def _plan_key(run: str) -> str:
    return f"{RUNS}{check_run(run)}/plan.json"


def _fragments_of(run: str) -> str:
    return f"{RUNS}{check_run(run)}/fragments/"


def _fragment_key(run: str, job: str) -> str:
    """Hashed: what names a job comes from a site map, and is no name for a file."""
    return f"{_fragments_of(run)}{sha256(job.encode(errors='surrogatepass'))}.json"

"""A run of many workers: its plan, and one fragment for each planned job, until all are assembled.

A run is complete when every planned job has a fragment, or when its deadline is over; an empty queue proves nothing.
The first fragment of a job counts: a job that is delivered twice, a worker that was paused, a late result change
nothing. A job that was abandoned has its reason under a key of its own, so that nobody waits for it; should it be done
after all before the run is assembled, its fragment counts.

    leases.acquire(storage, run)                           # orchestrator: before the first blob is put
    write_plan(storage, RunPlan(run=run, jobs=…, …))
    submit_fragment(storage, run, Fragment(job=…, items=…))  # worker: blobs first, then this
    leases.renew(storage, run)
    if read_progress(storage, plan).is_complete or late: …  # aggregator
        with Publication.join(storage, run) as publication:
            assemble(storage, plan, publication)
            publication.commit()
        remove_run(storage, run)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import Readable, Storage
from webmill.publish.blobs import BlobCounts
from webmill.publish.keys import RUNS, check_run, sha256
from webmill.publish.publication import Publication
from webmill.publish.types import PublishedItem, PublishProblem, decode, encode
from webmill.publish.write_once import write_once

NOTES = "meta/notes.json"
END_OF_BATCH = "end-of-batch.json"
_MAX_PROBLEMS = 20  # in a summary; all are in `aux/errors.json`
_FRAGMENTS, _GIVEN_UP = "fragments", "given-up"


class RunJob(msgspec.Struct, frozen=True):
    """A job of a run. `id` is unique in the run (a board's id is not: 45 departments share one). `source` is what its
    items name, and what is kept when the job fails: no two jobs should share one.
    """

    id: str
    source: str


class ItemNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next reading of an item needs to know of this one (`NOTES`). Not part of the item: it may change.

    It is about the content of this hash. `row` and `checked` belong to the reader.
    """

    id: str
    hash: str
    row: str = ""
    checked: float = 0.0


class RunPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The jobs of a run. `broken`: entries that could not become a job. Their sources, if known, keep their items."""

    run: str
    jobs: tuple[RunJob, ...]
    planned_at: datetime
    deadline: datetime
    broken: tuple[PublishProblem, ...] = ()


class Fragment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a job. `failed`: it has none, and its source keeps its items. `kept`: ids of items that failed."""

    job: str
    items: tuple[PublishedItem, ...] = ()
    problems: tuple[PublishProblem, ...] = ()
    kept: tuple[str, ...] = ()
    failed: bool = False
    notes: tuple[ItemNote, ...] = ()
    blobs: BlobCounts = msgspec.field(default_factory=BlobCounts)
    counts: dict[str, int] = {}


class FragmentSummary(msgspec.Struct):
    """What the fragments of a run hold beside their items: sources that are missing or failed, the first problems, the
    notes of each source.
    """

    missing: list[str] = []
    failed: list[str] = []
    problems: list[PublishProblem] = []
    notes: dict[str, tuple[ItemNote, ...]] = {}
    blobs: BlobCounts = msgspec.field(default_factory=BlobCounts)
    counts: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, job: RunJob, fragment: Fragment) -> None:
        self.notes[job.source] = fragment.notes
        self.counts.update(fragment.counts)
        self.blobs.add(fragment.blobs)
        self.problems += fragment.problems[: _MAX_PROBLEMS - len(self.problems)]
        if fragment.failed:
            self.failed.append(job.source)


class RunProgress(msgspec.Struct, frozen=True):
    planned: int
    missing: tuple[RunJob, ...]
    given_up: int = 0

    @property
    def is_complete(self) -> bool:
        return not self.missing


def write_plan(storage: Storage, plan: RunPlan) -> None:
    """Store the plan of a run. `Conflict` when it has another one already; the same plan again is fine."""
    if len({job.id for job in plan.jobs}) != len(plan.jobs):
        raise BadInput("two jobs have the same id", reason="bad_plan", source=plan.run)
    write_once(storage, _plan_key(plan.run), encode(plan))


def read_plan(storage: Readable, run: str) -> RunPlan:
    key = _plan_key(run)
    return decode(storage.read(key), RunPlan, source=key)


def is_run_open(storage: Readable, run: str) -> bool:
    """Whether the run has a plan: removing that ends it."""
    try:
        storage.stat(_plan_key(run))
    except NotFound:
        return False
    return True


def submit_fragment(storage: Storage, run: str, fragment: Fragment) -> bool:
    """Store a fragment whose blobs are durable. Return False when another one of the job was first."""
    try:
        write_once(storage, _key(run, _FRAGMENTS, fragment.job), encode(fragment))
    except Conflict:
        return False
    return True


def abandon_job(storage: Storage, run: str, fragment: Fragment) -> None:
    """Store why a job failed for good, so that nobody waits for it. The first reason stays."""
    try:
        write_once(storage, _key(run, _GIVEN_UP, fragment.job), encode(fragment))
    except Conflict:
        pass


def read_progress(storage: Storage, plan: RunPlan) -> RunProgress:
    done = _file_names(storage, plan.run, _FRAGMENTS)
    over = done | _file_names(storage, plan.run, _GIVEN_UP)
    missing = tuple(job for job in plan.jobs if _name(job.id) not in over)
    failed = sum(_name(job.id) in over and _name(job.id) not in done for job in plan.jobs)
    return RunProgress(len(plan.jobs), missing, failed)


def announce_end(storage: Storage, run: str) -> bool:
    """Write `end-of-batch.json` of a run if no job of it is missing. Return whether it has ended.

    For storages that tell of new files: whoever publishes runs need not ask again and again.
    """
    plan = read_plan(storage, run)
    if not read_progress(storage, plan).is_complete:
        return False
    write_once(storage, f"{RUNS}{check_run(run)}/{END_OF_BATCH}", encode({"run": run}))
    return True


def read_fragments(storage: Readable, plan: RunPlan) -> Iterator[tuple[RunJob, Fragment | None]]:
    """Yield every planned job with its fragment; None when it has none."""
    for job in plan.jobs:
        yield job, _read(storage, plan.run, job)


def _read(storage: Readable, run: str, job: RunJob) -> Fragment | None:
    for folder in (_FRAGMENTS, _GIVEN_UP):
        key = _key(run, folder, job.id)
        try:
            return decode(storage.read(key), Fragment, source=key)
        except NotFound:
            continue
    return None


def assemble(storage: Readable, plan: RunPlan, publication: Publication) -> FragmentSummary:
    """Add the results of all jobs to the publication. A job without a fragment is a problem, and keeps its source."""
    summary = FragmentSummary(failed=[problem.source for problem in plan.broken if problem.source])
    summary.problems += plan.broken[:_MAX_PROBLEMS]
    for problem in plan.broken:
        publication.report(problem)
    for source in summary.failed:
        publication.keep_source(source)
    for job, fragment in read_fragments(storage, plan):
        publication.expect(job.source)
        if fragment is None:
            summary.missing.append(job.source)
            message = f"job {job.id} was not done before the deadline of the run"
            publication.report(PublishProblem(stage="deadline", source=job.source, message=message, retryable=True))
            publication.keep_source(job.source)
            continue
        summary.add(job, fragment)
        for item in fragment.items:
            publication.add(item)
        for problem in fragment.problems:
            publication.report(problem)
        for id_ in fragment.kept:
            publication.keep_item(id_)
        if fragment.failed:
            publication.keep_source(job.source)
    return summary


def remove_run(storage: Storage, run: str) -> None:
    """Delete the files of a run, the plan first, which ends it. What a late worker leaves is for gc."""
    storage.delete(_plan_key(run))
    for stat in [*storage.list(f"{RUNS}{check_run(run)}/")]:
        storage.delete(stat.key)


def open_runs(storage: Storage) -> list[str]:
    """Return the runs that have a plan: under way, or left behind by an orchestrator that was killed."""
    ending = "/plan.json"
    return [
        stat.key.removeprefix(RUNS).removesuffix(ending) for stat in storage.list(RUNS) if stat.key.endswith(ending)
    ]


def _plan_key(run: str) -> str:
    return f"{RUNS}{check_run(run)}/plan.json"


def _file_names(storage: Storage, run: str, folder: str) -> set[str]:
    return {stat.key.rpartition("/")[2] for stat in storage.list(f"{RUNS}{check_run(run)}/{folder}/")}


def _key(run: str, folder: str, job: str) -> str:
    return f"{RUNS}{check_run(run)}/{folder}/{_name(job)}"


def _name(job: str) -> str:
    """Return the hash of the id: ids come from a board list and may not be file names."""
    return f"{sha256(job.encode(errors='surrogatepass'))}.json"

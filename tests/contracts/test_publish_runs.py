"""A run of many workers: its plan decides when it is complete, and of each job the first fragment counts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.publish.publications import START, Clock, aux, closure
from webmill.errors import BadInput, Conflict, NotFound
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.s3 import S3Options, S3Storage
from webmill.publish import leases
from webmill.publish.blobs import BlobStore
from webmill.publish.fragments import (
    Fragment,
    RunJob,
    RunPlan,
    assemble,
    read_plan,
    read_progress,
    remove_run,
    submit_fragment,
    write_plan,
)
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem, PublishProblem

S3 = pytest.param("s3", marks=pytest.mark.server("s3"))
JOBS = tuple(RunJob(f"dept{number}/notice", f"dept{number}") for number in range(4))  # all boards are called "notice"


@pytest.fixture(params=["memory", "local", S3])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "memory":
        yield MemoryStorage()
    elif request.param == "local":
        yield LocalStorage(tmp_path / "root")
    else:
        bucket, question, options = request.getfixturevalue("s3_url").partition("?")
        yield S3Storage(S3Options.from_url(f"{bucket}/{secrets.token_hex(6)}{question}{options}"))


def plan_of(run: str) -> RunPlan:
    return RunPlan(run=run, jobs=JOBS, planned_at=START, deadline=START + timedelta(minutes=10))


def begin(storage: Storage, run: str) -> RunPlan:
    leases.acquire(storage, run)
    write_plan(storage, plan_of(run))
    return read_plan(storage, run)


def work(storage: Storage, run: str, job: RunJob, text: str = "text") -> bool:
    hash_ = BlobStore(storage).put({"text": text})
    return submit_fragment(
        storage, run, Fragment(job=job.id, items=(PublishedItem(f"{job.source}/1", job.source, hash_),))
    )


def finish(storage: Storage, plan: RunPlan) -> None:
    with Publication.join(storage, plan.run, options=PublishOptions(most_lost=1), now=Clock()) as publication:
        assemble(storage, plan, publication)
        publication.commit()
    remove_run(storage, plan.run)


def test_a_run_is_complete_when_every_planned_job_has_its_fragment(storage: Storage) -> None:
    plan = begin(storage, "run-1")
    assert read_progress(storage, plan).missing == JOBS
    for job in JOBS:
        assert not read_progress(storage, plan).is_complete
        assert work(storage, "run-1", job)
    assert read_progress(storage, plan).is_complete
    finish(storage, plan)
    assert closure(storage) == {f"dept{number}/1": "text" for number in range(4)}
    assert [*storage.list("snapshots/_runs/")] == []
    with pytest.raises(NotFound):
        read_plan(storage, "run-1")


def test_a_second_delivery_and_a_late_result_change_nothing(storage: Storage) -> None:
    plan = begin(storage, "run-1")
    for job in JOBS:
        assert work(storage, "run-1", job, "first")
    assert not work(storage, "run-1", JOBS[0], "second")
    assert work(storage, "run-1", JOBS[1], "first")  # the same again: its answer was lost
    assert work(storage, "run-1", RunJob("not planned", "stranger"))
    finish(storage, plan)
    assert closure(storage) == {f"dept{number}/1": "first" for number in range(4)}
    before = storage.read("latest.json")
    assert work(storage, "run-1", JOBS[2], "late")  # into a run that is over: nobody will look
    assert storage.read("latest.json") == before
    assert closure(storage) == {f"dept{number}/1": "first" for number in range(4)}


def test_what_failed_and_what_is_missing_at_the_deadline_is_kept_and_told(storage: Storage) -> None:
    plan = begin(storage, "run-1")
    for job in JOBS:
        work(storage, "run-1", job, "old")
    finish(storage, plan)
    plan = begin(storage, "run-2")
    work(storage, "run-2", JOBS[0], "new")
    refused = PublishProblem(stage="fetch", source="dept1", url="http://dept1/", message="HTTP 500", retryable=True)
    submit_fragment(storage, "run-2", Fragment(job=JOBS[1].id, problems=(refused,), failed=True))
    submit_fragment(storage, "run-2", Fragment(job=JOBS[2].id, kept=("dept2/1",)))
    assert read_progress(storage, plan).missing == JOBS[3:]
    finish(storage, plan)
    assert closure(storage) == {"dept0/1": "new", "dept1/1": "old", "dept2/1": "old", "dept3/1": "old"}
    assert [(found["stage"], found["source"]) for found in aux(storage, "aux/errors.json")] == [
        ("fetch", "dept1"),
        ("deadline", "dept3"),
    ]
    stale = {found["id"] for found in aux(storage, "index/all.json")["items"] if "stale_since" in found}
    assert stale == {"dept1/1", "dept2/1", "dept3/1"}


def test_a_run_has_one_plan_of_different_jobs(storage: Storage) -> None:
    begin(storage, "run-1")
    write_plan(storage, plan_of("run-1"))  # the same, by an orchestrator that was started again
    with pytest.raises(Conflict):
        write_plan(storage, RunPlan(run="run-1", jobs=JOBS[:2], planned_at=START, deadline=START))
    with pytest.raises(BadInput):
        write_plan(storage, RunPlan(run="run-2", jobs=JOBS[:1] * 2, planned_at=START, deadline=START))
    with pytest.raises(BadInput):
        read_plan(storage, "../x")


def test_a_run_that_was_given_up_is_cleared_away(storage: Storage) -> None:
    plan = begin(storage, "run-1")
    for job in JOBS:
        work(storage, "run-1", job)
    finish(storage, plan)
    begin(storage, "run-2")
    work(storage, "run-2", JOBS[0], "never published")
    assert collect_garbage(storage, keep=1, grace=timedelta(0), now=START).waiting_for == ["run-2"]
    assert [*storage.list("snapshots/_runs/run-2/")]
    leases.release(storage, "run-2")
    report = collect_garbage(storage, keep=1, grace=timedelta(0), now=START)
    assert (report.trashed, report.files) == (1, 2)
    assert [*storage.list("snapshots/_runs/")] == []

"""What went wrong in the live version: sources that are stale or missing, and errors of publishing."""

from __future__ import annotations

from collections.abc import Iterator

from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.pipeline.problems.types import ProblemGroup, ProblemTally
from webmill.publish import history
from webmill.publish.manifest import read_file
from webmill.publish.types import PublishProblem, decode
from webmill.publish.version_items import SourceStatus


def publish_problems(storage: Storage, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the problems of the live version."""
    try:
        live = history.live_version(storage)
    except NotFound:
        return
    published = live.published_at.timestamp()
    stale, failed = ProblemTally(), ProblemTally()
    for source in decode(read_file(storage, live, "meta/sources.json"), list[SourceStatus], source="meta/sources.json"):
        if source.status != "fresh":
            since = source.since.timestamp() if source.since else published
            message = f"{source.stale:,} items are kept from earlier" if source.stale else ""
            stale.add(source.status, source.source, message=message, time=since)
    for problem in decode(read_file(storage, live, "aux/errors.json"), list[PublishProblem], source="aux/errors.json"):
        subject = problem.url or problem.item or problem.source or problem.stage
        failed.add(problem.stage, subject, message=problem.message, time=published)
    for cause, found in stale.causes():
        yield ProblemGroup(
            stage="publish",
            cause=f"source_{cause}",
            severity="error",
            title="Sources could not be read: their items are those of an earlier time"
            if cause == "stale"
            else "Sources could not be read, and nothing of them is kept",
            count=found.count,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice="They are read again by the next publication; see the errors for why.",
            command=f"webmill publish show {folder} --errors",
        )
    for cause, found in failed.causes():
        yield ProblemGroup(
            stage="publish",
            cause=f"error_{cause}",
            severity="error",
            title=f"Errors while publishing: {cause}",
            count=found.count,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice="The next publication tries again; what fails each time has to be repaired at its source.",
            command=f"webmill publish show {folder} --errors",
        )

"""The tools about collections themselves: what there is, what went wrong, and, where it is allowed, saving a page."""

from __future__ import annotations

import time

import msgspec

from webmill.errors import NotFound, Unavailable, WebmillError
from webmill.pipeline.problems import ProblemGroup
from webmill.pipeline.save_jobs import SaveJob, find_job, start_job
from webmill.serve.api.cursors import AnswerSize, make_cursor, read_cursor
from webmill.serve.api.untrusted import LONGEST_TITLE, clip
from webmill.serve.mcp.arguments import CollectionsArguments, ProblemsArguments, SaveArguments, SaveStatusArguments
from webmill.serve.mcp.citations import cite_capture, find_capture
from webmill.serve.mcp.documents import Offset
from webmill.serve.mcp.opened import OpenedCollection, OpenedCollections
from webmill.serve.mcp.replies import (
    AskedCollection,
    AskedCollections,
    Citation,
    ListedProblem,
    ListedProblems,
    ProblemCase,
    SaveStarted,
)
from webmill.serve.pages.problems import PATIENCE
from webmill.serve.site import is_indexed

MOST_CASES = 5  # of a problem
MOST_CRAWLS = 100


def collections(asked: OpenedCollections, arguments: CollectionsArguments) -> AskedCollections:
    del arguments
    return AskedCollections(collections=[describe(one) for one in asked.all()])


def describe(asked: OpenedCollection) -> AskedCollection:
    """Return a collection with its figures; those that are not there are left out."""
    crawls = [crawl.name for crawl in asked.site.crawls() if is_indexed(crawl)]
    found = AskedCollection(name=asked.name, crawls=crawls[:MOST_CRAWLS])
    try:
        found = msgspec.structs.replace(found, searchable=asked.reader.engine.state()[0])
    except WebmillError:  # no index yet, or its server is away
        pass
    try:
        live = asked.reader.published.live()
    except NotFound:
        return found
    return msgspec.structs.replace(
        found,
        version=live.version,
        published_at=live.published_at,
        versions=len(asked.reader.published.versions()),
        documents=live.count,
    )


def problems(asked: OpenedCollection, arguments: ProblemsArguments) -> ListedProblems:
    place = read_cursor(arguments, Offset) or Offset()
    report = asked.problems.latest(patience=PATIENCE)
    if report is None:
        raise Unavailable("the problems are still being collected; ask again")
    wanted = [group for group in report.groups if arguments.severity in (None, group.severity)]
    found: list[ListedProblem] = []
    size = AnswerSize()
    for group in wanted[max(0, place.number) :]:
        listed = list_problem(group)
        if len(found) == arguments.limit or not size.has_room(listed):
            break
        found.append(listed)
    reached = place.number + len(found)
    return ListedProblems(
        problems=found,
        next_cursor=make_cursor(arguments, Offset(reached)) if found and reached < len(wanted) else None,
    )


def list_problem(group: ProblemGroup) -> ListedProblem:
    return ListedProblem(
        stage=group.stage,
        cause=group.cause,
        severity=group.severity,
        title=clip(group.title, LONGEST_TITLE),
        count=group.count,
        advice=group.advice,
        command=group.command,
        untrusted=[
            ProblemCase(subject=clip(one.subject, 500), message=clip(one.message, 500))
            for one in group.examples[:MOST_CASES]
        ],
    )


def save(asked: OpenedCollection, arguments: SaveArguments) -> SaveStarted:
    job = start_job(asked.site.root, arguments.url, page_resources=arguments.page_resources, now=time.time())
    return save_reply(asked, job)


def save_status(asked: OpenedCollection, arguments: SaveStatusArguments) -> SaveStarted:
    return save_reply(asked, find_job(asked.site.root, arguments.id, now=time.time()))


def save_reply(asked: OpenedCollection, job: SaveJob) -> SaveStarted:
    return SaveStarted(id=job.id, state=job.state, message=clip(job.message, 500), citation=cite_saved(asked, job))


def cite_saved(asked: OpenedCollection, job: SaveJob) -> Citation | None:
    page = job.report.page if job.report else None
    if page is None or not page.filename:
        return None
    capture = find_capture(asked, page.url, timestamp=page.timestamp, filename=page.filename)
    return cite_capture(asked, capture) if capture else Citation(collection=asked.name, url=page.url)

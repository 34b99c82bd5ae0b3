"""/problems and /api/problems: everything that went wrong in any stage, by cause, with what to do and a retry."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import Unavailable
from webmill.pipeline.problems import ProblemGroup, ProblemReport, retry_problem
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.guard.authorization import is_authorized
from webmill.serve.pages.filters import pluralize
from webmill.serve.pages.problem_survey import ProblemSurvey
from webmill.serve.pages.render import render
from webmill.serve.pages.tasks import read_form
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site


class RetryForm(msgspec.Struct, frozen=True, kw_only=True):
    """Which problem."""

    name: Annotated[str, Meta(min_length=1, description="`retry` of the problem.")]


STAGES = ("crawl", "archive", "index", "cc batch", "extract", "dataset", "tasks", "publish", "alert")
PATIENCE = 20.0  # seconds that a program waits for the first report
PROBLEMS = Operation(
    name="list_problems",
    tag="operations",
    summary="List problems",
    about="What went wrong in any stage, by cause, the most serious first, as `webmill problems --json` prints it.",
    replies={200: Reply(about="The problems.", kind=ProblemReport)},
    is_conditional=True,
)
RETRY = Operation(
    name="retry_problem",
    tag="operations",
    method="post",
    summary="Retry a problem",
    about="Queue the tasks of a problem again, or fetch its URLs again.",
    form=RetryForm,
    replies={303: Reply(about="Done.", media_types=(), headers={"Location": "The page that says so."})},
    errors=(400, 401, 403, 404, 409, 413),
    error_form="message",
)


class StageProblems(msgspec.Struct, frozen=True):
    """The groups of a stage; each with the signature of its retry button, or none."""

    stage: str
    groups: list[tuple[ProblemGroup, str]]


def routes(site: Site, threads: BoundedThreads, survey: ProblemSurvey) -> list[BaseRoute]:
    def problems(request: Request) -> Response:
        if done := done_text(request):
            survey.forget()  # another process may have retried
        report = survey.latest()
        stages = by_stage(site, report) if report else []
        return render(site, request, "problems.html", report=report, stages=stages, done=done)

    def as_json(request: Request) -> Response:
        report = survey.latest(patience=PATIENCE)
        if report is None:
            raise Unavailable("the problems are still being collected; ask again")
        return json_response(request, report)

    async def retry(request: Request) -> Response:
        form = await read_form(request, most=site.limits.body_bytes)
        name = form.get("name", "")
        if not is_authorized(request, site, action=f"retry problem {name}", stamp=form.get("stamp", "")):
            raise HTTPException(403, "The signature of this button is not valid; the server may have been restarted.")
        result = await threads.run(request.scope, request.receive, partial(retry_problem, site.root, name))
        survey.forget()
        return RedirectResponse(
            "/problems?" + urlencode({"what": result.what, "retried": result.count}), status_code=303
        )

    return [
        Route("/problems", threads.endpoint(problems)),
        DescribedRoute("/problems/retry", retry, RETRY),
        DescribedRoute("/api/problems", threads.endpoint(as_json), PROBLEMS),
    ]


def by_stage(site: Site, report: ProblemReport) -> list[StageProblems]:
    """Return the groups in the order of the stages."""
    found: dict[str, list[tuple[ProblemGroup, str]]] = {}
    for group in report.groups:
        stamp = site.sign(f"retry problem {group.retry}") if group.retry else ""
        found.setdefault(group.stage, []).append((group, stamp))
    order = {stage: number for number, stage in enumerate(STAGES)}
    return [StageProblems(stage, found[stage]) for stage in sorted(found, key=lambda one: order.get(one, len(order)))]


def done_text(request: Request) -> str:
    """Return what the last button did, from the URL; a forged one can only change the number."""
    count, is_crawl = request.query_params.get("retried", ""), request.query_params.get("what") == "URL"
    if is_crawl and count == "None":
        return "The running crawl fetches them again."
    if not (count.isascii() and count.isdigit() and len(count) < 10):
        return ""
    if is_crawl:
        return f"{pluralize(int(count), 'URL')} to be fetched again, by the next run."
    return f"{pluralize(int(count), 'task')} queued for retry."

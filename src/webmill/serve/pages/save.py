"""/save: saves one page now. A process of its own fetches it; the page of the job follows it, and shows the capture."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput
from webmill.pipeline.save_jobs import SaveJob, find_job, jobs_folder, read_jobs, start_job
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.captures.address import web_address
from webmill.serve.guard.authorization import is_authorized
from webmill.serve.pages.render import render
from webmill.serve.pages.tasks import read_form
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

ACTION = "save"
EVERY = 1  # seconds between refreshes
LATEST = 10  # jobs shown


class SaveJobReply(SaveJob, frozen=True, kw_only=True):
    """A job, with where the page is shown once it is saved."""

    path: str = ""


class SaveForm(msgspec.Struct, frozen=True, kw_only=True):
    """What to save."""

    url: Annotated[str, Meta(min_length=1, max_length=8_192, description="The page to fetch and archive now.")]
    page_resources: Annotated[str, Meta(description="1: with its images, styles and scripts.")] = ""


class SavePath(msgspec.Struct, frozen=True, kw_only=True):
    """Which job."""

    id: Annotated[str, Meta(min_length=1, pattern="^[^/]+$", description="`id` of the answer to a save.")]


SAVE = Operation(
    name="save_page",
    tag="captures",
    method="post",
    summary="Save a page now",
    about="Start a job that fetches and archives a page; ask with `Accept: application/json`. Browsers are sent on.",
    form=SaveForm,
    replies={
        200: Reply(about="The job.", kind=SaveJob),
        303: Reply(about="The job has begun.", media_types=(), headers={"Location": "Its page."}),
    },
    errors=(400, 401, 403, 413),
    error_form="message",
)
SAVE_STATUS = Operation(
    name="get_save",
    tag="captures",
    summary="How a save stands",
    about="`state` is waiting, running, saved or failed; `path` is where the saved page is shown.",
    path=SavePath,
    replies={200: Reply(about="The job.", kind=SaveJobReply)},
    errors=(404,),
    is_conditional=True,
)


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def form(request: Request) -> Response:
        jobs = [find_job(site.root, job.id, now=time.time()) for job in read_jobs(jobs_folder(site.root))[:LATEST]]
        url = request.query_params.get("url", "")[:8192]
        return render(site, request, "save.html", url=url, jobs=jobs, path_of=path_of)

    async def act(request: Request) -> Response:
        fields = await read_form(request, most=site.limits.body_bytes)
        if not site.can_save:
            raise HTTPException(403, "Saving pages from here needs a server with --token.")
        if not is_authorized(request, site, action=ACTION, stamp=fields.get("stamp", "")):
            raise HTTPException(403, "The signature of this button is not valid; the server may have been restarted.")
        job = await threads.run(request.scope, request.receive, partial(begin, fields))
        if "application/json" in request.headers.get("accept", ""):
            return json_response(request, job)
        return RedirectResponse(f"/save/{job.id}", status_code=303)

    def begin(fields: dict[str, str]) -> SaveJob:
        try:
            return start_job(
                site.root, fields.get("url", ""), page_resources="page_resources" in fields, now=time.time()
            )
        except BadInput as error:
            raise BadInput(f"this is not an address of a web page: {error.message}", reason=error.reason) from error

    def job(request: Request) -> Response:
        found = find_job(site.root, request.path_params["id"], now=time.time())
        return render(site, request, "save_job.html", job=found, every=EVERY, shown=path_of(found))

    def as_json(request: Request) -> Response:
        found = find_job(site.root, request.path_params["id"], now=time.time())
        return json_response(request, SaveJobReply(**msgspec.structs.asdict(found), path=path_of(found)))

    return [
        Route("/save", threads.endpoint(form), methods=["GET"]),
        DescribedRoute("/save", act, SAVE),
        Route("/save/{id}", threads.endpoint(job)),
        DescribedRoute("/api/save/{id}", threads.endpoint(as_json), SAVE_STATUS),
    ]


def path_of(job: SaveJob) -> str:
    """Return where the page that was saved is shown; "" when there is none yet."""
    page = job.report.page if job.report else None
    return web_address(page.timestamp, page.url) if page and page.filename else ""

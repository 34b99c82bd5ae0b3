"""/tasks: failed tasks with the reason, to retry or discard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.infra.queue.base import DeadLetter, QueueStats
from webmill.infra.queue.sqlite_reader import TaskEntry, view_file
from webmill.pipeline.dataset.folder import find_datasets
from webmill.pipeline.extract.jobs import TASKS
from webmill.serve.api.published import PublishedVersions
from webmill.serve.guard.authorization import is_authorized
from webmill.serve.http.responses import message_of
from webmill.serve.pages import live
from webmill.serve.pages.problem_survey import ProblemSurvey
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

MOST_TASKS = 200  # shown per queue
FAILED = 50  # tasks shown per dataset
DATASETS = 50
PROBLEMS = 200
PROBLEM_PATIENCE = 0.3  # seconds to wait for the problems of other stages
LONGEST_BODY = 400
ALL = "*"  # instead of an id: every failed task of a queue
ACTIONS = ("retry", "drop")


class FailedTask(msgspec.Struct, frozen=True):
    """A failed task. `what`: the board of a publish job, else the beginning of the message. `retry`: signature."""

    buried: DeadLetter
    what: str
    retry: str  # stamp


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue; `stats` is None if it does not exist, or if `problem` says why it cannot be read."""

    name: str
    stats: QueueStats | None = None
    tasks: list[FailedTask] = []
    retry_all: str = ""
    problem: str = ""


class DatasetView(msgspec.Struct, frozen=True):
    name: str
    failed: int
    entries: list[TaskEntry]
    problem: str = ""


def routes(site: Site, threads: BoundedThreads, wrong: ProblemSurvey) -> list[BaseRoute]:
    published = PublishedVersions(site.versions)

    def tasks(request: Request) -> Response:
        version = live.live_version(published)
        sources = published.sources(version) if version else []
        problems = published.problems(version) if version else []
        return render(
            site,
            request,
            "tasks.html",
            queues=[view_of(site, name) for name in site.queues],
            datasets=[*islice(failed_datasets(site.root), DATASETS)],
            version=version,
            problems=problems[:PROBLEMS],
            problem_count=len(problems),
            stale=[source for source in sources if source.status != "fresh"][:PROBLEMS],
            most=MOST_TASKS,
            done=done_text(request),
            wrong=wrong.latest(patience=PROBLEM_PATIENCE),
        )

    def confirm(request: Request) -> Response:
        name, id_ = request.query_params.get("queue", ""), request.query_params.get("id", "")
        task = find_failed_task(site, name, id_)
        return render(site, request, "drop.html", queue=name, task=task, stamp=site.sign(f"drop {name} {id_}"))

    async def act(request: Request) -> Response:
        action = request.url.path.rpartition("/")[2]
        form = await read_form(request, most=site.limits.body_bytes)
        name, id_ = form.get("queue", ""), form.get("id", "")
        if not is_authorized(request, site, action=f"{action} {name} {id_}", stamp=form.get("stamp", "")):
            raise HTTPException(403, "The signature of this button is not valid; the server may have been restarted.")
        count = await threads.run(request.scope, request.receive, partial(apply_action, site, action, name, id_))
        return RedirectResponse("/tasks?" + urlencode({"did": action, "count": count}), status_code=303)

    return [
        Route("/tasks", threads.endpoint(tasks)),
        Route("/tasks/drop", threads.endpoint(confirm), methods=["GET"]),
        Route("/tasks/drop", act, methods=["POST"]),
        Route("/tasks/retry", act, methods=["POST"]),
    ]


# --- reading ---------------------------------------------------------------------------------------------------------


def view_of(site: Site, name: str) -> QueueView:
    try:
        with site.queues[name].view() as queue:
            tasks = [failed_task(site, name, buried) for buried in islice(queue.dead_letters(), MOST_TASKS)]
            stats = queue.stats()
        return QueueView(name=name, stats=stats, tasks=tasks, retry_all=site.sign(f"retry {name} {ALL}"))
    except NotFound:
        return QueueView(name=name)
    except WebmillError as error:
        return QueueView(name=name, problem=message_of(error, site.root))


def failed_task(site: Site, name: str, buried: DeadLetter) -> FailedTask:
    return FailedTask(buried, task_label(buried.body), site.sign(f"retry {name} {buried.id}"))


class NamedBoard(msgspec.Struct):
    source: str


class NamedJob(msgspec.Struct):
    """The part of a job of `boards/` that names its board."""

    board: NamedBoard


def task_label(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=NamedJob).board.source
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body[:LONGEST_BODY].decode("utf-8", "replace")


def find_failed_task(site: Site, name: str, id_: str) -> FailedTask:
    """Return a failed task, or raise `NotFound`, also if it was retried or dropped meanwhile."""
    if name in site.queues:
        with site.queues[name].view() as queue:
            for buried in queue.dead_letters():
                if buried.id == id_:
                    return failed_task(site, name, buried)
    raise NotFound("there is no such failed task; it may have been retried or dropped")


def failed_datasets(root: Path) -> Iterator[DatasetView]:
    """Yield the datasets below DIR/datasets that have failed tasks."""
    folder = root / "datasets"
    for path in find_datasets(folder) if folder.is_dir() else ():
        try:
            with view_file(path / TASKS) as queue:
                failed = queue.stats().buried
                dead = (entry for entry in queue.entries() if entry.state == "buried")
                entries = [*islice(dead, FAILED)] if failed else []
        except NotFound:
            continue
        except WebmillError as error:
            yield DatasetView(path.name, 0, [], message_of(error, root))
            continue
        if failed:
            yield DatasetView(path.name, failed, entries)


def done_text(request: Request) -> str:
    """Return what the last button did, from the URL; a forged one can only change the number."""
    did, count = request.query_params.get("did"), request.query_params.get("count", "")
    if did not in ACTIONS or not (count.isascii() and count.isdigit() and len(count) < 10):
        return ""
    tasks = "1 task" if count == "1" else f"{int(count):,} tasks"
    return f"{tasks} queued for retry." if did == "retry" else f"{tasks} dropped."


# --- changing ---------------------------------------------------------------------------------------------------------


def apply_action(site: Site, action: str, name: str, id_: str) -> int:
    if name not in site.queues:
        raise NotFound("there is no such queue")
    with site.queues[name].open() as queue:
        if action == "drop":
            return queue.drop([id_])
        return queue.requeue(None if id_ == ALL else [id_])


async def read_form(request: Request, *, most: int) -> dict[str, str]:
    """Return the fields of a form as browsers send it. `BadInput`: another type, or more than `most` bytes."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise BadInput("send a form (application/x-www-form-urlencoded)", reason="bad_form")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise BadInput(f"the form is larger than {most:,} bytes", reason="too_large")
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError as error:  # UnicodeDecodeError is one
        raise BadInput("the form cannot be parsed", reason="bad_form") from error
    return {name: values[-1] for name, values in fields.items()}

"""Endpoints for operators: /healthz, /readyz, /metrics and /version.

They do not use the threads of pages and captures: a server whose threads all wait for a slow disk is busy, not dead.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from webmill import __version__
from webmill.errors import NotFound, WebmillError
from webmill.index.lookup.indexes import EVERYTHING
from webmill.infra.metrics import CONTENT_TYPE
from webmill.publish.pointer import read_pointer
from webmill.serve.api.openapi import API_VERSION
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.http.responses import NO_STORE, message_of
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

log = logging.getLogger(__name__)

ABSENT = "nothing yet"


class HealthReply(msgspec.Struct, frozen=True):
    ok: bool


class ReadinessReply(msgspec.Struct, frozen=True, kw_only=True):
    """What each part says of itself."""

    ready: bool
    versions: str
    index: str


class VersionOfServer(msgspec.Struct, frozen=True, kw_only=True):
    """`api`: the version of the API, `info.version` of /openapi.json."""

    webmill: str
    api: str


def operation(name: str, summary: str, **replies: Any) -> Operation:
    return Operation(name=name, tag="operations", summary=summary, error_form="message", **replies)


HEALTH = operation("get_health", "Whether the server lives", replies={200: Reply(about="It does.", kind=HealthReply)})
READINESS = operation(
    "get_readiness",
    "Whether everything can be read",
    replies={
        200: Reply(about="Everything is ready.", kind=ReadinessReply),
        503: Reply(about="Something is not; or there are too many requests.", kind=dict[str, bool | str]),
    },
)
METRICS = operation("get_metrics", "Metrics", replies={200: Reply(about="Numbers.", media_types=(CONTENT_TYPE,))})
VERSION = operation("get_version", "Version", replies={200: Reply(about="The version.", kind=VersionOfServer)})


def routes(site: Site) -> list[BaseRoute]:
    threads = BoundedThreads(max_running=1, per_client=1)
    rendering = BoundedThreads(max_running=1, per_client=1, max_waiting=16, waiting_per_client=4)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"ok": True}, headers=NO_STORE)

    async def readyz(request: Request) -> Response:
        parts = await threads.run(request.scope, request.receive, partial(_parts, site))
        wrong = {part: found for part, (is_ready, found) in parts.items() if not is_ready}
        for part, found in wrong.items():
            log.error("not ready", extra={"part": part, "why": found})
        report = {"ready": not wrong, **{part: found for part, (_, found) in parts.items()}}
        return JSONResponse(report, status_code=503 if wrong else 200, headers=NO_STORE)

    async def metrics(request: Request) -> Response:
        rendered = await rendering.run(request.scope, request.receive, site.metrics.render)
        return Response(rendered, media_type=CONTENT_TYPE, headers=NO_STORE)

    async def version(_: Request) -> Response:
        return JSONResponse({"webmill": __version__, "api": API_VERSION}, headers=NO_STORE)

    return [
        DescribedRoute("/healthz", healthz, HEALTH),
        DescribedRoute("/readyz", readyz, READINESS),
        DescribedRoute("/metrics", metrics, METRICS),
        DescribedRoute("/version", version, VERSION),
    ]


def _parts(site: Site) -> dict[str, tuple[bool, str]]:
    """Return for each part whether it is ready, and a description."""
    return {"versions": _versions(site), "index": _index(site)}


def _versions(site: Site) -> tuple[bool, str]:
    """Check the pointer: a missing one is fine, an unreadable one is not."""
    try:
        return True, read_pointer(site.versions).version
    except NotFound:
        return True, ABSENT
    except WebmillError as error:
        return False, f"latest.json: {message_of(error, site.root)}"


def _index(site: Site) -> tuple[bool, str]:
    if not site.root.is_dir():
        return False, "the folder of the collection does not exist"
    found = []
    for crawl in site.crawls():
        try:
            next(site.index(crawl.name).lines(EVERYTHING), None)
            found.append(crawl.name)
        except NotFound:
            continue
        except WebmillError as error:
            return False, f"{crawl.name}: {message_of(error, site.root)}"
    return True, ", ".join(found) or ABSENT

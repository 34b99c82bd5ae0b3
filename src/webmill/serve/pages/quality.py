"""/qa and /api/qa: how archived pages are replayed, as `webmill qa` has found; the worst first."""

from __future__ import annotations

import re

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.pages.render import render
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.qa.results import PageQuality, missing_by_host, read_results, results_folder
from webmill.serve.site import Site

MOST_SHOWN = 200
HOSTS_SHOWN = 20
MISSING_SHOWN = 10
_PICTURE = re.compile(r"[0-9a-f]{32}-(?:fed|replay)\.png")


class QualityReply(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts`: how many missing resources are of which host."""

    pages: int
    mean: float | None
    results: list[PageQuality]
    hosts: dict[str, int]


QUALITY = Operation(
    name="get_replay_quality",
    tag="operations",
    summary="Quality of the replay",
    about=f"How archived pages are replayed, as `webmill qa` has found; the worst {MOST_SHOWN} first.",
    replies={200: Reply(about="The results.", kind=QualityReply)},
    is_conditional=True,
)


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    def page(request: Request) -> Response:
        results = read_results(site.root)
        return render(
            site,
            request,
            "qa.html",
            results=results[:MOST_SHOWN],
            count=len(results),
            mean=mean_of(results),
            hosts=missing_by_host(results)[:HOSTS_SHOWN],
            most=MISSING_SHOWN,
        )

    def as_json(request: Request) -> Response:
        results = read_results(site.root)
        return json_response(
            request,
            QualityReply(
                pages=len(results),
                mean=mean_of(results),
                results=results[:MOST_SHOWN],
                hosts=dict(missing_by_host(results)),
            ),
        )

    def picture(request: Request) -> Response:
        name = request.path_params["name"]
        file = results_folder(site.root) / name
        if not _PICTURE.fullmatch(name) or not file.is_file():
            raise NotFound("there is no such picture")
        return Response(file.read_bytes(), media_type="image/png", headers={"Cache-Control": "no-store"})

    return [
        Route("/qa", threads.endpoint(page)),
        DescribedRoute("/api/qa", threads.endpoint(as_json), QUALITY),
        Route("/qa/{name}", threads.endpoint(picture)),
    ]


def mean_of(results: list[PageQuality]) -> float | None:
    return sum(one.score for one in results) / len(results) if results else None

"""An origin of the replay zone: `/path?query` is what the archived origin answered; `/.webmill-replay/` is ours."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.url.normalise import normalise
from webmill.serve.captures.address import sent_path, web_address
from webmill.serve.http.responses import headers_of, log_server_error, message_of, status_of
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay.fuzzy_match import ReplayRequest, find_capture
from webmill.serve.replay.labels import HASH, ReplayZone, read_origin
from webmill.serve.replay.rewrite_script import ScriptCache
from webmill.serve.replay.shim import OWN, SHIM_PATH, render_shim
from webmill.serve.replay.zone_content import ZoneReply, missing_response
from webmill.serve.replay.zone_policy import METHODS, here_of
from webmill.serve.site import Site

MAX_WAITING, WAITING_PER_CLIENT = 256, 128  # a page has many resources, of many origins


def routes(site: Site, zone: ReplayZone) -> list[BaseRoute]:
    threads = BoundedThreads(max_waiting=MAX_WAITING, waiting_per_client=WAITING_PER_CLIENT, share=site.heavy)
    scripts = ScriptCache()

    async def shim(request: Request) -> Response:
        if request.url.path != SHIM_PATH:
            raise NotFound("this script is of another version of the server")
        return Response(render_shim(zone, here_of(request.scope)), media_type="text/javascript")

    async def label(request: Request) -> Response:
        """Return the label of an origin that the shim cannot write itself."""
        origin = read_origin(normalise(request.query_params.get("origin", "")))
        return PlainTextResponse(zone.label(here_of(request.scope).timestamp, origin))

    async def origin(request: Request) -> Response:
        """Return the origin that a label by hash stands for."""
        name = request.query_params.get("label", "")[-HASH:]
        return PlainTextResponse(str(zone.read_host(f"{zone.prefix(here_of(request.scope).timestamp)}x-{name}").origin))

    async def serve_archived(request: Request) -> Response:
        destination = request.headers.get("sec-fetch-dest", "")
        body = await request.body()
        try:
            asked = _asked(request, body, destination)
            if destination == "document":  # a tab of its own: archived pages are only shown below our banner
                return RedirectResponse(zone.view + web_address(asked.timestamp, asked.url), 302)
            return await threads.run(request.scope, request.receive, partial(answer, request, asked))
        except WebmillError as error:
            log_server_error(error)
            made = missing_response(destination, message_of(error, site.root), status=status_of(error))
            made.headers.update(headers_of(error))
            return made

    def answer(request: Request, asked: ReplayRequest) -> Response:
        found = find_capture(site, asked)
        return ZoneReply(site, zone, here_of(request.scope), asked, found, scripts).response(request, threads)

    return [
        Route(f"{OWN}label", label),
        Route(f"{OWN}origin", origin),
        Route(OWN + "{name}", shim),
        Route("/{rest:archived}", serve_archived, methods=METHODS.split(", ")),
    ]


def _asked(request: Request, body: bytes, destination: str) -> ReplayRequest:
    here = here_of(request.scope)
    path = sent_path(request).decode("utf-8", "replace")
    if not path.startswith("/"):
        raise BadInput("not the address of an archived page", reason="bad_address")
    return ReplayRequest(
        url=normalise(str(here.origin) + path),
        timestamp=here.timestamp,
        method=request.method,
        content_type=request.headers.get("content-type", ""),
        body=body,
        destination="" if destination == "empty" else destination,
    )

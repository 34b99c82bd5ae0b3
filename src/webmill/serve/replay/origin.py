"""The replay origin: `/web/TIMESTAMP/URL` is what was archived, and there is nothing else here."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound, WebmillError
from webmill.formats.url.normalise import join
from webmill.serve.capture_address import CaptureAddress, parse_address, sent_path, web_address
from webmill.serve.replay.content import replay_response
from webmill.serve.replay.nearest_capture import open_nearest
from webmill.serve.responses import headers_of, log_server_error, message_of, minimal_page, status_of
from webmill.serve.site import Site
from webmill.serve.threads import BoundedThreads

FRAMES = ("iframe", "frame")
MAX_RUNNING, MAX_WAITING = 8, 128  # a page that is rewritten takes memory, and keeps a processor busy
PER_CLIENT, WAITING_PER_CLIENT = 6, 64  # a browser asks for six parts of a page at once


def routes(site: Site) -> list[BaseRoute]:
    threads = BoundedThreads(
        max_running=MAX_RUNNING, per_client=PER_CLIENT, max_waiting=MAX_WAITING, waiting_per_client=WAITING_PER_CLIENT
    )

    def answer(request: Request) -> Response:
        asked = parse_address(sent_path(request))
        return _serve_capture(site, request, asked, threads) if asked else _redirect_escaped_link(site, request)

    async def archived(request: Request) -> Response:
        try:
            return await threads.run(request.scope, request.receive, partial(answer, request))
        except WebmillError as error:
            log_server_error(error)
            page = minimal_page("Not shown", message_of(error, site.root))
            return HTMLResponse(page, status_of(error), headers_of(error))

    return [Route("/{rest:archived}", archived)]


def _serve_capture(site: Site, request: Request, asked: CaptureAddress, threads: BoundedThreads) -> Response:
    goal = request.headers.get("sec-fetch-dest", "")
    if goal == "document":  # a tab of its own: archived pages are shown below our banner, and can go nowhere else
        return RedirectResponse(site.address + web_address(asked.timestamp, asked.url), 302)
    archived = open_nearest(site, asked)
    is_page = goal in FRAMES
    return replay_response(site, archived, asked, is_page=is_page, request=request, threads=threads)


def _redirect_escaped_link(site: Site, request: Request) -> Response:
    """A link that a script made, `/data.json`: where it stands tells what it is relative to, when a browser says that.

    A page in an origin of nobody names no Referer; its modules and style sheets do.
    """
    referer = request.headers.get("referer", "")
    asked = None
    if referer.startswith(f"{site.replay_address}/web/"):
        asked = parse_address(referer.removeprefix(site.replay_address).encode("utf-8", "replace"))
    path = sent_path(request).decode("utf-8", "replace")
    if asked is None or path.startswith("//"):
        raise NotFound("only archived pages are here: /web/TIMESTAMP/URL")
    return RedirectResponse(web_address(asked.timestamp_part, join(asked.url, path)), 307)

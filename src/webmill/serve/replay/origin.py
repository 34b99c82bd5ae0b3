"""The replay origin: `/web/TIMESTAMP/URL` is the archived content, and there is nothing else."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound, WebmillError
from webmill.formats.url.normalise import join
from webmill.serve.captures.address import CaptureAddress, parse_address, sent_path, web_address
from webmill.serve.http.responses import headers_of, log_server_error, message_of, minimal_page, status_of
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.replay.content import replay_response
from webmill.serve.replay.nearest_capture import open_nearest
from webmill.serve.site import Site

FRAMES = ("iframe", "frame")
MAX_WAITING, WAITING_PER_CLIENT = 128, 64  # a page has many resources


def routes(site: Site) -> list[BaseRoute]:
    threads = BoundedThreads(max_waiting=MAX_WAITING, waiting_per_client=WAITING_PER_CLIENT, share=site.heavy)

    def answer(request: Request) -> Response:
        address = parse_address(sent_path(request))
        return _serve_capture(site, request, address, threads) if address else _redirect_escaped_link(site, request)

    async def serve_archived(request: Request) -> Response:
        try:
            return await threads.run(request.scope, request.receive, partial(answer, request))
        except WebmillError as error:
            log_server_error(error)
            page = minimal_page("Cannot show this page", message_of(error, site.root))
            return HTMLResponse(page, status_of(error), headers_of(error))

    return [Route("/{rest:archived}", serve_archived)]


def _serve_capture(site: Site, request: Request, address: CaptureAddress, threads: BoundedThreads) -> Response:
    destination = request.headers.get("sec-fetch-dest", "")
    if destination == "document":  # a tab of its own: archived pages are only shown below our banner
        return RedirectResponse(site.address + web_address(address.timestamp, address.url), 302)
    archived = open_nearest(site, address)
    is_page = destination in FRAMES
    return replay_response(site, archived, address, is_page=is_page, request=request, threads=threads)


def _redirect_escaped_link(site: Site, request: Request) -> Response:
    """Redirect a link that was not rewritten, such as `/data.json` of a script, relative to the Referer.

    Pages with an opaque origin send no Referer; their modules and style sheets do.
    """
    referer = request.headers.get("referer", "")
    address = None
    if referer.startswith(f"{site.replay_address}/web/"):
        address = parse_address(referer.removeprefix(site.replay_address).encode("utf-8", "replace"))
    path = sent_path(request).decode("utf-8", "replace")
    if address is None or path.startswith("//"):
        raise NotFound("only archived pages are served here: /web/TIMESTAMP/URL")
    return RedirectResponse(web_address(address.timestamp_part, join(address.url, path)), 307)

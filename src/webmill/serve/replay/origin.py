"""The replay origin: `/web/TIMESTAMP/URL` is what was archived, and there is nothing else here."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound, WebmillError
from webmill.formats.url.normalise import join
from webmill.serve.archived_address import Asked, parse_address, sent_path, web_address
from webmill.serve.replay.content import content_reply
from webmill.serve.replay.shown import open_shown
from webmill.serve.replies import headers_of, message_of, small_page, status_of, tell_operator
from webmill.serve.site import Site
from webmill.serve.threads import Threads

FRAMES = ("iframe", "frame")
AT_ONCE, MOST_WAITING = 8, 128  # a page that is rewritten takes memory, and keeps a processor busy
EACH, WAITING_EACH = 6, 64  # a browser asks for six parts of a page at once


def routes(site: Site) -> list[BaseRoute]:
    threads = Threads(at_once=AT_ONCE, each=EACH, most_waiting=MOST_WAITING, waiting_each=WAITING_EACH)

    def answer(request: Request) -> Response:
        asked = parse_address(sent_path(request))
        return _shown(site, request, asked, threads) if asked else _escaped(site, request)

    async def archived(request: Request) -> Response:
        try:
            return await threads.begin(request.scope, request.receive, partial(answer, request))
        except WebmillError as error:
            tell_operator(error)
            page = small_page("Not shown", message_of(error, site.root))
            return HTMLResponse(page, status_of(error), headers_of(error))

    return [Route("/{rest:archived}", archived)]


def _shown(site: Site, request: Request, asked: Asked, threads: Threads) -> Response:
    goal = request.headers.get("sec-fetch-dest", "")
    if goal == "document":  # a tab of its own: archived pages are shown below our banner, and can go nowhere else
        return RedirectResponse(site.address + web_address(asked.timestamp, asked.url), 302)
    archived = open_shown(site, asked)
    is_page = goal in FRAMES
    return content_reply(site, archived, asked, is_page=is_page, request=request, threads=threads)


def _escaped(site: Site, request: Request) -> Response:
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
    return RedirectResponse(web_address(asked.when, join(asked.url, path)), 307)

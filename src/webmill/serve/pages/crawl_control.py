"""The buttons and the form of /crawl: a person steers the crawl from the page, as `webmill control` does.

Each is a POST with the signature of our own form, or with the token; RequestGuard asks for the token where one is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from webmill.crawl.frontier_admin.control import CrawlSteering
from webmill.crawl.seeds import parse_domain, parse_seed
from webmill.errors import BadInput
from webmill.model import Link
from webmill.pipeline.crawl_frontier import open_crawl
from webmill.pipeline.trust import is_trusted
from webmill.serve.guard.authorization import is_authorized
from webmill.serve.pages.tasks import read_form
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site
from webmill.settings import read_sources

FIRST, SEED = 0, 3  # priorities
FORM = "steer"  # the address of the form, and what it is signed for
NAMING = ("add", "exclude", "include")  # its buttons: they need URLs or domains
MOST_LINES = 1000  # of a form
DONE = {  # what the page says when it was done
    "pause": "The crawl is told to pause: it does so within seconds.",
    "resume": "The crawl is told to go on: it does so within seconds.",
    "stop": "The run is told to stop: requests under way may end.",
    "reload": "The settings were read again.",
    "add": "The URLs were sent to the crawl.",
    "exclude": "The domains are skipped from now on.",
    "include": "The domains are crawled again.",
}


def routes(site: Site, threads: BoundedThreads) -> list[BaseRoute]:
    async def act(request: Request) -> Response:
        signed = request.url.path.rpartition("/")[2]
        form = await read_form(request, most=site.limits.body_bytes)
        action = form.get("action", "") if signed == FORM else signed
        if signed == FORM and action not in NAMING:
            raise HTTPException(400, "This form has no such button.")
        if not is_authorized(request, site, action=f"{signed} crawl", stamp=form.get("stamp", "")):
            raise HTTPException(403, "The signature of this button is not valid; the server may have been restarted.")
        who = f"{request.client.host if request.client else 'somebody'}, on the page of the crawl"
        await threads.run(request.scope, request.receive, partial(steer, site, action, form, who))
        return RedirectResponse("/crawl?" + urlencode({"did": action}), status_code=303)

    return [Route(f"/crawl/{name}", act, methods=["POST"]) for name in (FORM, *ACTIONS)]


def steer(site: Site, action: str, form: Mapping[str, str], who: str) -> None:
    """Do what a person wants of the crawl; BadInput for a line that is not a URL or a domain."""
    lines = [line.strip() for line in form.get("what", "").splitlines() if line.strip()]
    if len(lines) > MOST_LINES:
        raise BadInput(f"{len(lines):,} lines: at most {MOST_LINES:,}; use `webmill frontier {action}`", reason="lines")
    if action in NAMING and not lines:
        raise BadInput("nothing is named: write one URL or domain on each line", reason="empty")
    priority = FIRST if form.get("first") else SEED
    with open_crawl(site.root) as crawl:
        ACTIONS[action](CrawlSteering(crawl, who), lines, priority)


def reload(steering: CrawlSteering) -> None:
    root = steering.crawl.root
    steering.reload(read_sources(None, collection=root, environment={}, is_trusted=is_trusted))


ACTIONS: dict[str, Callable[[CrawlSteering, list[str], int], object]] = {
    "pause": lambda steering, _lines, _priority: steering.pause(),
    "resume": lambda steering, _lines, _priority: steering.resume(),
    "stop": lambda steering, _lines, _priority: steering.stop(),
    "reload": lambda steering, _lines, _priority: reload(steering),
    "add": lambda steering, lines, priority: steering.add(
        [Link(parse_seed(line), priority=priority) for line in lines]
    ),
    "exclude": lambda steering, lines, _priority: steering.exclude(list(map(parse_domain, lines))),
    "include": lambda steering, lines, _priority: steering.include(list(map(parse_domain, lines))),
}

"""Pages with a known life over the versions of the web (`web.version`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from webmill.testing.exchange import HTML, Answer, Reply, Request, known
from webmill.testing.features.base import Feature, Shelf, page
from webmill.testing.pages import FIRST_DAY

HOST = "changes.mill.example"


def features() -> list[Feature]:
    shelf = Shelf(HOST)
    shelf.put("/stable", "never changes; ETag", known(page("Stable").body, HTML, modified=FIRST_DAY))
    shelf.add("/changing", "another text and ETag in each version", _changing)
    shelf.add("/touched", "the same text, another date and no ETag in each version", _touched)
    shelf.add("/removed", "200 in version 1, then 410", lambda r: _gone(410) if r.version > 1 else page("Removed"))
    shelf.add("/added", "404 in version 1, then 200", lambda r: page("Added") if r.version > 1 else _gone(404))
    shelf.add(
        "/returns", "200 in odd versions, 404 in even ones", lambda r: page("Back") if r.version % 2 else _gone(404)
    )
    shelf.add("/moves", "200 in version 1, then 301 to /stable", _moves)
    shelf.add("/list", "links to those that are there", _list(["/stable", "/changing", "/touched", "/moves"]))
    return shelf.features


def _gone(status: int) -> Reply:
    return Reply(status=status, body=page("Not here").body)


def _changing(request: Request) -> Answer:
    body = page("Changing", f"This is version {request.version}.").body
    return known(body, HTML, modified=FIRST_DAY + timedelta(days=request.version))


def _touched(request: Request) -> Answer:
    return Reply(body=page("Touched").body, modified=FIRST_DAY + timedelta(days=request.version))


def _moves(request: Request) -> Answer:
    return Reply(status=301, headers=(("Location", "/stable"),)) if request.version > 1 else page("Moves")


def _list(always: list[str]) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        now = ["/removed"] if request.version == 1 else ["/added"]
        return page("List", links=always + now + (["/returns"] if request.version % 2 else []))

    return answer

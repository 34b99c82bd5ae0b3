"""Pages that change in a known way over the versions of the web (`web.version`)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from webmill.testing.articles import FIRST_DAY
from webmill.testing.exchange import HTML, Answer, HttpReply, ReceivedRequest, reply_with_etag
from webmill.testing.features.base import Feature, HostFeatures, page

HOST = "changes.mill.example"


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.put("/stable", "never changes; ETag", reply_with_etag(page("Stable").body, HTML, modified=FIRST_DAY))
    table.add("/changing", "another text and ETag in each version", _changing)
    table.add("/touched", "the same text, another date and no ETag in each version", _touched)
    table.add("/removed", "200 in version 1, then 410", lambda r: _gone(410) if r.version > 1 else page("Removed"))
    table.add("/added", "404 in version 1, then 200", lambda r: page("Added") if r.version > 1 else _gone(404))
    table.add(
        "/returns", "200 in odd versions, 404 in even ones", lambda r: page("Back") if r.version % 2 else _gone(404)
    )
    table.add("/moves", "200 in version 1, then 301 to /stable", _moves)
    table.add("/list", "links to those that are there", _list(["/stable", "/changing", "/touched", "/moves"]))
    return table.features


def _gone(status: int) -> HttpReply:
    return HttpReply(status=status, body=page("Not here").body)


def _changing(request: ReceivedRequest) -> Answer:
    body = page("Changing", f"This is version {request.version}.").body
    return reply_with_etag(body, HTML, modified=FIRST_DAY + timedelta(days=request.version))


def _touched(request: ReceivedRequest) -> Answer:
    return HttpReply(body=page("Touched").body, modified=FIRST_DAY + timedelta(days=request.version))


def _moves(request: ReceivedRequest) -> Answer:
    return HttpReply(status=301, headers=(("Location", "/stable"),)) if request.version > 1 else page("Moves")


def _list(always: list[str]) -> Callable[[ReceivedRequest], Answer]:
    def answer(request: ReceivedRequest) -> Answer:
        now = ["/removed"] if request.version == 1 else ["/added"]
        return page("List", links=always + now + (["/returns"] if request.version % 2 else []))

    return answer

"""Spider traps (P09): endless links. Each page is computed from its own URL."""

from __future__ import annotations

from itertools import permutations
from urllib.parse import parse_qsl, urlencode

from webmill.testing.exchange import Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page, whole_number
from webmill.testing.seeded_random import hash_number

HOST = "maze.grain.example"


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.add(
        "/calendar/*",
        "a calendar: links to the month before and after, without end",
        _calendar,
        start="/calendar/2024/1",
    )
    table.add("/grow/*", "a relative link `a/`: /grow/a/a/a/…", _grow, start="/grow/")
    table.add("/session", "a new `sid` in every link, the same text", _session)
    table.add("/shop", "four filters: every order of them is a new URL", _shop)
    table.add("/page", "`?n=`: always a next page", _next_page)
    table.add("/words/*", "three new words below every path", _words, start="/words/")
    table.add("/hosts", "links into *.maze.grain.example", _subdomains)
    endless = HostFeatures(f"*.{HOST}")
    endless.add("/", "any name: links to three more names", _subdomains)
    return table.features + endless.features


def _calendar(request: ReceivedRequest) -> Answer:
    year, month = (whole_number(part, default=1, most=10**8) for part in (request.path + "/").split("/")[2:4])
    months = year * 12 + month - 1
    near = [f"/calendar/{each // 12}/{each % 12 + 1}" for each in (months - 1, months + 1)]
    return page(f"Month {month} of {year}", "Nothing happens in this month.", links=near)


def _grow(request: ReceivedRequest) -> Answer:
    return page(f"Depth {request.path.count('/')}", links=["a/"] if request.path.endswith("/") else [])


def _session(request: ReceivedRequest) -> Answer:
    links = [f"/session?item={item}&sid={hash_number(request.target, item):016x}" for item in (1, 2, 3)]
    return page("Session", "The same shop in every session.", links=links)


def _shop(request: ReceivedRequest) -> Answer:
    filters = dict(parse_qsl(request.query)[:4]) or {"colour": "red", "size": "1", "sort": "price", "view": "list"}
    orders = [f"/shop?{urlencode(order)}" for order in permutations(filters.items())]
    size = whole_number(filters.get("size", ""), default=1, most=10**8)
    return page("Shop", links=[*orders, f"/shop?{urlencode({**filters, 'size': str(size + 1)})}"])


def _next_page(request: ReceivedRequest) -> Answer:
    n = whole_number(dict(parse_qsl(request.query)).get("n", ""), default=1, most=10**8)
    return page(f"Page {n}", links=[f"/page?n={n + 1}"])


def _words(request: ReceivedRequest) -> Answer:
    links = [f"{request.path.rstrip('/')}/{hash_number(request.path, turn) % 10**6}" for turn in range(3)]
    return page("Words", links=links)


def _subdomains(request: ReceivedRequest) -> HttpReply:
    names = (f"{hash_number(request.host, turn) % 10**8}.{HOST}" for turn in range(3))
    return page("Maze", links=[f"http://{name}/" for name in names])

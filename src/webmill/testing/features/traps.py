"""Spider traps (P09): sites without end, made of links. Each page is computed from its own address."""

from __future__ import annotations

from itertools import permutations
from urllib.parse import parse_qsl, urlencode

from webmill.testing.dice import number
from webmill.testing.exchange import Answer, Reply, Request
from webmill.testing.features.base import Feature, Shelf, page, whole_number

HOST = "maze.grain.example"


def features() -> list[Feature]:
    shelf = Shelf(HOST)
    shelf.add(
        "/calendar/*",
        "a calendar: links to the month before and after, without end",
        _calendar,
        start="/calendar/2024/1",
    )
    shelf.add("/grow/*", "a relative link `a/`: /grow/a/a/a/…", _grow, start="/grow/")
    shelf.add("/session", "a new `sid` in every link, the same text", _session)
    shelf.add("/shop", "four filters: every order of them is a new URL", _shop)
    shelf.add("/page", "`?n=`: always a next page", _next_page)
    shelf.add("/words/*", "three new words below every path", _words, start="/words/")
    shelf.add("/hosts", "links into *.maze.grain.example", _subdomains)
    endless = Shelf(f"*.{HOST}")
    endless.add("/", "any name: links to three more names", _subdomains)
    return shelf.features + endless.features


def _calendar(request: Request) -> Answer:
    year, month = (whole_number(part, default=1, most=10**8) for part in (request.path + "/").split("/")[2:4])
    months = year * 12 + month - 1
    near = [f"/calendar/{each // 12}/{each % 12 + 1}" for each in (months - 1, months + 1)]
    return page(f"Month {month} of {year}", "Nothing happens in this month.", links=near)


def _grow(request: Request) -> Answer:
    return page(f"Depth {request.path.count('/')}", links=["a/"] if request.path.endswith("/") else [])


def _session(request: Request) -> Answer:
    links = [f"/session?item={item}&sid={number(request.target, item):016x}" for item in (1, 2, 3)]
    return page("Session", "The same shop in every session.", links=links)


def _shop(request: Request) -> Answer:
    filters = dict(parse_qsl(request.query)[:4]) or {"colour": "red", "size": "1", "sort": "price", "view": "list"}
    orders = [f"/shop?{urlencode(order)}" for order in permutations(filters.items())]
    size = whole_number(filters.get("size", ""), default=1, most=10**8)
    return page("Shop", links=[*orders, f"/shop?{urlencode({**filters, 'size': str(size + 1)})}"])


def _next_page(request: Request) -> Answer:
    n = whole_number(dict(parse_qsl(request.query)).get("n", ""), default=1, most=10**8)
    return page(f"Page {n}", links=[f"/page?n={n + 1}"])


def _words(request: Request) -> Answer:
    links = [f"{request.path.rstrip('/')}/{number(request.path, turn) % 10**6}" for turn in range(3)]
    return page("Words", links=links)


def _subdomains(request: Request) -> Reply:
    names = (f"{number(request.host, turn) % 10**8}.{HOST}" for turn in range(3))
    return page("Maze", links=[f"http://{name}/" for name in names])

"""/history: captures of an address as calendar and list; addresses below it; all hosts."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.query import MatchType, split_url_pattern
from webmill.index.lookup.indexes import CaptureIndex
from webmill.serve.api import links
from webmill.serve.api.addresses import ListedAddress, list_addresses, list_hosts
from webmill.serve.api.capture_history import MOST_LINES, PAGE, HistoryLine, read_history
from webmill.serve.api.captures import newest_captures
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.parameters import read_choice, read_number, read_text
from webmill.serve.captures.address import raw_address, web_address
from webmill.serve.captures.pictures import PagePicture, PicturedCapture, pictures_of
from webmill.serve.pages.history_calendar import calendar_of, empty_months, period_name
from webmill.serve.pages.paging import make_pager, page_count
from webmill.serve.pages.render import render

LONGEST_URL = 8_192
MATCHES = {"exact": "this address", "prefix": "all addresses below it", "host": "its host", "domain": "its domain"}
_PERIOD = re.compile("[0-9]{4}(?:[0-9]{2}(?:[0-9]{2})?)?")


class CaptureRow(msgspec.Struct, frozen=True):
    """A capture with its URLs, which are empty for a damaged line, and its picture."""

    capture: HistoryLine
    replay: str = ""
    raw: str = ""
    picture: PagePicture | None = None


class AddressRow(msgspec.Struct, frozen=True):
    address: ListedAddress
    shown: str
    history: str
    replay: str


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [Route("/history", reader.endpoint(history))]


def history(reader: ContentReader, request: Request) -> Response:
    url = read_text(request, "url", longest=LONGEST_URL).strip()
    match = read_choice(request, "match", get_args(MatchType))
    try:
        index = reader.site.index()
    except NotFound:
        return render(reader.site, request, "history_none.html", url=url)
    if not url:
        return _hosts(reader, request, index)
    if match in ("", "exact") and split_url_pattern(url)[1] is None:
        reader.site.closed.refuse_page(url)
        return _captures(reader, request, index, url)
    return _addresses(reader, request, index, url, match)


def address_of(url: str, *, match: str = "", period: str = "", page: int = 1, after: str = "") -> str:
    query = [("url", url), ("match", match), ("period", period), ("page", str(page) if page > 1 else "")]
    return links.with_query("/history", [*query, ("after", after)])


# --- one address ---


def _captures(reader: ContentReader, request: Request, index: CaptureIndex, url: str) -> Response:
    period = period_of(read_text(request, "period"))
    page = read_number(request, "page", default=1, low=1, high=MOST_LINES // PAGE)
    found = read_history(index, url, period=period, start=(page - 1) * PAGE, count=PAGE)
    if not period and len(found.years) > 1 and found.total > PAGE:  # show the last year by default
        period = max(found.years)
        found = read_history(index, url, period=period, start=(page - 1) * PAGE, count=PAGE)
    year = period[:4] or max(found.years, default="")
    months = calendar_of(year, found.days, lambda day: address_of(url, period=day) + "#captures") if year else []
    newest = newest_captures(reader.site, [url]).get(url)

    rows = _rows(index, found.captures)

    def page_address(number: int) -> str:
        return address_of(url, period=period, page=number) + "#captures"

    return render(
        reader.site,
        request,
        "history.html",
        url=url,
        shown=links.readable_url(url),
        original_address=links.original(url),
        match="exact",
        matches=MATCHES,
        found=found,
        total=sum(found.days.values()),
        period=period,
        period_name=period_name(period),
        years=[(each, count, address_of(url, period=each), each == year) for each, count in found.years.items()],
        months=months,
        empty_months=empty_months(months),
        calendar_year=year,
        year=address_of(url, period=year) if len(period) > 4 else "",
        rows=rows,
        has_pictures=any(row.picture for row in rows),
        chosen=_last_two(rows),
        first=(page - 1) * PAGE + 1,
        pager=make_pager(page, page_count(found.total, PAGE), page_address),
        newest=web_address(newest.timestamp, newest.url) if newest else "",
        below=address_of(url, match="prefix"),
        host=address_of(url, match="host"),
        timemap=links.timemap(url),
    )


def period_of(text: str) -> str:
    digits = text.replace("-", "")
    if digits and not _PERIOD.fullmatch(digits):
        raise BadInput("period must be a year, a month or a day: 2024, 2024-01, 2024-01-31", reason="bad_timestamp")
    return digits


def _last_two(rows: list[CaptureRow]) -> dict[str, str] | None:
    """Return which captures are chosen to be compared, before somebody chooses; None if there are not two."""
    times = [row.capture.timestamp for row in rows if row.replay]
    return {"old": times[-2], "new": times[-1]} if len(times) > 1 else None


def _rows(index: CaptureIndex, captures: list[HistoryLine]) -> list[CaptureRow]:
    pictures = pictures_of(index, (PicturedCapture(one.url, one.timestamp) for one in captures if one.url))
    return [
        CaptureRow(
            one,
            web_address(one.timestamp, one.url),
            raw_address(one.timestamp, one.url),
            pictures.get(PicturedCapture(one.url, one.timestamp)),
        )
        if one.url
        else CaptureRow(one)
        for one in captures
    ]


# --- many addresses ---


def _addresses(reader: ContentReader, request: Request, index: CaptureIndex, url: str, match: str) -> Response:
    kind: MatchType | None = next((each for each in get_args(MatchType) if each == match), None)
    if split_url_pattern(url)[1] is not None:
        kind = None  # the pattern decides
    after = read_text(request, "after", longest=LONGEST_URL)
    found = list_addresses(index, url, match=kind, after=after)
    return render(
        reader.site,
        request,
        "history_addresses.html",
        url=url,
        shown=links.readable_url(url),
        match=match or "prefix",
        matches=MATCHES,
        rows=[
            AddressRow(each, links.readable_url(each.url), links.history(each.url), web_address(each.last, each.url))
            for each in found.addresses
        ],
        following=address_of(url, match=match, after=found.after) if found.after else "",
        first=address_of(url, match=match) if after else "",
    )


def _hosts(reader: ContentReader, request: Request, index: CaptureIndex) -> Response:
    after = read_text(request, "after")
    found = list_hosts(index, after=after)
    return render(
        reader.site,
        request,
        "history_hosts.html",
        url="",
        match="exact",
        matches=MATCHES,
        hosts=[(links.readable_host(host), address_of(host, match="host")) for host in found.hosts],
        crawls=[crawl.name for crawl in reader.site.crawls()],
        following=address_of("", after=found.after) if found.after else "",
        first="/history" if after else "",
    )

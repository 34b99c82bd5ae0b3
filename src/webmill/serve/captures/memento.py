"""Memento (RFC 7089): the TimeMap of a URL and the TimeGate to the capture nearest to a date.

The URL is the rest of the path exactly as sent, with its query: `%2F`, `//` and `?` are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from webmill.errors import BadInput, WebmillError
from webmill.formats.cdx.query import key_range
from webmill.formats.timestamps import from_datetime
from webmill.index.lookup.query import Query
from webmill.model import CaptureRef
from webmill.pipeline.captures import nearest_captures
from webmill.serve.captures.address import CaptureAddress as Wanted
from webmill.serve.captures.address import parse_address, sent_path, web_address
from webmill.serve.captures.response import LINKS, format_link, memento_date
from webmill.serve.cdx.api import CdxApi, OutputFormat, error_response
from webmill.serve.cdx.output import mementos
from webmill.serve.cdx.params import OUTPUTS, CdxRequest
from webmill.serve.http.responses import NO_STORE, json_message
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site

VARY = {"Vary": "accept-datetime"}


class Memento:
    """TimeMap and TimeGate. A crawl name at the start of the path limits them to that crawl."""

    def __init__(self, site: Site, cdx: CdxApi, threads: BoundedThreads) -> None:
        self._site = site
        self._cdx = cdx
        self._threads = threads

    async def timemap(self, request: Request) -> Response:
        """Return the captures of a URL as links, or as lines of the CDX API (`json`, `cdxj`)."""
        name, form = request.path_params.get("name"), request.path_params["form"]
        if form not in ("link", "json", "cdxj"):
            return json_message(400, "unknown timemap format; use link, json or cdxj")
        try:
            url = read_memento_url(request, segments=2 if name is None else 3).url
        except BadInput as error:
            return json_message(400, error.message)
        cdx_request = CdxRequest(
            url=url, query=Query(range=key_range(url)), output=OUTPUTS.get(form, "cdxj"), heavy=False
        )
        links = OutputFormat(LINKS, lambda lines: self._links(lines, url, name)) if form == "link" else None
        return await self._cdx.reply(request, cdx_request, name=name, form=links)

    async def timegate(self, request: Request) -> Response:
        """Redirect to the capture nearest to `Accept-Datetime`, or to now."""
        name = request.path_params.get("name")
        try:
            moment = read_accept_datetime(request.headers.get("accept-datetime"))
            wanted = read_memento_url(request, segments=1 if name is None else 2, moment=moment)
        except BadInput as error:
            return json_message(400, error.message, NO_STORE | VARY)
        try:
            find = partial(self._nearest, name, wanted)
            found = await self._threads.run(request.scope, request.receive, find)
        except WebmillError as error:
            return error_response(error)
        if found is None:
            return json_message(404, f"No Captures found for: {wanted.url}", NO_STORE | VARY)
        capture, date = found
        place = self._site.address + web_address(capture.timestamp, capture.url)
        links = [
            format_link(wanted.url, "original"),
            format_link(self._address(name, "timemap/link", wanted.url), "timemap", type=LINKS),
            format_link(place, "memento", datetime=date),
        ]
        return Response(status_code=302, headers={"Location": place, "Link": ", ".join(links), **VARY})

    def _nearest(self, name: str | None, wanted: Wanted) -> tuple[CaptureRef, str] | None:
        """Return the nearest capture and its date, skipping captures whose timestamp is not a date."""
        self._site.closed.refuse_page(wanted.url)
        for line in nearest_captures(self._site.index(name), wanted.url, moment=wanted.moment):
            with suppress(BadInput):
                return line.capture, memento_date(line.capture.timestamp)
        return None

    def _links(self, lines: Iterable[bytes], url: str, name: str | None) -> Iterator[bytes]:
        """Yield the link lines. Each is written when the next is known, since the last is marked as such."""
        found = mementos(lines, address=self._site.address, on_reject=self._cdx.rejects)
        last = next(found, None)
        if last is None:
            return
        yield self._head(url, name, since=last[1])
        first = "first "
        for following in found:
            yield (format_link(last[0], f"{first}memento", datetime=last[1]) + ",\n").encode()
            last, first = following, ""
        yield (format_link(last[0], f"{first}last memento", datetime=last[1]) + "\n").encode()

    def _head(self, url: str, name: str | None, *, since: str) -> bytes:
        links = [
            format_link(url, "original"),
            format_link(self._address(name, "timemap/link", url), "self", type=LINKS, **{"from": since}),
            format_link(self._address(name, "timegate", url), "timegate"),
        ]
        return "".join(f"{link},\n" for link in links).encode()

    def _address(self, name: str | None, kind: str, url: str) -> str:
        crawl = f"/{quote(name, safe='')}" if name is not None else ""
        return f"{self._site.address}{crawl}/{kind}/{url}"


def read_memento_url(request: Request, *, segments: int, moment: str = "1") -> Wanted:
    """Return the URL behind the first `segments` path segments. BadInput: it is not a URL."""
    rest = sent_path(request).split(b"/", segments + 1)[-1]
    wanted = parse_address(b"/web/%b/%b" % (moment.encode(), rest))
    if wanted is None:
        raise BadInput("the path names no URL", reason="bad_url")
    return wanted


def read_accept_datetime(date: str | None) -> str:
    """Return the HTTP date as 14 digits, or now without one."""
    if date is None:
        return from_datetime(datetime.now(UTC))
    try:
        found = parsedate_to_datetime(date)
        return from_datetime(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"Accept-Datetime is not an HTTP date: {date[:80]!r}", reason="bad_timestamp") from error

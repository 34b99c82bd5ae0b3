"""Finds the capture that answers a request of an archived page, which may ask for what changes with every visit.

In this order: the request exactly (an index knows no scheme); the same but for parameters against caches and names of
callbacks; for scripts and styles the nearest query. A request with a body is looked for by its body, then without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import parse_qsl, urlsplit

import msgspec

from webmill.errors import NotFound
from webmill.formats.cdx.cdxj import IndexLine
from webmill.formats.timestamps import seconds_between, to_datetime
from webmill.formats.url.surt import surt
from webmill.index.build.request_body import body_to_query, url_with_body
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.pipeline.capture_reader import CaptureReader
from webmill.pipeline.captures import parse_index_lines
from webmill.serve.captures.address import CaptureAddress
from webmill.serve.replay.nearest_capture import open_first, open_nearest
from webmill.serve.site import Site

MOST_SEARCHED = 2000  # lines of one path
_BUSTERS = frozenset(
    {
        *("_", "_t", "bust", "cachebreaker", "cachebust", "cachebuster", "cb", "ck", "nc", "no_cache", "nocache", "r"),
        *("rand", "random", "rnd", "t", "time", "timestamp", "ts", "uncache", "v"),
    }
)
_STATES = frozenset({"_rsc"})  # digests of where a visitor came from: Next's router
_CALLBACKS = frozenset({"callback", "jsonp", "jsoncallback", "jsonpcallback", "cb", "jsonp_callback", "json_callback"})
_NUMBER = re.compile(r"-?[0-9.]+")
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$.]{0,200}")
SCRIPTS_AND_STYLES = frozenset({"script", "style", "worker", "sharedworker"})


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archived page asks for."""

    url: str
    timestamp: str
    method: str = "GET"
    content_type: str = ""
    body: bytes = b""
    destination: str = ""

    @property
    def key_url(self) -> str:
        """Return the URL under which the answer is indexed."""
        query = body_to_query(self.method, self.content_type, self.body)
        return url_with_body(self.url, "GET" if self.method == "HEAD" else self.method, query)


class FoundCapture(msgspec.Struct, frozen=True):
    """`callback` is the name of the function that the archived answer calls, and the one that is asked for."""

    archived: CaptureReader
    callback: tuple[str, str] | None = None


def find_capture(site: Site, request: ReplayRequest) -> FoundCapture:
    """Return the capture, to be closed by the caller. `NotFound`: none fits."""
    try:
        return FoundCapture(_open_exact(site, request))
    except NotFound as missing:
        lines = _fitting(site, request)
        if not lines:
            raise
        address = CaptureAddress(timestamp=request.timestamp, url=request.url)
        archived = open_first(site, address, iter(lines))
        if archived is None:
            raise missing from None
        return FoundCapture(archived, _callbacks(request.url, archived.capture.url))


def _open_exact(site: Site, request: ReplayRequest) -> CaptureReader:
    key_url = request.key_url
    try:
        return open_nearest(site, CaptureAddress(timestamp=request.timestamp, url=request.url), key_url=key_url)
    except NotFound:
        if key_url == request.url:
            raise
        return open_nearest(site, CaptureAddress(timestamp=request.timestamp, url=request.url))


def _fitting(site: Site, request: ReplayRequest) -> list[IndexLine]:
    """Return captures of the path whose query means the same, nearest in time first; else the nearest query."""
    there = to_datetime(request.timestamp)
    wanted = lasting(surt(request.key_url))
    path = surt(request.url).partition("?")[0]
    found = [line for line in _of_path(site, request.url) if line.capture.urlkey.partition("?")[0] == path]
    same = [line for line in found if lasting(line.capture.urlkey) == wanted]
    if same or request.destination not in SCRIPTS_AND_STYLES:
        return sorted(same, key=lambda line: seconds_between(line.capture.timestamp, there))

    def distance(line: IndexLine) -> tuple[int, float]:
        differing = set(wanted) ^ set(lasting(line.capture.urlkey))
        return len(differing), seconds_between(line.capture.timestamp, there)

    return sorted(found, key=distance)


def _of_path(site: Site, url: str) -> Iterator[IndexLine]:
    query = Query(range=url_range(url.partition("?")[0], "prefix"))
    return parse_index_lines(islice(run_query(site.index(), query), MOST_SEARCHED))


def lasting(urlkey: str) -> list[tuple[str, str]]:
    """Return the parameters that mean something, sorted."""
    try:
        pairs = parse_qsl(urlkey.partition("?")[2], keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        return [("", urlkey)]
    return sorted((name, value) for name, value in pairs if not _is_passing(name.lower(), value))


def _is_passing(name: str, value: str) -> bool:
    if name in _STATES or (name in _BUSTERS and _NUMBER.fullmatch(value)):
        return True
    return name in _CALLBACKS and bool(_NAME.fullmatch(value))


def _callbacks(asked: str, archived: str) -> tuple[str, str] | None:
    """Return the name that the archived answer calls and the one that is asked for, if they differ."""
    ours, its = _callback(asked), _callback(archived)
    return (its, ours) if ours and its and ours != its else None


def _callback(url: str) -> str:
    try:
        pairs = parse_qsl(urlsplit(url).query, max_num_fields=1000)
    except ValueError:
        return ""
    return next((value for name, value in pairs if name.lower() in _CALLBACKS and _NAME.fullmatch(value)), "")


def rename_callback(body: str, names: tuple[str, str]) -> str:
    """Return a JSONP answer that calls the function which is asked for."""
    return re.sub(rf"(?<![\w$.]){re.escape(names[0])}(?=\s*\()", lambda _: names[1], body, count=2)

"""/feeds/changes.atom and /feeds/search.atom: what changed, for feed readers.

    /feeds/changes.atom                     all changes, the newest version first
    /feeds/changes.atom?site=example.org    those of a host, or of a domain with all its hosts
    /feeds/search.atom?q=…                  those of pages that a search finds, before the change or after it

They are made of the changes that each version has, which never change: an entry keeps its id and its text for ever. A
feed has at most `ENTRIES` entries; the link `next` leads to older ones (RFC 5005). What one request reads has a bound,
so that a page of a feed may have fewer entries, or none, and still have a next one.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from webmill.errors import BadInput
from webmill.formats.site.atom import MEDIA_TYPE, AtomEntry, AtomFeed, AtomLink, write_feed
from webmill.pipeline.alerts.links import change_links
from webmill.pipeline.alerts.matching import match_changes
from webmill.pipeline.alerts.messages import VERBS
from webmill.publish.changes import PageChange, read_changes
from webmill.publish.types import Version
from webmill.search.fields import host_of, sites_of
from webmill.search.query import MAX_QUERY, parse
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.links import original, with_query
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.api.query import read_query
from webmill.serve.http.conditional_requests import http_date, is_not_modified

ENTRIES = 50
READ = 5_000  # changes read for one page of a feed
SEARCHED = 400  # changes whose texts are read for one page of the feed of a search
FORMAT = "1"  # of the entries; part of the ETag
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class ChangePosition(msgspec.Struct, frozen=True):
    """Where a page of a feed begins: the version, and how many of its changes are on the pages before."""

    version: Version
    offset: int


class ChangesPage(msgspec.Struct, frozen=True):
    """The changes of a page of a feed, with their versions, and where the next one begins."""

    found: list[tuple[Version, PageChange]]
    following: ChangePosition | None


class FeedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Where a page of a feed begins."""

    version: Annotated[str, Meta(max_length=4_000, description="As the link `next` of a feed has it.")] = ""
    offset: Annotated[int, Meta(ge=0, le=10**9, description="As the link `next` of a feed has it.")] = 0


class ChangesFeedQuery(FeedQuery, frozen=True, kw_only=True):
    """Which changes."""

    site: Annotated[str, Meta(max_length=4_000, description="Only of this host, or of this domain and its hosts.")] = ""


class SearchFeedQuery(FeedQuery, frozen=True, kw_only=True):
    """Which changes."""

    q: Annotated[str, Meta(min_length=1, max_length=4_000, description="Words, in the query language of the search.")]


def feed_operation(name: str, summary: str, query: type[FeedQuery]) -> Operation:
    return Operation(
        name=name,
        tag="versions",
        summary=summary,
        about=f"An Atom feed, newest changes first, {ENTRIES} on a page; the link `next` leads to older ones.",
        query=query,
        replies={200: Reply(about="The feed.", media_types=(MEDIA_TYPE,))},
        errors=(400,),
        error_form="message",
        is_conditional=True,
    )


CHANGES = feed_operation("get_changes_feed", "Feed of changes", ChangesFeedQuery)
SEARCH = feed_operation("get_search_feed", "Feed of changes that a search finds", SearchFeedQuery)


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [
        DescribedRoute("/feeds/changes.atom", reader.endpoint(changes), CHANGES),
        DescribedRoute("/feeds/search.atom", reader.search_endpoint(search), SEARCH),
    ]


def changes(reader: ContentReader, request: Request) -> Response:
    site = host_of(read_query(request.query_params, ChangesFeedQuery).site)
    title = f"Changes of {site}" if site else "Changes"
    return _respond(reader, request, title, [("site", site)])


def search(reader: ContentReader, request: Request) -> Response:
    q = read_query(request.query_params, SearchFeedQuery).q[:MAX_QUERY]
    if not parse(q).parts:
        raise BadInput("give words to search for: /feeds/search.atom?q=…", reason="bad_query")
    return _respond(reader, request, f"Changes of pages with: {q}", [("q", q)])


def _respond(reader: ContentReader, request: Request, title: str, chosen: list[tuple[str, str]]) -> Response:
    """Return the feed, or 304 without reading a change: what it holds depends on the versions alone."""
    versions, path = reader.published.versions()[::-1], request.url.path
    first = _first_position(request, versions)
    here = [*chosen, *_position_query(first)] if first and _is_later(first, versions) else chosen
    server, address = reader.site.address, with_query(path, here)
    modified = versions[0].published_at if versions else NEVER
    names = [versions[0].version, versions[-1].version, str(len(versions))] if versions else []
    stamp = "\n".join([FORMAT, server, address, *names])
    etag = f'"{hashlib.sha256(stamp.encode(errors="replace")).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Last-Modified": http_date(modified).decode(), "Cache-Control": "no-cache"}
    if is_not_modified(dict(request.headers.raw), etag.encode(), modified):
        return Response(status_code=304, headers=headers)
    page = _read_page(reader, versions, first, dict(chosen)) if first else ChangesPage([], None)
    links = [AtomLink("self", server + address, MEDIA_TYPE), AtomLink("alternate", f"{server}/versions", "text/html")]
    if page.following:
        older = with_query(path, [*chosen, *_position_query(page.following)])
        links.append(AtomLink("next", server + older, MEDIA_TYPE))
    feed = AtomFeed(
        name=f"{reader.site.title}{with_query(path, chosen)}",
        title=f"{title} · {reader.site.title}",
        author=reader.site.title,
        updated=page.found[0][0].published_at if page.found else modified,
        links=links,
        entries=[_entry(version, change, server) for version, change in page.found],
    )
    return Response(write_feed(feed), media_type=MEDIA_TYPE, headers=headers)


# --- which changes ---


def _first_position(request: Request, versions: list[Version]) -> ChangePosition | None:
    """Return where the page begins; the newest version, if the one that is asked for is not there any more."""
    asked = read_query(request.query_params, FeedQuery)
    found = next((version for version in versions if version.version == asked.version), None)
    if found:
        return ChangePosition(found, asked.offset)
    return ChangePosition(versions[0], 0) if versions else None


def _is_later(position: ChangePosition, versions: list[Version]) -> bool:
    return position.offset > 0 or position.version.version != versions[0].version


def _position_query(position: ChangePosition) -> list[tuple[str, str]]:
    return [("version", position.version.version), ("offset", str(position.offset or ""))]


def _read_page(
    reader: ContentReader, versions: list[Version], first: ChangePosition, chosen: dict[str, str]
) -> ChangesPage:
    """Read changes from a position on, until there are enough, or enough was read."""
    found: list[tuple[Version, PageChange]] = []
    most = SEARCHED if chosen.get("q") else READ
    every = _matching(reader, _from(reader, versions, first), chosen)
    for read, (position, change, does_match) in enumerate(every):
        if len(found) == ENTRIES or read == most:
            return ChangesPage(found, position)
        if does_match:
            found.append((position.version, change))
    return ChangesPage(found, None)


def _from(
    reader: ContentReader, versions: list[Version], first: ChangePosition
) -> Iterator[tuple[ChangePosition, PageChange]]:
    """Yield the changes from a position on, each with its own."""
    begun = False
    for version in versions:
        begun = begun or version.version == first.version.version
        if begun:
            start = first.offset if version.version == first.version.version else 0
            every = read_changes(reader.published.storage, version)
            for number, change in enumerate(islice(every, start, None), start):
                yield ChangePosition(version, number), change


def _matching(
    reader: ContentReader, every: Iterable[tuple[ChangePosition, PageChange]], chosen: dict[str, str]
) -> Iterator[tuple[ChangePosition, PageChange, bool]]:
    """Yield each change and whether it belongs to the feed."""
    if not chosen.get("q"):
        site = chosen.get("site", "")
        yield from ((position, change, not site or _is_of(change, site)) for position, change in every)
        return
    positions: list[ChangePosition] = []

    def noted() -> Iterator[PageChange]:
        for position, change in every:
            positions.append(position)
            yield change

    answers = match_changes(reader.published.storage, noted(), [parse(chosen["q"])])
    for number, (change, (does_match,)) in enumerate(answers):
        yield positions[number], change, does_match


def _is_of(change: PageChange, site: str) -> bool:
    return any(site in sites_of(host_of(url)) for url in (change.url, change.moved_to or "") if url)


# --- as entries ---


def _entry(version: Version, change: PageChange, server: str) -> AtomEntry:
    there = change_links(change, server)
    links = [AtomLink("alternate", there.diff, "text/html"), AtomLink("related", there.archived, title="archived page")]
    if live := original(change.moved_to or change.url):
        links.append(AtomLink("via", live))
    return AtomEntry(
        name=change.key,
        title=f"{VERBS[change.kind].capitalize()}: {change.title or change.url}",
        updated=version.published_at,
        links=links,
        category=change.kind,
        html=_content(change, there.diff, there.archived),
    )


def _content(change: PageChange, diff: str, archived: str) -> str:
    address = html.escape(change.url) + (f" → {html.escape(change.moved_to)}" if change.moved_to else "")
    removed = f"<p><del>{_lines(change.removed)}</del></p>" if change.removed else ""
    added = f"<p><ins>{_lines(change.added)}</ins></p>" if change.added else ""
    ways = (
        f'<p><a href="{html.escape(diff)}">what changed</a> · <a href="{html.escape(archived)}">archived page</a></p>'
    )
    return f"<p>{address}</p>{removed}{added}{ways}"


def _lines(excerpt: str) -> str:
    return "<br>".join(html.escape(line) for line in excerpt.splitlines())

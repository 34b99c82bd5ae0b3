"""/versions/diff: what changed between two versions, as a list and word by word; with `id`, of one document.

Of a version and the one before it, the changes by text are shown that were recorded when it was published; `all` shows
every difference, as it is shown of any other two versions.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.formats.timestamps import from_datetime
from webmill.publish.changes import CHANGE_KINDS, ChangeSummary, PageChange
from webmill.publish.diff import CHANGES
from webmill.publish.types import PublishedItem, Version, captured_at
from webmill.serve.api import links
from webmill.serve.api.captures import newest_captures
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.differences import ItemPair, choose_versions, find_difference, find_differences
from webmill.serve.api.documents import text_of
from webmill.serve.api.pair_diff import ON_A_PAGE, VIEWS, DiffView, PairComparer, PairDiff
from webmill.serve.api.parameters import read_choice, read_text
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.recorded_changes import find_changes, find_summary
from webmill.serve.api.text_diff import LONGEST
from webmill.serve.captures.address import web_address
from webmill.serve.captures.pictures import PagePicture, pictures_at
from webmill.serve.pages.language import lang_of
from webmill.serve.pages.render import render

NAMES = {
    "added": "Added",
    "changed": "Changed",
    "moved": "Moved",
    "relabelled": "Relabelled",
    "removed": "Removed",
}
KINDS = tuple(NAMES)
VIEW_NAMES = {"inline": "In one text", "side": "Side by side"}
CHOICES = 200  # versions offered in the form


class PairDiffView(msgspec.Struct, frozen=True, kw_only=True):
    diff: PairDiff
    title: str
    lang: str
    url: str
    moved_to: str  # the new URL of a page that moved
    share: float | None  # of the words that changed
    old: str  # URL of the document in the old and the new version, if it is there
    new: str
    alone: str  # URL of this diff alone


class DiffTab(msgspec.Struct, frozen=True):
    name: str
    address: str
    is_current: bool
    count: int | None = None


class DiffAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What the address of a diff says. `every`: all differences, not only the recorded changes."""

    old: str
    new: str
    change: str = ""
    after: str = ""
    id: str = ""
    moved_to: str = ""
    view: str = ""
    every: str = ""

    def but(self, **changed: str) -> str:
        """Return the URL of this diff with other values."""
        one = msgspec.structs.replace(self, **changed)
        query = [("from", one.old), ("to", one.new), ("change", one.change), ("after", one.after), ("id", one.id)]
        query += [("moved_to", one.moved_to), ("view", one.view), ("all", one.every)]
        return links.with_query("/versions/diff", query)


class ListedPairs(msgspec.Struct, frozen=True, kw_only=True):
    """Some pairs of items that differ, with the changes that were recorded of them, and the counts of all."""

    pairs: list[tuple[ItemPair, PageChange | None]]
    after: str | None
    counts: Mapping[str, int] | None
    kinds: tuple[str, ...]
    summary: ChangeSummary | None = None


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [Route("/versions/diff", reader.endpoint(diff))]


def diff(reader: ContentReader, request: Request) -> Response:
    published = reader.published
    old, new = choose_versions(published, read_text(request, "from"), read_text(request, "to"))
    where = DiffAddress(
        old=old,
        new=new,
        change=read_choice(request, "change", KINDS),
        after=read_text(request, "after"),
        id=read_text(request, "id"),
        moved_to=read_text(request, "moved_to"),
        view=read_choice(request, "view", VIEWS),
        every="1" if read_text(request, "all") else "",
    )
    return _render_one(reader, request, where) if where.id else _render_list(reader, request, where)


def _render_list(reader: ContentReader, request: Request, where: DiffAddress) -> Response:
    published = reader.published
    before, now = published.find(where.old), published.find(where.new)
    summary = find_summary(published, where.old, where.new)
    found = _recorded(published, summary, where) if summary and not where.every else _all(published, where, summary)
    comparing = PairComparer(published, budget=ON_A_PAGE, view=_view(where))
    return render(
        reader.site,
        request,
        "versions_diff.html",
        old=before,
        new=now,
        every=published.versions()[::-1][:CHOICES],
        views=[_view_of(comparing.compare(pair), change, before, now, where) for pair, change in found.pairs],
        tabs=_kind_tabs(where, found),
        ways=_view_tabs(where),
        names=NAMES,
        summary=found.summary,
        shows_all=bool(where.every),
        other=where.but(every="" if where.every else "1", change="", after="") if found.summary else "",
        turned=where.but(old=where.new, new=where.old, change="", after="", every=""),
        is_first=not where.after,
        first=where.but(after=""),
        following=where.but(after=found.after) if found.after is not None else "",
    )


def _recorded(published: PublishedVersions, summary: ChangeSummary, where: DiffAddress) -> ListedPairs:
    found = find_changes(published, summary, kind=where.change, after=where.after)
    pairs = [
        (find_difference(published, where.old, where.new, one.id, moved_to=one.moved_to_id or ""), one)
        for one in found.changes
    ]
    return ListedPairs(
        pairs=[(pair, one) for pair, one in pairs if pair],
        after=found.after,
        counts={kind: getattr(summary, kind) for kind in CHANGE_KINDS},
        kinds=CHANGE_KINDS,
        summary=summary,
    )


def _all(published: PublishedVersions, where: DiffAddress, summary: ChangeSummary | None) -> ListedPairs:
    change = where.change if where.change in CHANGES else ""
    found = find_differences(published, where.old, where.new, change=change, after=where.after)
    return ListedPairs(
        pairs=[(pair, None) for pair in found.pairs],
        after=found.after,
        counts=found.counts,
        kinds=CHANGES,
        summary=summary,
    )


def _render_one(reader: ContentReader, request: Request, where: DiffAddress) -> Response:
    published = reader.published
    pair = find_difference(published, where.old, where.new, where.id, moved_to=where.moved_to)
    archived = _archived_pages(reader, pair) if pair else []
    before, now = published.find(where.old), published.find(where.new)
    comparing = PairComparer(published, budget=LONGEST, view=_view(where))
    return render(
        reader.site,
        request,
        "versions_diff_one.html",
        old=before,
        new=now,
        id=where.id,
        view=_view_of(comparing.compare(pair), None, before, now, where) if pair else None,
        ways=_view_tabs(where),
        archived=archived,
        pictures=_pictures(reader, pair) if pair else (None, None),
        document=links.document(where.id, version=where.new),
        all=where.but(id="", moved_to=""),
        names=NAMES,
    )


def _archived_pages(reader: ContentReader, pair: ItemPair) -> list[tuple[str, str]]:
    """Return names and addresses of the captures that the versions of a document were made of, if they are here."""
    dated = [(name, item, captured_at(item)) for name, item in (("before", pair.old), ("after", pair.new)) if item]
    urls = {name: text_of(item.metadata, "url") for name, item, date in dated if date}
    found = newest_captures(reader.site, urls.values())
    return [
        (f"Archived page {name}", web_address(from_datetime(date), urls[name]))
        for name, _, date in dated
        if date and urls[name] in found
    ]


def _pictures(reader: ContentReader, pair: ItemPair) -> tuple[PagePicture | None, ...]:
    """Return the pictures of the captures that both versions of a document were made of."""
    dated = [(text_of(item.metadata, "url"), captured_at(item)) for item in (pair.old, pair.new) if item]
    moments = [(url, from_datetime(date)) for url, date in dated if url and date]
    return pictures_at(reader.site, moments) if len(moments) == 2 else (None, None)


def _view(where: DiffAddress) -> DiffView:
    return "side" if where.view == "side" else "inline"


def _view_of(diff: PairDiff, change: PageChange | None, old: Version, new: Version, where: DiffAddress) -> PairDiffView:
    pair, item = diff.pair, diff.pair.item
    first = pair.old or item
    moved = change.moved_to if change else _url(item) if pair.change == "moved" else ""
    shown = msgspec.structs.replace(diff, pair=ItemPair(change.kind, pair.old, pair.new)) if change else diff
    return PairDiffView(
        diff=shown,
        title=_title(item),
        lang=lang_of(item.facets.get("language", "")),
        url=_url(first),
        moved_to=links.readable_url(moved or ""),
        share=change.share if change and change.kind == "changed" else None,
        old=links.document(first.id, version=old.version) if pair.old else "",
        new=links.document(item.id, version=new.version) if pair.new else "",
        alone=where.but(id=first.id, moved_to=item.id if item.id != first.id else "", after="", change=""),
    )


def _title(item: PublishedItem) -> str:
    return text_of(item.metadata, "title") or _url(item)


def _url(item: PublishedItem) -> str:
    return links.readable_url(text_of(item.metadata, "url")) or item.id


def _kind_tabs(where: DiffAddress, found: ListedPairs) -> list[DiffTab]:
    counts = found.counts
    everything = sum(counts.values()) if counts else None
    tabs = [DiffTab("All", where.but(change="", after=""), where.change == "", everything)]
    for name in found.kinds:
        count = counts[name] if counts else None
        if count != 0 or name == where.change:
            tabs.append(DiffTab(NAMES[name], where.but(change=name, after=""), where.change == name, count))
    return tabs


def _view_tabs(where: DiffAddress) -> list[DiffTab]:
    return [
        DiffTab(VIEW_NAMES[view], where.but(view="" if view == "inline" else view), _view(where) == view)
        for view in VIEWS
    ]

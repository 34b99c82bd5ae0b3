"""/versions/diff: word diff of two versions; with `id`, of one document."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.publish.diff import CHANGES
from webmill.publish.types import PublishedItem, Version
from webmill.serve.api import links
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.differences import choose_versions, find_difference, find_differences
from webmill.serve.api.documents import text_of
from webmill.serve.api.pair_diff import ON_A_PAGE, PairComparer, PairDiff
from webmill.serve.api.parameters import read_choice, read_text
from webmill.serve.api.text_diff import LONGEST
from webmill.serve.pages.language import lang_of
from webmill.serve.pages.render import render

NAMES = {"added": "Added", "changed": "Changed", "relabelled": "Relabelled", "removed": "Removed"}
CHOICES = 200  # versions offered in the form


class PairDiffView(msgspec.Struct, frozen=True, kw_only=True):
    diff: PairDiff
    title: str
    lang: str
    url: str
    old: str  # URL of the document in the old and the new version, if it is there
    new: str
    alone: str  # URL of this diff alone


class ChangeTab(msgspec.Struct, frozen=True):
    name: str
    address: str
    is_current: bool
    count: int | None


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [Route("/versions/diff", reader.endpoint(diff))]


def diff(reader: ContentReader, request: Request) -> Response:
    published = reader.published
    old, new = choose_versions(published, read_text(request, "from"), read_text(request, "to"))
    if id_ := read_text(request, "id"):
        return _render_one(reader, request, old, new, id_)
    change = read_choice(request, "change", CHANGES)
    found = find_differences(published, old, new, change=change, after=read_text(request, "after"))
    comparing = PairComparer(published, budget=ON_A_PAGE)
    views = [view_of(comparing.compare(pair), found.old, found.new) for pair in found.pairs]
    following = address_of(old, new, change=change, after=found.after) if found.after is not None else ""
    return render(
        reader.site,
        request,
        "versions_diff.html",
        old=found.old,
        new=found.new,
        every=published.versions()[::-1][:CHOICES],
        views=views,
        tabs=tabs_of(old, new, change, found.counts),
        names=NAMES,
        turned=address_of(new, old),
        is_first=not read_text(request, "after"),
        first=address_of(old, new, change=change),
        following=following,
    )


def address_of(old: str, new: str, *, change: str = "", after: str = "", id_: str = "") -> str:
    query = [("from", old), ("to", new), ("change", change), ("after", after), ("id", id_)]
    return links.with_query("/versions/diff", query)


def _render_one(reader: ContentReader, request: Request, old: str, new: str, id_: str) -> Response:
    published = reader.published
    pair = find_difference(published, old, new, id_)
    versions = published.find(old), published.find(new)
    view = view_of(PairComparer(published, budget=LONGEST).compare(pair), *versions) if pair else None
    return render(
        reader.site,
        request,
        "versions_diff_one.html",
        old=versions[0],
        new=versions[1],
        id=id_,
        view=view,
        document=links.document(id_, version=new),
        all=address_of(old, new),
        names=NAMES,
    )


def view_of(diff: PairDiff, old: Version, new: Version) -> PairDiffView:
    item = diff.pair.item
    return PairDiffView(
        diff=diff,
        title=_title(item),
        lang=lang_of(item.facets.get("language", "")),
        url=links.readable_url(text_of(item.metadata, "url")) or item.id,
        old=links.document(item.id, version=old.version) if diff.pair.old else "",
        new=links.document(item.id, version=new.version) if diff.pair.new else "",
        alone=address_of(old.version, new.version, id_=item.id),
    )


def _title(item: PublishedItem) -> str:
    return text_of(item.metadata, "title") or links.readable_url(text_of(item.metadata, "url")) or item.id


def tabs_of(old: str, new: str, change: str, counts: dict[str, int] | None) -> list[ChangeTab]:
    everything = sum(counts.values()) if counts else None
    tabs = [ChangeTab("All", address_of(old, new), change == "", everything)]
    for name in CHANGES:
        count = counts[name] if counts else None
        if count != 0 or name == change:
            tabs.append(ChangeTab(NAMES[name], address_of(old, new, change=name), change == name, count))
    return tabs

"""/documents: the documents of a version; /documents/item: one document with its metadata and history."""

from __future__ import annotations

import json

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import BadInput, NotFound
from webmill.model import columns
from webmill.publish.facets import FacetValue
from webmill.publish.types import PublishedItem
from webmill.serve.api import links
from webmill.serve.api.captures import newest_captures
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.declarations import MarkdownQuery
from webmill.serve.api.documents import PAGE, DocumentEntry, ItemChange, find_entry, list_items, text_of
from webmill.serve.api.parameters import read_number, read_text
from webmill.serve.api.query import read_query
from webmill.serve.api.routes import document_as_markdown, wants_markdown
from webmill.serve.captures.address import web_address
from webmill.serve.pages.filters import format_second
from webmill.serve.pages.language import facet_label, lang_of
from webmill.serve.pages.paging import make_pager, page_count
from webmill.serve.pages.render import render

FACET_VALUES = 12  # per facet, those with most documents
SHOWN_TEXT = 100_000  # characters
SHOWN_VALUE = 2_000
TIMES = frozenset({"captured", *(column.name for column in columns() if column.is_time)})  # `captured` is an older name


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    lang: str
    url: str
    address: str
    facets: dict[str, str]
    is_stale: bool


class FacetChoice(msgspec.Struct, frozen=True):
    shown: str
    count: int
    address: str
    is_chosen: bool


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [
        Route("/documents", reader.endpoint(documents)),
        Route("/documents/item", reader.endpoint(item)),
    ]


def documents(reader: ContentReader, request: Request) -> Response:
    version, prefix, facet = (
        read_text(request, "version"),
        read_text(request, "prefix").strip(),
        read_text(request, "facet"),
    )
    page = read_number(request, "page", default=1, low=1, high=10**9)
    try:
        listing = list_items(
            reader.published, version=version, prefix=prefix, facet=facet, start=(page - 1) * PAGE, count=PAGE
        )
    except NotFound:
        if version or facet or reader.published.versions():
            raise
        return render(reader.site, request, "documents_none.html")

    def address(*, facet: str = facet, page: int = 1) -> str:
        query = [("prefix", prefix), ("facet", facet), ("version", version), ("page", str(page) if page > 1 else "")]
        return links.with_query("/documents", query)

    chosen_name, _, chosen_value = facet.partition("=")
    return render(
        reader.site,
        request,
        "documents.html",
        listing=listing,
        rows=[_row(item, version=version) for item in listing.items],
        facets={
            name: [_choice(name, each, address(facet=f"{name}={each.value}"), facet) for each in top_values(values)]
            for name, values in listing.facets.items()
            if values
        },
        prefix=prefix,
        facet=facet,
        version=version,
        chip=(chosen_name, chosen_value) if facet else None,
        without_facet=address(facet=""),
        first=listing.number + 1,
        is_live=listing.version.until is None,
        pager=make_pager(page, page_count(listing.total, PAGE), lambda number: address(page=number)),
    )


def _choice(name: str, value: FacetValue, address: str, chosen: str) -> FacetChoice:
    return FacetChoice(facet_label(value.value, name), value.count, address, chosen == f"{name}={value.value}")


def top_values(values: list[FacetValue]) -> list[FacetValue]:
    return sorted(values, key=lambda each: -each.count)[:FACET_VALUES]


def _row(item: PublishedItem, *, version: str) -> ItemRow:
    url = text_of(item.metadata, "url")
    return ItemRow(
        title=text_of(item.metadata, "title") or links.readable_url(url) or item.id,
        lang=lang_of(item.facets.get("language", "")),
        url=links.readable_url(url) or item.id,
        address=links.document(item.id, version=version),
        facets=item.facets,
        is_stale=item.stale_since is not None,
    )


def item(reader: ContentReader, request: Request) -> Response:
    version = read_text(request, "version")
    id_ = read_text(request, "id")
    if not id_:
        raise BadInput("the id of a document is missing", reason="bad_query")
    reader.site.closed.refuse_document(id_)
    if wants_markdown(request):
        return document_as_markdown(reader, request, read_query(request.query_params, MarkdownQuery))
    entry = find_entry(reader.published, id_, version=version)
    capture = newest_captures(reader.site, [entry.url]).get(entry.url)
    return render(
        reader.site,
        request,
        "document.html",
        entry=entry,
        title=entry.title or links.readable_url(entry.url) or entry.item.id,
        lang=lang_of(entry.language),
        text=entry.text[:SHOWN_TEXT],
        is_text_cut=len(entry.text) > SHOWN_TEXT,
        url=links.readable_url(entry.url),
        original_address=links.original(entry.url),
        replay=web_address(capture.timestamp, capture.url) if capture else "",
        captured=capture.timestamp if capture else "",
        history=links.history(entry.url) if entry.url else "",
        blob=links.blob(entry.item.hash),
        facets=[(name, value, facet_address(name, value, version)) for name, value in entry.item.facets.items()],
        values=values_of(entry),
        changes=_changes(entry),
        is_live=entry.version.until is None,
        live=links.document(id_),
    )


def facet_address(name: str, value: str, version: str) -> str:
    return links.with_query("/documents", [("facet", f"{name}={value}"), ("version", version)])


def values_of(entry: DocumentEntry) -> list[tuple[str, str]]:
    """Return the other metadata and content fields, without title and text."""
    known = {**entry.item.metadata, **(entry.content or {})}
    beside = {name: value for name, value in known.items() if name not in ("title", "text", "url", *entry.item.facets)}
    return [(name, _shown(name, value)) for name, value in sorted(beside.items()) if value is not None]


def _shown(name: str, value: object) -> str:
    if name in TIMES and isinstance(value, str) and len(value) > len("2024-05-01"):
        return format_second(value)
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shown[:SHOWN_VALUE] + " …" * (len(shown) > SHOWN_VALUE)


def _changes(entry: DocumentEntry) -> list[tuple[ItemChange, str]]:
    """Return each change with the URL of its diff, if there is a version before to compare with."""
    following = [*entry.changes[1:], None]
    rows = []
    for change, before in zip(entry.changes, following, strict=True):
        can_compare = before is not None and change.what in ("changed", "relabelled")
        query = [("from", before.version.version if before else ""), ("to", change.version.version)]
        rows.append(
            (change, links.with_query("/versions/diff", [*query, ("id", entry.item.id)]) if can_compare else "")
        )
    return rows

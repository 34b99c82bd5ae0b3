"""/search: the search form, hits with highlighted words, and facets to narrow them down."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound
from webmill.model import CaptureRef
from webmill.search.base import DEFAULT_LIMIT, HighlightedText, Hit, IndexedDocument
from webmill.search.query import QUERY_FIELDS
from webmill.serve.api import links
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.search import FoundHits
from webmill.serve.api.search_params import SORTS, SearchParams, read_search_params
from webmill.serve.captures.address import web_address
from webmill.serve.captures.pictures import PagePicture, PicturedCapture, pictures_of
from webmill.serve.pages.language import facet_label, lang_of
from webmill.serve.pages.paging import make_pager, page_count
from webmill.serve.pages.render import render

MODES = {"words": "Words", "meaning": "Meaning", "both": "Both"}
PERIODS = (
    ("since", "From"),
    ("until", "Before"),
    ("published_since", "Published from"),
    ("published_until", "Published before"),
    ("like", "Like"),
    ("as_of", "As of"),
)
TYPES = {"html": "web page", "pdf": "PDF", "text": "plain text", "feed": "feed", "xml": "XML", "json": "JSON"}
NAMES = {"language": "Language", "site": "Site"}


class TextRun(msgspec.Struct, frozen=True):
    text: str
    is_marked: bool


class HitView(msgspec.Struct, frozen=True, kw_only=True):
    """A hit with its URLs; `document` has the columns that the template shows."""

    document: IndexedDocument
    title: list[TextRun]
    snippet: list[TextRun]
    lang: str
    shown_url: str
    original: str
    item: str
    history: str
    replay: str
    captured: str
    similar: int  # hits like it that were left out
    more: str  # the search for others like it
    picture: PagePicture | None = None


class FilterChoice(msgspec.Struct, frozen=True):
    """A filter that can be added, or removed if it is active."""

    value: str
    address: str
    count: int = 0
    is_chosen: bool = False
    name: str = ""


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [Route("/search", reader.search_endpoint(search))]


def search(reader: ContentReader, request: Request) -> Response:
    params = msgspec.structs.replace(read_search_params(request.query_params), limit=DEFAULT_LIMIT)
    if params.mode != "words" and not reader.site.finds_meaning:
        problem = "This server has no sentence model: documents with these words are shown."
        params = msgspec.structs.replace(params, mode="words", problems=(*params.problems, problem))
    try:
        found = reader.search.find(params)
    except NotFound:
        return render(reader.site, request, "search_none.html")
    page = params.offset // DEFAULT_LIMIT + 1
    return render(
        reader.site,
        request,
        "search.html",
        params=params,
        feed=feed_address(params),
        sorts=SORTS,
        modes=MODES if reader.site.finds_meaning else {},
        fields=QUERY_FIELDS,
        hits=_views(reader, found),
        past=reader.search.past_versions(),
        uncollapsed=msgspec.structs.replace(params, collapse="no", offset=0).address(),
        total=found.answer.total,
        reachable=found.reachable,
        suggestion=found.answer.suggestion,
        suggested=msgspec.structs.replace(params, q=found.answer.suggestion, offset=0).address(),
        facets=facets_of(found),
        chips=chips_of(params),
        without_filters=SearchParams(q=params.q, sort=params.sort, mode=params.mode).address(),
        was_cut=params.request(count=()).query.was_cut,
        behind=found.behind,
        first=params.offset + 1,
        pager=make_pager(page, page_count(found.reachable, DEFAULT_LIMIT), lambda number: params.address(page=number)),
    )


def feed_address(params: SearchParams) -> str:
    """Return the feed of what changes on the pages that this search finds; none for a search without words. What the
    form has chosen beside the words is written into the query."""
    chosen = {"site": params.sites, "lang": params.languages}
    terms = [" OR ".join(f"{name}:{value}" for value in values) for name, values in chosen.items()]
    query = " ".join(filter(None, [params.q, *terms]))
    return links.with_query("/feeds/search.atom", [("q", query)]) if query else ""


def _views(reader: ContentReader, found: FoundHits) -> list[HitView]:
    captures = [found.capture_of(hit) for hit in found.answer.hits]
    pages = [PicturedCapture(capture.url, capture.timestamp) if capture else None for capture in captures]
    pictures = pictures_of(reader.site.index(), filter(None, pages)) if any(pages) else {}
    return [
        view_of(hit, capture, found.params, picture=pictures.get(page) if page else None)
        for hit, capture, page in zip(found.answer.hits, captures, pages, strict=True)
    ]


def view_of(
    hit: Hit, capture: CaptureRef | None, params: SearchParams, *, picture: PagePicture | None = None
) -> HitView:
    url = hit.document.url
    return HitView(
        document=hit.document,
        title=runs_of(hit.title) or [TextRun(links.readable_url(url) or hit.id, False)],
        snippet=runs_of(hit.snippet),
        lang=lang_of(hit.document.language or ""),
        shown_url=links.readable_url(url),
        original=links.original(url),
        item=links.document(hit.id),
        history=links.history(url) if url else "",
        replay=web_address(capture.timestamp, capture.url) if capture else "",
        captured=capture.timestamp if capture else "",
        picture=picture,
        similar=hit.similar,
        more=SearchParams(like=hit.id, mode=params.mode, as_of=params.as_of).address(),
    )


def runs_of(marked: HighlightedText) -> list[TextRun]:
    runs, last = [], 0
    for start, end in marked.marks:
        runs += [TextRun(marked.text[last:start], False), TextRun(marked.text[start:end], True)]
        last = end
    return [run for run in (*runs, TextRun(marked.text[last:], False)) if run.text]


def facets_of(found: FoundHits) -> list[tuple[str, list[FilterChoice]]]:
    """Return the facets that have values, by name."""
    facets = []
    for name, counts in found.answer.facets.items():
        field = name if name in NAMES else "facet"
        choices = [
            _choice(found.params, field, each.value if field == name else f"{name}={each.value}", count=each.count)
            for each in counts
        ]
        if choices and (name != "type" or len(choices) > 1 or choices[0].is_chosen):
            facets.append((NAMES.get(name, "Type" if name == "type" else name), choices))
    return facets


def _choice(params: SearchParams, field: str, value: str, *, count: int) -> FilterChoice:
    shown = shown_facet(value) if field == "facet" else facet_label(value, field)
    is_chosen = (field, value) in params.chosen()
    return FilterChoice(shown, params.toggle_filter(field, value).address(), count, is_chosen)


def shown_facet(pair: str) -> str:
    """Return the value of NAME=VALUE for people."""
    name, _, value = pair.partition("=")
    return TYPES.get(value, value) if name == "type" else value


def chips_of(params: SearchParams) -> list[FilterChoice]:
    chips = []
    for field, value in params.chosen():
        name, _, shown = value.partition("=") if field == "facet" else (NAMES[field], "", facet_label(value, field))
        shown = shown_facet(value) if field == "facet" else shown
        chips.append(FilterChoice(shown, params.toggle_filter(field, value).address(), name=name))
    for name, label in PERIODS:
        if day := getattr(params, name):
            chips.append(FilterChoice(day, msgspec.structs.replace(params, **{name: ""}).address(), name=label))
    return chips

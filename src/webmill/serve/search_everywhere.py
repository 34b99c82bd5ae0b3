"""Results of many collections in one page: `/search?q=…` of the server that lists them, and `/search.json`.

Scores of different indexes cannot be compared, so the answers are fused by rank: the first of each collection come
first, in the order of the list. Each hit leads to its own collection, at its own origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.collection import PublishFolders
from webmill.errors import NotFound, WebmillError
from webmill.pipeline.search.engines import open_engine
from webmill.search.base import Hit, SearchAnswer, SearchMode, SearchRequest
from webmill.search.fusion import fuse
from webmill.search.query import parse
from webmill.serve.api import links
from webmill.serve.api.engine import SharedEngine
from webmill.serve.api.json_replies import json_response
from webmill.serve.api.operation import DescribedRoute, Operation, Reply
from webmill.serve.api.query import read_query
from webmill.serve.api.search_params import LONGEST_WORDS
from webmill.serve.pages.language import lang_of
from webmill.serve.pages.render import render
from webmill.serve.pages.search import MODES, TextRun, runs_of
from webmill.serve.processes.threads import BoundedThreads
from webmill.serve.site import Site
from webmill.settings import SearchSettings

LIMIT = 20  # hits of a page
DEEPEST = 5  # pages: the hits of each collection are read from its first on


class EverywhereQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a search in all collections."""

    q: Annotated[str, Meta(max_length=LONGEST_WORDS)] = ""
    mode: SearchMode = "words"
    page: Annotated[int, Meta(ge=1, le=DEEPEST)] = 1


class SearchedCollection(msgspec.Struct, frozen=True, kw_only=True):
    """A collection as it is searched here. `problem`: why it could not be."""

    name: str
    address: str
    total: int = 0
    problem: str = ""


class EverywhereHit(msgspec.Struct, frozen=True, kw_only=True):
    """A hit, with its collection."""

    collection: str
    id: str
    title: str
    url: str
    address: str  # of the document, at its collection
    snippet: str


class EverywhereReply(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a search in all collections."""

    query: str
    collections: list[SearchedCollection]
    hits: list[EverywhereHit]


SEARCH_EVERYWHERE = Operation(
    name="search_collections",
    tag="documents",
    summary="Search all collections",
    about="Hits of every collection of this server, fused by rank; each leads to its own collection.",
    query=EverywhereQuery,
    replies={200: Reply(about="The hits.", kind=EverywhereReply)},
    errors=(400,),
    error_form="message",
    is_conditional=True,
)


class ShownHit(msgspec.Struct, frozen=True, kw_only=True):
    """A hit as the page shows it."""

    hit: EverywhereHit
    title: list[TextRun]
    snippet: list[TextRun]
    lang: str


class CollectionSearch:
    """The search of one collection, opened on first use."""

    def __init__(self, name: str, address: str, root: Path, settings: SearchSettings) -> None:
        self.name, self.address, self.has_model = name, address, bool(settings.model)
        open_one = partial(open_engine, root, settings, create=False)
        self._engine = SharedEngine(open_one, PublishFolders(root).search / "meta.json")

    def search(self, request: SearchRequest) -> tuple[SearchedCollection, SearchAnswer]:
        """Return what the collection has. One that cannot be searched has nothing, and says why."""
        chosen = request if self.has_model else msgspec.structs.replace(request, mode="words")
        try:
            answer, _ = self._engine.search(chosen)
        except WebmillError as error:
            problem = "nothing is indexed" if isinstance(error, NotFound) else str(error)
            found = SearchedCollection(name=self.name, address=self.address, problem=problem)
            return found, SearchAnswer(total=0, hits=[])
        answer = answer if not answer.suggestion else SearchAnswer(total=0, hits=[])
        return SearchedCollection(name=self.name, address=self.address, total=answer.total), answer


class SearchEverywhere:
    """The searches of all collections of a server."""

    def __init__(self, searches: Sequence[CollectionSearch]) -> None:
        self._searches = searches
        self.has_model = any(each.has_model for each in searches)

    def find(self, asked: EverywhereQuery) -> tuple[list[SearchedCollection], list[tuple[EverywhereHit, Hit]]]:
        """Return the collections, and the hits of the page."""
        request = SearchRequest(query=parse(asked.q), mode=asked.mode, limit=asked.page * LIMIT)
        answers = [each.search(request) for each in self._searches]
        named = {
            (collection.name, hit.id): (_hit_of(collection, hit), hit)
            for collection, answer in answers
            for hit in answer.hits
        }
        rankings = [(1.0, [(found.name, hit.id) for hit in answer.hits]) for found, answer in answers]
        ranked = [key for key, _ in fuse(*rankings)]
        page = ranked[(asked.page - 1) * LIMIT : asked.page * LIMIT]
        return [found for found, _ in answers], [named[key] for key in page]


def _hit_of(collection: SearchedCollection, hit: Hit) -> EverywhereHit:
    return EverywhereHit(
        collection=collection.name,
        id=hit.id,
        title=hit.title.text or links.readable_url(hit.document.url) or hit.id,
        url=hit.document.url,
        address=collection.address + links.document(hit.id),
        snippet=hit.snippet.text,
    )


def routes(site: Site, everywhere: SearchEverywhere, threads: BoundedThreads) -> list[BaseRoute]:
    def page(request: Request) -> Response:
        asked = read_query(request.query_params, EverywhereQuery)
        collections, found = everywhere.find(asked) if asked.q else ([], [])
        hits = [
            ShownHit(
                hit=shown,
                title=runs_of(hit.title) or [TextRun(shown.title, False)],
                snippet=runs_of(hit.snippet),
                lang=lang_of(hit.document.language or ""),
            )
            for shown, hit in found
        ]
        return render(
            site,
            request,
            "collections_search.html",
            asked=asked,
            collections=collections,
            hits=hits,
            first=(asked.page - 1) * LIMIT + 1,
            next_page=asked.page + 1 if len(hits) == LIMIT and asked.page < DEEPEST else 0,
            modes=MODES if everywhere.has_model else {},
        )

    def as_json(request: Request) -> Response:
        asked = read_query(request.query_params, EverywhereQuery)
        collections, found = everywhere.find(asked)
        reply = EverywhereReply(query=asked.q, collections=collections, hits=[shown for shown, _ in found])
        return json_response(request, reply)

    return [
        Route("/search", threads.endpoint(page)),
        DescribedRoute("/search.json", threads.endpoint(as_json), SEARCH_EVERYWHERE),
    ]

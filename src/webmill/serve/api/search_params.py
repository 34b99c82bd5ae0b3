"""The query string of a search: strict for programs, lenient for people.

`DocumentQuery` declares the parameters; what is refused and what `/openapi.json` says of them comes from it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, time
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams

from webmill.errors import BadInput
from webmill.search.base import DEFAULT_LIMIT, MAX_HITS, MAX_OFFSET, SearchFilters, SearchMode, SearchRequest
from webmill.search.query import MAX_QUERY, parse
from webmill.serve.api.links import with_query
from webmill.serve.api.query import Day, read_leniently

MOST_VALUES = 20  # per filter
LONGEST_VALUE = 300
LONGEST_ID = 4_000
LONGEST_WORDS = 32_000  # characters that are taken; MAX_QUERY are used

Sort: TypeAlias = Literal["relevance", "newest", "oldest"]
SORTS: tuple[Sort, ...] = get_args(Sort)
FilterValue: TypeAlias = Annotated[str, Meta(max_length=LONGEST_VALUE)]
FacetFilter: TypeAlias = Annotated[str, Meta(max_length=LONGEST_VALUE, pattern="^[^=]+=", title="NAME=VALUE")]


class DocumentQuery(
    msgspec.Struct, frozen=True, kw_only=True, rename={"languages": "language", "sites": "site", "facets": "facet"}
):
    """The parameters of a search for documents."""

    q: Annotated[
        str,
        Meta(
            max_length=LONGEST_WORDS,
            description=f"Words, in the query language; without it, everything matches. The first {MAX_QUERY:,} "
            "characters and 64 terms are used.",
        ),
    ] = ""
    languages: Annotated[
        tuple[FilterValue, ...], Meta(max_length=MOST_VALUES, description="Only these, by ISO 639-3 code: eng, deu.")
    ] = ()
    sites: Annotated[
        tuple[FilterValue, ...], Meta(max_length=MOST_VALUES, description="Only these hosts, or domains with theirs.")
    ] = ()
    facets: Annotated[
        tuple[FacetFilter, ...], Meta(max_length=MOST_VALUES, description="NAME=VALUE: only documents with this facet.")
    ] = ()
    mode: Annotated[
        SearchMode,
        Meta(description="Find documents with the words, with the meaning, or both; needs a server with a model."),
    ] = "words"
    since: Annotated[Day, Meta(description="Dated this day or later.")] = ""
    until: Annotated[Day, Meta(description="Dated before this day.")] = ""
    published_since: Annotated[Day, Meta(description="Pages that state this date of publication or later.")] = ""
    published_until: Annotated[Day, Meta(description="Pages that state a date of publication before.")] = ""
    like: Annotated[
        str, Meta(max_length=LONGEST_ID, description="The `id` of a document: others like it, the likest first.")
    ] = ""
    collapse: Annotated[
        Literal["no", "yes"], Meta(description="Whether of hits that say nearly the same only the first is there.")
    ] = "no"
    as_of: Annotated[
        str,
        Meta(max_length=50, description="A date (2026-03): search the version that was live then, if it has an index."),
    ] = ""
    sort: Sort = "relevance"
    offset: Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="Hits to leave out.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_HITS, description="Hits in one answer.")] = DEFAULT_LIMIT
    page: Annotated[int, Meta(ge=1, le=MAX_OFFSET, description="Instead of `offset`: pages of `limit` hits.")] = 1


class SearchParams(DocumentQuery, frozen=True, kw_only=True):
    """The parameters of a search as they are used. `problems`: what was ignored because it could not be understood."""

    problems: tuple[str, ...] = ()

    def request(self, *, count: tuple[str, ...]) -> SearchRequest:
        chosen: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.facets:
            name, _, value = each.partition("=")
            chosen[name].append(value)
        filters = SearchFilters(
            languages=self.languages,
            sites=self.sites,
            facets=dict(chosen),
            since=_seconds(self.since),
            until=_seconds(self.until),
            published_since=_seconds(self.published_since),
            published_until=_seconds(self.published_until),
        )
        return SearchRequest(
            query=parse(self.q),
            filters=filters,
            sort=self.sort,
            limit=self.limit,
            offset=self.offset,
            facets=count,
            mode=self.mode,
        )

    def values(self) -> list[tuple[str, str]]:
        """Return the parameters as in the query string, without offset and limit."""
        return [
            ("q", self.q),
            ("mode", "" if self.mode == "words" else self.mode),
            *(("language", value) for value in self.languages),
            *(("site", value) for value in self.sites),
            *(("facet", value) for value in self.facets),
            ("since", self.since),
            ("until", self.until),
            ("published_since", self.published_since),
            ("published_until", self.published_until),
            ("like", self.like),
            ("collapse", "" if self.collapse == "no" else self.collapse),
            ("as_of", self.as_of),
            ("sort", "" if self.sort == "relevance" else self.sort),
        ]

    def address(self, path: str = "/search", *, page: int = 1) -> str:
        return with_query(path, [*self.values(), ("page", str(page) if page > 1 else "")])

    def chosen(self) -> list[tuple[str, str]]:
        """Return the active filters with their field: `language`, `site`, `facet`."""
        return [(name, value) for name, value in self.values() if name in ("language", "site", "facet")]

    def toggle_filter(self, field: str, value: str) -> SearchParams:
        """Return the search with this filter added, or removed if it was active."""
        name = {"language": "languages", "site": "sites", "facet": "facets"}[field]
        before: tuple[str, ...] = getattr(self, name)
        after = tuple(each for each in before if each != value) if value in before else (*before, value)
        return msgspec.structs.replace(self, **{name: after})


def read_search_params(params: QueryParams) -> SearchParams:
    """Return the parameters; `offset` says where the page begins that was asked for."""
    found, problems = read_leniently(params, DocumentQuery)
    found = found or DocumentQuery()
    offset, last = found.offset, max(1, MAX_OFFSET // found.limit)
    if found.page > last:
        problems.append(f"page must be a number from 1 to {last:,}")
    elif not offset:
        offset = (found.page - 1) * found.limit
    read = {**msgspec.structs.asdict(found), "q": found.q[: MAX_QUERY + 1], "offset": offset, "page": 1}
    return SearchParams(**read, problems=tuple(problems))


def require_valid(params: SearchParams) -> SearchParams:
    """Raise `BadInput` if anything could not be understood."""
    if params.problems:
        raise BadInput("; ".join(params.problems), reason="bad_query")
    return params


def _seconds(day: str) -> int | None:
    return int(datetime.combine(date.fromisoformat(day), time(), tzinfo=UTC).timestamp()) if day else None

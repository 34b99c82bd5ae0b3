"""The query string of a search: strict for programs, lenient for people."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime, time
from typing import Literal, TypeAlias, get_args

import msgspec
from starlette.datastructures import QueryParams

from webmill.errors import BadInput
from webmill.search.base import DEFAULT_LIMIT, MAX_HITS, MAX_OFFSET, SearchFilters, SearchRequest
from webmill.search.query import MAX_QUERY, parse
from webmill.serve.api.links import with_query

MOST_VALUES = 20  # per filter
LONGEST_VALUE = 300

Sort: TypeAlias = Literal["relevance", "newest", "oldest"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class SearchParams(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a search. `problems`: what was ignored because it could not be understood."""

    q: str = ""
    languages: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    facets: tuple[str, ...] = ()  # NAME=VALUE
    since: str = ""  # 2024-01-31
    until: str = ""  # older than this day
    sort: Sort = "relevance"
    offset: int = 0
    limit: int = DEFAULT_LIMIT
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
        )
        return SearchRequest(
            query=parse(self.q), filters=filters, sort=self.sort, limit=self.limit, offset=self.offset, facets=count
        )

    def values(self) -> list[tuple[str, str]]:
        """Return the parameters as in the query string, without offset and limit."""
        return [
            ("q", self.q),
            *(("language", value) for value in self.languages),
            *(("site", value) for value in self.sites),
            *(("facet", value) for value in self.facets),
            ("since", self.since),
            ("until", self.until),
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
    problems: list[str] = []
    since, until = (_day(params.get(name, ""), problems) for name in ("since", "until"))
    limit = _number(params, "limit", problems, default=DEFAULT_LIMIT, low=1, high=MAX_HITS)
    last = max(1, MAX_OFFSET // limit)
    page = _number(params, "page", problems, default=1, low=1, high=last)
    offset = _number(params, "offset", problems, default=0, low=0, high=MAX_OFFSET) or (page - 1) * limit
    return SearchParams(
        q=params.get("q", "")[: MAX_QUERY + 1],
        languages=_values(params, "language", problems),
        sites=_values(params, "site", problems),
        facets=tuple(value for value in _values(params, "facet", problems) if _is_named(value, problems)),
        since=since,
        until=until,
        sort=_sort(params.get("sort", ""), problems),
        offset=offset,
        limit=limit,
        problems=tuple(problems),
    )


def require_valid(params: SearchParams) -> SearchParams:
    """Raise `BadInput` if anything could not be understood."""
    if params.problems:
        raise BadInput("; ".join(params.problems), reason="bad_query")
    return params


def _values(params: QueryParams, name: str, problems: list[str]) -> tuple[str, ...]:
    found = dict.fromkeys(value for value in params.getlist(name) if value)
    if len(found) > MOST_VALUES or any(len(value) > LONGEST_VALUE for value in found):
        problems.append(f"{name}: at most {MOST_VALUES} values of up to {LONGEST_VALUE} characters")
        return ()
    return tuple(found)


def _is_named(value: str, problems: list[str]) -> bool:
    name, equals, _ = value.partition("=")
    if not (name and equals):
        problems.append("facet must be NAME=VALUE")
    return bool(name and equals)


def _sort(text: str, problems: list[str]) -> Sort:
    for known in SORTS:
        if text == known:
            return known
    if text:
        problems.append(f"sort must be one of {', '.join(SORTS)}")
    return "relevance"


def _number(params: QueryParams, name: str, problems: list[str], *, default: int, low: int, high: int) -> int:
    text = params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not low <= int(text) <= high:
        problems.append(f"{name} must be a number from {low:,} to {high:,}")
        return default
    return int(text)


def read_day(text: str) -> str:
    """Return a day as 2024-01-31, or nothing if none is given."""
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise BadInput(f"{text[:40]} is not a date; write 2024-01-31", reason="bad_query") from None


def _day(text: str, problems: list[str]) -> str:
    try:
        return read_day(text)
    except BadInput as error:
        problems.append(error.message)
        return ""


def _seconds(day: str) -> int | None:
    return int(datetime.combine(date.fromisoformat(day), time(), tzinfo=UTC).timestamp()) if day else None

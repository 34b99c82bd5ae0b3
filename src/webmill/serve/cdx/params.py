"""The parameters of a CDX request, read strictly, with the names of pywb, Common Crawl and the Internet Archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeVar, get_args

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.query import MatchType, compile_collapse, compile_filters, key_range, split_url_pattern
from webmill.formats.timestamps import earliest, from_datetime, latest
from webmill.index.lookup.paging import PAGE_SIZE
from webmill.index.lookup.query import MOST_SORTED, Query, Sort
from webmill.serve.api.query import fields_of
from webmill.serve.cdx.operations import DEFAULT_LIMIT, LARGEST_NUMBER, MOST_REPEATS, CdxParameters

Output = Literal["cdxj", "json", "text", "link"]
Show = Literal["captures", "page count", "blocks"]
Params = Iterable[tuple[str, str]]

MOST_DIGITS = len(str(LARGEST_NUMBER))
NAMES = frozenset(field.encode_name for field in fields_of(CdxParameters))

MATCH_TYPES: dict[str, MatchType] = {name: name for name in get_args(MatchType)}
SORTS: dict[str, Sort] = {"forward": "forward", "reverse": "reverse", "closest": "closest"}
OUTPUTS: dict[str, Output] = {"cdxj": "cdxj", "json": "json", "text": "text", "link": "link"}

T = TypeVar("T")
_REPEATED = ("filter", "collapse")
_OFF = frozenset({"", "0", "false", "f", "off"})


class CdxRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A CDX query. `page` None: all pages. `heavy`: it may read more than the blocks of one URL. `fuzzy`: similar URLs
    are searched where it finds nothing."""

    url: str
    query: Query
    output: Output
    fields: tuple[str, ...] = ()
    page: int | None = None
    page_size: int = PAGE_SIZE
    show: Show = "captures"
    heavy: bool
    fuzzy: bool = False


def read_params(params: Params, *, output: Output, allow_fuzzy: str = "0") -> CdxRequest:
    """Return the query. BadInput says what is wrong; unknown and empty parameters are ignored.

    `output` and `allow_fuzzy` are what a request means that does not say it.
    """
    one: dict[str, str] = {"allowFuzzy": allow_fuzzy}
    many: dict[str, list[str]] = {name: [] for name in _REPEATED}
    for name, value in params:
        if name in many and value:
            many[name].append(value)
        elif value and name in NAMES:
            one[name] = value
    url, match_type = _match(one)
    query = _query(
        url, match_type, one, filters=_limit_repeats(many["filter"]), collapse=_limit_repeats(many["collapse"])
    )
    return CdxRequest(
        url=one["url"],
        query=query,
        output=_choice("output", one.get("output", output), OUTPUTS),
        fields=_limit_repeats((one.get("fields") or one.get("fl") or "").split(",")),
        page=_read_number("page", one["page"]) if "page" in one else None,
        page_size=_read_number("pageSize", one["pageSize"], least=1) if "pageSize" in one else PAGE_SIZE,
        show=_read_show(one),
        heavy=match_type != "exact",
        fuzzy=match_type == "exact" and "page" not in one and _is_on(one, "allowFuzzy"),
    )


def _match(one: dict[str, str]) -> tuple[str, MatchType]:
    url = one.get("url", "")
    stated = one.get("matchType")
    url, wildcard = split_url_pattern(url) if stated is None else (url, None)
    if not url:
        raise BadInput('The "url" param is required: a URL, *.HOST or URL*', reason="no_url")
    return url, _choice("matchType", stated or wildcard or "exact", MATCH_TYPES)


def _query(
    url: str, match_type: MatchType, one: dict[str, str], *, filters: tuple[str, ...], collapse: tuple[str, ...]
) -> Query:
    compile_filters(filters)
    for field in collapse:
        compile_collapse(field)
    start, end = one.get("from") or one.get("from_ts"), one.get("to")
    sort = _sort(one)
    limit = _read_number("limit", one.get("limit", "0")) or DEFAULT_LIMIT
    if sort != "forward" and limit > MOST_SORTED:
        raise BadInput(f"limit must be at most {MOST_SORTED} for a sorted query", reason="bad_limit")
    return Query(
        range=key_range(url, match_type),
        start=earliest(start) if start else None,
        end=latest(end) if end else None,
        filters=filters,
        resolve_revisits=_is_on(one, "resolveRevisits"),
        collapse_time=_read_number("collapseTime", one["collapseTime"], least=1) if "collapseTime" in one else None,
        collapse=collapse,
        sort=sort,
        closest=_moment(one["closest"]) if "closest" in one else None,
        limit=limit,
    )


def _sort(one: dict[str, str]) -> Sort:
    """Return the order. `closest=` wins; `sort=closest` alone means nothing: pywb sends it with every query."""
    stated = _choice("sort", one.get("sort", "forward"), SORTS)
    if "closest" in one:
        return "closest"
    return "reverse" if stated == "reverse" or _is_on(one, "reverse") else "forward"


def _moment(text: str) -> str:
    """Return the end of a period, as pywb understands `closest=2021`."""
    return from_datetime(datetime.now(UTC)) if text == "now" else latest(text)


def _read_show(one: dict[str, str]) -> Show:
    if _is_on(one, "showNumPages"):
        return "page count"
    return "blocks" if _is_on(one, "showPagedIndex") else "captures"


def _is_on(one: dict[str, str], name: str) -> bool:
    return one.get(name, "").lower() not in _OFF


def _read_number(name: str, text: str, *, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS) or int(text) < least:
        raise BadInput(f"Invalid value for {name}= param: {text[:40]}", reason=f"bad_{name.lower()}")
    return int(text)


def _limit_repeats(texts: list[str]) -> tuple[str, ...]:
    if len(texts) > MOST_REPEATS:
        raise BadInput(f"at most {MOST_REPEATS} values of one parameter are allowed", reason="too_many_params")
    return tuple(text for text in texts if text)


def _choice(name: str, text: str, known: Mapping[str, T]) -> T:
    if text not in known:
        raise BadInput(f"{name}={text[:40]} not supported: use one of {', '.join(known)}", reason="bad_choice")
    return known[text]

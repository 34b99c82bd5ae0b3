"""The CDX API and Memento, declared. `params.py` reads what is declared here, and nothing else."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from webmill.formats.cdx.query import MatchType
from webmill.index.lookup.paging import PAGE_SIZE
from webmill.index.lookup.query import MOST_SORTED
from webmill.serve.api.operation import JSON, TEXT, Operation, Reply
from webmill.serve.captures.response import LINKS

DEFAULT_LIMIT = 100_000
MOST_REPEATS = 20  # filters, collapses, fields
LARGEST_NUMBER = 999_999_999

Count = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]
Repeated = Annotated[tuple[str, ...], Meta(max_length=MOST_REPEATS)]
Page = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER, description="Only this page, from 0; without it, all.")]
Digits = Annotated[
    int, Meta(ge=1, le=LARGEST_NUMBER, description="Of those that agree in so many digits of the time, one.")
]
Switch = Annotated[str, Meta(description="On, unless it is empty, 0, false, f or off.")]


class CdxParameters(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={
        "match_type": "matchType",
        "from_": "from",
        "page_size": "pageSize",
        "show_num_pages": "showNumPages",
        "show_paged_index": "showPagedIndex",
        "resolve_revisits": "resolveRevisits",
        "collapse_time": "collapseTime",
        "allow_fuzzy": "allowFuzzy",
    },
):
    """The parameters of the CDX API, with the names of pywb, Common Crawl and the Internet Archive. Values that are
    empty and names that are not here are ignored; of a repeated one the last counts, but for `filter` and `collapse`.
    """

    url: Annotated[str, Meta(min_length=1, description="A URL, `*.HOST`, or `URL*`.")]
    match_type: Annotated[MatchType, Meta(description="How `url` matches; without it, as it is written.")] = "exact"
    from_: Annotated[str, Meta(description="Captured in this period or later: 2024, 202403, 20240301120000.")] = ""
    from_ts: Annotated[str, Meta(description="Another name of `from`.")] = ""
    to: Annotated[str, Meta(description="Captured in this period or earlier.")] = ""
    output: Annotated[Literal["cdxj", "json", "text", "link"], Meta(description="Form of the lines.")] = "cdxj"
    fields: Annotated[str, Meta(description="Only these fields, with commas between them.")] = ""
    fl: Annotated[str, Meta(description="Another name of `fields`.")] = ""
    filter: Annotated[Repeated, Meta(description="FIELD:TEXT with =, ~ (a regular expression), ! before FIELD.")] = ()
    collapse: Annotated[Repeated, Meta(description="FIELD or FIELD:N: the first of neighbours that agree in it.")] = ()
    collapse_time: Digits | None = None
    limit: Annotated[
        Count, Meta(description=f"Captures; 0 is the most there are, {DEFAULT_LIMIT:,}; sorted, {MOST_SORTED:,}.")
    ] = 0
    sort: Annotated[Literal["forward", "reverse", "closest"], Meta(description="Order in time.")] = "forward"
    reverse: Annotated[Switch, Meta(description="The same as sort=reverse.")] = ""
    closest: Annotated[str, Meta(description="Nearest to this period or `now` first.")] = ""
    page: (
        Annotated[int, Meta(ge=0, le=LARGEST_NUMBER, description="Only this page, from 0; without it, all.")] | None
    ) = None
    page_size: Annotated[int, Meta(ge=1, le=LARGEST_NUMBER, description="Blocks of the index in a page.")] = PAGE_SIZE
    show_num_pages: Annotated[Switch, Meta(description="Return the number of pages as JSON.")] = ""
    show_paged_index: Annotated[Switch, Meta(description="Return the blocks of the index.")] = ""
    resolve_revisits: Annotated[Switch, Meta(description="Say where the originals of revisits are.")] = ""
    allow_fuzzy: Annotated[Switch, Meta(description="Where nothing is found, search for similar URLs.")] = ""


class CrawlPath(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, in the path."""

    name: Annotated[str, Meta(min_length=1, pattern="^[^/]+$", description="Name of a crawl, as in /collinfo.json.")]
    form: Annotated[Literal["link", "json", "cdxj"], Meta(description="Form of the TimeMap.")]
    url: Annotated[str, Meta(min_length=1, description="The URL, with its query; escaped or as it is.")]
    picture: Annotated[
        str, Meta(pattern="^[0-9]{4,14}(view|thumb)_$", description="When it was captured, and which picture.")
    ]
    timestamp: Annotated[str, Meta(pattern="^[0-9]{4,14}$", description="When it was captured: 20240301120000.")]


class DatetimeHeader(msgspec.Struct, frozen=True, kw_only=True, rename={"accept_datetime": "Accept-Datetime"}):
    """What a client of Memento sends."""

    accept_datetime: Annotated[str, Meta(description="An HTTP date; without it, now.")] = ""


class ListedCrawl(
    msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from", "cdx_api": "cdx-api"}, omit_defaults=True
):
    """A crawl, as Common Crawl's index server lists it."""

    id: str
    name: str
    timegate: str
    cdx_api: str
    from_: str = ""
    to: str = ""


LINES = ("text/x-cdxj; charset=utf-8", "text/x-ndjson; charset=utf-8", TEXT, LINKS, JSON)
PAGES = "the number of pages is JSON, `{pages, pageSize, blocks}`"


def cdx_operation(name: str, summary: str, *, default: str) -> Operation:
    return Operation(
        name=name,
        tag="captures",
        summary=summary,
        about=f'Lines as `output` says (default: {default}); {PAGES}. Errors are `{{"message": …}}`.',
        query=CdxParameters,
        path=CrawlPath,
        replies={200: Reply(about="The captures, sorted by URL and time.", media_types=LINES)},
        errors=(400, 404, 422),
        error_form="message",
    )


def timemap_operation(name: str, summary: str) -> Operation:
    return Operation(
        name=name,
        tag="captures",
        summary=summary,
        path=CrawlPath,
        replies={200: Reply(about="The captures of the URL.", media_types=(LINKS, *LINES[:2]))},
        errors=(400, 404, 422),
        error_form="message",
    )


def timegate_operation(name: str, summary: str) -> Operation:
    return Operation(
        name=name,
        tag="captures",
        summary=summary,
        path=CrawlPath,
        headers=DatetimeHeader,
        replies={302: Reply(about="`Location` is the capture.", media_types=(), headers={"Location": "The capture."})},
        errors=(400, 404, 422, 451),
        error_form="message",
    )


COLLINFO = Operation(
    name="list_crawls",
    tag="captures",
    summary="List crawls",
    about="The indexed crawls, newest first, in the format of Common Crawl's index server.",
    replies={200: Reply(about="The crawls.", kind=list[ListedCrawl])},
    error_form="message",
)
CDX = cdx_operation("query_captures", "Query captures", default="cdxj")
CDX_OF_CRAWL = cdx_operation("query_captures_of_crawl", "Query captures of a crawl", default="cdxj")
CRAWL_INDEX = cdx_operation("query_index_of_crawl", "Query captures as at Common Crawl", default="text")
TIMEMAP = timemap_operation("get_timemap", "TimeMap of a URL (RFC 7089)")
TIMEMAP_OF_CRAWL = timemap_operation("get_timemap_of_crawl", "TimeMap of a URL in a crawl")
TIMEGATE = timegate_operation("get_timegate", "TimeGate of a URL (RFC 7089)")
TIMEGATE_OF_CRAWL = timegate_operation("get_timegate_of_crawl", "TimeGate of a URL in a crawl")

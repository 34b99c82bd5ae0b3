"""/llms.txt: what this collection is and how a program that reads Markdown finds its way (llmstxt.org)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from webmill.errors import NotFound
from webmill.publish.types import PublishedItem
from webmill.serve.api.content_reader import ContentReader
from webmill.serve.api.documents import Listing, list_items, text_of
from webmill.serve.api.links import with_query
from webmill.serve.api.markdown import NOTICE, one_line
from webmill.serve.api.operation import TEXT, DescribedRoute, Operation, Reply
from webmill.serve.http.tagged_response import tagged_response
from webmill.serve.site import is_indexed

MOST_DOCUMENTS = 100
MOST_CRAWLS = 50

LLMS = Operation(
    name="get_llms_txt",
    tag="documents",
    summary="What is here, for language models",
    about="The collection in Markdown: what it holds, how to ask, and its first documents (llmstxt.org).",
    replies={200: Reply(about="The text.", media_types=(TEXT,))},
    is_conditional=True,
)


class Way(msgspec.Struct, frozen=True):
    """How to ask for something."""

    name: str
    path: str
    about: str


WAYS = (
    Way("Search documents", "/api/search?q=WORDS", "JSON: hits with snippet, date, id and capture"),
    Way("A document as Markdown", "/documents/item.md?id=ID", "`id` as in the answers of the search"),
    Way("List documents", "/api/documents", "JSON; `next_cursor` leads on"),
    Way("Versions", "/api/versions", "when the data set was published"),
    Way("What changed", "/api/versions/diff", "from one version to another; `/feeds/changes.atom` as a feed"),
    Way("Captures of a URL", "/cdx?url=URL&output=json", "one JSON object per line: timestamp, digest, place"),
    Way("A capture", "/raw/TIMESTAMP/URL", "the body as it was archived"),
    Way("All of the API", "/openapi.json", "OpenAPI 3.1"),
)


def routes(reader: ContentReader) -> list[BaseRoute]:
    return [DescribedRoute("/llms.txt", reader.endpoint(answer), LLMS)]


def answer(reader: ContentReader, request: Request) -> Response:
    text = "\n".join(lines_of(reader)) + "\n"
    return tagged_response(request, text.encode("utf-8", "replace"), media_type=TEXT)


def lines_of(reader: ContentReader) -> Iterator[str]:
    server = reader.site.address
    try:
        listing: Listing | None = list_items(reader.published, count=MOST_DOCUMENTS)
    except NotFound:
        listing = None
    yield f"# {one_line(reader.site.title)}\n"
    yield f"> {summary_of(reader, listing)}\n"
    yield f"Pages of the web as they were captured. {NOTICE} Cite URL, time of capture and digest.\n"
    yield "## How to ask\n"
    yield from (f"- [{way.name}]({server}{way.path}): {way.about}" for way in WAYS)
    if listing and listing.items:
        yield "\n## Documents\n"
        yield from (document_line(item, server) for item in listing.items)
    if listing and listing.total > len(listing.items):
        yield f"\nThese are the first {len(listing.items)} of {listing.total}."


def summary_of(reader: ContentReader, listing: Listing | None) -> str:
    crawls = [one_line(crawl.name) for crawl in reader.site.crawls() if is_indexed(crawl)]
    named = f"Indexed crawls: {', '.join(crawls[:MOST_CRAWLS])}." if crawls else "No crawl is indexed yet."
    if listing is None:
        return f"A collection of web archives. {named} Nothing is published yet."
    version = listing.version
    return (
        f"A collection of web archives. {named} {version.count} documents in version {version.version}, "
        f"published {version.published_at:%Y-%m-%d}."
    )


def document_line(item: PublishedItem, server: str) -> str:
    title, url = text_of(item.metadata, "title"), text_of(item.metadata, "url")
    address = with_query("/documents/item.md", [("id", item.id)])
    about = f": {one_line(url)}" if url else ""
    return f"- [{one_line(title or url or item.id)}]({server}{address}){about}"

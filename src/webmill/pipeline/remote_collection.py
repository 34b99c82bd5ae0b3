"""Read a collection that a server has, through its API: `webmill serve` on this machine or another one.

with webmill.connect("https://archive.example.org") as collection:
    page = collection.read(collection.capture("https://example.org/", at="2024"))
    for hit in collection.search("annual report").hits: …

Captures are read as from a folder (`OpenCollection`); the search, documents and versions are asked of the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec

from webmill.commoncrawl.crawl_storage import INTERACTIVE_RETRIES, limiter_path, open_crawl_storage
from webmill.errors import BadInput, Misconfigured
from webmill.infra.api_server import ApiServer
from webmill.infra.host_schedule.limiter import limiter_at
from webmill.infra.storage.base import Readable
from webmill.infra.storage.http import HttpReadLimits
from webmill.infra.user_agent import user_agent
from webmill.pipeline.collection_reader import OpenCollection
from webmill.pipeline.remote_index import RemoteIndex
from webmill.pipeline.remote_types import DifferenceReply, VersionReply
from webmill.pipeline.search.documents import to_indexed
from webmill.publish.types import PublishedItem
from webmill.search.base import FacetCount, Hit, IndexedDocument, SearchAnswer, SearchFilters
from webmill.search.fields import SHOWN_COLUMNS
from webmill.search.hits import HitReply

API = "1"  # major version that this client speaks
RATE = 20.0  # requests a second
PART = 1_000  # items or differences asked for at once
MOST_PARTS = 100_000  # of one list
DAY = 86_400
MARKDOWN = "/documents/item.md"
_COLUMNS = frozenset(column.name for column in SHOWN_COLUMNS)


class ServerVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says it is."""

    webmill: str
    api: str


class FoundPage(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a search."""

    total: int
    hits: list[HitReply]  # type: ignore[valid-type]  # which fields it has is known when it is made
    facets: dict[str, list[FacetCount]] = {}
    suggestion: str = ""


class ListPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list; `next_cursor` leads to the next one."""

    next_cursor: str | None = None


class ListedItems(ListPart, frozen=True, kw_only=True):
    version: str
    items: list[PublishedItem]


class ListedVersions(msgspec.Struct, frozen=True, kw_only=True):
    versions: list[VersionReply]


class ListedDifferences(ListPart, frozen=True, kw_only=True):
    differences: list[DifferenceReply]


P = TypeVar("P", bound=ListPart)


def connect(url: str, *, crawl: str | None = None, contact: str = "", rate: float = RATE) -> RemoteCollection:
    """Open the collection that `webmill serve` has at `url`. Without `crawl`, all of its crawls are read as one.

    Requests name the `contact`, and there are at most `rate` per second; 0: no limit.
    """
    from webmill.settings import CommonCrawlSettings, HttpSettings

    base = url.rstrip("/")
    http, limits = HttpSettings(contact=contact), CommonCrawlSettings(rate=rate)
    server = ApiServer(
        base,
        user_agent=user_agent(contact),
        limiter=limiter_at(limiter_path(base), rate=rate, burst=max(1.0, rate)),
        policy=INTERACTIVE_RETRIES,
        limits=HttpReadLimits(total=http.timeout),
    )
    found = server.get_json("/version", answer=ServerVersion)
    if found.api.partition(".")[0] != API:
        raise Misconfigured(f"{base} speaks version {found.api[:20]} of the API, this webmill {API}: update the older")
    files = open_crawl_storage(base, http=http, commoncrawl=limits, policy=INTERACTIVE_RETRIES)
    return RemoteCollection(server, files, crawl=crawl)


class RemoteCollection(OpenCollection):
    """A collection on a server. `captures`, `lines`, `capture` and `read` are those of `OpenCollection`. Threads may
    share it."""

    def __init__(self, server: ApiServer, files: Readable, *, crawl: str | None) -> None:
        super().__init__(RemoteIndex(server, crawl), files)
        self._server, self._files = server, files

    def search(
        self,
        words: str = "",
        *,
        filters: SearchFilters | None = None,
        sort: Literal["relevance", "newest", "oldest"] = "relevance",
        limit: int = 10,
        offset: int = 0,
    ) -> SearchAnswer:
        """Search the published documents, as `webmill.search` does; without words, return all. `NotFound`: there is no
        search index."""
        query = [("q", words), *filter_query(filters or SearchFilters())]
        query += [("sort", sort), ("limit", str(limit)), ("offset", str(offset))]
        found = self._opened_server().get_json("/api/search", query, answer=FoundPage)
        return SearchAnswer(
            total=found.total,
            hits=[read_hit(hit) for hit in found.hits],
            facets=found.facets,
            suggestion=found.suggestion,
        )

    def documents(self, *, version: str = "", prefix: str = "", facet: str = "") -> Iterator[IndexedDocument]:
        """Yield the documents of a version with their texts, by id. `prefix`: of an id or a URL; `facet`: NAME=VALUE.

        Each text is checked against its hash.
        """
        query = [("version", version), ("prefix", prefix), ("facet", facet), ("limit", str(PART))]
        for found in self._read_list("/api/documents", query, ListedItems):
            for item in found.items:
                yield to_indexed(self._files, item, version=found.version)

    def markdown(self, id_: str, *, version: str = "") -> str:
        """Return the beginning of a document as Markdown, as the server escapes it."""
        query = [("id", id_), ("version", version)]
        return self._opened_server().get(MARKDOWN, query, accept="text/markdown").body.decode(errors="replace")

    def versions(self) -> Sequence[VersionReply]:
        """Return the published versions, oldest first."""
        return self._opened_server().get_json("/api/versions", answer=ListedVersions).versions

    def differences(self, old: str = "", new: str = "") -> Iterator[DifferenceReply]:
        """Yield what changed from one version to another, by id; without names, from the last one to the live one."""
        query = [("from", old), ("to", new), ("limit", str(PART))]
        for found in self._read_list("/api/versions/diff", query, ListedDifferences):
            yield from found.differences

    def close(self) -> None:
        super().close()
        self._server.close()

    def _read_list(self, path: str, query: Sequence[tuple[str, str]], answer: type[P]) -> Iterator[P]:
        """Yield the parts of a list. `BadInput`: it has no end."""
        cursor = ""
        for _ in range(MOST_PARTS):
            found = self._opened_server().get_json(path, [*query, ("cursor", cursor)], answer=answer)
            yield found
            if found.next_cursor is None:
                return
            if found.next_cursor == cursor:
                break
            cursor = found.next_cursor
        raise BadInput(f"{self._server.address}{path}: the server sends a list without an end", reason="bad_list")

    def _opened_server(self) -> ApiServer:
        self._opened()
        return self._server


def filter_query(filters: SearchFilters) -> list[tuple[str, str]]:
    """Return the parameters of filters. `BadInput`: a time that is no day."""
    found = [*(("language", value) for value in filters.languages), *(("site", value) for value in filters.sites)]
    found += [("facet", f"{name}={value}") for name, values in filters.facets.items() for value in values]
    for name, seconds in (("since", filters.since), ("until", filters.until)):
        if seconds is not None:
            if seconds % DAY:
                raise BadInput(
                    f"{name} must be the beginning of a day in UTC for a search on a server", reason="bad_day"
                )
            found.append((name, f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"))
    return found


def read_hit(hit: msgspec.Struct) -> Hit:
    """Return a hit as `webmill.search` has it; its capture is the newest one of its URL."""
    said = {field: getattr(hit, field) for field in hit.__struct_fields__}
    columns = {name: value for name, value in said.items() if name in _COLUMNS - {"title"} and value is not None}
    named = {name: said[name] for name in ("id", "hash", "version", "facets")}
    document = IndexedDocument(**{**columns, **named}, title=said["title"].text)
    return Hit(
        document=document, score=said["score"], title=said["title"], snippet=said["snippet"], capture=said["capture"]
    )

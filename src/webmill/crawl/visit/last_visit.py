"""What a visit leaves to be compared with by the next one of the same URL."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.politeness.retries import TORN
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import digest
from webmill.model import Headers

ARCHIVED_FIELDS = ("record_id", "record_url", "record_time", "digest", "etag", "modified")
MOST_ETAG, MOST_MODIFIED = 500, 100  # characters


def is_whole_page(fetched: FetchedResponse) -> bool:
    """Tell whether a later visit may be compared with this response."""
    return fetched.head.status == 200 and fetched.exchange.truncated is None


def cut_error(fetched: FetchedResponse) -> str:
    """Return that a response broke off and how much came, if it did: it is kept, but is not all of the page."""
    why = fetched.exchange.truncated
    return f"truncated_{why}: {len(fetched.exchange.response):,} bytes came" if why in TORN else ""


def next_validators(fetched: FetchedResponse, before: LastVisit) -> dict[str, str]:
    """Return what the next visit asks "has it changed since" with. Where the server gives nothing, or what is too long
    to be kept, it is the time of this visit."""
    headers = fetched.head.headers
    etag, modified = validators_of(headers)
    etag = etag if headers.get("ETag") else before.etag
    modified = modified if headers.get("Last-Modified") else before.modified
    if not etag and not modified:
        modified = formatdate(fetched.exchange.date.timestamp(), usegmt=True)
    return {"etag": etag, "modified": modified}


def archived_fields(last: LastVisit) -> dict[str, Any]:
    """Return what describes the page as it was archived, for visits that bring nothing newer."""
    return {name: getattr(last, name) for name in ARCHIVED_FIELDS}


def is_changed(fetched: FetchedResponse, last: LastVisit | None) -> bool:
    """Compare the payloads. A page that was never archived counts as changed."""
    if last is None or not last.digest:
        return True
    if fetched.head.status == 304:
        return False
    response = fetched.exchange.response
    return digest.compute(memoryview(response)[end_of_head(response) or len(response) :]) != last.digest


def conditions(last: LastVisit | None, *, since: float = 0.0) -> tuple[tuple[str, str], ...]:
    """Return the header fields of a conditional request, where a whole page was archived to compare with: maybe by a
    visit before the last one. None before `since`: its links were judged by other rules, so it is read once more."""
    if last is None or not last.record_id or last.time < since:
        return ()
    return if_changed(last.etag, last.modified)


def if_changed(etag: str, modified: str) -> tuple[tuple[str, str], ...]:
    """Return the header fields that ask for a page only if it is another than the one these validators came with."""
    if etag:
        return (("If-None-Match", etag),)
    return (("If-Modified-Since", modified),) if modified else ()


def validators_of(headers: Headers) -> tuple[str, str]:
    """Return ETag and Last-Modified, each empty where it is missing or too long to be kept."""
    etag, modified = headers.get("ETag") or "", headers.get("Last-Modified") or ""
    return etag if len(etag) <= MOST_ETAG else "", modified if len(modified) <= MOST_MODIFIED else ""

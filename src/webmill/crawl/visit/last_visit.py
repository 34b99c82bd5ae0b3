"""What a visit leaves to be compared with by the next one of the same URL."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.politeness.retries import TORN
from webmill.crawl.visit.page_reader import validators_of
from webmill.formats.http.head import end_of_head
from webmill.formats.warc import digest

ARCHIVED_FIELDS = ("record_id", "record_url", "record_time", "digest", "etag", "modified")


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

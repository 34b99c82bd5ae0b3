"""What an answer is cited by: the capture that it comes from, as the index of the collection has it."""

from __future__ import annotations

import logging
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.timestamps import from_datetime, to_datetime
from webmill.formats.url.normalise import normalise
from webmill.formats.url.surt import surt
from webmill.model import CaptureRef
from webmill.pipeline.captures import MAX_CANDIDATES, nearest_captures
from webmill.publish.types import PublishedItem, captured_at
from webmill.serve.api.documents import text_of
from webmill.serve.api.json_replies import capture_reply
from webmill.serve.api.untrusted import clip
from webmill.serve.mcp.opened import OpenedCollection
from webmill.serve.mcp.replies import Citation

log = logging.getLogger(__name__)

LONGEST_URL = 8_192


def cite_capture(asked: OpenedCollection, capture: CaptureRef) -> Citation:
    """Return the citation of a capture of the index."""
    return Citation(
        collection=asked.name,
        url=clip(capture.url, LONGEST_URL),
        captured_at=date_of(capture.timestamp),
        digest=capture.digest or None,
        capture=capture_reply(capture) if len(capture.url) <= LONGEST_URL else None,
    )


def cite_content(
    asked: OpenedCollection,
    url: str,
    *,
    at: datetime | None,
    version: str,
    content_hash: str,
    filename: str = "",
) -> Citation:
    """Return the citation of published content: with the capture of this second, where it is indexed here."""
    capture = find_capture(asked, url, timestamp=from_datetime(at), filename=filename) if at else None
    found = cite_capture(asked, capture) if capture else Citation(collection=asked.name, url=clip(url, LONGEST_URL))
    return replace(found, captured_at=found.captured_at or at, version=version, content_hash=content_hash)


def cite_item(asked: OpenedCollection, item: PublishedItem, *, version: str, url: str = "") -> Citation:
    return cite_content(
        asked,
        url or text_of(item.metadata, "url"),
        at=captured_at(item),
        version=version,
        content_hash=item.hash,
        filename=text_of(item.metadata, "warc_filename"),
    )


def find_capture(asked: OpenedCollection, url: str, *, timestamp: str, filename: str) -> CaptureRef | None:
    """Return the capture of a URL in this second, from this file if it is there; None if it is not indexed here."""
    try:
        near = islice(nearest_captures(asked.site.index(), url, moment=timestamp), MAX_CANDIDATES)
        found = [line.capture for line in near if line.capture.timestamp == timestamp]
    except (NotFound, BadInput):  # published documents need not be archived here, nor have an address of the web
        return None
    except WebmillError as error:  # answer without the capture
        log.warning("cannot look up a capture", extra={"why": str(error)})
        return None
    return next((one for one in found if one.filename == filename), found[0] if found else None)


def date_of(timestamp: str) -> datetime | None:
    try:
        return to_datetime(timestamp)
    except BadInput:
        return None


def address_of(url: str) -> str:
    """Return the normal form of a URL; its scheme may be left out."""
    return normalise(url if "://" in url else f"http://{url}")


def id_of(url: str) -> str:
    """Return the id under which the pages of a crawl are published."""
    return surt(address_of(url))

"""What is archived of a visit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from webmill.crawl.browser.renderer import RenderedPage
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.frontier.base import ClaimedUrl, LastVisit
from webmill.formats.warc.capture import Capture, Subset
from webmill.formats.warc.record_headers import OriginalCapture

AnswerKind = Literal["page", "sitemap", "redirect", "not_modified", "resource"]


def make_capture(
    fetched: FetchedResponse,
    item: ClaimedUrl,
    kind: AnswerKind,
    *,
    rendered: RenderedPage | None = None,
    notes: tuple[tuple[str, str], ...] = (),
) -> Capture:
    """Return what is archived of a response. `rendered`: what a browser has made of it; `notes`: what goes into its
    metadata record as well."""
    subset: Subset = "warc" if fetched.head.status == 200 else "crawldiagnostics"
    if kind == "not_modified" and item.last:
        return Capture(
            exchange=fetched.exchange,
            kind="not_modified",
            original=archived_original(item.last),
            subset=subset,
            extra=notes,
        )
    return Capture(
        exchange=fetched.exchange,
        payload=fetched.payload,
        headers=fetched.head.headers,
        subset=subset,
        extra=(("hopsFromSeed", str(item.depth)), *notes),
        is_rendered=bool(rendered and rendered.html),
    )


def archived_original(last: LastVisit) -> OriginalCapture:
    """Return the record that a revisit record of this URL refers to."""
    time = last.record_time or last.time
    return OriginalCapture(
        record_id=last.record_id,
        uri=last.record_url or last.url,
        date=datetime.fromtimestamp(time, UTC),
        payload_digest=last.digest or None,
    )

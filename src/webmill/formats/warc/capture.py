"""A capture to be written to WARC files, and where it was written."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from webmill.formats.languages import DetectedLanguages
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.model import CaptureRef, Exchange, Headers

Subset = Literal["warc", "crawldiagnostics", "robotstxt"]  # the folders of a segment, as at Common Crawl


class PayloadDescription(msgspec.Struct, frozen=True):
    """What was found in a payload: its media type and, if that is HTML, charset (as IANA calls it) and languages."""

    media_type: str
    charset: str = ""
    languages: DetectedLanguages | None = None


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange to be archived.

    `payload` is the decoded body: type, charset and languages are detected in it. `not_modified` is for a 304 to a
    conditional request, `identical` for a body as sent that has the payload digest of `original`: only the head is
    stored then. `extra` goes into the metadata record. If they are known already, `headers` are those of the response,
    `digest` is that of the payload, `sha1:…` of what follows the head in `exchange.response`, and `description` is what
    was found in it. `is_rendered`: a browser has shown the page, whose document has a record of its own; however often
    the same bytes came, they are not the same page.
    """

    exchange: Exchange
    payload: bytes = b""
    headers: Headers | None = None
    kind: Literal["response", "not_modified", "identical"] = "response"
    original: OriginalCapture | None = None
    subset: Subset = "warc"
    extra: tuple[tuple[str, str], ...] = ()
    digest: str = ""
    description: PayloadDescription | None = None
    is_rendered: bool = False


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Something made of a page, not sent by a server: its picture, its text. `url` begins with `urn:`."""

    url: str
    content_type: str
    content: bytes
    date: datetime


class WrittenCapture(msgspec.Struct, frozen=True):
    """Where a capture was written, and the id of its record. The digest of a 304, which has no payload, is empty."""

    capture: CaptureRef  # without a urlkey, which only an index needs
    record_id: str

"""One capture on its way into WARC files: what is to be written of an exchange, and where it was written."""

from __future__ import annotations

from typing import Literal

import msgspec

from webmill.formats.warc.record_headers import OriginalCapture
from webmill.model import CaptureRef, Exchange, Headers

Subset = Literal["warc", "crawldiagnostics", "robotstxt"]  # the folders of a segment, as Common Crawl has them


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written of one exchange.

    `payload` is the decoded body: type, charset and languages are found in it. `not_modified` is for a 304 to a
    conditional request, `identical` for a body with the payload digest of `original`, byte for byte as it was sent:
    of both only the head is stored. `extra` goes into the metadata record. Where they are known already: `headers` are
    those of the answer, `digest` is the payload's, `sha1:…` of what follows the head in `exchange.response`.
    """

    exchange: Exchange
    payload: bytes = b""
    headers: Headers | None = None
    kind: Literal["response", "not_modified", "identical"] = "response"
    original: OriginalCapture | None = None
    subset: Subset = "warc"
    extra: tuple[tuple[str, str], ...] = ()
    digest: str = ""


class WrittenCapture(msgspec.Struct, frozen=True):
    """Where a capture was written, and the id of its record. The digest of a 304, which has no payload, is empty."""

    capture: CaptureRef  # without a urlkey: only an index needs it
    record_id: str

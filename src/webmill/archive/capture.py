"""One record of a WARC, parsed to derive WAT and WET from it: its HTTP message and, for a page, its HTML."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from webmill.errors import BadInput
from webmill.formats.html.page import HtmlPage, read_html
from webmill.formats.warc.http_records import HttpResponse, is_html, read_response
from webmill.model import Record

_HTTP = "application/http"


class CapturedRecord(msgspec.Struct, frozen=True):
    """A WARC record with its parsed response and page.

    `page` is None if it is not HTML, or if `refused` says why not.
    """

    record: Record
    response: HttpResponse | None = None
    page: HtmlPage | None = None
    refused: BadInput | None = None


def read_capture(record: Record, *, read_page: Callable[[str], HtmlPage] = read_html) -> CapturedRecord:
    """Parse the HTTP message and the page of a record, as far as it has them."""
    if record.type not in ("response", "revisit") or record.cut or not _is_http(record):
        return CapturedRecord(record)
    response = read_response(record.content)
    if record.type == "revisit" or not is_html(record, response):
        return CapturedRecord(record, response)
    try:
        return CapturedRecord(record, response, read_page(_decode_html(response)))
    except BadInput as error:
        return CapturedRecord(record, response, refused=error)


def _decode_html(response: HttpResponse) -> str:
    if response.content.flaw == "decode_limit":
        raise BadInput("the body inflates beyond the limits", reason="decode_limit")
    return response.text.text


def _is_http(record: Record) -> bool:
    return (record.content_type or "").partition(";")[0].strip().lower() in (_HTTP, "message/http")

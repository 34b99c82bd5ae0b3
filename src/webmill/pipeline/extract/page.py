"""One capture's stored bytes to what is known of its page. Runs in a sandbox: all of this is hostile.

stored bytes ─▶ one WARC record, of the right URL ─▶ HTTP ─▶ HTML by its charset ─▶ title, text, language
"""

from __future__ import annotations

import msgspec

from webmill.errors import BadInput
from webmill.extract.head import HTML, clean, media_type
from webmill.extract.main_text import MainText, main_text, title_of
from webmill.formats.charset import decode_page
from webmill.formats.cld2 import MOST_BYTES, find_languages, suffix_of
from webmill.formats.http_records import HttpResponse, read_response
from webmill.formats.surt import surt
from webmill.formats.warc.head import Limits
from webmill.formats.warc.single import read_record_at
from webmill.infra.child import Limits as ChildLimits
from webmill.model import Record

FUNCTION = "webmill.pipeline.extract.page:read_page"
MIB = 1 << 20
CHILD = ChildLimits(cpu=10, wall=60, memory=1024 * MIB, output=8 * MIB, written=MIB, may_fork=False)
RECORD = Limits(block=32 * MIB)
ENOUGH = 200  # characters of text to tell its language by


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """`extraction` is ok, empty, none, not_html or not_response: see extract_rows."""

    record: str
    extraction: str
    status: int | None = None
    charset: str | None = None
    title: str | None = None
    text: str | None = None
    language: str | None = None  # None: not looked for, or not found
    flaw: str | None = None


def read_page(
    stored: bytes, *, url: str, offset: int, mime: str = "", extractor: MainText = "none", detect: bool = False
) -> Reading:
    """`mime` is what the index says the content is. BadInput: the bytes are not the capture of that URL."""
    record = read_record_at(stored, limits=RECORD, offset=offset)
    check_url(record, url)
    kind = record.type or ""
    if kind not in ("response", "resource"):
        return Reading(record=kind, extraction="not_response")
    response = read_response(record.content) if kind == "response" else None
    body = response.content.data if response else record.content
    flaw = response.content.flaw if response and not response.content.complete else None
    reading = Reading(record=kind, extraction="not_html", status=response.status if response else None, flaw=flaw)
    if not is_html(mime, record, response):
        return reading
    page = decode_page(body, content_type=response.content_type if response else record.content_type)
    text = None if extractor == "none" else main_text(page.text, extractor=extractor)
    return msgspec.structs.replace(
        reading,
        extraction="none" if text is None else "ok" if text else "empty",
        charset=page.encoding,
        title=title_of(page.text),
        text=text,
        language=language_of(text, page.text, url, response) if detect else None,
    )


def check_url(record: Record, url: str) -> None:
    """Indexes may spell a URL a little differently than its record."""
    found = clean(record.target_uri) or ""
    if found != url and surt(found) != surt(url):
        raise BadInput(f"the record is of {found[:200]!r}", reason="wrong_record")


def is_html(mime: str, record: Record, response: HttpResponse | None) -> bool:
    said = response.content_type if response else record.content_type
    known = mime or record.headers.get("WARC-Identified-Payload-Type") or media_type(said) or ""
    return known in HTML


def language_of(text: str | None, html: str, url: str, response: HttpResponse | None) -> str | None:
    """Of the text, where there is enough of it: that is quicker, and menus are in other languages at times."""
    said = (response.fields.get("Content-Language") if response else None) or ""
    words = text if text and len(text) >= ENOUGH else html
    page = words.encode("utf-8", "replace")[:MOST_BYTES]
    return next(iter(find_languages(page, suffix=suffix_of(url), said=said).codes), None)

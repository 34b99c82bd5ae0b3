"""The records of a page that a browser has shown, in the form of Browsertrix, so that its tools read them.

    urn:pageinfo:URL     what the page asked for, and what came of it (JSON)
    urn:text:URL         its text
    urn:view:URL         what it looked like (PNG)
    urn:thumbnail:URL    the same, small (JPEG)
    urn:dom:URL          its document as the scripts left it (HTML): what `extract` reads; ours alone

https://crawler.docs.browsertrix.com/user-guide/outputs/
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from webmill.formats.warc.capture import PageRecord

MOST_URLS = 5000  # that a record lists


class LoadedUrl(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of one request of a page."""

    status: int = 0
    mime: str = ""
    type: str = ""
    error: str = ""


class PageCounts(msgspec.Struct, frozen=True):
    requests: int = 0
    failed: int = 0
    bytes: int = 0


class PageInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `urn:pageinfo:URL`. `cut` says what the page was kept from: time, requests, bytes, cpu, memory."""

    pageid: str
    url: str
    urls: dict[str, LoadedUrl]
    ts: str
    counts: PageCounts
    title: str = ""
    lang: str = ""
    cut: tuple[str, ...] = ()
    popups: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    websockets: tuple[str, ...] = ()
    final_url: str = msgspec.field(default="", name="finalUrl")
    error: str = ""
    browser: str = ""
    seconds: float = 0.0


class PageView(msgspec.Struct, frozen=True, kw_only=True):
    """What a page was when it was done."""

    html: str = ""
    text: str = ""
    view: bytes = b""
    thumbnail: bytes = b""


def page_records(info: PageInfo, view: PageView, *, date: datetime) -> tuple[PageRecord, ...]:
    """Return the records of a page. Its `pageinfo` is the last: where it is, all others are."""
    contents = [
        ("dom", "text/html; charset=utf-8", encode_text(view.html)),
        ("text", "text/plain; charset=utf-8", encode_text(view.text)),
        ("view", "image/png", view.view),
        ("thumbnail", "image/jpeg", view.thumbnail),
        ("pageinfo", "application/json", msgspec.json.encode(info)),
    ]
    return tuple(
        PageRecord(url=f"urn:{kind}:{info.url}", content_type=content_type, content=content, date=date)
        for kind, content_type, content in contents
        if content
    )


def encode_text(text: str) -> bytes:
    """Return text in UTF-8; half a character of a string of JavaScript becomes a question mark."""
    return text.encode("utf-8", "replace")

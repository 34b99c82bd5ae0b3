"""What a browser asks for, as it is sent; and an answer of a server, as the browser is given it. Pure functions."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable

from webmill.crawl.browser.messages import PausedHttpRequest
from webmill.crawl.fetch import FetchedResponse
from webmill.crawl.politeness.session import Fields
from webmill.formats.url.domains import private_domain
from webmill.formats.url.normalise import host_of, origin_of

# What the crawler says by itself, and what asks for a part: the archive wants the whole.
_OWN = frozenset(
    {
        *("host", "connection", "user-agent", "accept-encoding", "cookie", "content-length", "transfer-encoding"),
        *(
            "range",
            "if-range",
            "if-none-match",
            "if-modified-since",
            "if-match",
            "if-unmodified-since",
            "te",
            "trailer",
        ),
        *("keep-alive", "upgrade", "expect", "proxy-authorization", "proxy-connection", "purpose", "sec-purpose"),
    }
)
# About bytes that the browser does not see: it is given the decoded body, and where it came from is our affair.
_HOP = frozenset(
    {
        *("content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive", "trailer", "upgrade"),
        *("strict-transport-security", "alt-svc", "report-to", "nel", "reporting-endpoints", "expect-ct"),
        *("proxy-authenticate", "www-authenticate", "proxy-connection", "te"),
    }
)
_ACCEPTED = {
    "Document": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    "Image": "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "Stylesheet": "text/css,*/*;q=0.1",
}
DESTINATIONS = {  # Sec-Fetch-Dest, by the type of the resource
    "Document": "iframe",
    "Stylesheet": "style",
    "Image": "image",
    "Media": "video",
    "Font": "font",
    "Script": "script",
    "Manifest": "manifest",
    "TextTrack": "track",
}
_CORS_KINDS = frozenset({"XHR", "Fetch", "Font", "EventSource", "Manifest"})
_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*")
_BAD = re.compile(r"[\r\n\0]")


def sent_fields(request: PausedHttpRequest, kind: str, *, page: str) -> Fields:
    """Return the fields of a request of `page`, with those that a browser adds when it sends it."""
    fields = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN]
    fields = [(name, value) for name, value in fields if not name.lower().startswith(("sec-ch-", "sec-fetch-"))]
    if not any(name.lower() == "accept" for name, _ in fields):
        fields.append(("Accept", _ACCEPTED.get(kind, "*/*")))
    is_cors = kind in _CORS_KINDS or request.header("Origin") != ""
    mode = "navigate" if kind == "Document" else "cors" if is_cors else "no-cors"
    return (
        *fields,
        ("Sec-Fetch-Dest", DESTINATIONS.get(kind, "empty")),
        ("Sec-Fetch-Mode", mode),
        ("Sec-Fetch-Site", relation(request.url, page)),
    )


def relation(url: str, page: str) -> str:
    """Return how the origins of a URL and of a page are related, in the words of Sec-Fetch-Site."""
    if origin_of(url) == origin_of(page):
        return "same-origin"
    return "same-site" if site_of_url(url) == site_of_url(page) else "cross-site"


def site_of_url(url: str) -> str:
    host = host_of(url)
    return private_domain(host) or host


def fulfilment(request_id: str, fetched: FetchedResponse, *, range_field: str = "") -> dict[str, object]:
    """Return the parameters of Fetch.fulfillRequest; of an answer in full only the part that was asked for."""
    status, body = fetched.head.status, fetched.payload
    fields = [(name, value) for name, value in fetched.head.headers.pairs if name.lower() not in _HOP]
    if status == 200 and (asked := parse_range(range_field, len(body))):
        start, end = asked
        status, body = 206, body[start:end]
        fields = [(name, value) for name, value in fields if name.lower() not in ("content-range", "accept-ranges")]
        fields += [("Content-Range", f"bytes {start}-{end - 1}/{len(fetched.payload)}"), ("Accept-Ranges", "bytes")]
    return fulfilled(request_id, status=status, fields=fields, body=body)


def fulfilled(request_id: str, *, status: int, fields: Iterable[tuple[str, str]], body: bytes) -> dict[str, object]:
    """Return the parameters of Fetch.fulfillRequest, in which nothing is that the browser refuses."""
    given: dict[str, object] = {
        "requestId": request_id,
        "responseCode": status if 100 <= status <= 599 else 502,
        "responseHeaders": [{"name": name, "value": _BAD.sub(" ", value)} for name, value in fields],
    }
    if body and status not in (204, 205, 304):
        given["body"] = b64encode(body).decode()
    return given


def parse_range(field: str, length: int) -> tuple[int, int] | None:
    """Return begin and end of the one range that a Range field asks for, None if it asks for none that is there."""
    found = _RANGE.fullmatch(field)
    if not found or not (found[1] or found[2]) or not length:
        return None
    if not found[1]:
        return max(0, length - int(found[2])), length
    start = int(found[1])
    end = min(length, int(found[2]) + 1) if found[2] else length
    return (start, end) if start < end else None


def mime_of(fetched: FetchedResponse) -> str:
    return (fetched.head.headers.get("Content-Type") or "").partition(";")[0].strip().lower()[:100]

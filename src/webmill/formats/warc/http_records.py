"""HTTP requests and responses of WARC records: well-known headers as attributes, all headers in `fields`.

A repeated header (Set-Cookie) keeps every value: `fields.get_all(name)`.
"""

from __future__ import annotations

from functools import cached_property

from webmill.formats.compression import content_coding
from webmill.formats.html import charset
from webmill.formats.http import RequestHead, ResponseHead, split_request, split_response
from webmill.formats.warc.fields import HasFields, HeaderField
from webmill.model import Headers, Record

_HTML = frozenset({"text/html", "application/xhtml+xml"})


class HttpMessage(HasFields, frozen=True, dict=True):
    """An HTTP message. `body` is as stored: perhaps chunked and compressed. `flaws` are listed in formats.http.head."""

    body: bytes
    flaws: tuple[str, ...]

    connection = HeaderField("Connection")
    cache_control = HeaderField("Cache-Control")
    pragma = HeaderField("Pragma")


class HttpRequest(HttpMessage, frozen=True, dict=True):
    head: RequestHead | None

    host = HeaderField("Host")
    user_agent = HeaderField("User-Agent")
    accept = HeaderField("Accept")
    accept_encoding = HeaderField("Accept-Encoding")
    accept_language = HeaderField("Accept-Language")
    if_modified_since = HeaderField("If-Modified-Since")

    @property
    def method(self) -> str | None:
        return self.head.method if self.head else None

    @property
    def target(self) -> str | None:
        return self.head.target if self.head else None

    @property
    def version(self) -> str | None:
        return self.head.version if self.head else None


class HttpResponse(HttpMessage, frozen=True, dict=True):
    head: ResponseHead | None

    content_type = HeaderField("Content-Type")
    content_length = HeaderField("Content-Length")
    date = HeaderField("Date")
    server = HeaderField("Server")
    set_cookie = HeaderField("Set-Cookie")
    etag = HeaderField("ETag")
    last_modified = HeaderField("Last-Modified")
    location = HeaderField("Location")
    keep_alive = HeaderField("Keep-Alive")
    vary = HeaderField("Vary")
    accept_ranges = HeaderField("Accept-Ranges")
    expires = HeaderField("Expires")
    x_powered_by = HeaderField("X-Powered-By")
    x_crawler_content_encoding = HeaderField("X-Crawler-Content-Encoding")
    x_crawler_transfer_encoding = HeaderField("X-Crawler-Transfer-Encoding")
    x_crawler_content_length = HeaderField("X-Crawler-Content-Length")
    x_frame_options = HeaderField("X-Frame-Options")
    x_xss_protection = HeaderField("X-XSS-Protection")
    cf_cache_status = HeaderField("CF-Cache-Status")
    cf_request_id = HeaderField("CF-Request-ID")
    cf_ray = HeaderField("CF-Ray")
    access_control_allow_origin = HeaderField("Access-Control-Allow-Origin")
    access_control_allow_methods = HeaderField("Access-Control-Allow-Methods")
    access_control_allow_headers = HeaderField("Access-Control-Allow-Headers")

    @property
    def status(self) -> int | None:
        return self.head.status if self.head else None

    @property
    def reason(self) -> str | None:
        return self.head.reason if self.head else None

    @property
    def version(self) -> str | None:
        return self.head.version if self.head else None

    @cached_property
    def content(self) -> content_coding.DecodedBody:
        """The body with its transfer and content codings undone, within limits."""
        return content_coding.decode_body(self.fields, self.body)

    @cached_property
    def text(self) -> charset.DecodedText:
        """The content decoded as a browser would."""
        return charset.decode_page(self.content.data, content_type=self.content_type)


def read_request(block: bytes) -> HttpRequest:
    """Parse the block of a request record."""
    message = split_request(block)
    return HttpRequest(message.head.headers if message.head else Headers(), message.body, message.flaws, message.head)


def read_response(block: bytes) -> HttpResponse:
    """Parse the block of a response or revisit record."""
    message = split_response(block)
    body = message.body[2:] if "double_empty_line" in message.flaws else message.body
    return HttpResponse(message.head.headers if message.head else Headers(), body, message.flaws, message.head)


def is_html(record: Record, response: HttpResponse) -> bool:
    """Return whether it is HTML by Common Crawl's rule: by the identified type, or else by the server's type."""
    identified = record.headers.get("WARC-Identified-Payload-Type")
    return identified in _HTML if identified else "html" in (response.content_type or "").lower()

"""Check the answers of HTTP servers to reads, and turn their refusals into errors of our tree.

A range is believed only when everything agrees: status 206, Content-Range, length, and the etag if one was asked for.

    404, 410            NotFound
    412                 Conflict: the value is another by now
    416                 BadInput bad_range
    408, 425, 429, 5xx  Unavailable, with Retry-After if it was sent; 429 and 503 are `SlowDown`
    401, 403, 407, 451  Misconfigured: the server refuses *us*; 403 is `AccessRefused`. Common Crawl blocks by 403, and
                        asking on makes that worse: stop, wait minutes, look at rate and User-Agent. (Some S3 fronts
                        say 403 for a missing key; there is no telling the two apart.)
    200 for a range     Unavailable, and the body is not read: it may be the whole gigabyte
    other               Misconfigured
"""

from __future__ import annotations

import http.client
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

import urllib3
from msgspec import Struct
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
)

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.infra.request_outcome import AccessRefused, SlowDown
from webmill.infra.storage.base import Stat, end_of_range
from webmill.masking import hide_secrets

LONGEST_RETRY_AFTER = 3600.0
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(?:(\d+)|\*)", re.ASCII | re.IGNORECASE)
_OBJECT = re.compile(r"^HTTPS?Connection(?:Pool)?\(.*?\): ")


class ReadRequest(Struct, frozen=True, kw_only=True):
    """A read of a range, and the check whether an answer is the one to it."""

    key: str
    start: int
    length: int | None
    etag: str | None

    @property
    def whole(self) -> bool:
        return not self.start and self.length is None

    def headers(self) -> dict[str, str]:
        headers = {}
        if not self.whole and self.length != 0:  # a range of no bytes cannot be asked for: HEAD gives the size
            last = "" if self.length is None else self.start + self.length - 1
            headers["Range"] = f"bytes={self.start}-{last}"
        if self.etag and self.etag.startswith('"') and self.etag.isascii() and self.etag.isprintable():
            # A weak etag never matches by If-Match; `check` compares every kind.
            headers["If-Match"] = self.etag
        return headers

    def check(self, answer: urllib3.BaseHTTPResponse) -> int | None:
        """Return the length of the body, None when only its end will tell. Raise unless it is what was asked for."""
        if answer.status == 416 and self.length is None and _content_range(answer) == (None, None, self.start):
            return 0  # from the end to the end
        if answer.status not in (200, 206):
            raise error_for_status(answer, key=self.key)
        if (answer.status == 200) != (self.whole or self.length == 0):
            raise Unavailable(f"{self.key}: status {answer.status}, asked for {self.headers().get('Range', 'all')}")
        if self.etag and etag_of(answer) != self.etag:
            raise Conflict(f"{self.key} is another value by now")
        length = _length(answer, key=self.key)
        if self.length == 0:
            self._check_size(length)
            return 0
        return length if self.whole else self._check_part(answer, length)

    def _check_part(self, answer: urllib3.BaseHTTPResponse, length: int | None) -> int:
        first, last, size = _content_range(answer)
        self._check_size(size)
        expected = (size or 0) - self.start if self.length is None else self.length
        if first != self.start or last != self.start + expected - 1 or length not in (None, expected):
            received = f"Content-Range {answer.headers.get('Content-Range')!r}, Content-Length {length}"
            raise Unavailable(f"{self.key}: {received}, asked for {self.headers()['Range']}")
        return expected

    def _check_size(self, size: int | None) -> None:
        if size is not None:
            end_of_range(self.start, self.length, stat=Stat(key=self.key, size=size, etag=""))


def error_for_status(answer: urllib3.BaseHTTPResponse, *, key: str) -> WebmillError:
    """Return the error for a status, as in the table at the top of this file."""
    status = answer.status
    if status in (404, 410):
        return NotFound(f"{key}: status {status}")
    if status == 412:
        return Conflict(f"{key} is another value by now")
    if status == 416:
        return BadInput("the range is not within the value", reason="bad_range", source=key)
    if status in (408, 425, 429) or status >= 500:
        kind = SlowDown if status in (429, 503) else Unavailable
        return kind(f"{key}: status {status}", retry_after=_retry_after(answer.headers.get("Retry-After")))
    if status in (401, 403, 407, 451):
        refused = AccessRefused if status == 403 else Misconfigured
        return refused(
            f"{key}: the server refuses us (status {status}): do not ask on; check the address, the rate and the "
            "User-Agent, and wait before the next try"
        )
    return Misconfigured(f"{key}: status {status}, which is not an answer to a read; check the address")


def describe_failure(error: HTTPError) -> str:
    """Return why there is no answer, or no more of it, for people: urllib3 names its own objects."""
    match error:
        case NameResolutionError():
            return "its name cannot be resolved"
        case ReadTimeoutError():
            return "it was silent for too long"
        case ProxyError():
            return f"the proxy: {_system_message(error.original_error)}"
        case ConnectTimeoutError() if not isinstance(error, NewConnectionError):
            return "no connection in time"
        case ProtocolError(args=(_, http.client.IncompleteRead())):
            return "it ended early"
        case ProtocolError(args=(_, BaseException() as cause)):
            return _system_message(cause)
    return _system_message(error)


def _system_message(error: BaseException) -> str:
    """Return the message of the operating system where there is one: `connection refused`."""
    cause: BaseException | None = error
    while cause and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    message = cause.strerror if isinstance(cause, OSError) and cause.strerror else _OBJECT.sub("", str(error))
    return message[:1].lower() + message[1:]


def resolve_redirect(url: str, location: str) -> str:
    """Return where a redirect leads: to the same server only, or from its HTTP to its HTTPS.

    Another server is one that the user did not name. It may be one that only this machine reaches.
    """
    try:
        target = urljoin(url, location)
        here, there = urlsplit(url), urlsplit(target)
        is_same = bool(location) and (here.scheme, here.netloc) == (there.scheme, there.netloc)
        is_secured = (here.scheme, there.scheme) == ("http", "https") and here.port is there.port is None
    except ValueError:
        raise Misconfigured(f"{url}: a redirect to {location!r} is not followed") from None
    if not (is_same or (is_secured and here.hostname == there.hostname)):
        message = f"{url}: a redirect to {location!r} is not followed: give that address yourself, if you mean it"
        raise Misconfigured(hide_secrets(message))
    return target


def is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def etag_of(answer: urllib3.BaseHTTPResponse) -> str:
    return answer.headers.get("ETag", "")


def _length(answer: urllib3.BaseHTTPResponse, *, key: str) -> int | None:
    """Return the length of the body; None when it is chunked. Neither or both: a cut could not be seen."""
    length = parse_number(answer.headers.get("Content-Length"))
    chunked = answer.headers.get("Transfer-Encoding", "").lower() == "chunked"
    if chunked == (length is not None):
        raise Misconfigured(f"{key}: the answer must have either a Content-Length or chunks")
    return length


def _content_range(answer: urllib3.BaseHTTPResponse) -> tuple[int | None, int | None, int | None]:
    """Return first, last and size (RFC 9110 section 14.4); None for `*` and for what cannot be read."""
    match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
    return (parse_number(match[1]), parse_number(match[2]), parse_number(match[3])) if match else (None, None, None)


def parse_number(text: str | None) -> int | None:
    return int(text) if text and len(text) < 20 and text.isascii() and text.isdecimal() else None


def _retry_after(text: str | None) -> float | None:
    """Return the seconds of a number or a date (RFC 9110 section 10.2.3), from 0 to an hour."""
    seconds: float | None = parse_number(text)
    when = parse_date(text) if seconds is None else None
    if when:
        seconds = (when - datetime.now(UTC)).total_seconds()
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def parse_date(text: str | None) -> datetime | None:
    try:
        when = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)

"""Conditional and range requests: RFC 9110, sections 13 and 14. Malformed headers are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

_TAG = re.compile(rb'(W/)?("[^"]*")')
_RANGE = re.compile(rb"bytes=\s*(\d{0,19})-(\d{0,19})\s*")  # one range; several may be ignored


class UnsatisfiableRange(Exception):
    """A range that starts past the end."""


def precondition_fails(request_headers: Mapping[bytes, bytes], etag: bytes, modified: datetime | None) -> bool:
    """Return whether If-Match or If-Unmodified-Since names another version than this (412)."""
    if b"if-match" in request_headers:
        tags = request_headers[b"if-match"]
        return tags.strip() != b"*" and (b"", etag) not in _TAG.findall(tags)
    since = _date(request_headers.get(b"if-unmodified-since"))
    return bool(since and modified and modified.replace(microsecond=0) > since)


def is_not_modified(request_headers: Mapping[bytes, bytes], etag: bytes, modified: datetime | None = None) -> bool:
    """Return whether the client already has this version by If-None-Match or If-Modified-Since (304)."""
    if b"if-none-match" in request_headers:
        tags = request_headers[b"if-none-match"]
        return tags == etag or tags.strip() == b"*" or any(tag == etag for _, tag in _TAG.findall(tags))
    since = _date(request_headers.get(b"if-modified-since"))
    return bool(since and modified and modified.replace(microsecond=0) <= since)


def drop_range_unless_get(request_headers: Mapping[bytes, bytes], method: str) -> Mapping[bytes, bytes]:
    """Return the headers without Range unless the method is GET (14.2)."""
    if method == "GET" or b"range" not in request_headers:
        return request_headers
    return {name: value for name, value in request_headers.items() if name != b"range"}


def parse_range(
    request_headers: Mapping[bytes, bytes], size: int, *, etag: bytes, modified: datetime | None = None
) -> tuple[int, int] | None:
    """Return start and end (exclusive) of the requested range, or None for all. `UnsatisfiableRange`: past the end."""
    match = _RANGE.fullmatch(request_headers.get(b"range", b""))
    if not match or not (match[1] or match[2]) or not _is_same(request_headers.get(b"if-range"), etag, modified):
        return None
    first, last = match[1], match[2]
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None  # not a range
    if start >= end:
        raise UnsatisfiableRange
    return start, end


def http_date(moment: datetime) -> bytes:
    return format_datetime(moment.astimezone(UTC), usegmt=True).encode()


def _is_same(condition: bytes | None, etag: bytes, modified: datetime | None) -> bool:
    """Return whether If-Range, a strong tag or a date, names this version."""
    if condition is None or condition.strip() == etag:
        return True
    return modified is not None and _date(condition) == modified.replace(microsecond=0)


def _date(value: bytes | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(value.decode("ascii")) if value else None
    except (ValueError, OverflowError):
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)

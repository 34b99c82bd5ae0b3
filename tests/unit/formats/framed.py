"""WARC records framed by hand, so that the reader is tested against bytes that no writer of ours made."""

from __future__ import annotations

import gzip
import io

from webmill.formats.warc.head import WarcLimits
from webmill.formats.warc.reader import read_records
from webmill.model import Damage, Record


def record(number: int, content: bytes, *, kind: str = "resource", length: object = None, extra: bytes = b"") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
        f"WARC-Target-URI: http://site.example/{number}\r\n"
        f"Content-Length: {len(content) if length is None else length}\r\n"
    )
    return head.encode() + extra + b"\r\n" + content + b"\r\n\r\n"


def gz(data: bytes, *, level: int = 6) -> bytes:
    return gzip.compress(data, level, mtime=0)


class Trickle:
    """A source that cannot seek and gives a few bytes at a time, as a socket does."""

    def __init__(self, data: bytes, *, step: int = 7) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def read(self, size: int, /) -> bytes:
        return self._data.read(min(size, self._step))


def items(data: bytes, *, limits: WarcLimits | None = None) -> list[Record | Damage]:
    """What the reader makes of `data`; the same from a file as from a trickle."""
    found = list(read_records(io.BytesIO(data), limits=limits or WarcLimits()))
    for item in found:
        assert 0 <= item.offset <= len(data)
        assert item.offset <= (item.end if isinstance(item, Damage) else item.offset + item.length) <= len(data)
    return found


def records(data: bytes) -> list[Record]:
    return [item for item in items(data) if isinstance(item, Record)]


def damages(data: bytes) -> list[tuple[int, int, str]]:
    return [(item.offset, item.end, item.reason) for item in items(data) if isinstance(item, Damage)]


def numbers(data: bytes) -> list[str]:
    """The record ids, by their numbers."""
    return [(item.record_id or "")[10:-1] for item in records(data)]

"""The nouns that travel between rooms. Small, frozen, exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec


class Headers:
    """An ordered list of (name, value) pairs whose names compare without case.

    Text is lossless: WARC fields are decoded as UTF-8 with `surrogateescape`, HTTP fields as Latin-1.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of `name`."""
        wanted = name.lower()
        for key, value in self.pairs:
            if key.lower() == wanted:
                return value
        return default

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for key, value in self.pairs if key.lower() == wanted]

    def adding(self, *pairs: tuple[str, str]) -> Headers:
        return Headers((*self.pairs, *pairs))

    def without(self, name: str) -> Headers:
        dropped = name.lower()
        return Headers(pair for pair in self.pairs if pair[0].lower() != dropped)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"


class Link(msgspec.Struct, frozen=True, gc=False):
    """A URL to fetch, in its normalised form, and what is known of it before it is fetched."""

    url: str
    depth: int = 0  # steps from a seed
    priority: int = 5  # 0 is asked first, 9 last
    hops: int = 0  # redirects, or indexes of sitemaps, in a row that led here


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer, as they went over the wire: interim responses and excess bytes are left out.

    `truncated` is WARC's word for why the answer is not whole: length, time or disconnect.
    """

    url: str
    date: datetime  # when the request was sent, in UTC
    seconds: float  # from then to the last byte
    ip: str
    request: bytes
    response: bytes
    truncated: str | None = None
    protocols: tuple[str, ...] = ()  # http/1.1, tls/1.3
    cipher_suites: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a WARC or ARC file, and where its stored bytes lie: `[offset, offset + length)`.

    `length` is 0 when the record shares a compressed member with others: no byte range holds it alone. `cut` says
    that the block is longer than the reader's limit and `content` holds only its first bytes.

    An ARC record has the version `ARC/1` and ARC's own field names (uri, ip-address, archive-date, content-type,
    length); the properties below answer for both formats. Its type is `arc_header` for the `filedesc:` record and
    `response` for all others.
    """

    version: str
    headers: Headers
    content: bytes
    offset: int
    length: int
    cut: bool = False

    @property
    def is_arc(self) -> bool:
        return self.version.startswith("ARC/")

    @property
    def type(self) -> str | None:
        if self.is_arc:
            return "arc_header" if (self.target_uri or "").startswith("filedesc:") else "response"
        return self.headers.get("WARC-Type")

    @property
    def record_id(self) -> str | None:
        return self.headers.get("WARC-Record-ID")

    @property
    def target_uri(self) -> str | None:
        uri = self.headers.get("uri" if self.is_arc else "WARC-Target-URI")
        if uri and uri.startswith("<") and uri.endswith(">"):  # wget before 1.20 wrote it so
            return uri[1:-1]
        return uri

    @property
    def date(self) -> str | None:
        """As written: `2024-07-12T09:42:14Z` in WARC, `20240712094214` in ARC."""
        return self.headers.get("archive-date" if self.is_arc else "WARC-Date")

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")

    @property
    def content_length(self) -> int:
        """The length of the whole block, also when `content` is cut."""
        return int(self.headers.get("length" if self.is_arc else "Content-Length") or 0)

    @property
    def ip_address(self) -> str | None:
        return self.headers.get("ip-address" if self.is_arc else "WARC-IP-Address")

    @property
    def refers_to(self) -> str | None:
        return self.headers.get("WARC-Refers-To")

    @property
    def concurrent_to(self) -> str | None:
        return self.headers.get("WARC-Concurrent-To")

    @property
    def payload_digest(self) -> str | None:
        return self.headers.get("WARC-Payload-Digest")

    @property
    def block_digest(self) -> str | None:
        return self.headers.get("WARC-Block-Digest")


class Damage(msgspec.Struct, frozen=True, gc=False):
    """Stored bytes `[offset, end)` that gave no record, or a flaw at them, and why.

    | reason | the bytes |
    |---|---|
    | truncated_member | the file ends inside a compressed member |
    | truncated_record | the data ends inside a record: in its header or before Content-Length bytes |
    | bad_gzip, bad_zstd | are no valid compressed data |
    | bad_crc | inflate to something else than what was compressed: checksum or length differ |
    | bad_header | begin like a record, but its header breaks the grammar |
    | bad_length | have no Content-Length, several that differ, no number, or one that runs over the next records |
    | missing_terminator | follow a block (whose record was handed out) where the two empty lines belong |
    | too_large | have a header over the limits |
    | not_warc | stand where a record should begin, and are none |
    | trailing_garbage | the same, after the last record |
    | bad_digest | (whose record was handed out) do not have the digest that their record states |
    | shared_member | hold several records in one member: each is there, none has a byte range of its own |
    | padding | are NUL bytes between or after records: block padding, or the hole that a power cut leaves |
    """

    offset: int
    end: int
    reason: str
    message: str

"""The types that all packages share: HTTP and WARC records, captures, documents. Small, frozen, exact."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, get_type_hints

import msgspec

from webmill.columns import DocumentColumn, column, column_of
from webmill.errors import BadInput


class Headers(Mapping[str, str]):
    """A mapping of names, which compare without case, to their first values; every pair is kept, in order.

    Iteration yields each name once, in lower case; `items()` and `pairs` have every pair. Text is lossless: WARC fields
    are decoded as UTF-8 with `surrogateescape`, HTTP fields as Latin-1.
    """

    __slots__ = ("_first", "pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self.pairs: tuple[tuple[str, str], ...] = tuple(pairs)
        self._first: dict[str, str] | None = None  # values by name in lower case; made when it is first asked for

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return the first value of `name`."""
        first = self._first
        return (self._index() if first is None else first).get(name.lower(), default)

    def get_all(self, name: str) -> list[str]:
        wanted = name.lower()
        first = self._index() if self._first is None else self._first
        if wanted not in first:
            return []
        if len(first) == len(self.pairs):
            return [first[wanted]]
        return [value for key, value in self.pairs if key.lower() == wanted]

    def _index(self) -> dict[str, str]:
        """Return the first value of each name: a response is asked for twenty fields, of which it has a few."""
        first = {name.lower(): value for name, value in self.pairs}
        if len(first) < len(self.pairs):
            first.update((name.lower(), value) for name, value in reversed(self.pairs))
        self._first = first
        return first

    def with_added(self, *pairs: tuple[str, str]) -> Headers:
        return Headers((*self.pairs, *pairs))

    def without(self, name: str) -> Headers:
        return Headers(pair for pair in self.pairs if pair[0].lower() != name.lower())

    def items(self) -> list[tuple[str, str]]:  # type: ignore[override]
        return list(self.pairs)

    def __getitem__(self, name: str) -> str:
        if (found := self.get(name)) is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in (self._index() if self._first is None else self._first)

    def __iter__(self) -> Iterator[str]:
        return iter(self._index() if self._first is None else self._first)

    def __len__(self) -> int:
        return len(self._index() if self._first is None else self._first)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self.pairs)!r})"


class Link(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A URL to fetch, in its normalised form, and what is known of it before it is fetched."""

    url: str
    depth: int = 0  # steps from a seed
    priority: int = 5  # 0 is asked first, 9 last
    redirects: int = msgspec.field(default=0, name="hops")  # in a row that led to it
    sitemap_depth: int = 0  # indexes of sitemaps in a row that led to it
    resource_steps: int = 0  # of a page resource: imports, frames and redirects from its page
    resource_share: int = 0  # of a page resource: how many more it may bring
    modified: float = 0.0  # when it last changed, as a sitemap or feed says: a visit before then is repeated at once
    weight: float = 0.0  # what a page of another domain says by it for the domain of the URL (`--order best`)


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its response, as sent over the wire, without interim responses and excess bytes. `truncated` is
    WARC's reason why the response is incomplete: length, time or disconnect."""

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
    """One record of a WARC or ARC file, stored at the bytes `[offset, offset + length)`.

    `length` is 0 when the record shares a compressed member with others: no byte range holds it alone. `cut` is true
    when the block is longer than the reader's limit and `content` holds only its first bytes.

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
        """The date as written: `2024-07-12T09:42:14Z` in WARC, `20240712094214` in ARC."""
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
    """Stored bytes `[offset, end)` from which no record could be read, or which have a flaw, and why.

    | reason | the bytes |
    |---|---|
    | truncated_member | the file ends inside a compressed member |
    | truncated_record | the data ends inside a record: in its header or before Content-Length bytes |
    | bad_gzip, bad_zstd | are no valid compressed data |
    | bad_crc | inflate to something else than what was compressed: checksum or length differ |
    | bad_header | begin like a record, but its header breaks the grammar |
    | bad_length | have no Content-Length, several that differ, no number, or one that runs over the next records |
    | missing_terminator | follow a block (whose record was returned) where the two empty lines belong |
    | too_large | have a header over the limits |
    | not_warc | are where a record should begin, and are not a record |
    | trailing_garbage | the same, after the last record |
    | bad_digest | (whose record was returned) do not have the digest that their record states |
    | shared_member | hold several records in one member: each is there, none has a byte range of its own |
    | padding | are NUL bytes between or after records: block padding, or the hole that a power cut leaves |
    """

    offset: int
    end: int
    reason: str
    message: str


class ArchiveReject(msgspec.Struct, frozen=True, gc=False):
    """An archive, or the stored bytes `[offset, end)` of one, from which nothing could be read, or less than there
    should be."""

    file: str
    reason: str
    message: str
    offset: int | None = None
    end: int | None = None


# --- captures and documents: where a capture is stored, and what was made of it ---------------------------------------

CAPTURE_COLUMNS = ("warc_filename", "warc_offset", "warc_length")  # the columns that say where a capture is stored
MAX_FILENAME = 1024  # characters of a WARC file's name
_FARTHEST = 1 << 63  # what Parquet, SQLite and tantivy can hold
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class CaptureRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where one capture is stored: the bytes `[offset, offset + length)` of the WARC file `filename`.

    `filename` is the path below the archive's root, as an index and a bucket name it. `timestamp` has 14 digits, or is
    empty when unknown. `digest` is the payload's, spelled with its algorithm: `sha1:…`. `length` is 0 when the
    record shares a compressed member with others.
    """

    url: str
    urlkey: str = ""
    timestamp: str = ""
    filename: str
    offset: int
    length: int
    digest: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length

    @property
    def place(self) -> tuple[str, int]:
        """Return the file and offset, which identify the capture."""
        return self.filename, self.offset


def check_filename(value: object) -> str:
    """Return the WARC file name that an index or a row states. Raise BadInput: no_filename, bad_filename."""
    if value is None or value == "":
        raise BadInput("the filename is missing, so the capture cannot be located", reason="no_filename")
    if not isinstance(value, str) or len(value) > MAX_FILENAME or _CONTROL.search(value):
        raise BadInput(f"not a file name: {_describe_value(value)}", reason="bad_filename")
    return value


def check_position(value: object, *, name: str, least: int = 0) -> int:
    """Return an offset or length, given as a number or as digits. BadInput: no_offset, bad_offset, no_length, …"""
    if value is None:
        raise BadInput(f"the {name} is missing, so the capture cannot be located", reason=f"no_{name}")
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdecimal():
        value = int(value)
    if type(value) is not int or not least <= value < _FARTHEST:
        raise BadInput(f"not a valid {name}: {_describe_value(value)}", reason=f"bad_{name}")
    return value


def _describe_value(value: object) -> str:
    """Return the start of a text, or the type of anything else: a number may have too many digits to print."""
    return repr(value[:40]) if isinstance(value, str) else f"a value of type {type(value).__name__}"


def capture_columns(row: Mapping[str, object]) -> dict[str, Any]:
    """Return the columns of a row that say where its capture is stored; nothing if one of them is invalid."""
    try:
        check_filename(row.get("warc_filename"))
        for name in ("offset", "length"):
            if type(row.get(f"warc_{name}")) is not int:  # in rows, digits in a string are not a number
                return {}
            check_position(row[f"warc_{name}"], name=name)
    except BadInput:
        return {}
    return {name: row[name] for name in CAPTURE_COLUMNS}


def normalise_digest(text: str) -> str:
    """Return a payload digest with its algorithm, `sha1:…`: CDX files and Common Crawl's index leave SHA-1 unnamed.

    `-` means no digest in CDX files.
    """
    if text in ("", "-"):
        return ""
    return text if ":" in text else f"sha1:{text}"


class DocumentLink(msgspec.Struct, frozen=True, gc=False):
    """A link of a document to an http or https URL. `path` says where it was found: `A@/href`, `IMG@/src`…"""

    url: str
    text: str | None
    rel: str | None
    path: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What was extracted from one capture. The order of the fields is the order of keys and columns.

    It does not record when or by whom it was made: the same capture always gives the same row.
    """

    id: Annotated[str, column("the capture's record id; `FILENAME#OFFSET` where it has none or could not be read")]
    url: Annotated[str, column("as it was asked for", searchable=True, shown=True)]
    urlkey: Annotated[str, column("the URL in SURT form, by which indexes are sorted")] = ""
    date: Annotated[datetime | None, column("when it was captured, in UTC", searchable=True, shown=True)] = None
    title: Annotated[str | None, column("of the page", searchable=True, shown=True, content=True)] = None
    text: Annotated[str | None, column("of the page, by `extractor`", searchable=True, content=True)] = None
    text_chars: Annotated[int | None, column("characters of `text`")] = None
    language: Annotated[
        str | None, column("ISO 639-3 code of the language with the most text", facet=True, shown=True, content=True)
    ] = None
    language_score: Annotated[float | None, column("the share of the text in `language`, 0 to 1")] = None
    languages: Annotated[tuple[str, ...], column("codes of all languages found, the one with the most text first")] = ()
    status: Annotated[int | None, column("HTTP status")] = None
    mime: Annotated[str | None, column("media type as the server said")] = None
    mime_detected: Annotated[str | None, column("media type as the crawler saw it")] = None
    charset: Annotated[str | None, column("by which the text was decoded")] = None
    digest: Annotated[str | None, column("of the payload: `sha1:…`")] = None
    type: Annotated[str | None, column("of the WARC record: response, revisit, resource")] = None
    truncated: Annotated[str | None, column("why the crawler stopped reading")] = None
    redirect: Annotated[str | None, column("where a 3xx sends us")] = None
    refers_to: Annotated[str | None, column("of a revisit: the URL whose capture has the content")] = None
    last_modified: Annotated[datetime | None, column("as the server said")] = None
    extractor: Annotated[
        str | None, column("what made `text`: trafilatura, resiliparse, markdown, plain, wet, text, feed, pdf")
    ] = None
    outcome: Annotated[str, column("ok, or why there is no text")] = "ok"
    error: Annotated[str | None, column("what went wrong, in words")] = None
    description: Annotated[str | None, column("as the page states", shown=True, content=True)] = None
    published: Annotated[
        datetime | None, column("the date that the page states", searchable=True, shown=True, content=True)
    ] = None
    modified: Annotated[datetime | None, column("the date of its last change that the page states")] = None
    author: Annotated[str | None, column("names that the page states, with `; ` between them")] = None
    keywords: Annotated[str | None, column("as the page states")] = None
    canonical: Annotated[str | None, column("the address that the page calls its own")] = None
    icon: Annotated[str | None, column("address of the page's icon")] = None
    site_name: Annotated[str | None, column("as the page states")] = None
    usage_search: Annotated[bool | None, column("whether its site lets search find it; empty: not said")] = None
    usage_train_ai: Annotated[bool | None, column("whether its site lets AI be trained with it; empty: not said")] = (
        None
    )
    usage_tdm: Annotated[bool | None, column("whether its site lets text and data be mined; empty: not said")] = None
    usage_source: Annotated[str | None, column("where that stands, and how it is written, of each usage")] = None
    license: Annotated[str | None, column("address of the licence that the page names")] = None
    links: Annotated[tuple[DocumentLink, ...] | None, column("of the page, where they were asked for")] = None
    warc_filename: Annotated[str, column("where the capture lies: path of the WARC file below the archive's root")] = ""
    warc_offset: Annotated[int, column("where its record begins in that file, in bytes")] = 0
    warc_length: Annotated[int, column("how many bytes the record has there")] = 0

    @property
    def capture(self) -> CaptureRef:
        """Return where the capture is stored."""
        return CaptureRef(
            url=self.url,
            urlkey=self.urlkey,
            timestamp=f"{self.date:%Y%m%d%H%M%S}" if self.date else "",
            filename=self.warc_filename,
            offset=self.warc_offset,
            length=self.warc_length,
            digest=self.digest or "",
        )


def columns(struct: type[msgspec.Struct] = Document) -> tuple[DocumentColumn, ...]:
    """Return the columns of `Document`, or of a struct declared in the same way, in order."""
    hints = get_type_hints(struct, include_extras=True)
    return tuple(column_of(field.name, hints[field.name]) for field in msgspec.structs.fields(struct))

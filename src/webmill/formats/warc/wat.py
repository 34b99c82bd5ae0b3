"""The JSON of WAT records: what Common Crawl's extractor (ia-web-commons) says about one record of a WARC file.

The layouts of all years are read: numbers in quotes or not, `Actual-Content-Length` and `Block-Digest` inside
`Payload-Metadata` (2024) or beside it (2013, 2019), repeated headers as arrays. Unknown names, and values of the wrong
type, are kept in `rest` of their object: the only error is text that is not JSON.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
from msgspec import field

from webmill.formats.lenient_json import LenientObject, build_object, decode_object
from webmill.formats.warc.fields import MetadataFields, WarcinfoFields
from webmill.model import Headers


def _to_wat_name(name: str) -> str:
    """deflate_length -> Deflate-Length"""
    return "-".join(word.capitalize() for word in name.split("_"))


class WatGzip(LenientObject, frozen=True, rename=_to_wat_name):
    deflate_length: int | None = None
    header_length: int | None = None
    footer_length: int | None = None
    inflated_crc: int | None = field(default=None, name="Inflated-CRC")  # signed, as in Java
    inflated_length: int | None = None


class WatContainer(LenientObject, frozen=True, rename=_to_wat_name):
    """Where the described record is stored: `[offset, offset + gzip.deflate_length)` of `filename`."""

    filename: str | None = None
    compressed: bool | None = None
    offset: int | None = None
    gzip: WatGzip | None = field(default=None, name="Gzip-Metadata")


class WatLink(LenientObject, frozen=True):
    """A link of a page. `path` says where it was found: `A@/href`, `IMG@/src`, `LINK@/href`, `FORM@/action`..."""

    path: str | None = None
    url: str | None = None
    text: str | None = None
    title: str | None = None
    rel: str | None = None
    type: str | None = None
    target: str | None = None
    alt: str | None = None
    hreflang: str | None = None
    href: str | None = None
    method: str | None = None


class WatMeta(LenientObject, frozen=True):
    """A <meta> of a page; `{"name":"HTML@/lang","content":"de"}` is `<html lang=de>`."""

    name: str | None = None
    property: str | None = None
    http_equiv: str | None = field(default=None, name="http-equiv")
    itemprop: str | None = None
    content: str | None = None
    rel: str | None = None


class WatScript(LenientObject, frozen=True):
    path: str | None = None
    url: str | None = None
    type: str | None = None


class WatHead(LenientObject, frozen=True, rename=_to_wat_name):
    title: str | None = None
    base: str | None = None
    metas: tuple[WatMeta, ...] = ()
    links: tuple[WatLink, ...] = field(default=(), name="Link")
    scripts: tuple[WatScript, ...] = ()


class WatHtml(LenientObject, frozen=True, rename=_to_wat_name):
    head: WatHead = WatHead()
    links: tuple[WatLink, ...] = ()


class WatRequestLine(LenientObject, frozen=True, rename=_to_wat_name):
    method: str | None = None
    path: str | None = None
    version: str | None = None


class WatStatusLine(LenientObject, frozen=True, rename=_to_wat_name):
    status: int | None = None
    version: str | None = None
    reason: str | None = None


class WatHttp(LenientObject, frozen=True, rename=_to_wat_name):
    headers: Headers = Headers()
    headers_length: int | None = None
    entity_length: int | None = None
    entity_digest: str | None = None
    entity_trailing_slop_length: int | None = None


class WatRequest(WatHttp, frozen=True, rename=_to_wat_name):
    message: WatRequestLine = field(default=WatRequestLine(), name="Request-Message")


class WatResponse(WatHttp, frozen=True, rename=_to_wat_name):
    message: WatStatusLine = field(default=WatStatusLine(), name="Response-Message")
    html: WatHtml | None = field(default=None, name="HTML-Metadata")


class WatMetadataField(LenientObject, frozen=True, rename=_to_wat_name):
    name: str | None = None
    value: str | None = None


class WatMetadataFields(LenientObject, frozen=True, rename=_to_wat_name):
    metadata_records: tuple[WatMetadataField, ...] = ()


class WatPayload(LenientObject, frozen=True, rename=_to_wat_name):
    actual_content_type: str | None = None
    actual_content_length: int | None = None
    trailing_slop_length: int | None = None
    block_digest: str | None = None
    headers_corrupt: bool | None = None  # always true for warcinfo, and harmless
    request: WatRequest | None = field(default=None, name="HTTP-Request-Metadata")
    response: WatResponse | None = field(default=None, name="HTTP-Response-Metadata")
    info: Headers | None = field(default=None, name="WARC-Info-Metadata")
    metadata: WatMetadataFields | None = field(default=None, name="WARC-Metadata-Metadata")


class WatEnvelope(LenientObject, frozen=True, rename=_to_wat_name):
    format: str | None = None
    header_length: int | None = field(default=None, name="WARC-Header-Length")
    headers: Headers = field(default=Headers(), name="WARC-Header-Metadata")
    payload: WatPayload = field(default=WatPayload(), name="Payload-Metadata")
    outer_content_length: int | None = field(default=None, name="Actual-Content-Length")
    outer_block_digest: str | None = field(default=None, name="Block-Digest")

    @property
    def actual_content_length(self) -> int | None:
        inner = self.payload.actual_content_length
        return self.outer_content_length if inner is None else inner

    @property
    def block_digest(self) -> str | None:
        return self.payload.block_digest or self.outer_block_digest


class WatDescription(LenientObject, frozen=True, dict=True, rename=_to_wat_name):
    """One WAT record: the description of one WARC record without its content."""

    container: WatContainer = WatContainer()
    envelope: WatEnvelope = WatEnvelope()

    @property
    def type(self) -> str | None:
        """The type of the described record."""
        return self.envelope.headers.get("WARC-Type")

    @property
    def html(self) -> WatHtml | None:
        response = self.envelope.payload.response
        return response.html if response else None

    @cached_property
    def info(self) -> WarcinfoFields | None:
        """The fields, if a warcinfo record is described."""
        fields = self.envelope.payload.info
        return None if fields is None else WarcinfoFields(fields)

    @cached_property
    def findings(self) -> MetadataFields | None:
        """The fields, if a metadata record is described."""
        metadata = self.envelope.payload.metadata
        if metadata is None:
            return None
        return MetadataFields(Headers((record.name or "", record.value or "") for record in metadata.metadata_records))


def read_wat(content: bytes) -> WatDescription:
    """Parse the JSON of a WAT record. Raise BadInput (bad_json) if it is not a JSON object."""
    return build_object(WatDescription, decode_object(content))


# --- the title alone, without decoding the rest: for listings of many pages ---------------------------------------

_TITLE_PATH = ("Envelope", "Payload-Metadata", "HTTP-Response-Metadata", "HTML-Metadata", "Head", "Title")


def _nested(path: tuple[str, ...]) -> Any:
    """Return a struct with only the first name, which holds a struct with only the second, and so on to a string."""
    inner: Any = str
    for name in reversed(path):
        inner = msgspec.defstruct("Step", [("inner", inner | None, None)], rename={"inner": name})
    return inner


_TITLE = msgspec.json.Decoder(_nested(_TITLE_PATH))


def read_wat_title(content: bytes) -> str | None:
    """Return the title of the page that a WAT record describes."""
    try:
        found = _TITLE.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError):  # an unusual layout, or not JSON
        html = read_wat(content).html
        return html.head.title if html else None
    for _ in _TITLE_PATH:
        found = found.inner if found is not None else None
    return found  # type: ignore[no-any-return]  # the decoder checked it

"""IndexRecord: the document of reference 002 (letsdata), with its names, in its order.

What its code left empty although the data was there is filled here: description, icon, canonical, contentType. And it
reads back what it wrote: `decode(encode(record)) == record`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from webmill.errors import BadInput
from webmill.extract.composite import Composite
from webmill.extract.head import Head, absolute, base_of, clean, media_type, read_head
from webmill.extract.text import Extractor, text_of


class LanguageShare(msgspec.Struct, frozen=True, rename={"text_covered": "textCovered"}):
    """`language` is CLD2's name of it: ENGLISH."""

    score: float
    language: str
    text_covered: float


class IndexRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The order of the fields is the order of the keys; all keys are always there."""

    document_id: str
    record_type: str = "IndexRecord"
    partition_key: str
    single_doc: bool = True
    document_metadata: dict[str, Any] = {}
    url: str
    title: str | None = None
    description: str | None = None
    keywords: str | None = None
    icon: str | None = None
    canonical: str | None = None
    og_url: str | None = msgspec.field(default=None, name="og_url")
    og_site_name: str | None = msgspec.field(default=None, name="og_site_name")
    og_type: str | None = msgspec.field(default=None, name="og_type")
    og_image: str | None = msgspec.field(default=None, name="og_image")
    og_title: str | None = msgspec.field(default=None, name="og_title")
    og_description: str | None = msgspec.field(default=None, name="og_description")
    content_type: str | None = None
    reliable: bool | None = None
    text_bytes: int | None = None
    languages: tuple[LanguageShare, ...] | None = None
    doc_text_content_length: int | None = None  # bytes of UTF-8
    doc_text: str | None = None
    charset: str | None = None


_DECODER = msgspec.json.Decoder(IndexRecord)


def encode(record: IndexRecord) -> bytes:
    return msgspec.json.encode(record)


def decode(line: bytes) -> IndexRecord:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(f"no IndexRecord: {error}", reason="bad_json") from None


def make_index_record(page: Composite, *, extractor: Extractor = "auto") -> IndexRecord:
    head = read_head(page)
    url = clean(page.target_uri) or ""
    text = text_of(page, head, extractor=extractor)
    found = page.languages
    return IndexRecord(
        document_id=url,
        partition_key=url,
        url=url,
        title=clean(head.title),
        description=head.meta("description"),
        keywords=head.meta("keywords"),
        icon=_related(page, head, "icon", "apple-touch-icon"),
        canonical=_related(page, head, "canonical"),
        og_url=head.meta("og:url"),
        og_site_name=head.meta("og:site_name"),
        og_type=head.meta("og:type"),
        og_image=head.meta("og:image"),
        og_title=head.meta("og:title"),
        og_description=head.meta("og:description"),
        content_type=media_type(head.meta("content-type") or (page.http.content_type if page.http else None)),
        reliable=found.reliable if found else None,
        text_bytes=found.text_bytes if found else None,
        languages=tuple(LanguageShare(one.score, one.name, one.covered) for one in found.languages) if found else None,
        doc_text_content_length=None if text is None else len(text.encode()),
        doc_text=text,
        charset=clean(page.charset),
    )


def _related(page: Composite, head: Head, *relations: str) -> str | None:
    """Absolute, where it is the address of something; else (`data:`) as it was written."""
    url = head.related(*relations)
    return absolute(base_of(page, head), url) or clean(url)

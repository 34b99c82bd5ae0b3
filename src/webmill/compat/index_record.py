"""IndexRecord: the document of reference 002 (letsdata), with its names, in its order.

What its code left empty although the data was there is filled here: description, icon, canonical, contentType. And it
reads back what it wrote: `decode(encode(record)) == record`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from webmill.commoncrawl.page import Page
from webmill.errors import BadInput
from webmill.extract.cleaning import absolute_url, clean_text, media_type
from webmill.formats.warc.wat import WatHead


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


def make_index_record(page: Page) -> IndexRecord:
    """Return the record of a page, from its WAT and WET records where they were read, else from the page itself."""
    head = page.html.head if page.html else WatHead()
    url, text, found = clean_text(page.target_uri) or "", page.text, page.languages
    base = absolute_url(url, head.base) or url
    return IndexRecord(
        document_id=url,
        partition_key=url,
        url=url,
        title=clean_text(head.title),
        description=_meta(head, "description"),
        keywords=_meta(head, "keywords"),
        icon=_related(base, head, "icon", "apple-touch-icon"),
        canonical=_related(base, head, "canonical"),
        og_url=_meta(head, "og:url"),
        og_site_name=_meta(head, "og:site_name"),
        og_type=_meta(head, "og:type"),
        og_image=_meta(head, "og:image"),
        og_title=_meta(head, "og:title"),
        og_description=_meta(head, "og:description"),
        content_type=media_type(_meta(head, "content-type") or (page.http.content_type if page.http else None)),
        reliable=found.reliable if found else None,
        text_bytes=found.text_bytes if found else None,
        languages=tuple(LanguageShare(one.score, one.name, one.covered) for one in found.languages) if found else None,
        doc_text_content_length=None if text is None else len(text.encode()),
        doc_text=text,
        charset=clean_text(page.charset),
    )


def _meta(head: WatHead, name: str) -> str | None:
    """Return the last content of this name that is not blank, whichever attribute has the name."""
    for meta in reversed(head.metas):
        names = (meta.name, meta.property, meta.http_equiv)
        if (meta.content or "").strip() and any(one and one.lower() == name for one in names):
            return clean_text(meta.content)
    return None


def _related(base: str, head: WatHead, *relations: str) -> str | None:
    """Return an address: absolute, where it is that of something; else (`data:`) as it was written."""
    for relation in relations:
        for link in head.links:
            if link.url and relation in (link.rel or "").lower().split():
                return absolute_url(base, link.url) or clean_text(link.url)
    return None

"""Document: our own record of a page. Flat and typed, so that it is a table in Parquet as well as a line of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from webmill.errors import BadInput
from webmill.extract.composite import Composite
from webmill.extract.content import Content, ReadPdf, read_content
from webmill.extract.head import Head, absolute, base_of, clean, clean_all, is_html, media_type, read_head
from webmill.extract.kinds import READABLE, LeftOut, content_type_of, is_robots, kind_of
from webmill.extract.text import Extractor, chosen, text_of
from webmill.formats import timestamps, wet


class DocumentLink(msgspec.Struct, frozen=True, gc=False):
    """An http or https address. `path` says where it stood: `A@/href`, `IMG@/src`…"""

    url: str
    text: str | None
    rel: str | None
    path: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One capture of one URL. Where its bytes lie: `[warc_offset, warc_offset + warc_length)` of `warc_filename`."""

    id: str  # the capture's record id; without one, where it lies
    url: str
    date: datetime | None = None  # of the capture
    last_modified: datetime | None = None  # as the server said
    type: str | None = None  # response, revisit, resource
    status: int | None = None
    mime: str | None = None  # as the server said
    mime_detected: str | None = None  # as the crawler saw it
    charset: str | None = None
    digest: str | None = None  # of the payload: sha1:…
    truncated: str | None = None  # why the crawler stopped reading
    redirect: str | None = None  # where a 3xx sends us
    refers_to: str | None = None  # of a revisit: the URL whose capture has the content; both have the same digest
    title: str | None = None
    description: str | None = None
    keywords: str | None = None
    canonical: str | None = None
    icon: str | None = None
    site_name: str | None = None
    language: str | None = None  # ISO-639-3, the one with the most text
    languages: tuple[str, ...] = ()
    language_reliable: bool | None = None
    extractor: str | None = None  # where the text is from: wet, plain (HTML), text, feed, pdf; None when there is none
    text: str | None = None
    links: tuple[DocumentLink, ...] = ()
    warc_filename: str = ""
    warc_offset: int = 0
    warc_length: int = 0


# Text, URL and what is said of the language already (`en-us`), to ISO-639-3 codes, the one with the most text first.
Detect = Callable[[str, str, str], tuple[str, ...]]


class Readers(msgspec.Struct, frozen=True, kw_only=True):
    """What is optional, or must not run in this process."""

    pdf: ReadPdf | None = None
    detect: Detect | None = None  # asked of what is no HTML: of pages the crawler has told it


NO_READERS = Readers()


def make_document(page: Composite, *, extractor: Extractor = "auto", readers: Readers = NO_READERS) -> Document:
    """Of any capture: without text where it has none."""
    if chosen(extractor, page) == "plain" and not is_html(page) and page.capture.type != "revisit":
        content = read_content(page, read_pdf=readers.pdf)
        if isinstance(content, Content):
            return _of_content(page, content, readers)
    return _of_page(page, extractor)


def make_readable(
    page: Composite, *, extractor: Extractor = "auto", readers: Readers = NO_READERS
) -> Document | LeftOut:
    """Only of what has text by its kind. A revisit has none itself, and says which capture has its content."""
    if is_robots(page):
        return LeftOut("robots")
    kind, by = kind_of(page), chosen(extractor, page)
    if page.capture.type == "revisit":
        is_unknown = not content_type_of(page)  # a server that says 304 need not say more
        return _of_page(page, extractor) if is_unknown or kind in READABLE else LeftOut(kind)
    if is_html(page):
        return _of_page(page, extractor)
    if not (page.target_uri or "").lower().startswith("http"):
        return LeftOut("other")  # notes of a crawler about itself
    if by != "plain":
        made = _of_page(page, extractor)
        return made if kind in READABLE and (by == "none" or made.text is not None) else LeftOut(kind)
    content = read_content(page, read_pdf=readers.pdf)
    return content if isinstance(content, LeftOut) else _of_content(page, content, readers)


def _of_page(page: Composite, extractor: Extractor) -> Document:
    head = read_head(page)
    text = text_of(page, head, extractor=extractor)
    return _document(
        page,
        head,
        text=text,
        extractor=None if text is None else chosen(extractor, page),
        charset=page.charset,
        languages=_languages(page),
    )


def _of_content(page: Composite, content: Content, readers: Readers) -> Document:
    text = clean(content.head.text)
    languages = _languages(page)
    if text and not languages and readers.detect:
        said = content.language or (page.http.fields.get("Content-Language") if page.http else None)
        languages = readers.detect(text, page.target_uri or "", said or "")
    return _document(
        page,
        content.head,
        text=text,
        extractor="plain" if content.kind == "html" else content.kind,
        charset=page.charset or content.charset,
        languages=languages,
    )


def _document(
    page: Composite,
    head: Head,
    *,
    text: str | None,
    extractor: str | None,
    charset: str | None,
    languages: tuple[str, ...],
) -> Document:
    http, capture, base = page.http, page.capture, base_of(page, head)
    return Document(
        id=clean(page.record_id) or f"{page.filename}#{capture.offset}",
        url=clean(page.target_uri) or "",
        date=_date(page.date),
        last_modified=_http_date(http.last_modified) if http else None,
        type=clean(capture.type),
        status=http.status if http else None,
        mime=media_type(content_type_of(page)),
        mime_detected=clean(capture.headers.get("WARC-Identified-Payload-Type")),
        charset=clean(charset),
        digest=clean(capture.payload_digest),
        truncated=clean(capture.headers.get("WARC-Truncated")),
        redirect=_redirect(page),
        refers_to=clean(capture.headers.get("WARC-Refers-To-Target-URI")) if capture.type == "revisit" else None,
        title=clean(head.title),
        description=head.meta("description"),
        keywords=head.meta("keywords"),
        canonical=absolute(base, head.related("canonical")),
        icon=absolute(base, head.related("icon", "apple-touch-icon")),
        site_name=head.meta("og:site_name"),
        language=languages[0] if languages else None,
        languages=languages,
        language_reliable=page.languages.reliable if page.languages else None,
        extractor=extractor,
        text=text,
        links=tuple(_links(base, head)),
        warc_filename=page.filename,
        warc_offset=capture.offset,
        warc_length=capture.length,
    )


def _languages(page: Composite) -> tuple[str, ...]:
    """From the WET file's header; else what CLD2 told the crawler."""
    told = wet.languages_of(page.wet) if page.wet else ()
    if not told and page.languages:
        told = tuple(one.iso for one in page.languages.languages if one.iso)
    return clean_all(told)


def _links(base: str, head: Head) -> Iterator[DocumentLink]:
    for link in head.links:
        if url := absolute(base, link.url):
            yield DocumentLink(url, clean(link.text), clean(link.rel), clean(link.path))


def _redirect(page: Composite) -> str | None:
    http = page.http
    if not http or not http.status or not 300 <= http.status < 400:
        return None
    return absolute(page.target_uri or "", http.location)


def _date(date: str | None) -> datetime | None:
    try:
        return timestamps.to_datetime(timestamps.from_warc_date(date)) if date else None
    except BadInput:
        return None


def _http_date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text) if text else None
        return moment and (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (TypeError, ValueError, IndexError, OverflowError):  # servers write anything here
        return None

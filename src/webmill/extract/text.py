"""Which text a document has. Later extractors (the article without its frame) join here."""

from __future__ import annotations

from typing import Literal

from webmill.extract.composite import Composite
from webmill.extract.head import Head, parse_html
from webmill.formats.typed_records import FileType

# auto: the WET file's where one was read, else plain. plain: from the HTML, by the rules of WET files.
Extractor = Literal["auto", "wet", "plain", "none"]


def chosen(extractor: Extractor, page: Composite) -> Extractor:
    if extractor == "auto":
        return "wet" if FileType.WET in page.offsets else "plain"
    return extractor


def text_of(page: Composite, head: Head, *, extractor: Extractor) -> str | None:
    """None when the page has no text."""
    match chosen(extractor, page):
        case "wet":
            return page.text
        case "plain":
            return _plain(page, head)
        case _:
            return None


def _plain(page: Composite, head: Head) -> str | None:
    if head.text is not None:  # the page has been parsed already
        return head.text
    html = parse_html(page)
    return html.text if html else None

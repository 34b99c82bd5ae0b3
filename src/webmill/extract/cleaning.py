"""Clean values that pages and servers state, so that every file format can hold them."""

from __future__ import annotations

from collections.abc import Iterable

from webmill.errors import BadInput
from webmill.formats.url import normalise as urls

HTML = ("text/html", "application/xhtml+xml")


def media_type(content_type: str | None) -> str | None:
    """Return the media type of a Content-Type: `text/html` for `Text/HTML; charset=utf-8`."""
    return clean_text((content_type or "").partition(";")[0].strip().lower() or None)


def absolute_url(base: str, url: str | None) -> str | None:
    """Return the absolute URL of a link; None if it is not an http or https URL."""
    if not url:
        return None
    try:
        return urls.join(base, url.strip())
    except BadInput:
        return None


def clean_text(text: str | None) -> str | None:
    """Replace lone surrogates, which UTF-8 cannot hold, by U+FFFD."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_texts(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(clean_text(text) or "" for text in texts)

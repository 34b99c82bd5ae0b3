"""Where redirects lead."""

from __future__ import annotations

import re
from collections.abc import Iterable

from webmill.crawl.page.url_joining import without_user
from webmill.errors import BadInput
from webmill.formats.http.head import ResponseHead
from webmill.formats.url.normalise import join

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def redirect_target(url: str, head: ResponseHead) -> str | None:
    """Return where a response redirects to: "" when its Location leads nowhere, None when it is not a redirect."""
    location = head.headers.get("Location") if head.status in REDIRECTS else None
    if not location:
        return None
    # HTTP fields are Latin-1 to us. Browsers escape bytes that are not ASCII, whatever they mean (should be UTF-8).
    escaped = _NOT_ASCII.sub(lambda found: f"%{ord(found[0]) & 255:02X}", location)
    return next(iter(join_urls(url, [escaped])), "")


def join_urls(base: str, urls: Iterable[str]) -> list[str]:
    """Return the absolute URLs, without what is not a URL."""
    found = []
    for url in urls:
        try:
            found.append(without_user(join(base, url)))
        except BadInput:
            pass  # not a link at all, as in a page
    return found

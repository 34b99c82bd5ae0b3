"""Links to URLs, many of one page: `formats.url.normalise.join` with a short way for what links mostly look like.

    join = Joiner(url)
    join("/wiki/Talk:Mill?a=1#top")

The standard's parser costs some microseconds for each link, of which a page has hundreds. The short way takes what it
would leave as it is (96 % of the links of real pages): ASCII without dots at the start of a segment, spaces, quotes and
the like. Its answers are those of `formats.url.normalise.join`, and the tests compare the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from webmill.errors import BadInput
from webmill.formats.http.head import ResponseHead
from webmill.formats.url import normalise as urls
from webmill.formats.url.normalise import join

_LONGEST = 2000  # characters of a link; longer ones go the long way, which knows the limit
_SEGMENT = r"(?!\.|%2[eE])[A-Za-z0-9_~!$&'()*+,;=@.%-]*+"
_LATER_SEGMENT = r"(?!\.|%2[eE])[A-Za-z0-9_~!$&'()*+,;=@.%:-]*+"  # before a colon the first one would be a scheme
_PATH = rf"{_SEGMENT}(?:/{_LATER_SEGMENT})*+"
_QUERY = r"\?[A-Za-z0-9_~!$&()*+,;=@.%:/?|\[\]{}-]*+"
_PLAIN = re.compile(
    r"(?:(https?:)?(//[A-Za-z0-9._:-]{1,255}+)(?=[/?#]|\Z)|(?!//))"
    rf"({_PATH})({_QUERY})?(?:#[\x00-\x7f]*+)?\Z"
)
_PARTS = re.compile(r"((https?:)//[^/?#]*)([^?#]*/)([^?#/]*)")
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class Joiner:
    """Joins the links of one page. `base` is normalised; BadInput when it is not an http(s) URL."""

    def __init__(self, base: str) -> None:
        self.base = normalise(base)
        parts = _PARTS.match(self.base)
        assert parts  # a normalised URL has a path
        self._origin, self._scheme, folder, name = parts.groups()
        self._folder = self._origin + folder
        self._document = self._folder + name
        self._is_short = len(self.base) + _LONGEST < urls.MAX_URL

    def __call__(self, href: str) -> str:
        """Return `formats.url.normalise.join(base, href)`; raises BadInput as that does."""
        return self.short(href) or urls.join(self.base, href)

    def short(self, href: str) -> str | None:
        """Return the same by a short cut, or None. It takes ASCII without a scheme, or with http and https."""
        plain = _PLAIN.match(href) if len(href) <= _LONGEST and self._is_short else None
        if plain is None:
            return None
        scheme, authority, path, query = plain.groups()
        if authority:
            return f"{_origin((scheme or self._scheme) + authority)}{path or '/'}{query or ''}"
        if path:
            return f"{self._origin if path[0] == '/' else self._folder}{path}{query or ''}"
        return self._document + query if query else self.base


def normalise(url: str) -> str:
    """Return `formats.url.normalise.normalise(url)`, with the same short cut."""
    plain = _PLAIN.match(url) if len(url) <= _LONGEST else None
    if plain is None or not plain[1]:
        return urls.normalise(url)
    scheme, authority, path, query = plain.groups()
    return f"{_origin(scheme + authority)}{path or '/'}{query or ''}"


@lru_cache(maxsize=16384)
def _origin(text: str) -> str:
    """Return the origin of a URL: `https://Example.COM:443` becomes `https://example.com`."""
    return urls.normalise(text)[:-1]


def join_or_none(join: Joiner, href: str) -> str | None:
    try:
        return without_user(join(href))
    except BadInput:
        return None


def without_user(url: str) -> str:
    """A normalised URL without user and password. They are never sent: what is asked for is the same without, and
    neither a second time under each name, nor under a password that the archive would publish."""
    if "@" not in url:
        return url
    start = url.index("//") + 2
    at = url.rfind("@", start, url.index("/", start))
    return url if at < 0 else url[:start] + url[at + 1 :]


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

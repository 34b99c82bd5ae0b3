"""Normalise URLs to the form that is fetched: the canonical form of the WHATWG standard, for the same resource.

Scheme and host become lower case, IDNA hosts punycode, IPv4 addresses dotted decimal; the default port and the fragment
are dropped, dot segments resolved, and characters escaped where needed. The trailing slash, the order of the query and
the spelling of escapes stay: a server may distinguish them. For index keys, which fold those too, see `surt.py`.
"""

from __future__ import annotations

import re

import ada_url

from webmill.errors import BadInput

MAX_URL = 8192

_HOST = re.compile(r"https?://(?:[^/?#@]*@)?(\[[^]]*\]|[^:/?#]*)")


def normalise(url: str) -> str:
    """Return the canonical form of an absolute http(s) URL. Raise BadInput (`url_too_long`, `scheme`, `bad_url`)."""
    _check_length(url)
    try:
        return _fetchable(ada_url.normalize_url(url))
    except ValueError as error:
        raise BadInput(f"not a URL: {url[:200]!r}", reason="bad_url") from error


def join(base: str, href: str) -> str:
    """Return the canonical form of the link `href` on a page at `base`. Raise BadInput as `normalise` does."""
    _check_length(base)
    _check_length(href)
    try:
        return _fetchable(ada_url.join_url(base, href))
    except ValueError as error:
        raise BadInput(f"not a link: {href[:200]!r}", reason="bad_url") from error


def host_of(url: str) -> str:
    """Return the host of a normalised URL; an IPv6 address is in brackets."""
    found = _HOST.match(url)
    if not found:
        raise BadInput(f"not a normalised URL: {url[:200]!r}", reason="bad_url")
    return found[1]


def origin_of(url: str) -> str:
    """Return the origin of a normalised URL without a user: `https://example.com:8080`."""
    return url[: url.index("/", len("https://"))]


def _check_length(text: str) -> None:
    if len(text) > MAX_URL:
        raise BadInput(f"the URL has {len(text)} characters; the limit is {MAX_URL}", reason="url_too_long")


def _fetchable(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"only http and https are fetched, not {url[:40]!r}", reason="scheme")
    _check_length(url)  # escaping may have made it longer
    return url.partition("#")[0]

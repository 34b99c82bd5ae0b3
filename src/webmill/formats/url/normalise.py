"""URLs as they are fetched: the WHATWG standard's canonical form, which names the same resource as what was written.

Scheme and host are lowered, IDNA hosts become punycode, IPv4 addresses dotted decimal, the default port and the
fragment go, dot segments are resolved, and what must be escaped is. The trailing slash, the order of the query and the
spelling of escapes stay: a server may tell them apart. For index keys, which fold those too, see `surt.py`.
"""

from __future__ import annotations

import re

import ada_url

from webmill.errors import BadInput

MAX_URL = 8192

_HOST = re.compile(r"https?://(?:[^/?#@]*@)?(\[[^]]*\]|[^:/?#]*)")


def normalise(url: str) -> str:
    """The canonical form of an absolute http(s) URL. BadInput (`url_too_long`, `scheme`, `bad_url`) for all else."""
    _check_length(url)
    try:
        return _fetchable(ada_url.normalize_url(url))
    except ValueError as error:
        raise BadInput(f"not a URL: {url[:200]!r}", reason="bad_url") from error


def join(base: str, href: str) -> str:
    """The canonical form of the link `href` on a page at `base`. BadInput as for `normalise`."""
    _check_length(base)
    _check_length(href)
    try:
        return _fetchable(ada_url.join_url(base, href))
    except ValueError as error:
        raise BadInput(f"not a link: {href[:200]!r}", reason="bad_url") from error


def host_of(url: str) -> str:
    """The host of a normalised URL, an IPv6 address in its brackets."""
    found = _HOST.match(url)
    if not found:
        raise BadInput(f"not a normalised URL: {url[:200]!r}", reason="bad_url")
    return found[1]


def origin_of(url: str) -> str:
    """`https://example.com:8080` of a normalised URL that names no user."""
    return url[: url.index("/", len("https://"))]


def _check_length(text: str) -> None:
    if len(text) > MAX_URL:
        raise BadInput(f"{len(text)} characters, at most {MAX_URL}", reason="url_too_long")


def _fetchable(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise BadInput(f"only http and https are fetched, not {url[:40]!r}", reason="scheme")
    _check_length(url)  # escaping may have made it longer
    return url.partition("#")[0]

"""URLs of pages on this server."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlencode

from webmill.serve.captures.address import quote_url

_KEPT = "%/:?&=+,;@!$'()*[]~#"
_WEB = re.compile("https?://[^/]", re.IGNORECASE)


def timemap(url: str) -> str:
    return f"/timemap/link/{quote_url(url)}"


def original(url: str) -> str:
    """Return the URL on the live web, or nothing if it is not http(s): `javascript:` is never a link."""
    return quote(url, safe=_KEPT, errors="replace") if _WEB.match(url) else ""


def history(url: str) -> str:
    return with_query("/history", [("url", url)])


def document(id_: str, *, version: str = "") -> str:
    return with_query("/documents/item", [("id", id_), ("version", version)])


def blob(hash_: str) -> str:
    return f"/blobs/sha256/{hash_}.json"


def with_query(path: str, values: list[tuple[str, str]]) -> str:
    """Return the path with a query string; empty values are left out."""
    query = urlencode([(name, value) for name, value in values if value], errors="replace")
    return f"{path}?{query}" if query else path


def readable_url(url: str) -> str:
    """Return a URL for people, with host and path in their own script."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    host, slash, path = rest.partition("/")
    try:
        shown = unquote(path, errors="strict")
        path = shown if shown.isprintable() and " " not in shown else path
    except UnicodeDecodeError:
        pass
    return f"{scheme}://{readable_host(host)}{slash}{path}"


def readable_host(host: str) -> str:
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host

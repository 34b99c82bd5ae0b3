"""A URL taken apart for the wire. It is normalised first, so that nothing is left for two parsers to disagree about."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from webmill.crawl.page.url_joining import normalise
from webmill.errors import BadInput

MAX_NAME = 253
MAX_LABEL = 63

# A normalised URL: user and password (which we never send), host, port, path and query.
_PARTS = re.compile(r"(https?)://(?:[^/?#@]*@)?(\[[0-9a-f:.]+\]|[^:/?#@\[\]\\\s]+)(?::([0-9]{1,5}))?(/[^#\s]*)")
_LABEL = re.compile(r"[a-z0-9_-]+")
_PORTS = {"http": 80, "https": 443}


class Target(Struct, frozen=True, gc=False):
    url: str
    scheme: str
    host: str  # an IPv6 address without its brackets
    port: int | None  # None: the URL names none
    authority: str  # for the Host field
    path: str

    @property
    def default_port(self) -> int:
        return _PORTS[self.scheme]


@lru_cache(maxsize=1024)  # asked when a URL is located and again when it is fetched
def parse_target(url: str) -> Target:
    """BadInput with a reason of FAILURES."""
    url = normalise(url)
    found = _PARTS.fullmatch(url)
    if found is None:
        raise BadInput(f"not a URL to fetch: {url[:200]!r}", reason="bad_url")
    scheme, host, port, path = found.groups()
    authority = f"{host}:{port}" if port else host
    if host.startswith("["):
        host = host[1:-1]
    else:
        check_name(host)
    return Target(url, scheme, host, int(port) if port else None, authority, path)


def check_name(host: str) -> None:
    """BadInput `bad_name` for what DNS cannot hold, before any library is asked about it. One dot may end the name."""
    name = host.removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME or not all(len(label) <= MAX_LABEL and _LABEL.fullmatch(label) for label in labels):
        raise BadInput(f"not a name of DNS: {host[:80]!r}", reason="bad_name")

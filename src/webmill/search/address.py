"""Addresses of search servers: `SCHEME://[USER[:PASSWORD]@]HOST:PORT/INDEX`; with an s after the scheme, over TLS."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import msgspec

from webmill.errors import Misconfigured

_INDEX = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class Address(msgspec.Struct, frozen=True):
    """`name` is for messages: it has no password."""

    name: str
    server: str
    index: str
    user: str
    password: str

    @classmethod
    def of(cls, url: str, *, port: int) -> Address:
        """`port`: where the address has none."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or port
        except ValueError as error:
            raise Misconfigured(f"no address of a search server ({error})") from None
        index = parts.path.strip("/")
        if not host or not _INDEX.fullmatch(index):
            example = f"{parts.scheme}://HOST:{port}/INDEX"
            raise Misconfigured(f"write {example}: the name of an index has letters a-z, digits, - and _")
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return cls(
            name=f"{parts.scheme}://{place}/{index}",
            server=f"{'https' if parts.scheme.endswith('s') else 'http'}://{place}",
            index=index,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )

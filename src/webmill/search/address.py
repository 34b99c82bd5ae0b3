"""Addresses of search servers: `SCHEME://[USER[:PASSWORD]@]HOST:PORT/INDEX`; with an s after the scheme, over TLS."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import msgspec

from webmill.errors import BadInput, Misconfigured

REPLACED = ".search-aside"  # beside an index: what was replaced, for readers who still have it open

_INDEX = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")


class SearchAddress(msgspec.Struct, frozen=True):
    """The parts of an address. `name` is for messages: it has no password."""

    name: str
    server: str
    index: str
    user: str
    password: str

    @classmethod
    def of(cls, url: str, *, port: int) -> SearchAddress:
        """Parse an address; `port` is used where it has none. `Misconfigured` messages never hold a password."""
        try:
            parts = urlsplit(url)
            host, wanted = parts.hostname or "", parts.port or port
        except ValueError:  # which may say a part of a password
            raise Misconfigured(
                "not the address of a search server; in a key or password, write / ? # @ : % as %2F %3F %23 %40 %3A %25"
            ) from None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not (user + password).isprintable():
            raise Misconfigured("the key or password has control characters: copy it again")
        index = parts.path.strip("/")
        if not host or not _INDEX.fullmatch(index):
            shown = port if "@" in parts.path else wanted  # else it is the beginning of a password
            example = f"{parts.scheme}://HOST:{shown}/INDEX"
            raise Misconfigured(f"write {example}; the name of an index has letters a-z, digits, - and _")
        place = f"[{host}]:{wanted}" if ":" in host else f"{host}:{wanted}"
        return cls(
            name=f"{parts.scheme}://{place}/{index}",
            server=f"{'https' if parts.scheme.endswith('s') else 'http'}://{place}",
            index=index,
            user=user,
            password=password,
        )

    def outdated_error(self) -> BadInput:
        message = f"{self.name} was made by another version of webmill: run `webmill search rebuild DIR`"
        return BadInput(message, reason="bad_search_index")

    def foreign_index_error(self) -> Misconfigured:
        return Misconfigured(f"{self.name} is an index that webmill did not make: name another one, or delete it")

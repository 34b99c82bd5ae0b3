"""Labels: the origin of the replay zone that stands for one archived origin at one time.

    http://20230401120000-k3x7qz2m-s-www-example-com.replay.localhost:8081/path?query
           time           pass     s: https (h: http), then the port if it is not the default; the host

One label, so that one wildcard certificate covers all. `.` is written `-`, and `-` is written `--`. The pass proves
that this server made the address: it is a MAC of collection and time, so that pages of one time can address each
other, and no other site can address any of them. Names that do not fit (63 characters), that have two readings, and
IPv6 addresses get a label by hash, which `LongNames` can resolve.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import threading
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.url.normalise import normalise

MOST = 63  # characters of a DNS label
PASS = 8
HASH = 24
MOST_LONG_NAMES = 100_000
DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(
    rf"([0-9]{{14}})-([a-z2-7]{{{PASS}}})-(?:([hs])([0-9]{{1,5}})?-([a-z0-9-]+)|x-([a-z2-7]{{{HASH}}}))"
)
_PLAIN = re.compile(r"[a-z0-9]+(?:(?:-+|\.)[a-z0-9]+)*")
_ORIGIN = re.compile(r"(https?)://(?:[^/?#@]*+@)?(\[[0-9a-f:.]+\]|[^/:?#\[\]@]+)(?::([0-9]{1,5}))?")


class ArchivedOrigin(msgspec.Struct, frozen=True):
    """An origin as it was on the web: `https`, `www.example.com`, and the port if it is not the default."""

    scheme: str
    host: str
    port: int | None = None

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}"


class OriginAtTime(msgspec.Struct, frozen=True):
    """What a label names."""

    timestamp: str
    origin: ArchivedOrigin


def read_origin(url: str) -> ArchivedOrigin:
    """Return the origin of a normalised URL or origin. BadInput: it has none."""
    found = _ORIGIN.match(url)
    if not found:
        raise BadInput(f"not a web address: {url[:200]!r}", reason="bad_url")
    scheme, host, digits = found.groups()
    port = int(digits) if digits else None
    return ArchivedOrigin(scheme, host, None if port == DEFAULT_PORTS[scheme] else port)


class LongNames:
    """Origins by the hash in their label: a file that the processes of a server share, each appending what it meets."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._known: dict[str, ArchivedOrigin] = {}
        self._read = 0  # bytes of the file
        self._lock = threading.Lock()

    def add(self, name: str, origin: ArchivedOrigin) -> None:
        """Remember the origin. It is forgotten when the server stops, as all labels are."""
        with self._lock:
            if name in self._known or len(self._known) >= MOST_LONG_NAMES:
                return
            self._known[name] = origin
            if self._file:
                line = msgspec.json.encode((name, str(origin))) + b"\n"
                handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                try:
                    os.write(handle, line)  # one write: lines of other processes do not mix with it
                finally:
                    os.close(handle)

    def find(self, name: str) -> ArchivedOrigin | None:
        with self._lock:
            if name not in self._known:
                self._read_more()
            return self._known.get(name)

    def _read_more(self) -> None:
        if not self._file or not self._file.exists():
            return
        with self._file.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                name, origin = msgspec.json.decode(line, type=tuple[str, str])
                self._known.setdefault(name, read_origin(origin))


class ReplayZone:
    """The origins of archived pages: all subdomains of one host name."""

    def __init__(
        self, address: str, *, view: str, secret: bytes, collection: str, long_names: LongNames | None = None
    ) -> None:
        """`address`: the zone as clients see it, `http://replay.localhost:8081`. `view`: the origin of the banner."""
        parts = urlsplit(address)
        self.scheme, self.host, self.authority = parts.scheme, parts.hostname or "", parts.netloc.lower()
        self.view = view
        self._secret, self._collection = secret, collection
        self._long_names = long_names or LongNames()

    @property
    def sources(self) -> str:
        """Return all origins of the zone, as a policy names them."""
        return f"{self.scheme}://*.{self.authority}"

    def is_zone_host(self, host: str) -> bool:
        """Return whether a Host header (without a port) is a label below the zone."""
        return host.endswith(f".{self.host}")

    def is_zone_origin(self, origin: str) -> bool:
        """Return whether an Origin header names an origin of archived pages."""
        scheme, _, authority = origin.partition("://")
        label, _, zone = authority.partition(".")
        return scheme == self.scheme and zone == self.authority and bool(_LABEL.fullmatch(label))

    def address_of(self, timestamp: str, url: str) -> str:
        """Return the address in the zone of a normalised URL."""
        origin = read_origin(url)
        start = url.find("/", len(origin.scheme) + 3)
        return self.origin_of(timestamp, origin) + (url[start:] if start >= 0 else "/")

    def origin_of(self, timestamp: str, origin: ArchivedOrigin) -> str:
        return f"{self.scheme}://{self.label(timestamp, origin)}.{self.authority}"

    def label(self, timestamp: str, origin: ArchivedOrigin) -> str:
        start = self.prefix(timestamp)
        if _PLAIN.fullmatch(origin.host):
            host = origin.host.replace("-", "--").replace(".", "-")
            label = f"{start}{origin.scheme[4:] or 'h'}{origin.port or ''}-{host}"
            if len(label) <= MOST:
                return label
        name = self._mac(f"name {origin}", HASH)
        self._long_names.add(name, origin)
        return f"{start}x-{name}"

    def prefix(self, timestamp: str) -> str:
        """Return how all labels of a time begin: time and pass."""
        return f"{timestamp}-{self._mac(f'pass {timestamp}', PASS)}-"

    def read_host(self, host: str) -> OriginAtTime:
        """Return what a Host header (without a port) names. NotFound: no label of this server."""
        found = _LABEL.fullmatch(host.lower().removesuffix(f".{self.host}"))
        if not found:
            raise NotFound("only archived pages are served here; begin at the archive's own address")
        timestamp, its_pass, scheme, digits, name, hashed = found.groups()
        if not hmac.compare_digest(its_pass, self._mac(f"pass {timestamp}", PASS)):
            raise NotFound("this address is of an earlier run of the server; begin at the archive's own address")
        if hashed:
            origin = self._long_names.find(hashed)
            if origin is None:
                raise NotFound("this name is not known here; begin at the archive's own address")
            return OriginAtTime(timestamp, origin)
        host = name.replace("--", "\0").replace("-", ".").replace("\0", "-")
        origin = ArchivedOrigin("https" if scheme == "s" else "http", host, int(digits) if digits else None)
        if self.label(timestamp, origin) != found[0]:  # one label for one origin
            raise NotFound("not the address of an archived page")
        return OriginAtTime(timestamp, origin)

    def original_of(self, address: str) -> str | None:
        """Return the URL that an address in the zone stands for; None for any other."""
        parts = urlsplit(address)
        if parts.scheme != self.scheme or not parts.netloc.lower().endswith(f".{self.authority}"):
            return None
        try:
            origin = self.read_host(parts.hostname or "").origin
            return normalise(f"{origin}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}")
        except (NotFound, BadInput):
            return None

    def _mac(self, text: str, length: int) -> str:
        made = hmac.new(self._secret, f"replay {self._collection} {text}".encode(), hashlib.sha256).digest()
        return base64.b32encode(made).decode().lower()[:length]

"""Digests as WARC writes them: `sha1:BASE32`, also in hexadecimal and base64, also md5, sha256 and sha512.

WARC 1.1, 5.8 and 5.9: the block digest is over the whole record block, the payload digest over the payload as it is
stored. For HTTP records the payload is what follows the head, still chunked and compressed if stored so (warcio and
Common Crawl agree on that); for other records it is the block. An unknown algorithm is not an error: the digest is kept
and reported as unknown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from enum import StrEnum

import msgspec

from webmill.formats.http.head import end_of_head
from webmill.model import Headers

_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
_URL_SAFE = str.maketrans("-_", "+/")  # the other alphabet of base64


class DigestVerdict(StrEnum):
    """The result of comparing a digest with the content."""

    OK = "ok"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"  # an unknown algorithm, or a digest of something other than this record's bytes
    ABSENT = "absent"


class DigestCheck(msgspec.Struct, frozen=True):
    """The verdicts on the two digests of a record."""

    block: DigestVerdict
    payload: DigestVerdict


class Digester:
    """Computes a digest incrementally."""

    def __init__(self, algorithm: str = "sha1") -> None:
        self._algorithm = _canonical(algorithm)
        self._hash = hashlib.new(self._algorithm, usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        self._hash.update(data)

    def raw(self) -> bytes:
        return self._hash.digest()

    def text(self) -> str:
        """`sha1:` and base32, as Common Crawl writes it."""
        return _text(self._algorithm, self.raw())


def compute(data: bytes | memoryview, algorithm: str = "sha1") -> str:
    """Return the digest of `data`, as `sha1:` and base32."""
    if algorithm == "sha1":  # fast path: three times for every page of a crawl
        return _text("sha1", hashlib.sha1(data, usedforsecurity=False).digest())
    digester = Digester(algorithm)
    digester.update(data)
    return digester.text()


def verify(digest: str | None, data: bytes | memoryview) -> DigestVerdict:
    """Return whether `data` has this digest. An invalid value of a known algorithm is a mismatch."""
    if digest is None or not digest.strip():
        return DigestVerdict.ABSENT
    algorithm, raw = _parse(digest)
    if algorithm not in _SIZES:
        return DigestVerdict.UNKNOWN
    digester = Digester(algorithm)
    digester.update(data)
    return DigestVerdict.OK if digester.raw() == raw else DigestVerdict.MISMATCH


def same(one: str, other: str) -> bool:
    """Return whether two digests are equal, whatever their encoding. Unknown algorithms are compared as text."""
    first, second = _parse(one), _parse(other)
    if first[1] is None or second[1] is None:
        return one.strip() == other.strip()
    return first == second


def check(headers: Headers, content: bytes) -> DigestCheck:
    """Compare the digests of a WARC record with its content."""
    return DigestCheck(
        block=verify(headers.get("WARC-Block-Digest"), content),
        payload=_verify_payload(headers, content),
    )


def payload_start(headers: Headers, content: bytes) -> int:
    """Return where the payload begins in the content of a record."""
    return (end_of_head(content) or len(content)) if _is_http(headers) else 0


def _verify_payload(headers: Headers, content: bytes) -> DigestVerdict:
    digest = headers.get("WARC-Payload-Digest")
    if digest and (headers.get("WARC-Type") == "revisit" or "WARC-Segment-Number" in headers):
        return DigestVerdict.UNKNOWN  # it is of the record referred to, or of all segments together
    return verify(digest, memoryview(content)[payload_start(headers, content) :])


def _is_http(headers: Headers) -> bool:
    kind, uri = headers.get("WARC-Type"), (headers.get("WARC-Target-URI") or "").lstrip("<").lower()
    return kind in ("request", "response", "revisit") and uri.startswith(("http:", "https:"))


def _parse(digest: str) -> tuple[str, bytes | None]:
    """Return the algorithm and the raw digest, None if it is invalid. The length tells the encoding."""
    algorithm, _, value = digest.strip().partition(":")
    algorithm, value = _canonical(algorithm), value.rstrip("=")
    size = _SIZES.get(algorithm)
    if size is None:
        return algorithm, None
    try:
        if len(value) == size * 2:
            return algorithm, bytes.fromhex(value)
        if len(value) == (size * 8 + 4) // 5:
            return algorithm, base64.b32decode(value + "=" * (-len(value) % 8), casefold=True)
        if len(value) == (size * 8 + 5) // 6:
            padded = value.translate(_URL_SAFE) + "=" * (-len(value) % 4)
            return algorithm, base64.b64decode(padded, validate=True)
    except (ValueError, binascii.Error):
        pass
    return algorithm, None


def _text(algorithm: str, raw: bytes) -> str:
    return f"{algorithm}:{base64.b32encode(raw).decode('ascii').rstrip('=')}"


def _canonical(algorithm: str) -> str:
    """Return the canonical name of an algorithm: sha1 for `SHA-1`."""
    return algorithm.strip().lower().replace("-", "")

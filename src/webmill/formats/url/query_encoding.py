"""Encode the query of a link in the encoding of its page, as browsers do and old servers expect.

    encode_query("/search?q=①#top", "shift_jis")     # "/search?q=%87@#top"

https://url.spec.whatwg.org/#string-percent-encode-after-encoding. What the encoding lacks becomes `&#NNN;`, escaped.
The path and the fragment are always UTF-8, and left to the URL parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from webmill.formats.encodings import encode_as
from webmill.formats.url.normalise import MAX_URL

# The query percent-encode set: of the bytes that an encoder makes, these and all above 7E are escaped.
_ESCAPED = frozenset((*range(0x21), *b'"#<>', *range(0x7F, 0x100)))
_EDGES = "".join(map(chr, range(0x21)))
_REMOVED = str.maketrans("", "", "\t\n\r")  # by the URL parser, wherever they are
_BYTES = tuple(f"%{byte:02X}" if byte in _ESCAPED else chr(byte) for byte in range(0x100))


def encode_query(href: str, encoding: str) -> str:
    """Return the link with its query in ASCII. `encoding` is one of `formats.encodings`."""
    if href.isascii() or encoding.startswith(("utf", "replacement")) or len(href) > MAX_URL:
        return href
    address, hash_mark, fragment = href.strip(_EDGES).translate(_REMOVED).partition("#")
    path, mark, query = address.partition("?")
    if query.isascii():
        return href
    return f"{path}{mark}{_encode(query, encoding)}{hash_mark}{fragment}"


def _encode(query: str, encoding: str) -> str:
    try:
        return _escape(encode_as(query, encoding))
    except UnicodeError:
        return "".join(_encode_parts(query, encoding))


def _encode_parts(query: str, encoding: str) -> Iterator[str]:
    """Encode what can be encoded in whole runs: in ISO-2022-JP the state lasts from one character to the next."""
    for is_known, letters in groupby(query, key=lambda letter: _has(encoding, letter)):
        if is_known:
            yield _escape(encode_as("".join(letters), encoding))
        else:
            yield from (f"%26%23{ord(letter)}%3B" for letter in letters)


def _has(encoding: str, letter: str) -> bool:
    try:
        encode_as(letter, encoding)
    except UnicodeError:
        return False
    return True


def _escape(data: bytes) -> str:
    return "".join(map(_BYTES.__getitem__, data))

"""Decode the bytes of a page as browsers do: byte order mark, then the HTTP charset, then <meta>, then a fallback.

Standard: https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding. Decoding never fails;
invalid bytes become U+FFFD.

Without a label, valid UTF-8 is decoded as UTF-8 (an incomplete sequence at the end is allowed: captures may be
truncated), anything else as windows-1252, the web's default.
"""

from __future__ import annotations

import codecs
import re
from typing import Literal

import msgspec

from webmill.formats.encodings import decode_as, lookup_encoding
from webmill.formats.html.meta_prescan import find_declared_encoding

EncodingSource = Literal["bom", "http", "meta", "fallback"]


class FoundEncoding(msgspec.Struct, frozen=True):
    """The encoding of a page, and how it was found."""

    name: str  # as WHATWG calls it, lower case
    source: EncodingSource
    mark: int = 0  # bytes of the byte order mark, which is no text


class DecodedText(msgspec.Struct, frozen=True):
    """A decoded page, and how its encoding was found."""

    text: str
    encoding: str  # the WHATWG name, lower case
    source: EncodingSource
    replaced: bool  # U+FFFD is in the text


_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_CHARSET = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"',]+))""", re.IGNORECASE)


def charset_label(content_type: str | None) -> str | None:
    """Return the charset label in a Content-Type, as written."""
    found = _CHARSET.search(content_type[:1024]) if content_type else None
    return (found[1] or found[2] or found[3]) if found else None


def decode_page(body: bytes, *, content_type: str | None = None) -> DecodedText:
    """Decode a page. `content_type` is the value of the HTTP header, if there was one."""
    return _decode(body, find_encoding(body, content_type=content_type))


def find_encoding(body: bytes, *, content_type: str | None = None) -> FoundEncoding:
    """Return the encoding that `decode_page` decodes by."""
    if labelled := _labelled(body, content_type):
        return labelled
    if encoding := find_declared_encoding(body):
        return FoundEncoding(encoding, "meta")
    return _unlabelled(body)


def decode_plain(body: bytes, *, content_type: str | None = None) -> DecodedText:
    """Decode a text that is not markup: a <meta> in it is ignored."""
    return _decode(body, _labelled(body, content_type) or _unlabelled(body))


def _labelled(body: bytes, content_type: str | None) -> FoundEncoding | None:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return FoundEncoding(name, "bom", len(mark))
    declared = charset_label(content_type)
    encoding = lookup_encoding(declared) if declared is not None else None
    return FoundEncoding(encoding, "http") if encoding else None


def _unlabelled(body: bytes) -> FoundEncoding:
    return FoundEncoding("utf-8" if _is_utf8(body) else "windows-1252", "fallback")


def _decode(body: bytes, encoding: FoundEncoding) -> DecodedText:
    text = decode_as(body[encoding.mark :], encoding.name)
    return DecodedText(text, encoding.name, encoding.source, "\ufffd" in text)


def _is_utf8(body: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True

"""Decode the bytes of a page as browsers do: byte order mark, then the HTTP charset, then <meta>, then a fallback.

Standard: https://encoding.spec.whatwg.org (labels, decoders) and the prescan of
https://html.spec.whatwg.org/multipage/parsing.html. A label that is not in the table below is ignored: a page cannot
select one of Python's own codecs (`unicode_escape`, `idna`, `utf_7`...). Decoding never fails; invalid bytes become
U+FFFD.

Without a label, valid UTF-8 is decoded as UTF-8 (an incomplete sequence at the end is allowed: captures may be
truncated), anything else as windows-1252, the web's default.
"""

from __future__ import annotations

import codecs
import re
from functools import cache
from typing import Literal

import msgspec

from webmill.formats.html.meta_prescan import find_meta_charset

EncodingSource = Literal["bom", "http", "meta", "fallback"]


class DecodedText(msgspec.Struct, frozen=True):
    """A decoded page, and how its encoding was found."""

    text: str
    encoding: str  # the WHATWG name, lower case
    source: EncodingSource
    replaced: bool  # U+FFFD is in the text


# WHATWG encoding -> (Python codec, labels besides the name itself)
_ENCODINGS: dict[str, tuple[str, str]] = {
    "utf-8": ("utf-8", "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8"),
    "ibm866": ("cp866", "866 cp866 csibm866"),
    "iso-8859-2": (
        "iso8859-2",
        "csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    ),
    "iso-8859-3": (
        "iso8859-3",
        "csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    ),
    "iso-8859-4": (
        "iso8859-4",
        "csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    ),
    "iso-8859-5": (
        "iso8859-5",
        "csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    ),
    "iso-8859-6": (
        "iso8859-6",
        (
            "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i iso-ir-127 "
            "iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987"
        ),
    ),
    "iso-8859-7": (
        "iso8859-7",
        (
            "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 "
            "sun_eu_greek"
        ),
    ),
    "iso-8859-8": (
        "iso8859-8",
        (
            "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 "
            "visual"
        ),
    ),
    "iso-8859-8-i": ("iso8859-8", "csiso88598i logical"),
    "iso-8859-10": ("iso8859-10", "csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6"),
    "iso-8859-13": ("iso8859-13", "iso8859-13 iso885913"),
    "iso-8859-14": ("iso8859-14", "iso8859-14 iso885914"),
    "iso-8859-15": ("iso8859-15", "csisolatin9 iso8859-15 iso885915 iso_8859-15 l9"),
    "iso-8859-16": ("iso8859-16", ""),
    "koi8-r": ("koi8-r", "cskoi8r koi koi8 koi8_r"),
    "koi8-u": ("koi8-u", "koi8-ru"),
    "macintosh": ("mac-roman", "csmacintosh mac x-mac-roman"),
    "windows-874": ("cp874", "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620"),
    "windows-1250": ("cp1250", "cp1250 x-cp1250"),
    "windows-1251": ("cp1251", "cp1251 x-cp1251"),
    "windows-1252": (
        "cp1252",
        (
            "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 "
            "iso_8859-1:1987 l1 latin1 us-ascii x-cp1252"
        ),
    ),
    "windows-1253": ("cp1253", "cp1253 x-cp1253"),
    "windows-1254": (
        "cp1254",
        "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 x-cp1254",
    ),
    "windows-1255": ("cp1255", "cp1255 x-cp1255"),
    "windows-1256": ("cp1256", "cp1256 x-cp1256"),
    "windows-1257": ("cp1257", "cp1257 x-cp1257"),
    "windows-1258": ("cp1258", "cp1258 x-cp1258"),
    "x-mac-cyrillic": ("mac-cyrillic", "x-mac-ukrainian"),
    "gbk": ("gb18030", "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk"),
    "gb18030": ("gb18030", ""),
    "big5": ("big5hkscs", "big5-hkscs cn-big5 csbig5 x-x-big5"),
    "euc-jp": ("euc-jp", "cseucpkdfmtjapanese x-euc-jp"),
    "iso-2022-jp": ("iso2022-jp", "csiso2022jp"),
    "shift_jis": ("cp932", "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis"),
    "euc-kr": (
        "cp949",
        "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    ),
    # Encodings that were used to smuggle script past filters: browsers show one U+FFFD instead of the page.
    "replacement": ("", "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr"),
    "utf-16be": ("utf-16-be", "unicodefffe"),
    "utf-16le": ("utf-16-le", "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16"),
    "x-user-defined": ("", ""),
}
_LABELS = {label: name for name, (_, labels) in _ENCODINGS.items() for label in (name, *labels.split())}
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_CHARSET = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"',]+))""", re.IGNORECASE)
_WHITE_SPACE = "\t\n\f\r "
_SPELLED = {"shift_jis": "Shift_JIS", "big5": "Big5"}
_MULTIBYTE = ("utf", "gb", "big5", "euc", "iso2022", "cp932", "cp949")


def lookup_encoding(label: str) -> str | None:
    """Return the encoding that a label names on the web, or None."""
    return _LABELS.get(label.strip(_WHITE_SPACE).lower()) if len(label) < 64 and label.isascii() else None


def charset_label(content_type: str | None) -> str | None:
    """Return the charset label in a Content-Type, as written."""
    found = _CHARSET.search(content_type[:1024]) if content_type else None
    return (found[1] or found[2] or found[3]) if found else None


def decode_page(body: bytes, *, content_type: str | None = None) -> DecodedText:
    """Decode a page. `content_type` is the value of the HTTP header, if there was one."""
    if text := _labelled(body, content_type):
        return text
    if encoding := _from_meta(body):
        return _text(body, encoding, "meta")
    return _unlabelled(body)


def decode_plain(body: bytes, *, content_type: str | None = None) -> DecodedText:
    """Decode a text that is not markup: a <meta> in it is ignored."""
    return _labelled(body, content_type) or _unlabelled(body)


def decode_as(body: bytes, encoding: str) -> str:
    """Decode by an encoding that `lookup_encoding` returned."""
    codec, _ = _ENCODINGS[encoding]
    if encoding == "replacement":
        return "\ufffd" if body else ""
    if codec.startswith(_MULTIBYTE):
        return body.decode(codec, "replace")
    return codecs.charmap_decode(body, "replace", _single_bytes(encoding))[0]


def encode_as(letter: str, encoding: str) -> bytes:
    """Encode a character as a page in this encoding would. Raise UnicodeEncodeError if the encoding lacks it."""
    codec, _ = _ENCODINGS[encoding]
    if encoding == "gbk" and letter == "€":
        return b"\x80"
    data = letter.encode(codec)
    if encoding == "gbk" and len(data) == 4:
        raise UnicodeEncodeError(encoding, letter, 0, 1, "only gb18030 has it")
    return data


def iana_name(encoding: str) -> str:
    """Return the IANA name of an encoding: UTF-8, ISO-8859-2, windows-1252."""
    return _SPELLED.get(encoding) or (encoding if encoding.startswith("windows-") else encoding.upper())


def _labelled(body: bytes, content_type: str | None) -> DecodedText | None:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _text(body[len(mark) :], name, "bom")
    declared = charset_label(content_type)
    encoding = lookup_encoding(declared) if declared is not None else None
    return _text(body, encoding, "http") if encoding else None


def _unlabelled(body: bytes) -> DecodedText:
    return _text(body, "utf-8" if _is_utf8(body) else "windows-1252", "fallback")


def _text(body: bytes, encoding: str, source: EncodingSource) -> DecodedText:
    text = decode_as(body, encoding)
    return DecodedText(text, encoding, source, "\ufffd" in text)


def _from_meta(body: bytes) -> str | None:
    label = find_meta_charset(body)
    encoding = lookup_encoding(label) if label else None
    # The declaration was readable as ASCII, so a page that declares UTF-16 is wrong (HTML standard, prescan, step 6).
    return {"utf-16be": "utf-8", "utf-16le": "utf-8", "x-user-defined": "windows-1252"}.get(encoding or "", encoding)


def _is_utf8(body: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True


@cache
def _single_bytes(encoding: str) -> str:
    """Return the 256 characters of an encoding. Bytes 80 to 9F that Python leaves undefined are control characters."""
    if encoding == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    codec, _ = _ENCODINGS[encoding]
    read = [bytes((byte,)).decode(codec, "replace") for byte in range(256)]
    return "".join(chr(byte) if 0x80 <= byte <= 0x9F and read[byte] == "\ufffd" else read[byte] for byte in range(256))

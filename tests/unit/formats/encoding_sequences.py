"""Every sequence of bytes that an encoding of the web distinguishes, and what the standard makes of all of them.

The digests were made from Chromium 156's TextDecoder and URLs, and agree with @exodus/bytes 1.16, another
implementation of https://encoding.spec.whatwg.org. `tests/serve/test_encodings_browser.py` asks Chromium again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import product

SINGLE_BYTE = (
    *("ibm866", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5", "iso-8859-6", "iso-8859-7", "iso-8859-8"),
    *("iso-8859-8-i", "iso-8859-10", "iso-8859-13", "iso-8859-14", "iso-8859-15", "iso-8859-16", "koi8-r", "koi8-u"),
    *("macintosh", "windows-874", "windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254"),
    *("windows-1255", "windows-1256", "windows-1257", "windows-1258", "x-mac-cyrillic", "x-user-defined"),
)
MULTI_BYTE = ("gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis", "euc-kr")
UNICODE = ("utf-8", "utf-16be", "utf-16le")

# Chromium 156 is wrong here, by the indexes of the standard and by Firefox's library: bytes -> text.
CHROMIUM_FAULTS = {
    "big5": {b"\x88\x62": "Ê̄", b"\x88\x64": "Ê̌", b"\x88\xa3": "ê̄", b"\x88\xa5": "ê̌"},
    "euc-jp": {b"\xa1\xa1": "\u3000"},
}


def sequences(encoding: str) -> list[bytes]:
    """Return sequences to be decoded each with a line feed behind it, so that none runs into the next."""
    singles = [bytes((byte,)) for byte in range(256)]
    if encoding in SINGLE_BYTE:
        return singles
    return singles + _LONGER[encoding]()


def joined(parts: list[bytes], encoding: str) -> bytes:
    end = {"utf-16be": b"\0\n", "utf-16le": b"\n\0", "iso-2022-jp": b"\x1b(B\n"}.get(encoding, b"\n")
    return b"".join(part + end for part in parts)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _pairs(*, first: range = range(0x80, 0x100), before: bytes = b"") -> list[bytes]:
    return [before + bytes(pair) for pair in product(first, range(0x100))]


def gb18030_fours(leads: Iterable[int]) -> list[bytes]:
    high, digits = range(0x80, 0x100), range(0x30, 0x3A)
    return [bytes(four) for four in product(leads, digits, high, digits)]


def _gb18030() -> list[bytes]:
    """Of four bytes, those of the Basic Multilingual Plane and the edges of the others."""
    fours = gb18030_fours((0x80, 0x81, 0x82, 0x83, 0x84, 0x8F, 0x90, 0xE3, 0xE4, 0xFE, 0xFF))
    return _pairs() + fours + [b"\x81\x30" + bytes(pair) for pair in product(range(0x100), repeat=2)]


def _iso_2022_jp() -> list[bytes]:
    states = (b"\x1b(B", b"\x1b(J", b"\x1b(I", b"\x1b$@", b"\x1b$B", b"\x1b(D", b"\x1b$A")
    singles = [state + bytes((byte,)) for state in states for byte in range(0x100) if byte != 0x0A]
    return singles + [
        b"\x1b$B" + bytes(pair) for pair in product(range(0x100), repeat=2) if 0x0A not in pair and 0x1B not in pair
    ]


def _utf8() -> list[bytes]:
    near = range(0x78, 0xC8)
    threes = [bytes(three) for three in product(range(0xE0, 0xF8), near, near)]
    fours = [bytes(four) for four in product(range(0xF0, 0xF6), near, (0x40, 0x80, 0xBF, 0xC0), (0x40, 0x80, 0xBF))]
    return _pairs() + threes + fours


def _utf16() -> list[bytes]:
    """The lengths are odd, too: what is left at the end joins the line feed."""
    pairs = [bytes(pair) for pair in product(range(0x100), repeat=2)]
    surrogates = (0xD8, 0xDB, 0xDC, 0xDF)
    return (
        pairs
        + [bytes((a, 0, b, 0)) for a, b in product(surrogates, repeat=2)]
        + [bytes((0, a, 0, b)) for a, b in product(surrogates, repeat=2)]
    )


_LONGER: dict[str, Callable[[], list[bytes]]] = {
    **dict.fromkeys(("gbk", "gb18030"), _gb18030),
    **dict.fromkeys(("big5", "shift_jis", "euc-kr"), _pairs),
    "euc-jp": lambda: _pairs() + _pairs(first=range(0x100), before=b"\x8f"),
    "iso-2022-jp": _iso_2022_jp,
    "utf-8": _utf8,
    **dict.fromkeys(("utf-16be", "utf-16le"), _utf16),
}

# Of the text that all sequences decode to, and of all its characters with the bytes that each is written as.
DIGESTS = {
    "utf-8": ("91e29094124a2654", ""),
    "utf-16be": ("39e37099338e9881", ""),
    "utf-16le": ("d2d33f2285e8551e", ""),
    "ibm866": ("5a856a1cc72f92ff", "7ce1c37566ad42ff"),
    "iso-8859-2": ("5e9a0811bf08daf5", "47c34cfafdd7125c"),
    "iso-8859-3": ("6555258335579b89", "47c2af3eb6a8e22d"),
    "iso-8859-4": ("08e4e0f402fac588", "73921ce001180db1"),
    "iso-8859-5": ("df3e28bbb226e1cd", "ac68a17b144a0a8d"),
    "iso-8859-6": ("ac5e5b97608b416e", "7c2391af6327d2aa"),
    "iso-8859-7": ("9f68204513e94f00", "df075597c89428f4"),
    "iso-8859-8": ("16b842dbf1779d83", "3463cfdb4bbc1ce8"),
    "iso-8859-8-i": ("16b842dbf1779d83", "3463cfdb4bbc1ce8"),
    "iso-8859-10": ("34e36339240c8d8b", "14322d48cf9357ad"),
    "iso-8859-13": ("3bac58e9cc8e52cd", "2754aac0b3301041"),
    "iso-8859-14": ("ec2339ae801d5107", "1157c722b0035944"),
    "iso-8859-15": ("e3f0667fe89309a7", "3c272c5571e08857"),
    "iso-8859-16": ("c68ff962b68531cb", "aab0a497fb5cd959"),
    "koi8-r": ("e18c51434de748aa", "2a23ff78151b3008"),
    "koi8-u": ("09ca3df06fe07cf2", "d00fde81ecd44378"),
    "macintosh": ("a6af4ef8837ca7fc", "f7ae32d595b6b18b"),
    "windows-874": ("328a1a499919669e", "a9824f372fb07583"),
    "windows-1250": ("697d3e9c20631e29", "145ea786d81c72b2"),
    "windows-1251": ("046cabf3dd731926", "11ffeb14260ff2c5"),
    "windows-1252": ("b45da48fcc29fa51", "fc23cffa513d6a8d"),
    "windows-1253": ("b86ba26ea99fb622", "28ef07b9d904a953"),
    "windows-1254": ("233441a35d0b7823", "6dd94910781a01e1"),
    "windows-1255": ("63cacbae4c945413", "099ba4fe2d0d932d"),
    "windows-1256": ("8f0f0e8f96c6e90c", "cd9436a695d44723"),
    "windows-1257": ("a2e34bb97e73154a", "629139ca4d0cc011"),
    "windows-1258": ("7ab8842d941a6717", "f8d0293809e7902d"),
    "x-mac-cyrillic": ("b84eb464bfafed28", "924a07b3375cf4d4"),
    "x-user-defined": ("87337a75680cce3d", "8ca0272495724ffe"),
    "gbk": ("00d55855f089f1df", "0a94bcdfa115c075"),
    "gb18030": ("00d55855f089f1df", "605cd36425932504"),
    "big5": ("8ad7b133fb12bd1d", "6fba970da9ae7bf9"),
    "euc-jp": ("7939062a03cf47e9", "a0f980416d9b69c9"),
    "iso-2022-jp": ("6340f56094988899", "97177b05e3e79bc4"),
    "shift_jis": ("9744908d69bd034d", "c06a7e9b82126424"),
    "euc-kr": ("f7cfb5a10b60572f", "0a81f47d2faf1fab"),
}

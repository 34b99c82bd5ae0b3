"""What each character is, in tables that numpy looks up: for words, lines and sentences.

Classes of words follow UAX 29 (Unicode Text Segmentation). General categories are those of Python's Unicode; sets that
it does not know (Word_Break, Sentence_Terminal, the scripts that are written without spaces) are listed here.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# Classes of the word rule: the low four bits of a flag.
OTHER, SPACE, LETTER, DIGIT, EXTEND, CONNECTOR, SINGLE, KATAKANA, MID_LETTER, MID_NUMBER, MID_BOTH = range(11)
CLASS_BITS = 15
# Properties: one bit each.
IS_SPACE, IS_ALPHA, IS_SYMBOL, IS_TERMINAL, IS_BREAK, IS_CLOSING, IS_WIDE = (1 << bit for bit in range(4, 11))

UNICODE = unicodedata.unidata_version  # two Pythons may differ in characters that one of them does not know

_LIMIT = 0x110000
_ASSIGNED = (range(0x32400), range(0xE0000, 0xE01F0))  # beyond are private use and nothing
_MID_LETTER = "3a b7 387 55f 5f4 2027 fe13 fe55 ff1a"
_MID_NUMBER = "2c 3b 37e 589 60c-60d 66c 7f8 2044 fe10 fe14 fe50 fe54 ff0c ff1b"
_MID_BOTH = "27 2e 2018-2019 2024 fe52 ff07 ff0e"  # MidNumLet and the single quote
_KATAKANA = (
    "3031-3035 309b-309c 30a0-30fa 30fc-30ff 31f0-31ff 32d0-32fe 3300-3357 ff66-ff9d 1aff0-1affe 1b000 1b120-1b122 "
    "1b155 1b164-1b167"
)
# Written without spaces: each character counts as a word. Ideographs, kana, yi, bopomofo; Thai, Lao, Myanmar, Khmer…
_SINGLE = (
    "3005-3007 3021-3029 3038-303b 3041-3096 309d-309f 3400-4dbf 4e00-9fff f900-faff 1b001-1b11f 1b150-1b152 "
    "20000-323af e01-e30 e32-e33 e40-e46 e81-eb0 eb2-eb3 ebd-ec6 edc-edf 1000-102a 103f 1050-1055 105a-105d 1061 "
    "1065-1066 106e-1070 1075-1081 108e 1780-17b3 17d7 17dc 1950-196d 1970-1974 1980-19ab 19b0-19c9 19de-19df "
    "1a20-1a54 1aa0-1aad a9e0-a9ef a9fa-a9fe aa60-aa7a aa80-aac2 aadb-aadf 11700-1171a 11740-11746"
)
_TERMINAL = (
    "21 2e 3f 589 61d-61f 6d4 700-702 7f9 837 839 83d-83e 964-965 104a-104b 1362 1367-1368 166e 1735-1736 17d4-17d5 "
    "1803 1809 1944-1945 1aa8-1aab 1b4e-1b4f 1b5a-1b5b 1b5e-1b5f 1b7d-1b7f 1c3b-1c3c 1c7e-1c7f 203c-203d 2047-2049 "
    "2cf9-2cfb 2e2e 2e3c 2e53-2e54 3002 a4ff a60e-a60f a6f3 a6f7 a876-a877 a8ce-a8cf a92f a9c8-a9c9 aa5d-aa5f "
    "aaf0-aaf1 abeb fe12 fe15-fe16 fe52 fe56-fe57 ff01 ff0e ff1f ff61 10a56-10a57 10f55-10f59 10f86-10f89 11047-11048 "
    "110be-110c1 11141-11143 111c5-111c6 111cd 111de-111df 11238-11239 1123b-1123c 112a9 1144b-1144c 115c2-115c3 "
    "115c9-115d7 11641-11642 1173c-1173e 11944 11946 11a42-11a43 11a9b-11a9c 11c41-11c42 11ef7-11ef8 11f43-11f44 "
    "16a6e-16a6f 16af5 16b37-16b38 16b44 16e98 1bc9f 1da88"
)
_WIDE_TERMINAL = "3002 ff01 ff0e ff1f ff61"  # no space follows them
_SYMBOL = "24 2b 3c-3e 5e 60 7c 7e b4 2236 2501 25ba 0-1f 7f-9f"  # beside punctuation: ASCII's, and controls
_BREAKS = "a-d 1c-1e 85 2028-2029"  # of str.splitlines

_BY_CATEGORY = {"Nd": DIGIT, "Mn": EXTEND, "Mc": EXTEND, "Me": EXTEND, "Cf": EXTEND, "Pc": CONNECTOR, "Nl": LETTER}


@cache
def flags() -> Array:
    """Return the flags of every code point: its class and its properties."""
    table = np.zeros(_LIMIT, np.uint16)
    for assigned in _ASSIGNED:
        table[assigned.start : assigned.stop] = [_flag(chr(code)) for code in assigned]
    for ranges, kind in (
        (_MID_LETTER, MID_LETTER),
        (_MID_NUMBER, MID_NUMBER),
        (_MID_BOTH, MID_BOTH),
        (_KATAKANA, KATAKANA),
        (_SINGLE, SINGLE),
    ):
        codes = _codes(ranges)
        table[codes] = table[codes] & (0xFFFF - CLASS_BITS) | kind
    for ranges, bit in ((_TERMINAL, IS_TERMINAL), (_BREAKS, IS_BREAK), (_WIDE_TERMINAL, IS_WIDE), (_SYMBOL, IS_SYMBOL)):
        table[_codes(ranges)] |= bit
    table.flags.writeable = False
    return table


def _flag(char: str) -> int:
    category = unicodedata.category(char)
    flag = _BY_CATEGORY.get(category, LETTER if category[0] == "L" else OTHER)
    if char.isspace():
        flag = SPACE | IS_SPACE
    if char.isalpha():
        flag |= IS_ALPHA
    if category[0] == "P":
        flag |= IS_SYMBOL
    if category in ("Pe", "Pf") or char in "\"'":
        flag |= IS_CLOSING
    return flag


@cache
def lower_table() -> Array:
    """Return the lower-case code point of every code point, where it is a single one."""
    table = np.arange(_LIMIT, dtype=np.uint32)
    for code in _ASSIGNED[0]:
        lower = chr(code).lower()
        if len(lower) == 1:
            table[code] = ord(lower)
    table.flags.writeable = False
    return table


def _codes(ranges: str) -> Array:
    pairs = [[int(end, 16) for end in part.split("-")] for part in ranges.split()]
    return np.concatenate([np.arange(pair[0], pair[-1] + 1) for pair in pairs])

"""What a page shows: its pieces of text between tags, as hashes, to find out whether any of it is new.

    sample = sample_page(payload, url=url, canonical=None)
    sample.pieces      # the hash of each piece, and its weight: its length, at most 255

Numbers within a piece do not count ("Page 7 of 312"); pieces that are nothing but a number do, as tables of data have
them. Pieces that repeat a value of the URL's query do not ("Results for mill"). A picture is a piece, too: galleries
have little text. Scripts and styles are left out. Time is linear in the page's length, whatever it holds.
"""

from __future__ import annotations

import re
from itertools import pairwise
from urllib.parse import unquote_plus
from zlib import crc32

import msgspec

MOST_BYTES = 1 << 17  # of a page that are looked at
MOST_PIECES = 2000
MOST_PICTURES = 200
MANY_NUMBERS = 10  # of a page with a table of them
PICTURE = 60  # characters that a picture counts for
SHORTEST = 6  # bytes of a piece, its digits not counted
MOST_WEIGHT = 255

_PIECE = re.compile(rb">\s*+([^<>\s][^<>]*+)")
_RAW_TAG = re.compile(rb"<(script|style)")
_DIGITS = b"0123456789"
_MOST_ECHOES = 8


class PageSample(msgspec.Struct, frozen=True):
    pieces: dict[int, int]
    digest: int  # of all text, numbers included
    canonical: str = ""  # where the page says that it belongs, if that is another URL


def sample_page(payload: bytes, *, url: str, canonical: str | None = None) -> PageSample:
    """Return the sample of a page of HTML or XML, without its content coding. No matter in which charset it is."""
    shown = _without_scripts(payload[: 4 * MOST_BYTES])[:MOST_BYTES]
    found = list(dict.fromkeys(_PIECE.findall(shown)))[:MOST_PIECES]
    if echoes := _echoes(url):
        found = [piece for piece in found if not any(echo in piece for echo in echoes)]
    joined = b"\0".join(found)
    pieces = joined.translate(None, _DIGITS).split(b"\0")
    weighed = {
        crc32(piece): size if size < MOST_WEIGHT else MOST_WEIGHT  # noqa: FURB136 - twice as fast as min()
        for piece in pieces
        if (size := len(piece)) >= SHORTEST
    }
    if len(pieces) - len(weighed) >= MANY_NUMBERS:
        weighed.update(_numbers(found, pieces))
    weighed.update([(crc32(picture), PICTURE) for picture in _pictures(shown)])
    return PageSample(weighed, crc32(joined), canonical if canonical and canonical != url else "")


def _numbers(found: list[bytes], pieces: list[bytes]) -> dict[int, int]:
    """Return the pieces that are nothing but a number, each with the one before: single ones are soon all known."""
    numbers = [
        whole for whole, rest in zip(found, pieces, strict=False) if len(rest) < SHORTEST and whole[:1].isdigit()
    ]
    pairs = [one + b" " + other for one, other in pairwise(numbers)]
    return {crc32(pair): len(pair) for pair in pairs if len(pair) < MOST_WEIGHT}


def _pictures(shown: bytes) -> set[bytes]:
    """Return the addresses behind `src`, without their queries."""
    parts = shown.split(b' src="', MOST_PICTURES)[1:]
    return {part[:end].partition(b"?")[0] for part in parts if (end := part.find(b'"', 0, 500)) > 0}


def sample_payload(payload: bytes) -> PageSample:
    """Return the sample of what is no text: it is one piece."""
    value = crc32(payload)
    return PageSample({value: MOST_WEIGHT}, value)


def _without_scripts(page: bytes) -> bytes:
    """Return the page without the content of scripts and styles. What does not end reaches to the end of the page."""
    shown, position = [], 0
    for tag in _RAW_TAG.finditer(page):
        if tag.start() < position:
            continue  # within another one
        shown.append(page[position : tag.start()])
        position = page.find(b"</" + tag[1], tag.end())
        if position < 0:
            break
    else:
        shown.append(page[position:])
    return b"".join(shown)


def _echoes(url: str) -> list[bytes]:
    """Return the words of a URL's query that its page may repeat."""
    query = url.partition("?")[2]
    if not query:
        return []
    values = [pair.partition("=")[2] for pair in query.split("&")[:_MOST_ECHOES]]
    words = [unquote_plus(value) for value in values]
    return [word.encode("utf-8", "replace") for word in words if len(word) > 2 and not word.isdecimal()]

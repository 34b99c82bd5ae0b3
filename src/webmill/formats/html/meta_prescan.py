"""Find the encoding that a page declares: <meta charset>, <meta http-equiv>, <?xml encoding?>.

https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream-to-determine-its-encoding reads the first 1024
bytes. A declaration that is cut there, or by the end of the page, does not count, and one with an unknown label does
not end the search. Behind byte 1024 a <meta> counts as long as the head of the page lasts, as in browsers: the standard
lets one in the body change the encoding as well, but Chromium does not read a page again for that.

Every step moves forward, so no page can make this slow.
"""

from __future__ import annotations

import re
from functools import lru_cache

from webmill.formats.encodings import lookup_encoding

PRESCAN_BYTES = 1024

_S = rb"\t\n\f\r "
_UTF16_XML = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))
_XML = re.compile(
    rb"""<\?xml(?=[^>]*+>)(?:(?!encoding)[^>])*+encoding[\x00-\x20]*+=[\x00-\x20]*+(?:"([^"\x00-\x20>]*+)"|'([^'\x00-\x20>]*+)')"""
)
_TAG = re.compile(rb"<(/?)([A-Za-z][^" + _S + rb"/>]*+)[^" + _S + rb">]*+")
_SKIPPED = re.compile(rb"<[!/?][^>]*+>")
MOST_IN_HEAD = 2000  # tags and comments that are looked at: a page could have millions before its body
# Unclosed: the quote of a value that does not end.
_ATTRIBUTE = re.compile(
    rb"[" + _S + rb"/]*+(?P<name>[^" + _S + rb"/>][^" + _S + rb"/>=]*+)"
    rb"(?:[" + _S + rb"]*+=[" + _S + rb"]*+"
    rb"""(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<unclosed>["'])|(?P<bare>[^""" + _S + rb""">]++)?+))?+"""
)
_TAG_END = re.compile(rb"[" + _S + rb"/]*+>")
_CHARSET = re.compile(
    rb"charset[" + _S + rb"]*+=[" + _S + rb"""]*+(?:"([^"]*+)"|'([^']*+)'|(?!["'])([^""" + _S + rb";]*+))?+",
    re.IGNORECASE,
)
_IN_HEAD = frozenset((b"script", b"noscript", b"style", b"link", b"meta", b"object", b"title", b"base"))
_RAW_ENDS = {
    name: re.compile(rb"</" + name + rb"(?=[" + _S + rb"/>])", re.IGNORECASE)
    for name in (b"script", b"style", b"title")
}
# The declaration was readable as ASCII, so a page that declares UTF-16 is wrong.
_MEANT = {"utf-16be": "utf-8", "utf-16le": "utf-8", "x-user-defined": "windows-1252"}


def find_declared_encoding(page: bytes) -> str | None:
    """Return the encoding that the page declares, by its name in `formats.encodings`."""
    return _prescan(bytes(page[:PRESCAN_BYTES])) or (_find_in_head(page) if len(page) > PRESCAN_BYTES else None)


@lru_cache(maxsize=256)  # a crawl decodes each page twice: for its links, and for its metadata
def _prescan(start: bytes) -> str | None:
    for begin, encoding in _UTF16_XML:
        if start.startswith(begin):
            return encoding
    at = start.find(b"<")
    while at >= 0:
        at, _, found = _step(start, at)
        if found:
            return found
        at = start.find(b"<", at)
    xml = _XML.match(start)
    return _meant(xml[1] or xml[2] or b"") if xml else None


def _find_in_head(page: bytes) -> str | None:
    """Return what a <meta> declares before the first tag that does not belong in a head. Most pages have that tag in
    the bytes that were scanned already.
    """
    at = page.find(b"<")
    for _ in range(MOST_IN_HEAD):
        if at < 0:
            return None
        at, tag, found = _step(page, at)
        if found:
            return found
        if tag and tag.lstrip(b"/") not in _IN_HEAD and tag not in (b"html", b"head"):
            return None
        at = page.find(b"<", _after_raw_text(page, tag, at))
    return None


def _step(page: bytes, at: int) -> tuple[int, bytes, str | None]:
    """Return the offset after the markup at `at`, the name of a tag (an end tag with its slash), and the encoding if it
    is a <meta> that declares one. What does not end takes the rest.
    """
    if page.startswith(b"<!--", at):
        end = page.find(b"-->", at + 2)
        return (len(page) if end < 0 else end + 3), b"", None
    if tag := _TAG.match(page, at):
        name = tag[1] + tag[2].lower()
        attributes, end = _attributes(page, tag.end(2) if name == b"meta" else tag.end())
        return end, name, _declared(attributes) if name == b"meta" else None
    skipped = _SKIPPED.match(page, at)
    is_markup = page[at + 1 : at + 2] in (b"!", b"/", b"?")
    return (skipped.end() if skipped else len(page) if is_markup else at + 1), b"", None


def _attributes(page: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Return the attributes of a tag, the first of each name (none if it is cut), and the offset after the tag."""
    found: dict[bytes, bytes] = {}
    while match := _ATTRIBUTE.match(page, at):
        if match["unclosed"]:
            return {}, len(page)
        value = next((part for part in match.group("double", "single", "bare") if part is not None), b"")
        found.setdefault(match["name"].lower(), value)
        at = match.end()
    end = _TAG_END.match(page, at)
    return (found, end.end()) if end else ({}, len(page))


def _declared(attributes: dict[bytes, bytes]) -> str | None:
    if b"charset" in attributes:
        return _meant(attributes[b"charset"])
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    found = _CHARSET.search(attributes.get(b"content", b""))
    return _meant(found[1] or found[2] or found[3] or b"") if found else None


def _meant(label: bytes) -> str | None:
    encoding = lookup_encoding(label.decode("latin-1"))
    return _MEANT.get(encoding, encoding) if encoding else None


def _after_raw_text(page: bytes, tag: bytes, at: int) -> int:
    """Return where the text of a script, style or title ends, which is no markup."""
    if tag not in _RAW_ENDS:
        return at
    end = _RAW_ENDS[tag].search(page, at)
    return end.start() if end else len(page)

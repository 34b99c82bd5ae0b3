"""Find the encoding that a page declares in its first 1024 bytes: <meta charset>, <meta http-equiv>, <?xml?>.

https://html.spec.whatwg.org/multipage/parsing.html#prescan-a-byte-stream-to-determine-its-encoding
Every step moves forward in at most 1024 bytes, so no page can make this slow.
"""

from __future__ import annotations

import re
from functools import lru_cache

PRESCAN_BYTES = 1024

_XML = re.compile(rb"""<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*(["'])([^"'>]*)\1""")
_TAG = re.compile(rb"</?[A-Za-z][^\t\n\f\r />]*")
_META = re.compile(rb"<meta[\t\n\f\r />]", re.IGNORECASE)
_SKIPPED = re.compile(rb"<[!/?][^>]*>?")
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*)"""
    rb"""(?:[\t\n\f\r ]*=[\t\n\f\r ]*"""
    rb"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\t\n\f\r >"'][^\t\n\f\r >]*)))?"""
)
_CHARSET = re.compile(rb"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"']+))""", re.IGNORECASE)


def find_meta_charset(page: bytes) -> str | None:
    """Return the label as the page writes it, valid or not."""
    return _declared(bytes(page[:PRESCAN_BYTES]))


@lru_cache(maxsize=256)  # a crawl decodes each page twice: for its links, and for its metadata
def _declared(head: bytes) -> str | None:
    if xml := _XML.match(head):
        return xml[2].decode("latin-1")
    at = head.find(b"<")
    while at >= 0:
        at, label = _step(head, at)
        if label is not None:
            return label
        at = head.find(b"<", at)
    return None


def _step(head: bytes, at: int) -> tuple[int, str | None]:
    """Return the offset after the tag or comment at `at`, and the label if it is a <meta> with one."""
    if head.startswith(b"<!--", at):
        end = head.find(b"-->", at + 2)
        return (len(head) if end < 0 else end + 3), None
    if tag := _TAG.match(head, at):
        attributes, end = _attributes(head, tag.end())
        return end, _label(attributes) if _META.match(head, at) else None
    if skipped := _SKIPPED.match(head, at):
        return skipped.end(), None
    return at + 1, None


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Return the attributes of a tag, the first of each name, and the offset after the tag."""
    found: dict[bytes, bytes] = {}
    while match := _ATTRIBUTE.match(head, at):
        value = next((part for part in match.group("double", "single", "bare") if part is not None), b"")
        found.setdefault(match["name"].lower(), value)
        at = match.end()
    end = head.find(b">", at)
    return found, (len(head) if end < 0 else end + 1)


def _label(attributes: dict[bytes, bytes]) -> str | None:
    if b"charset" in attributes:
        return attributes[b"charset"].decode("latin-1")
    if attributes.get(b"http-equiv", b"").lower() != b"content-type":
        return None
    found = _CHARSET.search(attributes.get(b"content", b""))
    return next(part for part in found.groups() if part is not None).decode("latin-1") if found else None

"""Writes Atom feeds (RFC 4287), with links to their other pages (RFC 5005, paged feeds).

All text may come from the web: it is escaped, and characters that XML cannot have are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid5
from xml.sax.saxutils import escape, quoteattr

import msgspec

MEDIA_TYPE = "application/atom+xml"
NAMESPACE = UUID("6f0d0a3c-6f8a-5c0e-9d0e-6a3b1c1f2a77")  # of our ids, for ever
LONGEST_TITLE = 500
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class AtomLink(msgspec.Struct, frozen=True):
    rel: str
    href: str
    type: str = ""
    title: str = ""


class AtomEntry(msgspec.Struct, frozen=True, kw_only=True):
    """`name` makes the id: the same name has the same id in every feed. `html` is markup, already escaped."""

    name: str
    title: str
    updated: datetime
    links: Sequence[AtomLink]
    category: str = ""
    html: str = ""


class AtomFeed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    author: str
    updated: datetime
    links: Sequence[AtomLink]
    entries: Sequence[AtomEntry]


def write_feed(feed: AtomFeed) -> bytes:
    """Return the feed as XML."""
    parts = ['<?xml version="1.0" encoding="utf-8"?>', '<feed xmlns="http://www.w3.org/2005/Atom">', *_head(feed)]
    for entry in feed.entries:
        parts += ["<entry>", *_entry(entry), "</entry>"]
    return "\n".join([*parts, "</feed>", ""]).encode()


def atom_id(name: str) -> str:
    """Return the id of a name: a UUID that depends on nothing else."""
    return f"urn:uuid:{uuid5(NAMESPACE, _clean(name))}"


def _head(feed: AtomFeed) -> Iterator[str]:
    yield _element("id", atom_id(feed.name))
    yield _element("title", feed.title)
    yield _element("updated", _time(feed.updated))
    yield f"<author>{_element('name', feed.author)}</author>"
    yield _element("generator", "webmill")
    yield from map(_link, feed.links)


def _entry(entry: AtomEntry) -> Iterator[str]:
    yield _element("id", atom_id(entry.name))
    yield _element("title", entry.title[:LONGEST_TITLE])
    yield _element("updated", _time(entry.updated))
    if entry.category:
        yield f"<category term={_attribute(entry.category)}/>"
    yield from map(_link, entry.links)
    if entry.html:
        yield f'<content type="html">{escape(_clean(entry.html))}</content>'


def _link(link: AtomLink) -> str:
    given = (("rel", link.rel), ("type", link.type), ("title", link.title), ("href", link.href))
    return f"<link {' '.join(f'{name}={_attribute(value)}' for name, value in given if value)}/>"


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(_clean(' '.join(text.split())))}</{name}>"


def _attribute(value: str) -> str:
    return quoteattr(_clean(value))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("", text)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

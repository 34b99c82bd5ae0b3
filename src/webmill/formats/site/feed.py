"""Parse feeds: RSS 0.9x, 1.0 and 2.0, Atom, JSON Feed. Their title and description, and the text of their entries.

    feed = read_feed(decode_page(body, content_type=…).text)
    feed.title, feed.entries[0].title, feed.entries[0].text

Standards: https://www.rssboard.org/rss-specification, RFC 4287, https://jsonfeed.org/version/1.1

Feeds are hostile input. One that declares entities is refused; those of HTML (`&nbsp;`) are known anyway. Nothing is
fetched. Time and memory grow only with the length, which is limited; so is the number of entries. A broken feed gives
what comes before the damage, and a flaw: `bad_xml`, `too_deep`, `too_many_entries`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from html import escape

import msgspec

from webmill.errors import BadInput
from webmill.formats.html.entities import decode_text
from webmill.formats.html.page import MAX_PAGE, read_html_text
from webmill.formats.site.xml_reader import ReadingStopped, XmlReader, refuse_entities

MAX_ENTRIES = 10_000
MAX_DEPTH = 64
_ROOTS = frozenset(("rss", "feed", "rdf"))
_HEADS = frozenset(("channel", "feed"))
_ENTRIES = frozenset(("item", "entry"))
_HEAD_FIELDS = {"title": "title", "description": "about", "subtitle": "about", "tagline": "about", "link": "link"}
_HEAD_FIELDS |= {"language": "language"}
_ENTRY_FIELDS = {"title": "title", "description": "summary", "summary": "summary", "link": "link"}
_ENTRY_FIELDS |= {"content": "content", "encoded": "content", "guid": "guid"}
_PLAIN_FIELDS = frozenset(("link", "guid", "language"))  # neither text nor HTML
# Other namespaces have elements of the same names for media: <media:title>, <itunes:summary>.
_PREFIXES = frozenset(("", "atom", "rss", "content", "dc"))
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
# Content of any other type is Base64 in Atom (RFC 4287, 4.1.3.3).
_INLINE = re.compile(r"text|x?html|text/.*|.*[+/]xml")
JSON_FEED = "jsonfeed.org/version/"


class FeedEntry(msgspec.Struct, frozen=True):
    """One entry of a feed."""

    title: str = ""
    url: str = ""  # as written, perhaps relative
    text: str = ""  # by the rules of WET files


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed feed."""

    title: str = ""
    about: str = ""
    url: str = ""  # of its site, as written
    language: str = ""  # as stated: `en-us`
    entries: tuple[FeedEntry, ...] = ()
    flaw: str = ""

    @property
    def text(self) -> str:
        """The whole text, one part per line."""
        parts = [self.title, self.about, *(part for entry in self.entries for part in (entry.title, entry.text))]
        return "".join(f"{part}\n" for part in parts if part)


def read_feed(text: str) -> Feed:
    """Parse a feed. Raise BadInput: `not_feed`, `xml_entities` if it declares entities, `parse_limit`."""
    if len(text) > MAX_PAGE:
        raise BadInput(f"the feed has {len(text):,} characters; the limit is {MAX_PAGE:,}", reason="parse_limit")
    start = text[:1024].lstrip("\ufeff\0\t\r\n ")
    if start.startswith("{"):
        return _read_json(text)
    if not start.startswith("<"):
        raise BadInput("neither XML nor JSON", reason="not_feed")
    return _read_xml(text)


# --- JSON ---


class _JsonItem(msgspec.Struct):
    title: str | None = None
    url: str | None = None
    external_url: str | None = None
    content_html: str | None = None
    content_text: str | None = None
    summary: str | None = None


class _JsonFeed(msgspec.Struct):
    version: str = ""
    title: str | None = None
    description: str | None = None
    home_page_url: str | None = None
    language: str | None = None
    items: list[_JsonItem] = []


_json = msgspec.json.Decoder(_JsonFeed)


def _read_json(text: str) -> Feed:
    try:
        feed = _json.decode(text.lstrip("\ufeff\0").encode("utf-8", "replace"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"not a JSON Feed: {error}", reason="not_feed") from None
    if JSON_FEED not in feed.version:
        raise BadInput("JSON that is not a feed", reason="not_feed")
    entries = [
        FeedEntry(
            _line(escape(item.title or "")),
            (item.url or item.external_url or "").strip(),
            _text(item.content_html or escape(item.content_text or item.summary or "")),
        )
        for item in feed.items[:MAX_ENTRIES]
    ]
    return Feed(
        title=_line(escape(feed.title or "")),
        about=_line(escape(feed.description or "")),
        url=(feed.home_page_url or "").strip(),
        language=(feed.language or "").strip()[:64],
        entries=tuple(entry for entry in entries if entry.title or entry.text or entry.url),
        flaw="too_many_entries" if len(feed.items) > MAX_ENTRIES else "",
    )


# --- XML ---


def _read_xml(text: str) -> Feed:
    handler = _FeedHandler()
    data = _NO_XML.sub(" ", text.lstrip("\ufeff\0\t\r\n ")).encode("utf-8", "replace")
    flaw = handler.xml.read(data, reason="not_feed")
    return handler.feed(flaw)


class _FeedHandler:
    """The content of a field is collected as HTML, and parsed at its end."""

    def __init__(self) -> None:
        self._prefixes = set(_PREFIXES)
        self._head: dict[str, str] = {}
        self._entry: dict[str, str] = {}
        self._into = self._head  # the head or the entry that the field belongs to
        self._entries: list[FeedEntry] = []
        self._field = ""
        self._depth = 0  # of the element of the field
        self._html: list[str] = []
        self._is_atom = False
        self._is_html = True  # the text of the field is itself HTML
        self._is_base64 = False
        self.xml = XmlReader(self, max_depth=MAX_DEPTH)
        # Pretend that there is an external document type (not read): unknown entities are then reported, not errors.
        self.xml.parser.UseForeignDTD(True)
        self.xml.parser.ExternalEntityRefHandler = lambda *_: 1
        self.xml.parser.SkippedEntityHandler = self._entity

    def feed(self, flaw: str) -> Feed:
        head = self._head
        return Feed(
            title=_line(head.get("title", "")),
            about=_line(head.get("about", "")),
            url=head.get("link", ""),
            language=head.get("language", "")[:64],
            entries=tuple(self._entries),
            flaw=flaw,
        )

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:  # noqa: ARG002
        if has_subset:
            refuse_entities()

    def begin(self, root: str, prefix: str, attributes: dict[str, str]) -> None:
        if root not in _ROOTS:
            raise BadInput(f"the root element is <{root[:40]}>, which is not a feed", reason="not_feed")
        self._prefixes.add(prefix)
        self._is_atom = root == "feed"
        if language := attributes.get("xml:lang", "").strip():
            self._head["language"] = language

    def start(self, name: str, prefix: str, attributes: dict[str, str]) -> None:
        if self._field:
            self._html.append(f"<{name}>")
        elif name in _ENTRIES:
            self._entry = {}
        elif prefix in self._prefixes:
            parent = self.xml.parent
            in_entry = parent in _ENTRIES
            fields = _ENTRY_FIELDS if in_entry else _HEAD_FIELDS if parent in _HEADS else {}
            self._into = self._entry if in_entry else self._head
            self._enter(fields.get(name, ""), attributes)

    def _enter(self, field: str, attributes: Mapping[str, str]) -> None:
        self._field, self._depth, self._html = field, self.xml.depth, []
        kind = attributes.get("type", "text" if self._is_atom else "html").partition(";")[0].strip().lower()
        self._is_html = kind in ("html", "text/html")
        self._is_base64 = attributes.get("mode", "") == "base64" or (  # Atom 0.3
            self._is_atom and not _INLINE.fullmatch(kind)
        )
        if field == "guid" and attributes.get("isPermaLink", "true").strip().lower() == "false":
            self._field = "id"
        if field == "link" and attributes.get("rel", "alternate") == "alternate":
            self._keep("link", attributes.get("href", "").strip())

    def characters(self, text: str) -> None:
        if self._field:
            self._html.append(text if self._is_html or self._field in _PLAIN_FIELDS else escape(text))

    def _entity(self, name: str, is_parameter: bool) -> None:  # noqa: FBT001 - the signature of expat
        if not is_parameter:
            self.characters(decode_text(f"&{name};"))

    def end(self, name: str) -> None:
        if self._field:
            if self.xml.depth > self._depth:
                self._html.append(f"</{name}>")
                return
            value = "".join(self._html).strip()
            self._keep(self._field, self._decode_base64(value) if self._is_base64 else value)
            self._field = ""
        elif name in _ENTRIES:
            self._add(self._entry)
            self._entry = {}  # it may be nested in another

    def _decode_base64(self, value: str) -> str:
        """Return the text that is encoded, or nothing: most content of this form is an image or a file."""
        try:
            text = b64decode(value).decode()
        except ValueError:
            return ""
        return text if self._is_html else escape(text)

    def _keep(self, field: str, value: str) -> None:
        """Keep the first non-empty value: a feed may have several links."""
        if value and field not in self._into:
            self._into[field] = value

    def _add(self, fields: dict[str, str]) -> None:
        if len(self._entries) >= MAX_ENTRIES:
            raise ReadingStopped("too_many_entries")
        text = _text(fields.get("content") or fields.get("summary", ""))
        entry = FeedEntry(_line(fields.get("title", "")), fields.get("link") or _permalink(fields), text)
        if entry.title or entry.text or entry.url:
            self._entries.append(entry)


def _permalink(fields: Mapping[str, str]) -> str:
    """Return the `guid` of an RSS item, which is its permanent URL unless it says otherwise. Many are only
    numbers, and do not say so.
    """
    guid = fields.get("guid", "")
    return guid if guid.lower().startswith(("http://", "https://")) else ""


def _text(html: str) -> str:
    return read_html_text(html).text.strip() if html else ""


def _line(html: str) -> str:
    return " ".join(_text(html).split())

"""Parse sitemaps (https://www.sitemaps.org/protocol.html): XML sitemaps and indexes, RSS and Atom feeds, lists of URLs.

All may be gzip files. Sitemaps are hostile input: document types and entities are refused, sizes and counts are
limited, and nothing is fetched. A broken sitemap gives what comes before the damage, and a flaw:

| flaw | what happened |
|---|---|
| `truncated`, `corrupt`, `trailing_bytes`, `not_as_labelled` | of the gzip file, as in `content_coding` |
| `decode_limit`, `too_large` | over the limit, compressed or not: the rest was not read |
| `too_many_urls` | over the limit: the rest was not read |
| `bad_xml`, `too_deep` | the XML is invalid from there on, or nested too deeply |
| `bad_loc` | this many entries or lines had no URL, or too long a one, and were left out |
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import msgspec

from webmill.errors import BadInput
from webmill.formats.compression import content_coding
from webmill.formats.encodings import decode_as, lookup_encoding
from webmill.formats.html.charset import decode_page
from webmill.formats.site.xml_reader import ReadingStopped, XmlReader, refuse_entities
from webmill.formats.url.normalise import MAX_URL

_GZIP = b"\x1f\x8b"
_UTF16_MARKS = (b"\xfe\xff", b"\xff\xfe")
_SPACE = b" \t\r\n\0"
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}["']([A-Za-z0-9._-]{1,40})["']""")
# For each kind of document: the elements that are entries, and the children that are kept, with their names here.
_SITEMAP_ENTRIES = frozenset(("url", "sitemap"))
_SITEMAP_FIELDS = {name: name for name in ("loc", "lastmod", "priority", "changefreq")}
_FEED_ENTRIES = frozenset(("item", "entry"))
_FEED_FIELDS = {"link": "loc", "pubdate": "lastmod", "updated": "lastmod", "date": "lastmod"}
_SITEMAP_ROOTS = frozenset(("urlset", "sitemapindex"))
_FEED_ROOTS = frozenset(("rss", "feed", "rdf"))
# The start of a document, up to its root or its document type.
_PEEK = 4096
_START = re.compile(
    rb"(?:\s++|<\?[^>]*+>|<!--(?:[^-]++|-(?!->))*+-->)*+<(?:!DOCTYPE\s++)?+(?:[\w.-]++:)?+"
    rb"(?:urlset|sitemapindex|rss|feed|rdf)(?=[\s/>])",
    re.IGNORECASE,
).match
_FREQUENCIES = frozenset(("always", "hourly", "daily", "weekly", "monthly", "yearly", "never"))
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}").fullmatch
_NUMBER = re.compile(r"[0-9]{1,3}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}").fullmatch


class SitemapLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a sitemap is read."""

    size: int = 50 * 1024 * 1024  # uncompressed bytes, as in the protocol
    ratio: int = 200  # of uncompressed to compressed bytes, beyond the first MiB
    urls: int = 50_000
    depth: int = 64


class SitemapUrl(msgspec.Struct, frozen=True, omit_defaults=True):
    """One URL of a sitemap."""

    loc: str  # as written, perhaps relative or of another host
    lastmod: str | None = None  # as written: ISO 8601 in sitemaps, RFC 822 in RSS
    priority: float | None = None
    changefreq: str | None = None


class Sitemap(msgspec.Struct, frozen=True):
    """A parsed sitemap: its URLs, the sitemaps of an index, and how often each flaw occurred."""

    urls: list[SitemapUrl] = []
    sitemaps: list[SitemapUrl] = []
    flaws: dict[str, int] = {}


DEFAULT_LIMITS = SitemapLimits()


def read_sitemap(data: bytes, *, limits: SitemapLimits = DEFAULT_LIMITS) -> Sitemap:
    """Parse a sitemap.

    Raise BadInput: `xml_entities` for a document type or entities, `not_sitemap` for anything else.
    """
    flaws: Counter[str] = Counter()
    data = _decompress(data, limits, flaws)
    if not data.startswith(_UTF16_MARKS):
        data = data.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    entries = _SitemapEntries(limits, flaws)
    if data.startswith((b"<", b"\xfe\xff\0<", b"\xff\xfe<\0")):
        flaw = _SitemapHandler(entries).xml.read(_as_utf8(data), reason="not_sitemap")
    else:
        flaw = _read_lines(decode_page(data).text, entries)
    if flaw:
        flaws[flaw] += 1
    return Sitemap(entries.urls, entries.sitemaps, dict(flaws))


def parse_lastmod(text: str | None) -> float:
    """Return the seconds since 1970 of a `lastmod`, or 0.0 when it is none. A date without a time is its end: the page
    may have changed on that day since it was visited.
    """
    written = (text or "").strip()
    try:
        if _DAY(written):
            return (datetime.fromisoformat(written).replace(tzinfo=UTC) + timedelta(days=1)).timestamp()
        time = datetime.fromisoformat(written) if written[:4].isdigit() else parsedate_to_datetime(written)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):  # what the parsers raise for nonsense of all kinds
        return 0.0


def looks_like_sitemap(data: bytes) -> bool:
    """Return whether the first bytes look like a sitemap. A list must have only URLs in them."""
    if data.startswith(_GZIP):
        bounds = content_coding.DecodeLimits(output=_PEEK)
        data = content_coding.decode_codings(data[:_PEEK], ("gzip",), limits=bounds).data
    head = data[:_PEEK]
    if head.startswith(_UTF16_MARKS):
        head = decode_page(head).text.encode("utf-8", "replace")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    if head.startswith(b"<"):
        return _START(head) is not None
    lines = [line for line in head.splitlines() if line.strip()]
    if len(data) >= _PEEK:
        lines = lines[:-1] or lines  # the last line may be incomplete
    return bool(lines) and all(line.strip()[:8].lower().startswith((b"http://", b"https://")) for line in lines)


class _SitemapEntries:
    """The entries found so far, within limits."""

    def __init__(self, limits: SitemapLimits, flaws: Counter[str]) -> None:
        self.limits = limits
        self.flaws = flaws
        self.urls: list[SitemapUrl] = []
        self.sitemaps: list[SitemapUrl] = []

    def add(self, kind: str, fields: dict[str, str]) -> None:
        loc = fields.get("loc", "").strip()
        if not loc or len(loc) > MAX_URL:
            self.flaws["bad_loc"] += 1
            return
        if len(self.urls) + len(self.sitemaps) >= self.limits.urls:
            raise ReadingStopped("too_many_urls")
        if kind == "sitemap":
            self.sitemaps.append(_url(loc, fields))
        else:
            self.urls.append(_url(loc, fields))


def _url(loc: str, fields: dict[str, str]) -> SitemapUrl:
    frequency = fields.get("changefreq", "").strip().lower()
    priority = fields.get("priority", "").strip()
    return SitemapUrl(
        loc,
        fields.get("lastmod", "").strip()[:64] or None,
        min(float(priority), 1.0) if _NUMBER(priority) else None,
        frequency if frequency in _FREQUENCIES else None,
    )


def _decompress(data: bytes, limits: SitemapLimits, flaws: Counter[str]) -> bytes:
    if data.startswith(_GZIP):
        bounds = content_coding.DecodeLimits(output=limits.size, ratio=limits.ratio)
        decoded = content_coding.decode_codings(data, ("gzip",), limits=bounds)
        if decoded.flaw:
            flaws[decoded.flaw] += 1
        return decoded.data
    if len(data) > limits.size:
        flaws["too_large"] += 1
    return data[: limits.size]


def _as_utf8(data: bytes) -> bytes:
    """Convert to UTF-8, accepting only encodings of the web: expat would use any Python codec that a document names."""
    if data.startswith(_UTF16_MARKS):
        return decode_page(data).text.encode("utf-8", "replace")
    declared = _DECLARED.match(data[:300])
    encoding = lookup_encoding(declared[1].decode("ascii")) if declared else None
    # A declaration that is readable as ASCII is not UTF-16, whatever it states.
    if encoding is None or encoding.startswith("utf-"):
        return data
    return decode_as(data, encoding).encode("utf-8", "replace")


def _read_lines(text: str, entries: _SitemapEntries) -> str:
    try:
        for line in text.splitlines():
            line = line.strip()
            if line:
                is_url = line[:8].lower().startswith(("http://", "https://"))
                entries.add("url", {"loc": line} if is_url else {})
    except ReadingStopped as stopped:
        return stopped.flaw
    if entries.flaws["bad_loc"] and not entries.urls:
        raise BadInput("neither XML nor a list of URLs", reason="not_sitemap")
    return ""


class _SitemapHandler:
    def __init__(self, entries: _SitemapEntries) -> None:
        self._entries = entries
        self._entry_names: frozenset[str] = frozenset()
        self._field_names: dict[str, str] = {}
        self._fields: dict[str, str] = {}
        self._field: str | None = None
        self._text: list[str] = []
        self.xml = XmlReader(self, max_depth=entries.limits.depth)

    def doctype(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        if name.lower() == "html":
            raise BadInput("an HTML page, not a sitemap", reason="not_sitemap")
        if system or public or has_subset:
            refuse_entities()

    def begin(self, root: str, prefix: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        if root in _SITEMAP_ROOTS:
            self._entry_names, self._field_names = _SITEMAP_ENTRIES, _SITEMAP_FIELDS
        elif root in _FEED_ROOTS:
            self._entry_names, self._field_names = _FEED_ENTRIES, _FEED_FIELDS
        else:
            raise BadInput(f"the root element is <{root[:40]}>, which is not a sitemap", reason="not_sitemap")

    def start(self, name: str, prefix: str, attributes: dict[str, str]) -> None:  # noqa: ARG002
        if name in self._entry_names:
            self._fields = {}
        self._field = self._field_names.get(name) if self.xml.parent in self._entry_names else None
        self._text = []
        if self._field and name == "link" and attributes.get("rel", "alternate") == "alternate":
            self._keep("loc", attributes.get("href", ""))  # Atom

    def characters(self, text: str) -> None:
        if self._field:
            self._text.append(text)

    def end(self, name: str) -> None:
        if self._field:
            self._keep(self._field, "".join(self._text))
        elif name in self._entry_names:
            self._entries.add(name, self._fields)
        self._field = None

    def _keep(self, field: str, text: str) -> None:
        """Keep the first non-empty value: a feed may have several links and dates."""
        if text.strip() and field not in self._fields:
            self._fields[field] = text

"""What an HTML page says of its use: `<meta>` for robots and TDM, and its licence.

    found = read_page(text, agent="webmill")
    found.robots, found.tdm, found.license, found.rsl

Tags in comments, scripts and styles say nothing. `head_of` is for those who have no time for the whole page.
"""

from __future__ import annotations

import re

import msgspec
import re2

from webmill.formats.html.entities import decode_attribute
from webmill.formats.html.tokens import ATTRIBUTES, COMMENT, SPACE, parse_attributes
from webmill.formats.preferences.directives import words_of_meta
from webmill.formats.preferences.rsl import MEDIA_TYPE, RslContent, read_rsl
from webmill.formats.url.normalise import MAX_URL

MAX_PAGE = 4 << 20  # characters that are looked at
MAX_HEAD = 128 << 10  # bytes, where only the head is
MAX_TAGS = 200  # of each kind, of which a page has one or two
# In most heads is none of them, whatever their case.
_CLUES = (b"robots", b"tdm-", b"license", b"noai", b"rsl+xml", b"noarchive", b"noindex", b"nosnippet")
_BODY = (b"<body", b"<BODY")
# RE2 looks for all of them at once.
_CLUE_OR_BODY = re2.compile(b"|".join((*_BODY, *(b"(?i:%b)" % re2.escape(clue) for clue in _CLUES))))
_SCRIPT = rf"script\b({ATTRIBUTES})[{SPACE}]*+>([^<]*+(?:<(?!/script)[^<]*+)*+)"
_STYLE = rf"style\b{ATTRIBUTES}[{SPACE}]*+>(?:[^<]++|<(?!/style))*+"
_TAGS = re.compile(rf"<(?:(meta|link|a)(?=[{SPACE}/])({ATTRIBUTES})|{_SCRIPT}|{_STYLE}|{COMMENT})", re.IGNORECASE)
_JSON_LICENSE = re.compile(
    r'"license"\s*+:\s*+(?:"([^"\\]{1,2000})"|\{[^{}]{0,500}?"(?:@id|url)"\s*+:\s*+"([^"\\]{1,2000})")'
)
_CC = re.compile(r"https?://(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/[a-z0-9+./-]{1,60}", re.IGNORECASE)


class PagePreferences(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a page, as written. `license` is the address of its licence, the most explicit one."""

    robots: tuple[str, ...] = ()  # directives for this agent
    tdm: str | None = None
    tdm_policy: str = ""
    license: str = ""
    rsl_links: tuple[str, ...] = ()
    rsl: tuple[RslContent, ...] = ()


NOTHING_STATED = PagePreferences()


def head_of(payload: bytes) -> str:
    """Return the head of a page as text if there is something of interest in it: markup is ASCII in all charsets that
    browsers take for pages, but for UTF-16."""
    if payload[:2] in (b"\xff\xfe", b"\xfe\xff"):
        payload = payload[: 2 * MAX_HEAD].decode("utf-16", "replace").encode()
    first = _CLUE_OR_BODY.search(payload, 0, MAX_HEAD)
    if first is None or first[0] in _BODY:
        return ""
    end = min(MAX_HEAD, len(payload))
    for mark in _BODY:
        found = payload.find(mark, first.end(), end)
        end = found if found >= 0 else end
    return payload[:end].decode("utf-8", "replace")


def read_page(text: str, *, agent: str) -> PagePreferences:
    """Read what a page, or the head of one, says."""
    reading = _PageReading(agent)
    for count, found in enumerate(_TAGS.finditer(text, 0, MAX_PAGE)):
        if found[1]:
            reading.take(found[1].lower(), found[2])
        elif found[4]:
            reading.take_script(found[3], found[4])
        if count > MAX_PAGE // 40:
            break
    return reading.result()


class _PageReading:
    def __init__(self, agent: str) -> None:
        self._agent = agent.lower()
        self._words: list[str] = []
        self._tdm: str | None = None
        self._policy = ""
        self._licenses: list[tuple[int, str]] = []
        self._rsl_links: list[str] = []
        self._rsl: tuple[RslContent, ...] = ()
        self._metas = 0

    def take(self, tag: str, raw: str) -> None:
        lower = raw.lower()
        if tag == "meta":
            self._take_meta(raw, lower)
        elif "license" in lower or "creativecommons" in lower:
            self._take_link(tag, raw)

    def take_script(self, raw: str, content: str) -> None:
        kind = raw.lower()
        if "ld+json" in kind and (found := _JSON_LICENSE.search(content, 0, MAX_PAGE)):
            self._licenses.append((2, (found[1] or found[2]).replace("\\/", "/")))
        elif "rsl+xml" in kind and not self._rsl:
            self._rsl = read_rsl(content.strip().encode("utf-8", "replace"))

    def result(self) -> PagePreferences:
        best = min(self._licenses, default=(0, ""), key=lambda one: one[0])[1]
        return PagePreferences(
            robots=tuple(dict.fromkeys(self._words)),
            tdm=self._tdm,
            tdm_policy=self._policy,
            license=best,
            rsl_links=tuple(dict.fromkeys(self._rsl_links)),
            rsl=self._rsl,
        )

    def _take_meta(self, raw: str, lower: str) -> None:
        if "robots" not in lower and "tdm-" not in lower and self._agent not in lower and "rights" not in lower:
            return
        self._metas += 1
        attributes = _attributes(raw)
        name, content = attributes.get("name", "").strip().lower(), attributes.get("content", "").strip()
        if self._metas > MAX_TAGS:
            return
        if name in ("robots", self._agent):
            self._words += words_of_meta(content.lower()[:4096], self._agent)
        elif name == "tdm-reservation":
            self._tdm = content if self._tdm is None else self._tdm
        elif name == "tdm-policy":
            self._policy = self._policy or content[:MAX_URL]
        elif name in ("dc.rights", "dcterms.rights", "dcterms.license") and (found := _CC.search(content)):
            self._licenses.append((3, found[0]))

    def _take_link(self, tag: str, raw: str) -> None:
        attributes = _attributes(raw)
        href, relations = attributes.get("href", "").strip(), attributes.get("rel", "").lower().split()
        if not href or len(href) > MAX_URL or len(self._licenses) + len(self._rsl_links) > MAX_TAGS:
            return
        if "license" in relations and attributes.get("type", "").strip().lower() == MEDIA_TYPE:
            self._rsl_links.append(href)
        elif "license" in relations:
            self._licenses.append((0 if tag == "link" else 1, href))
        elif _CC.match(href):  # without rel: the button that sites put at the end of their pages
            self._licenses.append((4, href))


def _attributes(raw: str) -> dict[str, str]:
    """Return the attributes of a tag, names in lower case; of equal ones the first counts."""
    found: dict[str, str] = {}
    for name, value in parse_attributes(raw).items():
        found.setdefault(name.lower(), decode_attribute(value or ""))
    return found

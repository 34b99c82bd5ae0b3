"""The date that a page states for itself: when it was published.

Looked for are, in this order, `<meta>` (article:published_time and its kin), `datePublished` of schema.org in JSON-LD
and in microdata, and `<time>` where the page has one only, or says of it that it is this. What is no date, and what no
web page can be as old or as young as, is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from webmill.formats.html.head import MAX_HEAD, HtmlHead

METAS = ("article:published_time", "og:published_time", "datepublished", "dc.date.issued", "dcterms.issued", "pubdate")
OLDEST, YOUNGEST = 1900, 2199  # years
NAME = "datePublished"
AROUND = 300  # characters before and after the name that are looked at
MOST = 20  # places with the name that are looked at
# Every repetition is bounded: pages are hostile.
_STATED = (
    re.compile(r'"datePublished"\s{0,9}:\s{0,9}"([^"<>]{4,40})"'),
    re.compile(
        r"""itemprop\s?=\s?["']?datePublished["']?[^<>]{0,200}?(?:content|datetime)\s?=\s?["']([^"'<>]{4,40})"""
    ),
    re.compile(r"""(?:content|datetime)\s?=\s?["']([^"'<>]{4,40})["'][^<>]{0,200}?itemprop\s?=\s?["']?datePublished"""),
)
_TIME = re.compile(r"""<time\b[^<>]{0,200}?\bdatetime\s?=\s?["']([^"'<>]{4,40})["']([^<>]{0,200})""")


def find_published_date(html: str, head: HtmlHead) -> datetime | None:
    """Return the date, in UTC; one that names no zone is taken as it stands."""
    return next(filter(None, map(parse_date, _candidates(html, head))), None)


def _candidates(html: str, head: HtmlHead) -> Iterator[str]:
    said = " ".join(head.metas).lower()
    yield from filter(None, (head.meta(name) for name in METAS if name in said))
    html = html[:MAX_HEAD]  # only here: half of the pages have said it, and this copies
    yield from (found[1] for part in _parts(html) for pattern in _STATED if (found := pattern.search(part)))
    times = [*_TIME.finditer(html)] if "<time" in html else []
    yield from (time[1] for time in times if "pubdate" in time[0].lower())
    if len({time[1] for time in times}) == 1:
        yield times[0][1]


def _parts(html: str) -> Iterator[str]:
    at, seen = html.find(NAME), 0
    while at >= 0 and seen < MOST:
        yield html[max(0, at - AROUND) : at + AROUND]
        at, seen = html.find(NAME, at + 1), seen + 1


def parse_date(text: str) -> datetime | None:
    """Return the moment of a date in ISO 8601, or as mails have it."""
    try:
        moment = _read(text.strip())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if OLDEST <= moment.year <= YOUNGEST else None


def _read(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)

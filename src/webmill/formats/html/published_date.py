"""Find the date on which a page states that it was published.

Searched in this order: `<meta>` (article:published_time and similar), `datePublished` of schema.org in JSON-LD and
microdata, and `<time>` if the page has only one, or marks it with pubdate. Invalid and implausible dates are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from webmill.formats.html.head import MAX_HEAD, HtmlHead

METAS = ("article:published_time", "og:published_time", "datepublished", "dc.date.issued", "dcterms.issued", "pubdate")
FIRST_YEAR, LAST_YEAR = 1900, 2199  # years
NAME = "datePublished"
CONTEXT = 300  # characters before and after the name that are searched
MAX_OCCURRENCES = 20  # of the name that are searched
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
    """Return the publication date in UTC; a date without a zone is taken as UTC."""
    return next(filter(None, map(parse_date, _candidates(html, head))), None)


def _candidates(html: str, head: HtmlHead) -> Iterator[str]:
    metas = " ".join(head.metas).lower()
    yield from filter(None, (head.meta(name) for name in METAS if name in metas))
    html = html[:MAX_HEAD]  # only now, since it copies: half of the pages have stated it above
    yield from (found[1] for part in _parts(html) for pattern in _STATED if (found := pattern.search(part)))
    times = [*_TIME.finditer(html)] if "<time" in html else []
    yield from (time[1] for time in times if "pubdate" in time[0].lower())
    if len({time[1] for time in times}) == 1:
        yield times[0][1]


def _parts(html: str) -> Iterator[str]:
    at, seen = html.find(NAME), 0
    while at >= 0 and seen < MAX_OCCURRENCES:
        yield html[max(0, at - CONTEXT) : at + CONTEXT]
        at, seen = html.find(NAME, at + 1), seen + 1


def parse_date(text: str) -> datetime | None:
    """Return the moment of a date in ISO 8601 or in the format of e-mails; None if it is invalid."""
    try:
        moment = _read(text.strip())
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment if FIRST_YEAR <= moment.year <= LAST_YEAR else None


def _read(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return parsedate_to_datetime(text)

"""Find the dates on which a page states that it was published, and changed last.

Searched in this order: `<meta>` (article:published_time, article:modified_time and similar), `datePublished` and
`dateModified` of schema.org in JSON-LD and microdata, and, for publication, `<time>` if the page has only one, or marks
it with pubdate. Invalid and implausible dates are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from webmill.formats.html.head import MAX_HEAD, HtmlHead

PUBLISHED_METAS = (
    "article:published_time", "og:published_time", "datepublished", "dc.date.issued", "dcterms.issued", "pubdate",
)  # fmt: skip
MODIFIED_METAS = ("article:modified_time", "og:updated_time", "datemodified", "dc.date.modified", "dcterms.modified")
FIRST_YEAR, LAST_YEAR = 1900, 2199  # years
CONTEXT = 300  # characters before and after the name that are searched
MAX_OCCURRENCES = 20  # of the name that are searched
_TIME = re.compile(r"""<time\b[^<>]{0,200}?\bdatetime\s?=\s?["']([^"'<>]{4,40})["']([^<>]{0,200})""")


def _statements_of(name: str) -> tuple[re.Pattern[str], ...]:
    """Return the forms of a property in JSON-LD and microdata. Every repetition is bounded: pages are hostile."""
    value = r"""\s?=\s?["']([^"'<>]{4,40})"""
    return (
        re.compile(rf'"{name}"\s{{0,9}}:\s{{0,9}}"([^"<>]{{4,40}})"'),
        re.compile(rf"""itemprop\s?=\s?["']?{name}["']?[^<>]{{0,200}}?(?:content|datetime){value}"""),
        re.compile(rf"""(?:content|datetime){value}["'][^<>]{{0,200}}?itemprop\s?=\s?["']?{name}"""),
    )


_STATEMENTS = {name: _statements_of(name) for name in ("datePublished", "dateModified")}


def find_published_date(html: str, head: HtmlHead) -> datetime | None:
    """Return the publication date in UTC; a date without a zone is taken as UTC."""
    return next(filter(None, map(parse_date, _published(html, head))), None)


def find_modified_date(html: str, head: HtmlHead) -> datetime | None:
    """Return the date of the last change in UTC; a date without a zone is taken as UTC."""
    return next(filter(None, map(parse_date, _stated(html, head, MODIFIED_METAS, "dateModified"))), None)


def _published(html: str, head: HtmlHead) -> Iterator[str]:
    yield from _stated(html, head, PUBLISHED_METAS, "datePublished")
    html = html[:MAX_HEAD]
    times = [*_TIME.finditer(html)] if "<time" in html else []
    yield from (time[1] for time in times if "pubdate" in time[0].lower())
    if len({time[1] for time in times}) == 1:
        yield times[0][1]


def _stated(html: str, head: HtmlHead, names: tuple[str, ...], name: str) -> Iterator[str]:
    metas = " ".join(head.metas).lower()
    yield from filter(None, (head.meta(one) for one in names if one in metas))
    parts = _parts(html[:MAX_HEAD], name)  # only now, since it copies: half of the pages have stated it above
    yield from (found[1] for part in parts for pattern in _STATEMENTS[name] if (found := pattern.search(part)))


def _parts(html: str, name: str) -> Iterator[str]:
    at, seen = html.find(name), 0
    while at >= 0 and seen < MAX_OCCURRENCES:
        yield html[max(0, at - CONTEXT) : at + CONTEXT]
        at, seen = html.find(name, at + 1), seen + 1


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

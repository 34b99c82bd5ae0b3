"""The date that a page states, wherever it states it; what is no date is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webmill.formats.html.head import read_head
from webmill.formats.html.published_date import find_published_date

MAY = datetime(2024, 5, 1, 10, 30, tzinfo=UTC)
DAY = datetime(2024, 5, 1, tzinfo=UTC)


def found(html: str) -> datetime | None:
    return find_published_date(html, read_head(html))


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<head><meta property="article:published_time" content="2024-05-01T10:30:00Z"></head>', MAY),
        ('<meta name="pubdate" content="2024-05-01">', DAY),
        ('<meta property="article:published_time" content="2024-05-01T19:30:00+09:00">', MAY),
        ('<meta property="article:published_time" content="Wed, 01 May 2024 10:30:00 GMT">', MAY),
        ('<script type="application/ld+json">{"@type": "NewsArticle", "datePublished" : "2024-05-01"}</script>', DAY),
        ('<body><meta itemprop="datePublished" content="2024-05-01">', DAY),
        ('<body><span content="2024-05-01" itemprop="datePublished">', DAY),
        ('<body><time datetime="2024-05-01T10:30Z">May</time>', MAY),
        ('<time datetime="2020-01-01">x</time><time datetime="2024-05-01" pubdate>y</time>', DAY),
        ('<time datetime="2020-01-01">x</time><time datetime="2024-05-01">y</time>', None),
        ('<meta property="article:published_time" content="soon"><time datetime="2024-05-01">y</time>', DAY),
        ('<meta property="article:published_time" content="0001-01-01T00:00:00+14:00">', None),
        ('<meta property="article:published_time" content="9999-12-31T23:59:59-14:00">', None),
        ("<p>no date</p>", None),
    ],
)
def test_a_page_states_its_date(html: str, expected: datetime | None) -> None:
    assert found(html) == expected


@pytest.mark.parametrize("piece", ["<time ", "<time a", 'itemprop="datePublished" ', '"datePublished": ', 'content="'])
def test_a_page_that_repeats_itself_is_no_trap(piece: str) -> None:
    assert found(piece * (300_000 // len(piece))) is None

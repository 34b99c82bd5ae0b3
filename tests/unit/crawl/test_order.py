"""The order `best`: what links say of domains, how domains are ranked by it, and how fast a budget is spent."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from webmill.crawl.frontier.base import PAGE_RESOURCE, SITEMAP, LastVisit, RetryLater, VisitDone
from webmill.crawl.scheduler.budget_pace import FEW_DOMAINS, SPREAD, BudgetPace
from webmill.crawl.scheduler.domain_scores import DomainScores
from webmill.crawl.visit.link_order import FAR, HIGHEST_SCORED, LINKED, NEAR, LinkOrder, order_listed, page_weight
from webmill.crawl.visit.outcome import VisitResult
from webmill.formats.site.sitemap import Sitemap, SitemapUrl
from webmill.model import Link

HERE = "https://www.here.com/"
NOW = datetime(2026, 11, 18, tzinfo=UTC).timestamp()


def arranged(order: LinkOrder, *urls: str, known: tuple[str, ...] = (), rank: int = 5) -> list[Link]:
    links = [Link(url, 2) for url in urls]
    return order.arrange(links, known, domain="here.com", rank=rank, depth=2)


def test_links_to_other_domains_share_what_the_page_has() -> None:
    inside, outside = arranged(LinkOrder(), HERE + "a", "https://b.com/x", rank=5)
    assert inside.weight == 0.0
    assert outside.weight == page_weight(5) / 2
    assert page_weight(5) == page_weight(9) / 2 < page_weight(HIGHEST_SCORED) == page_weight(HIGHEST_SCORED + 2)


def test_home_pages_come_first_and_poor_patterns_last() -> None:
    order = LinkOrder(lambda url: "calendar" in url)
    links = arranged(order, HERE, HERE + "a/", HERE + "calendar/1", "https://b.com/", "https://b.com/x")
    assert [link.priority for link in links] == [NEAR, LINKED, FAR, NEAR, LINKED]


def test_other_kinds_of_links_keep_their_priority() -> None:
    links = [Link(HERE + "s.xml", 0, SITEMAP), Link("https://cdn.com/i.png", 1, PAGE_RESOURCE)]
    assert LinkOrder().arrange(links, (), domain="here.com", rank=1, depth=1) == links


def test_a_known_url_of_another_domain_counts_once_for_each_pair() -> None:
    order, known = LinkOrder(), (HERE + "a", "https://b.com/x", "https://b.com/y")
    (first,) = arranged(order, known=known)
    assert (first.url, first.weight) == ("https://b.com/x", page_weight(5) / 3)
    assert arranged(order, known=known) == []


def test_a_sitemap_says_which_pages_are_important_or_new() -> None:
    now = datetime.now(UTC).timestamp()
    fresh, ahead = (datetime.fromtimestamp(now + at, UTC).isoformat() for at in (-3600, 3600))
    entries = {
        "important": SitemapUrl("/important", priority=0.8),
        "fresh": SitemapUrl("/fresh", lastmod=fresh, priority=0.1),
        "ahead": SitemapUrl("/ahead", lastmod=ahead),
        "nothing": SitemapUrl("/nothing"),
        "unimportant": SitemapUrl("/unimportant", priority=0.3),
    }
    links = order_listed([Link(HERE + name) for name in entries], Sitemap(urls=tuple(entries.values())), HERE)
    assert [link.priority for link in links] == [NEAR, NEAR, LINKED, LINKED, FAR]


def test_a_domain_ranks_by_its_links_for_each_page_that_it_gave(tmp_path: Path) -> None:
    scores = DomainScores(tmp_path / "scores.sqlite")
    scores.note([Link("https://a.com/x", 1, weight=1.0), Link("https://b.com/x", 1, weight=0.25)], {})
    assert scores.ranks == {"a.com": HIGHEST_SCORED, "b.com": HIGHEST_SCORED - 2}
    scores.note([], {"a.com": 3})
    assert scores.ranks == {"a.com": HIGHEST_SCORED - 2}
    scores.note([Link("https://a.com/y", 1)], {"new.com": 1})
    assert scores.ranks == {"new.com": 1}
    scores.close()


def test_scores_outlive_a_process_and_few_are_in_memory(tmp_path: Path) -> None:
    path, count = tmp_path / "scores.sqlite", 50
    links = [Link(f"https://d{number}.com/", 1, weight=2.0 ** -(number % 9)) for number in range(count)]
    scores = DomainScores(path, kept=10)
    for link in links:
        scores.note([link], {})
        assert len(scores._scores) <= 10
    scores.close()
    scores = DomainScores(path, kept=10)
    scores.note([], {f"d{number}.com": 0 for number in range(count)})
    assert scores.ranks == {f"d{number}.com": HIGHEST_SCORED - number % 9 for number in range(count)}
    scores.close()


def paced(delay: float) -> BudgetPace:
    pace = BudgetPace()
    visit = VisitDone(LastVisit(url=HERE, time=100.0, status=200))
    failed = RetryLater(HERE, 5000.0, "x")
    pace.observe([VisitResult(token=1, outcome=failed, next=5000.0)])
    pace.observe([VisitResult(token=1, outcome=visit, next=100.0 + delay)])
    return pace


def test_all_may_start_where_there_is_no_delay() -> None:
    assert paced(0.0).limit(500, domains=1000, turns=0, now=NOW) == 500


@pytest.mark.parametrize(("domains", "expected"), [(6, 6), (3 * FEW_DOMAINS, FEW_DOMAINS), (400, 400 // SPREAD)])
def test_within_one_delay_the_best_domains_are_asked(domains: int, expected: int) -> None:
    pace, started = paced(10.0), 0
    for step in range(200):
        turns = pace.limit(500, domains=domains, turns=1, now=NOW + step / 10)
        pace.spend(turns)
        started += turns if step >= 100 else 0
    assert abs(started - expected) <= 1


def test_one_turn_may_always_be_under_way() -> None:
    pace = paced(10.0)
    pace.spend(pace.limit(500, domains=2, turns=0, now=NOW))
    pace.spend(100)
    assert pace.limit(500, domains=2, turns=0, now=NOW) == 1
    assert pace.limit(500, domains=2, turns=1, now=NOW) == 0

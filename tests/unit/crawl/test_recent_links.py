"""Links that were handed on a short while ago."""

from __future__ import annotations

from webmill.crawl.visit.recent_links import RecentLinks


def test_a_url_is_known_once_it_was_added() -> None:
    recent = RecentLinks()
    assert "http://mill.example/" not in recent
    recent.add("http://mill.example/")
    assert "http://mill.example/" in recent


def test_the_last_ones_are_kept_and_never_more_than_twice_as_many() -> None:
    recent = RecentLinks(kept=10)
    for number in range(1000):
        recent.add(str(number))
        known = sum(str(earlier) in recent for earlier in range(number + 1))
        assert min(10, number + 1) <= known <= 20
        assert all(str(earlier) in recent for earlier in range(max(0, number - 9), number + 1))


def test_long_ones_are_forgotten_sooner() -> None:
    recent = RecentLinks(kept=10)
    long = [f"http://a.example/{number}/{'x' * 1000}" for number in range(6)]
    for url in [long[0], *long]:
        recent.add(url)
    assert [url in recent for url in long] == [False, False, False, False, True, True]

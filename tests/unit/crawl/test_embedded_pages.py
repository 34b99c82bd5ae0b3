"""Pages that are met as pictures and as links, in whatever order."""

from __future__ import annotations

from webmill.crawl.page.resources import Requisite
from webmill.crawl.visit.embedded_pages import Bare, BarePages

URL = "http://a.example/page"


def page(count: int = 1) -> Bare:
    return Bare(1, [Requisite(f"http://a.example/{number}.png", may_hold_more=False) for number in range(count)])


def test_a_link_that_comes_after_the_page_finds_what_it_needs_once() -> None:
    pages = BarePages()
    pages.name(URL)
    assert not pages.read(URL, page())
    assert pages.take(URL) == page()
    assert pages.take(URL) is None


def test_a_link_that_comes_before_the_page_is_remembered() -> None:
    pages = BarePages()
    pages.name(URL)
    pages.link(URL)
    assert pages.read(URL, page())
    assert pages.take(URL) is None


def test_links_to_others_are_not_remembered() -> None:
    pages = BarePages()
    pages.link(URL)
    pages.name(URL)
    assert not pages.read(URL, page())


def test_it_is_bounded_in_characters_and_forgets_the_oldest() -> None:
    pages = BarePages(most=10 * page().size)
    for number in range(5):
        pages.read(f"{URL}/{number}", page(3))
    pages.read(f"{URL}/huge", page(11))
    kept = [number for number in range(5) if pages.take(f"{URL}/{number}")]
    assert kept == []
    assert pages.take(f"{URL}/huge") is None
    for number in range(5):
        pages.read(f"{URL}/{number}", page(3))
    assert [number for number in range(5) if pages.take(f"{URL}/{number}")] == [2, 3, 4]


def test_no_more_of_them_bring_something_than_pages_that_count_and_a_few() -> None:
    pages = BarePages(few=1)
    assert [pages.spend() for _ in range(3)] == [True, False, False]
    pages.count()
    assert [pages.spend() for _ in range(2)] == [True, False]

"""Pages that are met as pictures and as links, in whatever order."""

from __future__ import annotations

from webmill.crawl.page.resources import PageResource
from webmill.crawl.visit.recent_links import EmbeddedPage, EmbeddedPages

URL = "http://a.example/page"


def page(count: int = 1) -> EmbeddedPage:
    return EmbeddedPage(
        1, [PageResource(f"http://a.example/{number}.png", may_hold_more=False) for number in range(count)]
    )


def test_a_link_that_comes_after_the_page_finds_what_it_needs_once() -> None:
    pages = EmbeddedPages()
    pages.add_resource(URL)
    assert not pages.add_page(URL, page())
    assert pages.pop(URL) == page()
    assert pages.pop(URL) is None


def test_a_link_that_comes_before_the_page_is_remembered() -> None:
    pages = EmbeddedPages()
    pages.add_resource(URL)
    pages.add_link(URL)
    assert pages.add_page(URL, page())
    assert pages.pop(URL) is None


def test_links_to_others_are_not_remembered() -> None:
    pages = EmbeddedPages()
    pages.add_link(URL)
    pages.add_resource(URL)
    assert not pages.add_page(URL, page())


def test_it_is_bounded_in_characters_and_forgets_the_oldest() -> None:
    pages = EmbeddedPages(most=10 * page().size)
    for number in range(5):
        pages.add_page(f"{URL}/{number}", page(3))
    pages.add_page(f"{URL}/huge", page(11))
    kept = [number for number in range(5) if pages.pop(f"{URL}/{number}")]
    assert kept == []
    assert pages.pop(f"{URL}/huge") is None
    for number in range(5):
        pages.add_page(f"{URL}/{number}", page(3))
    assert [number for number in range(5) if pages.pop(f"{URL}/{number}")] == [2, 3, 4]


def test_no_more_of_them_bring_something_than_pages_that_count_and_a_few() -> None:
    pages = EmbeddedPages(free_pages=1)
    assert [pages.may_expand() for _ in range(3)] == [True, False, False]
    pages.count_page()
    assert [pages.may_expand() for _ in range(2)] == [True, False]

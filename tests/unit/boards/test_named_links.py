"""The links of hostile pages: fetchable, named on one line, and never more than a page may have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.boards.board_samples import PIECES
from webmill.boards.named_links import MAX_LINKS, MAX_NAME, NamedLink, read_named_links

URL = "http://cs.example.test/home"


def links(html: str) -> tuple[NamedLink, ...]:
    return read_named_links(html.encode(errors="replace"), url=URL, content_type="text/html; charset=utf-8").links


def test_links_have_their_text_or_what_stands_for_it_and_the_heading_above() -> None:
    found = links(
        "<h2>학과</h2><a href='/a'> 공지 <b>사항</b></a><h3>둘</h3><a href=b><img alt='소식'></a><a href=c title=x></a>"
        "<a href='javascript:x'>no</a><a>no</a>"
    )
    assert found == (
        NamedLink("http://cs.example.test/a", "공지 사항", "학과"),
        NamedLink("http://cs.example.test/b", "소식", "둘"),
        NamedLink("http://cs.example.test/c", "x", "둘"),
    )


@given(st.lists(st.sampled_from([*PIECES, "<a href=/x>", "<h1>", "<img alt='\x1b['>", "<base href=x>"]), max_size=40))
def test_any_page_has_links_that_can_be_fetched_and_printed(pieces: list[str]) -> None:
    for link in links("".join(pieces)):
        assert link.url.startswith(("http://", "https://"))
        assert len(link.name) <= MAX_NAME
        assert not any(ord(letter) < 32 for letter in link.name)


def test_a_page_of_very_many_links_is_cut() -> None:
    assert len(links("<a href=/x>y</a>" * (MAX_LINKS + 10))) == MAX_LINKS

"""Elements that a rule leaves out of the text."""

from __future__ import annotations

import pytest

from tests.unit.extract.samples import URL, response
from tests.unit.extract.test_capture import ARTICLE, made
from webmill.errors import BadInput
from webmill.extract.ignored_elements import IgnoredElements, SelectorRules, check_selector, remove_elements
from webmill.extract.recipe import Recipe

PAGE = "<div class=a><p class=b>x<i class=a>y</i></p></div><div class=b><div class=a>q</div>z</div><p>keep</p>"


@pytest.mark.parametrize("selectors", [(".a, .b",), (".b", ".a"), (".a", ".b"), ("div",)])
def test_elements_inside_each_other_are_removed(selectors: tuple[str, ...]) -> None:
    assert remove_elements(PAGE, selectors) == "<html><head></head><body><p>keep</p></body></html>"


def test_a_page_of_which_nothing_is_left_is_empty() -> None:
    assert "keep" not in remove_elements(PAGE, ["html"]) + remove_elements(PAGE, ["body"]) + remove_elements(
        PAGE, ["*"]
    )


def test_a_deep_page_is_read() -> None:
    assert "deep" not in remove_elements("<div>" * 5000 + "deep", ["div"])


@pytest.mark.parametrize("selector", ["[", "..", "p:::"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(BadInput, match="not a CSS selector"):
        check_selector(selector)


def test_a_selector_is_not_longer_than_anybody_writes_one() -> None:
    check_selector("p" * 1000)
    with pytest.raises(BadInput, match="longer than 1,000 characters"):
        check_selector("p" * 1001)


@pytest.mark.parametrize("extractor", ["plain", "trafilatura", "resiliparse"])
def test_only_the_text_of_a_document_is_concerned(extractor: str) -> None:
    recipe = Recipe(extractor=extractor, links=True)
    document = made(response(body=ARTICLE), recipe).document
    without = made(response(body=ARTICLE), recipe, ignored=("article b",)).document
    assert "Some text that" in " ".join((document.text or "").split())
    assert "Some that" in " ".join((without.text or "").split())
    assert (without.title, without.links, without.digest) == (document.title, document.links, document.digest)


def test_selectors_are_found_by_the_address_of_a_page() -> None:
    rules = SelectorRules([IgnoredElements(("*.example",), (".ad",)), IgnoredElements(("a.example/news/*",), ("#c",))])
    assert rules.of("https://a.example/news/1") == (".ad", "#c")
    assert rules.of("https://www.b.example/") == (".ad",)
    assert rules.of("https://example.org/") == ()
    assert SelectorRules(()).of(URL) == ()

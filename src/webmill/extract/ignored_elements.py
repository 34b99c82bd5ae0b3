"""Elements of pages that are left out of their text, by CSS selectors: advertisements, clocks, the weather.

Only the text is concerned: links, title and what is archived stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from webmill.errors import BadInput
from webmill.formats.cdx.query import site_range
from webmill.formats.url.surt import surt

LONGEST_SELECTOR = 1000  # characters


class IgnoredElements(msgspec.Struct, frozen=True):
    """Selectors for the pages that match one of the patterns (`site_range`)."""

    match: tuple[str, ...]
    selectors: tuple[str, ...]


class SelectorRules:
    """Finds the selectors for a page."""

    def __init__(self, rules: Iterable[IgnoredElements]) -> None:
        self._rules = [(tuple(map(site_range, rule.match)), rule.selectors) for rule in rules]

    def of(self, url: str) -> tuple[str, ...]:
        if not self._rules:
            return ()
        key = surt(url).encode(errors="replace")
        found = (selectors for ranges, selectors in self._rules if any(key in one for one in ranges))
        return tuple(selector for selectors in found for selector in selectors)


def remove_elements(html: str, selectors: Iterable[str]) -> str:
    """Return the page without the elements that match. Call it in a sandbox: its input is hostile.

    BadInput (bad_selector): a selector that is none.
    """
    page = LexborHTMLParser(html)
    for selector in selectors:
        for node in reversed(_select(page, selector)):  # what is inside comes before what is around it
            if node.tag == "html":
                return ""  # nothing is left
            node.decompose()
    return page.html or ""


def check_selector(selector: str) -> None:
    """Raise BadInput (bad_selector) if this is not a CSS selector, or a very long one: it is parsed in no sandbox."""
    if len(selector) > LONGEST_SELECTOR:
        raise BadInput(f"longer than {LONGEST_SELECTOR:,} characters: {selector[:200]!r}", reason="bad_selector")
    _select(LexborHTMLParser("<p>"), selector)


def _select(page: LexborHTMLParser, selector: str) -> list[Any]:
    try:
        found = page.css(selector)  # an element comes once for each selector of a list that it matches
    except (SelectolaxError, ValueError, TypeError) as error:
        raise BadInput(f"not a CSS selector: {selector[:200]!r}", reason="bad_selector") from error
    return list({node.mem_id: node for node in found}.values())

"""Extract the text of a page by the chosen extractor.

| name | |
|---|---|
| trafilatura | the article without its frame; the best, and ten times slower than resiliparse (`webmill[text]`) |
| resiliparse | the same by fast rules on the tree of the page (`webmill[text]`) |
| union | the better of these two, page by page: see `extract_union` (`webmill[text]`) |
| markdown | trafilatura's article as Markdown: headings, lists, tables, code, emphasis (`webmill[text]`) |
| plain | all text of the page, by the rules of Common Crawl's WET files |
| wet | the text of the capture's WET record |
| none | no text |

Other packages can add theirs as entry points of the group `webmill.extractor`: a name, and a function that takes HTML
and returns its text. Call them in a sandbox: their input is hostile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import msgspec

from webmill.errors import Misconfigured
from webmill.formats.html.page import read_html_text
from webmill.infra.registry import Registry

Extract = Callable[[str], str | None]  # HTML to text; None or empty if there is none

BEST = "trafilatura"
WITHOUT_HTML = ("wet", "none")  # they do not parse the page
EXTRACTORS = Registry[Extract](
    "extractor",
    {name: f"{__name__}:by_{name}" for name in ("trafilatura", "resiliparse", "union", "markdown", "plain")},
    group="webmill.extractor",
    forms="trafilatura, resiliparse, union, markdown, plain, wet or none",
)
_RESILIPARSE = ("resiliparse", "resiliparse.extract.html2text")
_MODULES = {
    "trafilatura": ("trafilatura",),
    "resiliparse": _RESILIPARSE,
    "union": ("trafilatura", *_RESILIPARSE),
    "markdown": ("trafilatura",),
}
SMALL_SHARE = (
    0.1  # of the text of resiliparse: chosen on half of the pages of two benchmarks, for the others see the docs
)


class UnionText(msgspec.Struct, frozen=True):
    """A text, and the extractor that it was taken from."""

    text: str
    extractor: str


def default_extractor() -> str:
    """Return the best extractor that is installed."""
    return BEST if find_spec(BEST) else "plain"


def install_advice() -> str | None:
    """Return how to install a better extractor than the default; None if the best one is installed."""
    if default_extractor() == BEST:
        return None
    return f"text includes menus and footers; for the article alone ({BEST}): pip install 'webmill[text]'"


def require_extractor(name: str) -> None:
    """Load an extractor before any work starts, since a broken one would fail on every page. Raise Misconfigured."""
    if name in WITHOUT_HTML:
        return
    EXTRACTORS.find(name)
    try:
        for module in _MODULES.get(name, ()):
            import_module(module)
    except Exception as error:  # other people's modules may raise anything when loaded
        if isinstance(error, ModuleNotFoundError) and error.name in ("resiliparse", "trafilatura"):
            repair = "pip install 'webmill[text]', or choose another --extractor"
            raise Misconfigured(f"{error.name} is not installed: {repair}") from error
        raise Misconfigured(f"{name} is installed, but cannot be loaded: {error}") from error


def extract_text(name: str, html: str) -> str:
    """Return the text of a page; empty if there is none."""
    found = _extractor(name)(html)
    if found is not None and not isinstance(found, str):
        raise TypeError(f"the extractor {name} returned {type(found).__name__} instead of text")
    return found or ""


def extract_union(html: str) -> UnionText:
    """Return trafilatura's text, or resiliparse's where trafilatura found less than a tenth of that.

    trafilatura is the better of the two on articles, and leaves nearly nothing of some pages that are none: forums,
    lists, landing pages. If one of them fails on the page, the other's text is taken; if both do, the error is raised.
    """
    try:
        best = by_trafilatura(html) or ""
    except Exception:  # noqa: BLE001 - it may raise anything; the other one may be able to read the page
        return UnionText(by_resiliparse(html), "resiliparse")
    try:
        wide = by_resiliparse(html)
    except Exception:  # noqa: BLE001 - likewise
        wide = ""
    is_small = len(best) < SMALL_SHARE * len(wide)
    return UnionText(wide, "resiliparse") if is_small else UnionText(best, "trafilatura")


@cache
def _extractor(name: str) -> Extract:
    return EXTRACTORS.find(name)


# --- built in----------------------------------------------------------------------------------------------------------


def by_trafilatura(html: str) -> str | None:
    from trafilatura import extract

    return extract(html, fast=True, include_comments=False)


def by_resiliparse(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    # Alternative texts of images and readers' comments are not part of an article: F1 is .910 without them, .881 with.
    text: str = extract_plain_text(html, main_content=True, alt_texts=False, comments=False)
    return text


def by_union(html: str) -> str:
    return extract_union(html).text


def by_markdown(html: str) -> str | None:
    from trafilatura import extract

    return extract(html, fast=True, include_comments=False, output_format="markdown")


def by_plain(html: str) -> str:
    return read_html_text(html).text

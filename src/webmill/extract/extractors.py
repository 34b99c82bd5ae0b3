"""Extract the text of a page by the chosen extractor.

| name | |
|---|---|
| trafilatura | the article without its frame; the best, and ten times slower than resiliparse (`webmill[text]`) |
| resiliparse | the same by fast rules on the tree of the page (`webmill[text]`) |
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

from webmill.errors import Misconfigured
from webmill.formats.html.page import read_html_text
from webmill.infra.registry import Registry

Extract = Callable[[str], str | None]  # HTML to text; None or empty if there is none

BEST = "trafilatura"
WITHOUT_HTML = ("wet", "none")  # they do not parse the page
EXTRACTORS = Registry[Extract](
    "extractor",
    {name: f"{__name__}:by_{name}" for name in ("trafilatura", "resiliparse", "plain")},
    group="webmill.extractor",
    forms="trafilatura, resiliparse, plain, wet or none",
)
_MODULES = {"resiliparse": ("resiliparse", "resiliparse.extract.html2text"), "trafilatura": ("trafilatura",)}


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
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            repair = "pip install 'webmill[text]', or choose another --extractor"
            raise Misconfigured(f"{name} is not installed: {repair}") from error
        raise Misconfigured(f"{name} is installed, but cannot be loaded: {error}") from error


def extract_text(name: str, html: str) -> str:
    """Return the text of a page; empty if there is none."""
    found = _extractor(name)(html)
    if found is not None and not isinstance(found, str):
        raise TypeError(f"the extractor {name} returned {type(found).__name__} instead of text")
    return found or ""


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


def by_plain(html: str) -> str:
    return read_html_text(html).text

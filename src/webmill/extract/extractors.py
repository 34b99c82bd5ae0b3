"""The text of a page, by the extractor that was chosen.

| name | |
|---|---|
| trafilatura | the article without its frame; the best, and ten times slower than resiliparse (`webmill[text]`) |
| resiliparse | the same by fast rules on the tree of the page (`webmill[text]`) |
| plain | all text of the page, by the rules of Common Crawl's WET files |
| wet | the text of the capture's WET record |
| none | no text |

Other packages add theirs by entry points of the group `webmill.extractor`: a name, and a function that takes the HTML
as text and returns its text. To be called in a sandbox: they are given whatever the web has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from webmill.errors import Misconfigured
from webmill.formats.html.page import read_html_text
from webmill.infra.registry import Registry

Extract = Callable[[str], str | None]  # HTML to text; None or nothing when there is none

BEST = "trafilatura"
WITHOUT_HTML = ("wet", "none")  # nothing is made of the page itself
EXTRACTORS = Registry[Extract](
    "extractor",
    {name: f"{__name__}:by_{name}" for name in ("trafilatura", "resiliparse", "plain")},
    group="webmill.extractor",
    forms="trafilatura, resiliparse, plain, wet or none",
)
_MODULES = {"resiliparse": ("resiliparse", "resiliparse.extract.html2text"), "trafilatura": ("trafilatura",)}


def default_extractor() -> str:
    """Return the best that is installed."""
    return BEST if find_spec(BEST) else "plain"


def install_advice() -> str | None:
    """Return what would be better than the default, and how to install it, to be told once. None: nothing."""
    if default_extractor() == BEST:
        return None
    return f"text includes menus and footers; for the article alone ({BEST}): pip install 'webmill[text]'"


def require_extractor(name: str) -> None:
    """Misconfigured, before any work is begun. It is loaded: one that lacks a part of its own fails on every page."""
    if name in WITHOUT_HTML:
        return
    EXTRACTORS.find(name)
    try:
        for module in _MODULES.get(name, ()):
            import_module(module)
    except Exception as error:  # what other people's modules do when they are loaded is theirs
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            repair = "pip install 'webmill[text]', or choose another --extractor"
            raise Misconfigured(f"{name} is not installed: {repair}") from error
        raise Misconfigured(f"{name} is installed, but cannot be loaded: {error}") from error


def extract_text(name: str, html: str) -> str:
    """Return the text of a page; the empty string when there is none."""
    found = _extractor(name)(html)
    if found is not None and not isinstance(found, str):
        raise TypeError(f"the extractor {name} gave {type(found).__name__}, and no text")
    return found or ""


@cache
def _extractor(name: str) -> Extract:
    return EXTRACTORS.find(name)


# --- ours -------------------------------------------------------------------------------------------------------------


def by_trafilatura(html: str) -> str | None:
    from trafilatura import extract

    return extract(html, fast=True, include_comments=False)


def by_resiliparse(html: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    # Texts of pictures and comments of readers are no part of an article: without them F1 is .910, with them .881.
    text: str = extract_plain_text(html, main_content=True, alt_texts=False, comments=False)
    return text


def by_plain(html: str) -> str:
    return read_html_text(html).text

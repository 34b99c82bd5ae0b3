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
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

from webmill.errors import Misconfigured
from webmill.formats.html import read_html_text

GROUP = "webmill.extractor"
BEST = "trafilatura"
Extract = Callable[[str], str | None]  # HTML to text; None or nothing when there is none


def _trafilatura() -> Extract:
    from trafilatura import extract

    return lambda html: extract(html, fast=True, include_comments=False)


def _resiliparse() -> Extract:
    from resiliparse.extract.html2text import extract_plain_text

    return lambda html: extract_plain_text(html, main_content=True, alt_texts=False, comments=False)


def _plain() -> Extract:
    return lambda html: read_html_text(html).text


BUILT_IN: dict[str, Callable[[], Extract]] = {
    "trafilatura": _trafilatura,
    "resiliparse": _resiliparse,
    "plain": _plain,
}
WITHOUT_HTML = ("wet", "none")  # nothing is made of the page itself


def names() -> tuple[str, ...]:
    """Return all that can be chosen here, ours first."""
    return (*BUILT_IN, *WITHOUT_HTML, *sorted(_added()))


def default_extractor() -> str:
    """Return the best that is installed."""
    return BEST if find_spec(BEST) else "plain"


def advice(extractor: str) -> str | None:
    """Return what would be better than the default that was chosen for want of it, to be told once."""
    if extractor != "plain" or find_spec(BEST):
        return None
    return f"text includes menus and footers; for the article alone ({BEST}): pip install 'webmill[text]'"


def require(name: str) -> None:
    """Misconfigured, before any work is begun. It is loaded: one that lacks a part of its own fails on every page."""
    if name not in WITHOUT_HTML:
        extractor_named(name)


@cache
def extractor_named(name: str) -> Extract:
    """Return the function of this name, loaded. Misconfigured: there is none, or it cannot be loaded."""
    try:
        if name in BUILT_IN:
            return BUILT_IN[name]()
        if found := _added().get(name):
            return found.load()  # type: ignore[no-any-return]  # called as it says; what comes back is checked
    except Exception as error:  # what other people's modules do when they are loaded is theirs
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            repair = "pip install 'webmill[text]', or choose another --extractor"
            raise Misconfigured(f"{name} is not installed: {repair}") from error
        raise Misconfigured(f"{name} is installed, but cannot be loaded: {error}") from error
    raise Misconfigured(f"there is no extractor {name!r}: choose one of {', '.join(names())}")


def text_by(name: str, html: str) -> str:
    """Return the text of a page; the empty string when there is none."""
    found = extractor_named(name)(html)
    if found is not None and not isinstance(found, str):
        raise TypeError(f"the extractor {name} gave {type(found).__name__}, and no text")
    return found or ""


def _added() -> dict[str, EntryPoint]:
    """Return the extractors of other packages. Ours cannot be taken over by one."""
    found = {one.name: one for one in entry_points(group=GROUP)}
    return {name: one for name, one in found.items() if name not in BUILT_IN and name not in WITHOUT_HTML}

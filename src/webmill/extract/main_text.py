"""The main text of a page, by the extractor that was chosen. Both are optional: `webmill[text]`.

resiliparse   fast: rules on the tree of the page (F1 0.90 on 181 pages with known text)
trafilatura   ten times slower and better (F1 0.96)
none          no text

To be called in a sandbox: they are given whatever the web has.
"""

from __future__ import annotations

import re
from importlib import import_module
from itertools import islice
from typing import Literal

from webmill.errors import BadInput, Misconfigured
from webmill.extract.head import clean
from webmill.formats.html import read_html

MainText = Literal["resiliparse", "trafilatura", "none"]
HEAD = 64 << 10  # characters in which a title is looked for
TRIES = 3
_MODULES = {"resiliparse": ("resiliparse", "resiliparse.extract.html2text"), "trafilatura": ("trafilatura",)}
_END = re.compile("</title\\s*>", re.IGNORECASE)


def require(extractor: MainText) -> None:
    """Misconfigured, before any work is begun. It is loaded: one that lacks a part of its own fails on every page."""
    if extractor == "none":
        return
    try:
        for module in _MODULES[extractor]:
            import_module(module)
    except Exception as error:  # what other people's modules do when they are loaded is theirs
        if isinstance(error, ModuleNotFoundError) and error.name == extractor:
            repair = "pip install 'webmill[text]', or choose another --extractor"
            raise Misconfigured(f"{extractor} is not installed: {repair}") from error
        raise Misconfigured(f"{extractor} is installed, but cannot be loaded: {error}") from error


def main_text(html: str, *, extractor: MainText) -> str:
    """The empty string when there is none."""
    match extractor:
        case "resiliparse":
            from resiliparse.extract.html2text import extract_plain_text

            found = extract_plain_text(html, main_content=True)
        case "trafilatura":
            from trafilatura import extract

            found = extract(html, fast=True, include_comments=False)
        case _:
            found = ""
    return clean(found) or ""


def title_of(html: str) -> str | None:
    """Only as much is read as ends in a title: a drawing may have one of its own before the page's."""
    for end in islice(_END.finditer(html, 0, HEAD), TRIES):
        try:
            title = read_html(html[: end.end()]).title
        except BadInput:
            return None
        if title:
            return clean(title)
    return None

"""Does a page need a browser? Decided by its bytes alone, as they came: a page that has its text needs none.

    needs_browser(b'<div id="root"></div><script src="/app.js"></script>')      # True

It does when it has scripts and fewer than 1,000 characters of text, and: an element that an application fills (`#root`,
`#app`, `<app-root>` …) is empty; or there are fewer than 200 characters and fewer than 3 links; or a `noscript` speaks
of JavaScript. How often that is right: docs/reference/browser.md.

No more of a page is read than decides: of one with text, its first lines.
"""

from __future__ import annotations

import re

ENOUGH_TEXT, LITTLE_TEXT, FEW_LINKS = 1000, 200, 3
MOST_BYTES = 1 << 20  # of a page that are looked at

# What is no text, what is an opening tag, what is text: in the order of a page.
_TOKEN = re.compile(
    rb"""<!--.*?(?:-->|\Z)
    | <(?P<skip>script|style|template|svg|textarea|title)\b(?P<attributes>[^<>]*)>.*?(?:</(?P=skip)\s*>|\Z)
    | <noscript\b[^<>]*>(?P<noscript>.*?)(?:</noscript\s*>|\Z)
    | <(?P<tag>[a-zA-Z][a-zA-Z0-9-]*)(?P<fields>[^<>]*)>
    | <[^<>]*>
    | (?P<text>[^<]+)
    | <
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ROOT_NAMES = (
    rb"root|app|__next|__nuxt|___gatsby|app-root|react-root|react-app|mount|main-app|svelte|q-app|ember-app|"
    rb"application|app-container|app-mount|app_root|__docusaurus|vue-app|ng-app|page-root|single-spa[\w-]*"
)
_EMPTY_ROOT = re.compile(
    rb"""<(?:div|main|section|body|span)\b[^<>]{0,500}\bid\s*=\s*["']?(?:%b)["']?(?=[\s>])[^<>]{0,500}>\s*</
    | <(?:app-root|my-app|app-main|app-component|ion-app)\b[^<>]{0,500}>\s*</"""
    % _ROOT_NAMES,
    re.VERBOSE | re.IGNORECASE,
)
_RUNS = re.compile(rb"type\s*=\s*[\"']?\s*(?:application/(?:ld\+)?json|importmap|text/(?:template|x-))", re.IGNORECASE)
_SPEAKS = re.compile(rb"java\s?script", re.IGNORECASE)
_HREF = re.compile(rb"\bhref\s*=", re.IGNORECASE)


def needs_browser(page: bytes) -> bool:
    page = page[:MOST_BYTES]
    if b"<script" not in page and b"<SCRIPT" not in page:
        return False
    text = links = 0
    runs = speaks = False
    for found in _TOKEN.finditer(page):
        if words := found["text"]:
            text += len(b" ".join(words.split()))
            if text >= ENOUGH_TEXT:
                break
        elif found["skip"]:
            runs = runs or (found["skip"].lower() == b"script" and not _RUNS.search(found["attributes"]))
        elif found["noscript"]:
            speaks = speaks or bool(_SPEAKS.search(found["noscript"]))
        elif found["tag"] in (b"a", b"A") and _HREF.search(found["fields"]):
            links += 1
    if not runs or text >= ENOUGH_TEXT:
        return False
    return speaks or (text < LITTLE_TEXT and links < FEW_LINKS) or bool(_EMPTY_ROOT.search(page))

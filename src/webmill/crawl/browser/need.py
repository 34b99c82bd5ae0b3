"""Does a page need a browser? Decided by its bytes alone, as they came: a page that has its text needs none.

    needs_browser(b'<div id="root"></div><script src="/app.js"></script>')      # True

It does when it has scripts and fewer than 1,000 characters of text, and an element that an application fills (`#root`,
`#app`, `<app-root>`, `<main>` …) is empty; or fewer than 200 characters, and fewer than 3 links or a `noscript` that
speaks of JavaScript. How often that is right: docs/reference/browser.md.

No more of a page is read than decides: of one with text, its first lines.
"""

from __future__ import annotations

import re

from webmill.crawl.page.tags import any_case

ENOUGH_TEXT, LITTLE_TEXT, FEW_LINKS = 1000, 200, 3
MOST_BYTES = 1 << 20  # of a page that are looked at

# What is no text, what is an opening tag, what is text: in the order of a page. What is no text is skipped to its end.
# Most of a page says nothing: white space, end tags, and tags by whose first letters they are of no interest.
_TOKEN = re.compile(
    rb"""(?:\s++ | </[^<>]*+> | <[b-mo-ru-z][^<>]*+> | <s(?:pan|trong|ection)(?=[\s>])[^<>]*+>)*+
    (?: (?P<text>[^<]+)
    | <(?P<comment>!--)
    | <(?P<skip>script|style|template|svg|textarea|title|noscript)\b(?P<attributes>[^<>]*)>
    | <(?P<tag>[a-zA-Z][a-zA-Z0-9-]*)(?P<fields>[^<>]*)>
    | <[^<>]*>
    | <
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_SKIPPED = ("script", "style", "template", "svg", "textarea", "title", "noscript")
_ENDS = {name.encode(): re.compile(rf"</{any_case(name)}\s*>".encode()) for name in _SKIPPED}
_COMMENT_END = re.compile(rb"-->")
_ROOT_NAMES = (
    rb"root|app|__next|__nuxt|___gatsby|app-root|react-root|react-app|mount|main-app|svelte|q-app|ember-app|"
    rb"application|app-container|app-mount|app_root|__docusaurus|vue-app|ng-app|page-root|single-spa[\w-]*"
)
_EMPTY_ROOT = re.compile(
    rb"""<(?:div|main|section|body|span)\b[^<>]{0,500}\bid\s*=\s*["']?(?:%b)["']?(?=[\s>])[^<>]{0,500}>\s*</
    | <(?:app-root|my-app|app-main|app-component|ion-app|main)\b[^<>]{0,500}>\s*</"""
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
    text = links = at = 0
    runs = speaks = False
    while found := _TOKEN.match(page, at):
        at, kind = found.end(), found.lastgroup
        if kind == "text":
            text += len(b" ".join(found["text"].split()))
            if text >= ENOUGH_TEXT:
                return False
        elif kind == "fields":
            links += found["tag"] in (b"a", b"A") and bool(_HREF.search(found["fields"]))
        elif kind == "attributes":
            name, inner = found["skip"].lower(), at
            end, at = _end_of(_ENDS[name], page, at)
            if name == b"script":
                runs = runs or not _RUNS.search(found["attributes"])
            elif name == b"noscript":
                speaks = speaks or bool(_SPEAKS.search(page, inner, end))
        elif kind == "comment":
            _, at = _end_of(_COMMENT_END, page, at)
    if not runs:
        return False
    return (text < LITTLE_TEXT and (speaks or links < FEW_LINKS)) or bool(_EMPTY_ROOT.search(page))


def _end_of(end: re.Pattern[bytes], page: bytes, at: int) -> tuple[int, int]:
    """Return where what begins before `at` ends, and where the page goes on behind it."""
    found = end.search(page, at)
    return found.span() if found else (len(page), len(page))

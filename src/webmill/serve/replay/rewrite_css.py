"""Rewrites the URLs of style sheets. Everything else is kept."""

from __future__ import annotations

from webmill.formats.css import read_css_urls, unescape_css
from webmill.serve.replay.links import LinkRewriter, PageEncoding

TEXT = PageEncoding()


def rewrite_css(sheet: str, links: LinkRewriter, *, encoding: PageEncoding = TEXT) -> str:
    out: list[str] = []
    done = 0
    for found in read_css_urls(sheet):
        there = links.rewrite(unescape_css(encoding.decode(found.written)))
        if there is not None:
            quoted = '"' + there.replace("\\", "%5C").replace('"', "%22") + '"'
            out += sheet[done : found.start], quoted
            done = found.end
    return "".join((*out, sheet[done:]))

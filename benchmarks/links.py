"""Links of pages: webmill beside the parsers that crawlers use, the other ways we could have gone, and bombs.

Every contestant makes of a page's bytes the set of absolute, normalised URLs of its <a href>; webmill finds encoding,
title, robots, base and the other links besides. The pages are those of the Common Crawl-like sample when
WEBMILL_TEST_DATA (default ../shared/data) has it, else of the test web. Rivals that are not installed are left out:
pip install selectolax resiliparse lxml parsel beautifulsoup4.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from urllib.parse import urljoin

import re2

from benchmarks.frame import Contestant, measure, race
from webmill.crawl.page.links import read_links
from webmill.crawl.page.tags import href_of, read_tags
from webmill.crawl.page.url_joining import Joiner, join_or_none
from webmill.errors import BadInput
from webmill.formats.html.charset import decode_page
from webmill.formats.html.tokens import parse_attributes, read_tokens
from webmill.formats.url import normalise as urls
from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record
from webmill.testing import TestWeb

PAGES = 200
Page = tuple[str, str | None, bytes]  # URL, Content-Type, body


# --- whole pages ------------------------------------------------------------------------------------------------------


def webmill(page: Page) -> object:
    url, content_type, body = page
    return read_links(body, url=url, content_type=content_type).links


def selectolax(page: Page) -> object:
    from selectolax.lexbor import LexborHTMLParser

    nodes = LexborHTMLParser(page[2]).css("a[href]")
    return joined(page[0], (node.attributes.get("href") for node in nodes))


def resiliparse(page: Page) -> object:
    from resiliparse.parse.encoding import detect_encoding
    from resiliparse.parse.html import HTMLTree

    tree = HTMLTree.parse_from_bytes(page[2], detect_encoding(page[2]))
    return joined(page[0], (node["href"] for node in tree.document.query_selector_all("a[href]")))


def lxml(page: Page) -> object:
    from lxml.html import document_fromstring

    return joined(page[0], document_fromstring(page[2]).xpath("//a/@href"))


def parsel(page: Page) -> object:
    from parsel import Selector  # type: ignore[import-not-found,unused-ignore]

    return joined(page[0], Selector(body=page[2]).css("a::attr(href)").getall())


def beautiful_soup(page: Page) -> object:
    from bs4 import BeautifulSoup

    return joined(page[0], (str(node["href"]) for node in BeautifulSoup(page[2], "lxml").find_all("a", href=True)))


def joined(base: str, hrefs: Iterable[str | None]) -> set[str]:
    return {url for href in set(hrefs) if href and (url := join_by_standard(base, href))}


def join_by_standard(base: str, href: str) -> str | None:
    try:
        return urls.join(base, href)
    except BadInput:
        return None


RIVALS: dict[str, tuple[str, Callable[[Page], object]]] = {
    "selectolax": ("selectolax (lexbor) + ada", selectolax),
    "resiliparse": ("resiliparse (lexbor) + ada", resiliparse),
    "lxml": ("lxml + ada", lxml),
    "parsel": ("parsel + ada", parsel),
    "bs4": ("BeautifulSoup (lxml) + ada", beautiful_soup),
}


# --- the ways to the tags, on decoded text ----------------------------------------------------------------------------


def by_tags(text: str) -> object:
    return [href_of(raw) for name, raw, _ in read_tags(text) if name == "a"]


class Anchors:
    """Hears the lexer that WAT files are made with."""

    def __init__(self) -> None:
        self.found: list[str | None] = []

    def open(self, name: str, attributes: str) -> None:
        if name == "A":
            self.found.append(parse_attributes(attributes).get("href"))

    def add_text(self, text: str) -> None: ...

    def close(self, name: str) -> None: ...

    def add_style(self, text: str) -> None: ...


def by_tokens(text: str) -> object:
    anchors = Anchors()
    read_tokens(text, anchors)
    return anchors.found


_NAIVE = re2.compile(r"""(?i)<a\s[^<>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""")
_ANY_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*+)([^<>]*+)")


def by_re2(text: str) -> object:
    """Quick to write; also finds links in comments, scripts and attributes."""
    return _NAIVE.findall(text)


def by_guarded_lexbor(text: str) -> object:
    """Is it safe to build its tree? Then build it."""
    from selectolax.lexbor import LexborHTMLParser

    depth = deepest = 0
    for slash, _, attributes in _ANY_TAG.findall(text):
        depth = max(depth - 1, 0) if slash else depth + 1
        deepest = max(deepest, depth, attributes.count("=") * 10)
    return [node.attributes.get("href") for node in LexborHTMLParser(text).css("a[href]")] if deepest < 10_000 else []


# --- bombs ------------------------------------------------------------------------------------------------------------

BOMBS: dict[str, Callable[[int], str]] = {
    "nested <div>": lambda size: "<div>" * size,
    "nested <a href>": lambda size: "<a href=/x>" * size,
    "attributes on a tag": lambda size: "<a " + "".join(f"a{number}=1 " for number in range(size)) + ">",
    "quotes never closed": lambda size: "<p x=\"<p x='" * size,
    "comments never closed": lambda size: "<!--" * size,
    "scripts in comments": lambda size: "<script><!--<script></script>" * size,
    "angles": lambda size: "<" * size,
    "dashes": lambda size: "<!--" + "-" * size,
    "references": lambda size: "<a href='" + "&amp" * size + "'>",
    "metas": lambda size: "<meta name=robots content=x>" * size,
}


def print_bombs() -> None:
    """Linear work doubles with the size; a parser that builds trees of them needs four times as much, and more."""
    print("\n## Bombs: CPU for twice the size\n")
    print("| | bytes | ms | twice | twice again |\n|---|---:|---:|---:|---:|")
    for name, make in BOMBS.items():
        print_bomb(name, webmill, [make(size) for size in (50_000, 100_000, 200_000)])
    if find_spec("selectolax"):
        print_bomb("nested <div>, selectolax", selectolax, ["<div>" * size for size in (5_000, 10_000, 20_000)])


def print_bomb(name: str, read: Callable[[Page], object], bombs: list[str]) -> None:
    once, twice, again = (least_cpu(partial(read, ("http://a.example/", None, bomb.encode()))) for bomb in bombs)
    print(f"| {name} | {len(bombs[-1]):,} | {again * 1e3:,.0f} | {twice / once:.1f} | {again / twice:.1f} |")


def least_cpu(run: Callable[[], object]) -> float:
    return max(min(measure(lambda: bool(run()))[1] for _ in range(3)), 1e-4)


# --- the pages --------------------------------------------------------------------------------------------------------


def sample_pages() -> list[Page]:
    samples = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    warcs = sorted((samples / "triple").glob("*.warc.gz"))
    if not warcs:
        return list(islice(test_web_pages(), PAGES))
    with warcs[0].open("rb") as file:
        responses = (item for item in read_records(file) if isinstance(item, Record) and item.type == "response")
        return list(islice(filter(is_html, map(page_of, responses)), PAGES))


def is_html(page: Page) -> bool:
    return "html" in (page[1] or "") and not page[2].lstrip().startswith(b"<?xml")  # of which BeautifulSoup warns


def page_of(record: Record) -> Page:
    response = read_response(record.content)
    return urls.normalise(record.target_uri or ""), response.content_type, response.body


def test_web_pages() -> Iterator[Page]:
    with TestWeb(hosts=20, pages_per_host=30) as web:
        for page in web.pages():
            if "html" in page.media_type and page.status == 200:
                yield page.url, page.media_type, web.body(page.url)


def print_agreement(title: str, pages: list[Page]) -> None:
    """On the anchors as written, with the line ends of HTML."""
    from selectolax.lexbor import LexborHTMLParser

    same = total = missed = extra = 0
    for _, content_type, body in pages:
        text = decode_page(body, content_type=content_type).text.replace("\r\n", "\n").replace("\r", "\n")
        theirs = {node.attributes.get("href") or "" for node in LexborHTMLParser(text).css("a[href]")}
        ours = {href for name, raw, _ in read_tags(text) if name == "a" and (href := href_of(raw)) is not None}
        same, total = same + (ours == theirs), total + len(theirs)
        missed, extra = missed + len(theirs - ours), extra + len(ours - theirs)
    print(f"\n{title}: selectolax finds the same links on {same:,} of {len(pages):,} pages.")
    print(f"Of its {total:,} links {missed:,} are missed, and {extra:,} are found besides.")


def over(read: Callable[[Page], object], pages: list[Page]) -> Contestant:
    def run() -> int:
        for page in pages:
            read(page)
        return len(pages)

    return run


def over_texts(read: Callable[[str], object], texts: list[str]) -> Contestant:
    def run() -> int:
        for text in texts:
            read(text)
        return len(texts)

    return run


def over_links(joiner: Callable[[str], Callable[[str], object]], pages: list[tuple[str, list[str]]]) -> Contestant:
    def run() -> int:
        count = 0
        for base, hrefs in pages:
            join = joiner(base)
            for href in hrefs:
                join(href)
            count += len(hrefs)
        return count

    return run


def short_way(base: str) -> Callable[[str], object]:
    join = Joiner(base)
    return lambda href: join_or_none(join, href)


def main() -> None:
    pages = sample_pages()
    rivals = {name: over(read, pages) for package, (name, read) in RIVALS.items() if find_spec(package)}
    race("Links of pages", {"webmill": over(webmill, pages)} | rivals, unit="pages")
    texts = [decode_page(body, content_type=content_type).text for _, content_type, body in pages]
    ways = {"crawl.tags": by_tags, "formats.html_tokens": by_tokens, "RE2, naive": by_re2}
    if find_spec("selectolax"):
        ways["selectolax behind a pre-scan"] = by_guarded_lexbor
    race("Anchors of decoded pages", {name: over_texts(read, texts) for name, read in ways.items()}, unit="pages")
    links = [
        (
            url,
            [
                href
                for name, raw, _ in read_tags(text)
                if name == "a" and (href := href_of(raw)) and ":void" not in href
            ],
        )
        for (url, _, _), text in zip(pages, texts, strict=True)
    ]
    joiners = {
        "crawl.joining": over_links(short_way, links),
        "ada-url": over_links(lambda base: lambda href: join_by_standard(base, href), links),
        "urllib.parse.urljoin, not normalised": over_links(
            lambda base: lambda href: urljoin_or_none(base, href), links
        ),
    }
    race("Links joined", joiners, unit="links")
    print_bombs()
    if find_spec("selectolax"):
        print_agreement("Sample pages", pages)
        print_agreement("Test web", list(test_web_pages()))


def urljoin_or_none(base: str, href: str) -> str | None:
    try:
        return urljoin(base, href)
    except ValueError:
        return None


if __name__ == "__main__":
    main()

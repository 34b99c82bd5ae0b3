"""Bytes of pages to text, beside Python's own codecs; and the URLs of style sheets, beside tinycss2.

Python's codecs decode other characters in half of these encodings; the texts raced here are the same in both. ASCII in
a legacy encoding is the most frequent page of all. The sheet is made of rules like those of real sites, one in twenty
with an image.
"""

from __future__ import annotations

from collections.abc import Callable

import tinycss2

from benchmarks.frame import race
from webmill.formats.css import read_css_urls
from webmill.formats.encodings import decode_as

PAGES = 2000
ASCII = '<p class="a">Some words of a page in the wild</p>\n' * 400
GERMAN = "<p>Überall gibt es größere Häuser als dieses hier</p>\n" * 400
RUSSIAN = "<p>Мир и труд во всём мире для всех</p>\n" * 400
JAPANESE = "<p>日本語のページはここにあります</p>\n" * 400
CHINESE = "<p>中文网页在这里可以找到很多</p>\n" * 400
KOREAN = "<p>한국어 페이지는 여기에 있습니다</p>\n" * 400
TEXTS = {
    "utf-8": ("utf-8", GERMAN),
    "windows-1252": ("cp1252", GERMAN),
    "windows-1252, all ASCII": ("cp1252", ASCII),
    "windows-1251": ("cp1251", RUSSIAN),
    "shift_jis": ("cp932", JAPANESE),
    "euc-jp": ("euc-jp", JAPANESE),
    "gbk": ("gb18030", CHINESE),
    "euc-kr": ("cp949", KOREAN),
}
RULE = (
    ".menu-{0}>li:hover a::before{{color:#1a2b3c;margin:0 auto 1.5em -{0}px;content:'»';transition:all .2s ease-in}}\n"
)
IMAGE = "@media (min-width:{0}px){{.hero-{0}{{background:url(/img/{0}.png) no-repeat,linear-gradient(red,#fff)}}}}\n"
SHEET = "".join((IMAGE if number % 20 == 0 else RULE).format(number) for number in range(2000))


def main() -> None:
    for name, (codec, text) in TEXTS.items():
        encoding, page = name.partition(",")[0], text.encode(codec)
        assert decode_as(page, encoding) == text
        race(
            f"Decoding pages of {len(page) // 1000} KB: {name}",
            {"webmill": decoding(page, encoding), f"Python ({codec})": decoding_by_python(page, codec)},
            unit="pages",
        )
    assert [found.written for found in read_css_urls(SHEET)] == urls_of(tinycss2.parse_component_value_list(SHEET))
    race("URLs of a style sheet", {"webmill": our_urls, "tinycss2": their_urls}, unit="URLs")


def decoding(page: bytes, encoding: str) -> Callable[[], int]:
    def run() -> int:
        return sum(1 for _ in range(PAGES) if decode_as(page, encoding))

    return run


def decoding_by_python(page: bytes, codec: str) -> Callable[[], int]:
    def run() -> int:
        return sum(1 for _ in range(PAGES) if page.decode(codec, "replace"))

    return run


def our_urls() -> int:
    return sum(1 for _ in range(10) for _ in read_css_urls(SHEET))


def their_urls() -> int:
    return sum(len(urls_of(tinycss2.parse_component_value_list(SHEET))) for _ in range(10))


def urls_of(nodes: list[tinycss2.ast.Node]) -> list[str]:
    found = []
    for node in nodes:
        if node.type == "url":
            found.append(node.value)
        found += urls_of(getattr(node, "content", None) or getattr(node, "arguments", None) or [])
    return found


if __name__ == "__main__":
    main()

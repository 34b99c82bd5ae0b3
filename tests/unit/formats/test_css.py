"""URLs of style sheets, with tinycss2, another tokenizer by the standard, as judge."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import tinycss2
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tinycss2.ast import FunctionBlock, Node, StringToken, URLToken

from webmill.formats.css import decode_sheet, find_sheet_encoding, read_css_urls, unescape_css

Found = list[tuple[str, bool]]

WORDS = ("url(", "URL(", "u\\72l(", "\\75 rl(", "curl(", "-url(", "1url(", "#url(", "@url(", "éurl(", "url", "url (")
PARTS = ("a", "/b.png", "\\78 ", "\\)", "\\\n", "\\", '"', "'", "(", ")", "[", "{", "}", ";", ":", " ", "\n", "\0", "é")
RULES = (
    "@import ",
    "@import/**/",
    "@media x",
    "@import url(",
    "@namespace url(n;m);",
    "@namespace 'n';",
    "@charset 'x';",
)
OTHERS = (
    "/*",
    "*/",
    "/",
    "<!--",
    "-->",
    "1e3",
    "-1",
    "--",
    "#",
    "@",
    "\\",
    "data:,x",
    "type('t')",
    "\x0b",
    "\r\n",
    "\f",
)
FRAGMENTS = st.sampled_from([*WORDS, *WORDS, *PARTS, *RULES, *OTHERS])
IN_SETS = st.sampled_from(['"a"', "'b'", "url(c)", "url('d')", " 1x", ",", "type('t')", "(", ")", "/*'e'*/"])


def found(sheet: str) -> Found:
    return [(unescape_css(one.written), one.is_import) for one in read_css_urls(sheet)]


def judged(sheet: str) -> Found:
    return list(_judged(tinycss2.parse_component_value_list(sheet)))


def _judged(nodes: list[Node], *, in_set: bool = False) -> Iterator[tuple[str, bool]]:
    rule = ""
    for node in nodes:
        if node.type in ("whitespace", "comment"):
            continue
        is_import, is_namespace = rule == "import", rule == "namespace"
        if node.type == "at-keyword":
            rule = node.lower_value
            continue
        if not is_namespace or node == ";" or node.type == "{} block":
            rule = ""
        if is_namespace:
            continue
        if (isinstance(node, URLToken) and node.value) or (isinstance(node, StringToken) and (is_import or in_set)):
            yield node.value, is_import
        elif isinstance(node, FunctionBlock) and node.lower_name == "url":
            yield from _judged_function(node, is_import=is_import)
        elif isinstance(node, FunctionBlock):
            yield from _judged(node.arguments, in_set=node.lower_name in ("image-set", "-webkit-image-set"))
        elif hasattr(node, "content"):
            yield from _judged(node.content)


def _judged_function(node: FunctionBlock, *, is_import: bool) -> Iterator[tuple[str, bool]]:
    first, *rest = [part for part in node.arguments if part.type != "whitespace"] or [None]
    if isinstance(first, StringToken):
        yield first.value, is_import
        yield from _judged(rest)
    else:
        yield from _judged(node.arguments)


@settings(deadline=None, max_examples=800)
@given(st.lists(FRAGMENTS, max_size=14).map("".join))
@example("a{b:url(x")
@example('url("a\\')
@example("url('a\nb') url(c)")
@example("<!--url(a)-->url(b)")
def test_a_sheet_has_the_urls_that_another_tokenizer_finds(sheet: str) -> None:
    assume(not re.search(r"\\[\n\f]", sheet))  # tinycss2 1.5 takes an escaped line break in `url(` for an escape
    assert found(sheet) == judged(sheet)


@settings(deadline=None, max_examples=400)
@given(st.lists(IN_SETS, max_size=10).map("".join))
def test_a_set_of_images_has_the_urls_that_another_tokenizer_finds(inner: str) -> None:
    sheet = f"a{{b:image-set({inner})}}"
    assert found(sheet) == judged(sheet)


@settings(deadline=None, max_examples=400)
@given(st.lists(FRAGMENTS, max_size=14).map("".join))
def test_a_string_with_another_url_may_be_put_in_place(sheet: str) -> None:
    urls = list(read_css_urls(sheet))
    for one in reversed(urls):
        sheet = f'{sheet[: one.start]}"new"{sheet[one.end :]}'
    assert found(sheet) == [("new", one.is_import) for one in urls]


@pytest.mark.parametrize(
    ("data", "label", "encoding"),
    [
        (b"\xef\xbb\xbfa", "koi8-r", "utf-8"),
        (b"\xff\xfea\0", None, "utf-16le"),
        (b'@charset "koi8-r";', "shift_jis", "shift_jis"),
        (b'@charset "koi8-r";', "unknown", "koi8-r"),
        (b"@charset 'koi8-r';", None, "utf-8"),
        (b'@charset "utf-16";', None, "utf-8"),
        (b"", None, "utf-8"),
    ],
)
def test_the_encoding_of_a_sheet(data: bytes, label: str | None, encoding: str) -> None:
    assert find_sheet_encoding(data, label=label) == encoding


def test_a_mark_is_not_part_of_a_sheet() -> None:
    assert decode_sheet(b"\xff\xfea\0", "utf-16le") == "a"


@pytest.mark.parametrize(
    "part", ["url(", "url('", "url(a\\", "@import ", "@namespace ", "image-set(", "/*", "\\", "<", "#"]
)
def test_time_grows_with_the_length_alone(part: str) -> None:
    """In the square of its length this would take hours."""
    list(read_css_urls(part * 300_000))

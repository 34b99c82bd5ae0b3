"""The tags of a page that may point elsewhere, in one pass and in time linear to its length, whatever it holds.

    for name, attributes, text in read_tags(page):
        if name == "a": href = text or attributes_of(attributes).get("href")

This is the tokenizer of the HTML standard (https://html.spec.whatwg.org/multipage/parsing.html#tokenization) without
the tree: what stands in comments, scripts, styles and in attributes of other tags is no tag. Browser-grade parsers
build the tree, too, and freeze on pages made for it (40,000 nested <div>). `formats.html.tokens` cuts pages as Common
Crawl's older lexer does and tells of every tag; this one skips uninteresting ones inside one regular expression, which
makes it twice as fast (benchmarks/links.py). Tags in <template> are told, too: a tree has them in a place of their own.

Every repetition is possessive (`*+`, `++`): the expressions never go back, so no input makes them slow. A page's first
100,000 tags are told, which bounds what reading them costs the crawler: an empty name says that there were more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from webmill.formats.encodings import decode_as, keeps_ascii
from webmill.formats.html.entities import decode_attribute

MAX_TAGS = 100_000

_S = r"\t\n\f\r "
_VALUE = rf"""(?:"[^"]*+"?|'[^']*+'?|[^{_S}>"'][^{_S}>]*+)"""
_NAME = rf"[^{_S}/>][^{_S}/>=]*+"
_ANY_ATTRIBUTE = rf"{_NAME}(?:[{_S}]*+=[{_S}]*+{_VALUE}?+)?+"
# First as nearly all attributes are written, then all others.
_ATTRIBUTES = rf"""(?: [a-zA-Z:_-]++="[^"]*+")*+(?:[{_S}/]++(?:{_ANY_ATTRIBUTE})?+|{_ANY_ATTRIBUTE})*+"""
_COMMENT = r"!--(?:-?>|(?:[^-]++|-(?!-!?>))*+(?:--!?>)?+)"  # one without an end takes all


def any_case(name: str) -> str:
    """Quicker than (?i:…), which would be asked at every tag of the page."""
    return "".join(f"[{letter}{letter.upper()}]" for letter in name)


# Whose content is text and not markup.
RAW = ("iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp")
# Pictures (SVG) and XHTML close these at once: `<title/>`. Elsewhere a browser takes the whole page for a title then.
_DRAWN = frozenset({"style", "title"})
_WANTED = "|".join(map(any_case, ("a", "area", "base", "frame", "link", "meta", *RAW)))
# Frequent tags of no interest, each with its end at once: a shortcut for what the last line below does as well.
_FREQUENT = "div|span|li|p|ul|td|tr|img|i|b|path|svg|br|h1|h2|h3|h4|em|strong|input|button|section|option|time"
_SKIPPED = "|".join(
    (
        r"[^<]++",
        r"</[a-zA-Z0-9]++>",
        rf"<(?:{_FREQUENT})(?=[{_S}/>]){_ATTRIBUTES}>?",
        r"(?:<(?![a-zA-Z/!?]))++",  # is text
        rf"<(?=[!?])(?:{_COMMENT}|[!?][^>]*+>?)",
        rf"<(?!(?:{_WANTED})[{_S}/>])(?:/?[a-zA-Z][^{_S}/>]*+{_ATTRIBUTES}>?|/[^>]*+>?)?+",
    )
)
# An anchor as nearly all are written: attributes, among them an address without references, which need not be decoded.
_PLAIN_ANCHOR = (
    rf"""<[aA](?= )((?: (?!{any_case("href")}=)[a-zA-Z:_-]++="[^"]*+")*+ href="([^"&]*+)\""""
    rf"""(?: [a-zA-Z:_-]++="[^"]*+")*+)>"""
)
# All that is skipped, then a wanted tag: name, attributes, `>`. A tag that the page's end cuts is none.
_NEXT = re.compile(rf"(?:{_SKIPPED})*+(?:{_PLAIN_ANCHOR}|<([a-zA-Z]++)({_ATTRIBUTES})(>)?)?")
# Frequent tags in which no address can stand: without attributes, or with none but these. Again a shortcut.
_HARMLESS = "class|id|title|role|lang|dir|width|height|d|for|value|data-[a-z0-9-]++|aria-[a-z]++"
_BLANK = (
    "div|span|li|p|ul|ol|td|th|tr|tbody|i|b|path|svg|g|br|h1|h2|h3|h4|em|strong|button|section|option|time|label|nav"
)
_EVERY = re.compile(
    rf"""(?:[^<]++|</[a-zA-Z0-9]++>|<(?:{_BLANK})(?: (?:{_HARMLESS})="[^"]*+")*+ ?+/?+>"""
    rf"|(?:<(?![a-zA-Z/!?]))++|<(?![a-zA-Z])(?:/[a-zA-Z][^{_S}/>]*+{_ATTRIBUTES}>?|{_COMMENT}|[!?/][^>]*+>?))*+"
    rf"(?:{_PLAIN_ANCHOR}|<([a-zA-Z][^{_S}/>]*+)({_ATTRIBUTES})(>)?)?"
)
_RAW_ENDS = {name: re.compile(rf"</{any_case(name)}(?=[{_S}/>])") for name in RAW}
_IN_SCRIPT = re.compile(rf"<!--(?!-?>)|-->|<(/?){any_case('script')}(?=[{_S}/>])")
_ATTRIBUTE = re.compile(rf"({_NAME})(?:[{_S}]*+=[{_S}]*+({_VALUE})?+)?+")
# The value of the first attribute href, without making a table of all; again with a quick way for what is common.
_HREF = re.compile(
    rf"""(?: (?!{any_case("href")}=)[a-zA-Z:_-]++="[^"]*+")*+"""
    rf"(?:[{_S}/]++|(?!{any_case('href')}(?:[{_S}/>=]|\Z)){_ANY_ATTRIBUTE})*+"
    rf"""{any_case("href")}(?:[{_S}]*+=[{_S}]*+(?:"([^"]*+)"|({_VALUE}))?+)?+"""
)


def read_tags(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield each tag: name in lower case, raw attributes, and a text: that of <title>, or the address of an <a> that is
    written plainly (empty for all others)."""
    return _read(page, _NEXT, texts=("title",))


def read_encoded_tags(page: bytes, encoding: str) -> Iterator[tuple[str, str, str]]:
    """Yield what `read_tags` yields of the decoded page. Mostly only attributes and titles are decoded, which are a
    small part of it; the expressions are quicker on characters of one byte, too."""
    if b"\0" in page or not keeps_ascii(encoding):
        return read_tags(decode_as(page, encoding))
    return _read(page.decode("latin-1"), _NEXT, texts=("title",), encoding=encoding)


def _decode(part: str, encoding: str) -> str:
    return part if part.isascii() else decode_as(part.encode("latin-1"), encoding)


def read_all_tags(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield tags of any name but those that can hold no address; with the text of <style> and <script>, too."""
    return _read(page, _EVERY, texts=("title", "style", "script"))


def _read(
    page: str, expression: re.Pattern[str], *, texts: tuple[str, ...], encoding: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield tags. `encoding`: the page's characters are its bytes, in that encoding."""
    if "\0" in page:  # which browsers read as U+FFFD in names and values
        page = page.replace("\0", "\ufffd")
    following, at, end, left = expression.match, 0, len(page), MAX_TAGS
    while at < end:
        found = following(page, at)
        assert found  # it matches nothing, too
        plain, text, name, attributes, closed = found.groups()
        at = found.end()
        if plain is not None:
            name, attributes = "a", plain
        elif not closed:
            return  # nothing but the page's end stops the expression elsewhere
        else:
            name, text = name.lower(), ""
            if name in _RAW_ENDS and not (name in _DRAWN and attributes.endswith("/")):
                start, at = at, end_of_raw(page, name, at)
                text = page[start:at] if name in texts else ""
        left -= 1
        if left < 0:
            yield "", "", ""
            return
        if encoding and not (attributes.isascii() and text.isascii()):
            attributes, text = _decode(attributes, encoding), _decode(text, encoding)
        yield name, attributes, text


def attributes_of(raw: str) -> dict[str, str]:
    """Return attributes by name in lower case; the first of a name wins, references are decoded, no value is empty."""
    found: dict[str, str] = {}
    for name, value in _ATTRIBUTE.findall(raw):
        found.setdefault(name.lower(), value)
    return {name: decode_attribute(_unquoted(value)) for name, value in found.items()}


def href_of(raw: str) -> str | None:
    """`attributes_of(raw).get("href")`, in some 40 % of the time."""
    found = _HREF.match(raw)
    if found is None:
        return None
    value = found[1]
    if value is None:
        value = _unquoted(found[2] or "")
    return decode_attribute(value) if "&" in value else value


def _unquoted(value: str) -> str:
    return value[1:-1] if value[:1] in ('"', "'") else value  # in a whole tag every quote is closed


def end_of_raw(page: str, name: str, at: int) -> int:
    """Return where the text of an element ends whose content is not markup (`RAW`), and that begins at `at`."""
    if name == "plaintext":
        return len(page)
    found = _RAW_ENDS[name].search(page, at)
    end = found.start() if found else len(page)
    if name == "script" and page.find("<!--", at, end) >= 0:
        return _end_of_commented_script(page, at)
    return end


def _end_of_commented_script(page: str, at: int) -> int:
    """An end tag ends a script, but not in `<!-- <script> … </script> -->`: the standard's "double escaped" text."""
    commented = nested = False
    for found in _IN_SCRIPT.finditer(page, at):
        if found[0] == "<!--":
            commented = True
        elif found[0] == "-->":
            commented = nested = False
        elif not found[1]:
            nested = commented
        elif nested:
            nested = False
        else:
            return found.start()
    return len(page)

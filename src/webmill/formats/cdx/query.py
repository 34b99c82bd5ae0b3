"""CDX queries: the range of keys of a URL and match type, filters on fields, and collapsing, by pywb's rules.

A range is two byte strings between which all matching *lines* sort, so that bisection finds them without parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, get_args

import msgspec
import re2

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, format_line
from webmill.formats.patterns import compile_pattern
from webmill.formats.url.surt import surt, without_surrogates

MatchType = Literal["exact", "prefix", "host", "domain"]
Predicate = Callable[[CdxjLine], bool]


class KeyRange(msgspec.Struct, frozen=True):
    """The range of lines with `start <= line < end`."""

    start: bytes
    end: bytes

    def __contains__(self, line: bytes) -> bool:
        return self.start <= line < self.end


def split_url_pattern(url: str) -> tuple[str, MatchType | None]:
    """Return URL and match type of a pattern: domain for `*.example.com`, prefix for `example.com/a*`, else None."""
    if url.startswith("*."):
        return url[2:], "domain"
    if url.endswith("*"):
        return url[:-1], "prefix"
    return url, None


def key_range(url: str, match_type: MatchType = "exact") -> KeyRange:
    """Return the range of keys that match a URL. Raise BadInput (bad_match_type)."""
    if match_type not in get_args(MatchType):
        raise BadInput(f"matchType must be one of {', '.join(get_args(MatchType))}", reason="bad_match_type")
    key = surt(url)
    if match_type == "exact":
        return _between(key, key + "!")  # "!" is next after the space that ends a key
    if match_type == "prefix":
        for mark in "/?":  # dropped by the canonical form, but significant here
            key += mark if url.endswith(mark) and not key.endswith(mark) else ""
        return _between(key, key[:-1] + chr(ord(key[-1]) + 1))
    host = key.partition(")/")[0]
    if match_type == "host":
        return _between(host + ")/", host + "*")  # "*" is next after ")"
    start = ")/" if "," in host else ","  # a TLD is not a host: only what is below it
    return _between(host + start, host + "-")  # "-" is next after ","


def site_range(pattern: str) -> KeyRange:
    """Return the keys of `example.org` (a host), `*.example.org` (a domain), `example.org/news/*`, or of one URL."""
    url, kind = split_url_pattern(pattern)
    return key_range(url, kind or ("exact" if "/" in (url.partition("://")[2] or url) else "host"))


def _between(start: str, end: str) -> KeyRange:
    return KeyRange(start.encode(), end.encode())


# --- filters --------------------------------------------------------------------------------------------------------

# Including the single letters of pywb; `s` is the length there, surprisingly.
_OTHER_NAMES = {"statuscode": "status", "mimetype": "mime", "original": "url"} | {
    "u": "url",
    "m": "mime",
    "s": "length",
    "l": "length",
    "o": "offset",
    "d": "digest",
    "t": "timestamp",
    "k": "urlkey",
    "f": "filename",
}


def compile_filter(text: str) -> Predicate:
    """Compile `[!][=|~]field:value`: the field contains the value, `=` equals it, `~` matches the RE2 at its start.

    `!` inverts. A missing field is empty. Without `field:` the whole line is compared. Raise BadInput (bad_filter).
    """
    inverted = text.startswith("!")
    kind = text[inverted : inverted + 1]
    kind = kind if kind in ("=", "~") else ""
    name, colon, value = text[inverted + len(kind) :].partition(":")
    if not colon:
        name, value = "", name
    holds = _comparison(kind, value)
    read = field_reader(name)
    return lambda capture: holds(read(capture)) is not inverted


def compile_filters(texts: Iterable[str]) -> Predicate:
    """Compile filters that must all match."""
    filters = [compile_filter(text) for text in texts]
    return lambda capture: all(holds(capture) for holds in filters)


def _comparison(kind: str, value: str) -> Callable[[str], bool]:
    if kind == "=":
        return lambda text: text == value
    if kind == "~":
        pattern = _regex(value)
        return lambda text: pattern.match(without_surrogates(text)) is not None
    return lambda text: value in text


def _regex(pattern: str) -> re2._Regexp:
    try:
        return compile_pattern(pattern)
    except BadInput as error:
        raise BadInput(f"filter {pattern[:80]!r}: {error.message}", reason="bad_filter") from error


def field_reader(name: str) -> Callable[[CdxjLine], str]:
    """Return a function that reads a field as text, by any of its names; the whole line for an empty name."""
    name = _OTHER_NAMES.get(name, name)
    if name == "":
        return lambda capture: format_line(capture).decode("utf-8", "replace").removesuffix("\n")
    if name == "urlkey":
        return lambda capture: capture.urlkey
    if name == "timestamp":
        return lambda capture: capture.timestamp
    return lambda capture: capture.text(name)


# --- collapsing -----------------------------------------------------------------------------------------------------


_COLLAPSE = re.compile("([^:]+)(?::([1-9][0-9]{0,3}))?")


def compile_collapse(text: str) -> Callable[[CdxjLine], str]:
    """Compile `field` or `field:N`, as in the Internet Archive's `collapse`: neighbours that agree in the field, or in
    its first N characters, are collapsed. Raise BadInput (bad_collapse)."""
    found = _COLLAPSE.fullmatch(text)
    if not found:
        raise BadInput(f"collapse must be FIELD or FIELD:N, not {text[:80]!r}", reason="bad_collapse")
    read, length = field_reader(found[1]), int(found[2]) if found[2] else None
    return lambda capture: read(capture)[:length]

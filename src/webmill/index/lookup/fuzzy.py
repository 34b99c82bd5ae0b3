"""Fuzzy matching: captures of a URL whose query differs only in parts that change with every request.

A page asks for `style.css?v=17&_=1700000000000`; the archive has `style.css?v=16&_=1600000000000`. Where nothing is
found for a URL, captures of the same path match

* whatever their queries are, if the path names a file (`.css`, not `.php`), the capture is a stream or Flash, or its
  request had a body; else
* if their queries are equal without parameters against caches and for tracking, and with callbacks that are numbered.

These are the general rules that pywb documents by its behaviour; it has more for single sites.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, format_line, parse
from webmill.formats.cdx.query import KeyRange, key_range
from webmill.formats.url.surt import surt
from webmill.index.lines import Batch
from webmill.index.lookup.indexes import CaptureIndex

SEARCHED = 100  # lines of the same path, as many as pywb looks at
SCRIPTS = frozenset({"asp", "aspx", "jsp", "php", "pl", "exe", "dll"})  # their query says what they answer
STREAMS = frozenset(
    {"application/x-shockwave-flash", "application/dash+xml", "application/x-mpegurl", "application/vnd.apple.mpegurl"}
)
_ENDING = re.compile(r"\.([^./]+)$")
_COUNTED = frozenset({"_", "cb", "uncache"})
_MILLISECONDS = re.compile(r"1[0-9]{12,15}")
_JQUERY = re.compile(r"jquery[0-9]+_[0-9]+")


class FuzzyIndex:
    """What matches one URL in another index. The range that is asked for must be `fuzzy_range` of that URL."""

    def __init__(self, index: CaptureIndex, url: str) -> None:
        self._index = index
        self._matches = compile_fuzzy(url)

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        for line in islice(self._index.lines(wanted), SEARCHED):
            try:
                capture = parse(line)
            except BadInput:
                continue  # it is counted where it is asked for by its own key
            if self._matches(capture):
                yield format_line(msgspec.structs.replace(capture, fields={**capture.fields, "is_fuzzy": "1"}))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return ([line] for line in chain(self.lines(wanted)))


def fuzzy_range(url: str) -> KeyRange:
    """Return the range of all keys that begin with the URL without its query."""
    return key_range(url.partition("?")[0], "prefix")


def compile_fuzzy(url: str) -> Callable[[CdxjLine], bool]:
    """Return whether a capture may stand for `url`."""
    path, _, query = surt(url).partition("?")
    ending = _ENDING.search(path.rpartition("/")[2])
    is_file = bool(ending) and ending[1].lower() not in SCRIPTS if ending else False
    wanted = lasting_parameters(query)

    def matches(capture: CdxjLine) -> bool:
        found, _, its_query = capture.urlkey.partition("?")
        if found != path:
            return False
        return is_file or _ignores_query(capture) or lasting_parameters(its_query) == wanted

    return matches


def _ignores_query(capture: CdxjLine) -> bool:
    return capture.text("mime").lower() in STREAMS or bool(capture.text("method") or capture.text("requestBody"))


def lasting_parameters(query: str) -> list[str]:
    """Return the parameters of a query, as a urlkey has it, that do not change with every request."""
    return [_settled(text) for text in query.split("&") if text and not _is_passing(*text.partition("=")[::2])]


def _is_passing(name: str, value: str) -> bool:
    if name in _COUNTED:
        return value.isdigit()
    if name.startswith("utm_") or name == "fbclid":
        return True
    return ("bust" in name or "ts" in name) and bool(_MILLISECONDS.fullmatch(value))


def _settled(text: str) -> str:
    name, equals, value = text.partition("=")
    if name == "callback" and value.startswith("jsonp"):
        value = "jsonp"
    return name + equals + _JQUERY.sub("jquery", value)

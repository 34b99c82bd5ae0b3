"""Which addresses and hosts an index has: from one to the next by looking up the key behind it, never all at once."""

from __future__ import annotations

from itertools import groupby, islice

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import key_of, parse, prefix_of
from webmill.formats.cdx.query import KeyRange, MatchType
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import url_range
from webmill.index.order import urlkey

MOST_LINES = 100_000  # that are looked through for one page
PAGE = 100
HOSTS = 30
_END = b"\xff"  # above all keys, which are ASCII


class ListedAddress(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last`: its captures, 14 digits. `is_cut`: it has more of them than were counted."""

    url: str
    count: int
    first: str
    last: str
    is_cut: bool = False


class AddressList(msgspec.Struct, frozen=True):
    """`after`: what the next page begins behind; empty at the end."""

    addresses: list[ListedAddress]
    after: str = ""


def list_addresses(
    index: CaptureIndex, url: str, *, match: MatchType | None = None, after: str = "", count: int = PAGE
) -> AddressList:
    """As `url_range`: `example.org/a*`, `*.example.org`, or by `match`."""
    wanted = url_range(url, match)
    start = max(wanted.start, after.encode(errors="replace") + b"!") if after else wanted.start
    found: list[ListedAddress] = []
    key, seen = "", 0
    lines = index.lines(KeyRange(start, wanted.end)) if start < wanted.end else iter(())
    for _, group in groupby(islice(lines, MOST_LINES), key=urlkey):
        if len(found) == count:
            return AddressList(found, key)
        first = last = next(group)
        number = 1
        for line in group:  # noqa: B031  what `next` left of it
            number, last = number + 1, line
        seen += number
        key = key_of(first).decode("ascii", "replace")
        found.append(_address(first, last, count=number, is_cut=seen == MOST_LINES))
    return AddressList(found, key if seen == MOST_LINES else "")


def _address(first: bytes, last: bytes, *, count: int, is_cut: bool) -> ListedAddress:
    try:
        url = parse(last).text("url")
    except BadInput:  # a damaged line still has its key
        url = key_of(last).decode("ascii", "replace")
    return ListedAddress(url=url, count=count, first=_time(first), last=_time(last), is_cut=is_cut)


def _time(line: bytes) -> str:
    return prefix_of(line).rpartition(b" ")[2].decode("ascii", "replace")


class HostList(msgspec.Struct, frozen=True):
    """In the order of the index: by their names from the end. `after` as in `AddressList`."""

    hosts: list[str]
    after: str = ""


def list_hosts(index: CaptureIndex, *, after: str = "", count: int = HOSTS) -> HostList:
    start = after.encode(errors="replace") + b"*" if after else b""
    found: list[str] = []
    last = ""
    while line := next(index.lines(KeyRange(start, _END)), None):
        key, bracket, _ = key_of(line).partition(b")")
        if not bracket:  # no address of a host: dns:…, urn:…, of which there may be as many as pages
            scheme, colon, _ = key.partition(b":")
            start = scheme + b";" if colon else key + b"!"  # next behind them all; behind the key
            continue
        start = key + b"*"  # next behind the host
        if len(found) == count:
            return HostList(found, last)
        last = key.decode("ascii", "replace")
        found.append(_host(last))
    return HostList(found)


def _host(key: str) -> str:
    """`com,example:8080` as `example.com:8080`."""
    name, colon, port = key.partition(":")
    return ".".join(reversed(name.split(","))) + colon + port

"""Lists the addresses and hosts of an index by jumping from key to key, without reading it all."""

from __future__ import annotations

from itertools import groupby, islice

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import key_of, parse, prefix_of
from webmill.formats.cdx.query import KeyRange, MatchType
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.lookup.query import url_range
from webmill.index.order import urlkey

MOST_LINES = 100_000  # read for one listing
PAGE = 100
HOSTS = 30
_END = b"\xff"  # sorts after all keys, which are ASCII


class ListedAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address with the timestamps of its first and last capture. `is_cut`: it has more captures than counted."""

    url: str
    count: int
    first: str
    last: str
    is_cut: bool = False


class AddressList(msgspec.Struct, frozen=True):
    """One part of a listing. `after` is where the next part continues; empty at the end."""

    addresses: list[ListedAddress]
    after: str = ""


def list_addresses(
    index: CaptureIndex, url: str, *, match: MatchType | None = None, after: str = "", count: int = PAGE
) -> AddressList:
    """Return the addresses that match `url` as in `url_range`: `example.org/a*`, `*.example.org`, or by `match`."""
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
        for line in group:  # noqa: B031  the rest after `next`
            number, last = number + 1, line
        seen += number
        key = key_of(first).decode("ascii", "replace")
        found.append(_address(first, last, count=number, is_cut=seen == MOST_LINES))
    return AddressList(found, key if seen == MOST_LINES else "")


def _address(first: bytes, last: bytes, *, count: int, is_cut: bool) -> ListedAddress:
    try:
        url = parse(last).text("url")
    except BadInput:  # a damaged line still has a key
        url = key_of(last).decode("ascii", "replace")
    return ListedAddress(url=url, count=count, first=_time(first), last=_time(last), is_cut=is_cut)


def _time(line: bytes) -> str:
    return prefix_of(line).rpartition(b" ")[2].decode("ascii", "replace")


class HostList(msgspec.Struct, frozen=True):
    """Hosts in index order (by reversed name). `after` as in `AddressList`."""

    hosts: list[str]
    after: str = ""


def list_hosts(index: CaptureIndex, *, after: str = "", count: int = HOSTS) -> HostList:
    start = after.encode(errors="replace") + b"*" if after else b""
    found: list[str] = []
    last = ""
    while line := next(index.lines(KeyRange(start, _END)), None):
        key, bracket, _ = key_of(line).partition(b")")
        if not bracket:  # not a host: dns:…, urn:…, possibly as many as pages
            scheme, colon, _ = key.partition(b":")
            start = scheme + b";" if colon else key + b"!"  # skip them all, or this key
            continue
        start = key + b"*"  # skip the rest of the host
        if len(found) == count:
            return HostList(found, last)
        last = key.decode("ascii", "replace")
        found.append(_host(last))
    return HostList(found)


def _host(key: str) -> str:
    """Return `com,example:8080` as `example.com:8080`."""
    name, colon, port = key.partition(":")
    return ".".join(reversed(name.split(","))) + colon + port

"""Queries to an index: a URL or key and a match type, a period, filters, an order, a limit. They yield lines."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, Value, format_line, key_of, parse, timestamp_of
from webmill.formats.cdx.query import (
    KeyRange,
    MatchType,
    Predicate,
    compile_collapse,
    compile_filters,
    key_range,
    split_url_pattern,
)
from webmill.formats.timestamps import earliest, is_timestamp, latest, seconds_between, to_datetime
from webmill.index.lookup.indexes import CaptureIndex
from webmill.index.order import successor

MOST_ORIGINALS = 100_000  # held to resolve revisits
PLACE = ("length", "offset", "filename")  # where a record is
MOST_SORTED = 100_000  # lines that `reverse` and `closest` hold without a limit

Sort = Literal["forward", "reverse", "closest"]
Reject = Callable[[bytes, BadInput], None]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """`start` and `end` are periods (`2021`, `2021-03`, 14 digits), both included whole; so is `closest`'s beginning.

    `filters` as in `webmill.formats.cdx.query.compile_filter`. `collapse` leaves the first of neighbours that agree in
    a field (`compile_collapse`), after the filters; `collapse_time` of those that agree in status and in so many digits
    of the timestamp. `limit` counts the lines that are left after all of that.
    """

    range: KeyRange
    start: str | None = None
    end: str | None = None
    filters: tuple[str, ...] = ()
    resolve_revisits: bool = False  # before the filters: a revisit then has status and type of its original
    collapse_time: int | None = None
    collapse: tuple[str, ...] = ()
    sort: Sort = "forward"
    closest: str | None = None
    limit: int | None = None


def url_range(url: str, match_type: MatchType | None = None) -> KeyRange:
    """Return the range of a URL. Without a match type, `*.example.com` and `example.com/a*` imply one; else exact."""
    if match_type is None:
        url, match_type = split_url_pattern(url)
    return key_range(url, match_type or "exact")


def surt_range(key: str, match_type: MatchType | None = None) -> KeyRange:
    """Return the range of a SURT key, which is taken as it is."""
    raw = key.encode("utf-8", "surrogateescape")
    host = raw.partition(b")")[0]
    match match_type or "exact":
        case "exact":
            return KeyRange(raw, raw + b"!")
        case "prefix":
            above = successor(raw)
            if above is None:
                raise BadInput(f"{key!r} cannot be a prefix", reason="bad_key")
            return KeyRange(raw, above)
        case "host":
            return KeyRange(host + b")/", host + b"*")
        case "domain":
            return KeyRange(host + (b")/" if b"," in host else b","), host + b"-")


def run_query(index: CaptureIndex, query: Query, *, on_reject: Reject | None = None) -> Iterator[bytes]:
    """Yield the lines that match. BadInput: bad_timestamp, bad_filter, bad_collapse, bad_limit, too_many; and what a
    damaged index raises. Where lines are parsed, one that is not CDXJ goes to `on_reject`; without one it is raised.
    """
    if query.limit is not None and query.limit < 0:
        raise BadInput(f"the limit is {query.limit}; it cannot be negative", reason="bad_limit")
    first = earliest(query.start).encode() if query.start else None
    last = latest(query.end).encode() if query.end else None
    if query.resolve_revisits:  # an original may lie before the period
        lines = resolve_revisits(_of_key(index.lines(query.range), query.range), on_reject=on_reject)
    else:
        lines = _of_key(index.lines(_narrow(query.range, first, last)), query.range)
    if first or last:
        lines = _between(lines, first or b"", last or b"9" * 14, on_reject)
    if query.filters:
        lines = _filter(lines, compile_filters(query.filters), on_reject)
    if query.collapse_time is not None:
        lines = _collapse(lines, _time_and_status(query.collapse_time), on_reject)
    for field in query.collapse:
        lines = _collapse(lines, compile_collapse(field), on_reject)
    match query.sort:
        case "forward":
            return islice(lines, query.limit)
        case "reverse":
            return _reverse(lines, query.limit)
        case "closest":
            return _closest(lines, query.closest, query.limit)


def _of_key(lines: Iterator[bytes], wanted: KeyRange) -> Iterator[bytes]:
    """Leave out lines of keys that go on behind a space: `a b` lies in the range of exactly `a`."""
    if wanted.end != wanted.start + b"!":
        return lines
    longer, end = wanted.start + b" ", len(wanted.start) + 15
    return (line for line in lines if line[end : end + 1] == b" " or not key_of(line).startswith(longer))


def _narrow(wanted: KeyRange, first: bytes | None, last: bytes | None) -> KeyRange:
    """Narrow the range of one urlkey to the period: a page with a million captures is not read for one day."""
    if wanted.end != wanted.start + b"!":
        return wanted
    return KeyRange(
        wanted.start + b" " + first if first else wanted.start,
        wanted.start + b" " + last + b"!" if last else wanted.end,
    )


def _between(lines: Iterable[bytes], first: bytes, last: bytes, on_reject: Reject | None) -> Iterator[bytes]:
    for line in lines:
        timestamp = timestamp_of(line)
        if first <= timestamp <= last:
            yield line
        elif on_reject and not is_timestamp(timestamp):
            on_reject(line, BadInput(f"not 14 digits: {timestamp[:40]!r}", reason="bad_timestamp"))


def resolve_revisits(lines: Iterable[bytes], *, on_reject: Reject | None = None) -> Iterator[bytes]:
    """Every line gets `orig.length`, `orig.offset` and `orig.filename`, those of the first capture before it with the
    same digest if it is a revisit of one, else `-`; a resolved revisit gets the type and status of its original too.

    BadInput (too_many) when there are too many originals to hold. `on_reject` as in `parse_lines`.
    """
    originals: dict[str, dict[str, Value]] = {}
    for _, line in parse_lines(lines, on_reject):
        fields, digest = dict(line.fields), line.text("digest")
        original = originals.get(digest) if digest else None
        is_revisit = line.is_revisit or line.text("filename") == "-"
        if original is None and digest and not is_revisit:
            if len(originals) == MOST_ORIGINALS:
                raise BadInput(f"more than {MOST_ORIGINALS} originals: query page by page", reason="too_many")
            originals[digest] = {name: fields[name] for name in (*PLACE, "mime", "status") if name in fields}
        source = original if original is not None and is_revisit else None
        if source is not None:
            fields |= {name: source.get(name, "") for name in ("mime", "status") if name in fields}
        fields |= {f"orig.{name}": source.get(name, "-") if source is not None else "-" for name in PLACE}
        yield format_line(msgspec.structs.replace(line, fields=fields))


def parse_lines(lines: Iterable[bytes], on_reject: Reject | None) -> Iterator[tuple[bytes, CdxjLine]]:
    """Yield each line with what it holds. A line that is not CDXJ goes to `on_reject`; without one it is raised."""
    for line in lines:
        try:
            capture = parse(line)
        except BadInput as error:
            if on_reject is None:
                raise
            on_reject(line, error)
            continue
        yield line, capture


def _filter(lines: Iterable[bytes], holds: Predicate, on_reject: Reject | None) -> Iterator[bytes]:
    return (line for line, capture in parse_lines(lines, on_reject) if holds(capture))


def _collapse(
    lines: Iterable[bytes], token_of: Callable[[CdxjLine], object], on_reject: Reject | None
) -> Iterator[bytes]:
    last: object = None
    for line, capture in parse_lines(lines, on_reject):
        token = token_of(capture)
        if token != last:
            yield line
        last = token


def _time_and_status(digits: int) -> Callable[[CdxjLine], object]:
    return lambda capture: (capture.timestamp[:digits], capture.text("status"))


def _reverse(lines: Iterable[bytes], limit: int | None) -> Iterator[bytes]:
    if limit is not None:
        return reversed(deque(lines, maxlen=limit))
    return reversed(_all(lines))


def _closest(lines: Iterable[bytes], moment: str | None, limit: int | None) -> Iterator[bytes]:
    """Return the lines nearest in time first; of equally near ones, the earlier line."""
    if not moment:
        raise BadInput("sorting by closest needs a timestamp", reason="bad_timestamp")
    there = to_datetime(earliest(moment))

    def near(line: bytes) -> float:
        return seconds_between(timestamp_of(line).decode("ascii", "replace"), there)

    if limit is not None:
        return iter(heapq.nsmallest(limit, lines, key=near))
    return iter(sorted(_all(lines), key=near))


def _all(lines: Iterable[bytes]) -> list[bytes]:
    held = list(islice(lines, MOST_SORTED + 1))
    if len(held) > MOST_SORTED:
        raise BadInput(f"more than {MOST_SORTED} lines to sort: give a limit", reason="too_many")
    return held

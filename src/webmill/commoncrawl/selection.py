"""Which captures are wanted: ranges of keys and filters on the fields of CDX lines, applied to whole blocks of lines.

`filter_block` handles millions of lines a minute, so each line is split and decoded once, and only the fields that a
filter reads. A kept line becomes an item of a batch, its JSON copied as it is. A dropped line is counted under the
first filter that rejects it.

Blocks of ordinary lines take a fast path; a block with any other line is filtered line by line, which reports what is
wrong with each. Where the fast path returns something, both return the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
import re2

from webmill.commoncrawl.batch import ENTRY, are_json_safe, format_item
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import MAX_LINE, from_columns, parse, parts_of
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import split_lines
from webmill.formats.patterns import compile_pattern
from webmill.formats.timestamps import is_timestamp
from webmill.formats.url.surt import without_surrogates

FILTERS = ("blank", "status", "language", "mime", "mime_detected", "charset", "date", "url", "sample")
FIELDS = {"mime_detected": "mime-detected"}
MAX_REMEMBERED = 100_000


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The filters on captures.

    An empty one does not filter; one of several values must match; all filters must match.
    """

    ranges: tuple[KeyRange, ...] = ()  # as from `merge_ranges`
    statuses: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()  # ISO 639-3; any code of the comma-separated list …
    primary: bool = False  # … or only the first
    mimes: tuple[str, ...] = ()
    mimes_detected: tuple[str, ...] = ()
    charsets: tuple[str, ...] = ()
    start: str = ""  # 14 digits, included
    end: str = ""
    url_regex: str = ""  # RE2, searched anywhere in the URL
    sample: float = 1.0  # the share to keep of what passed all others; depends only on the line and the seed
    seed: int = 0
    digests: bool = False  # return digests, to drop repeated content


class RejectedLine(msgspec.Struct, frozen=True):
    """An invalid line of a block."""

    number: int  # in its block, from 0
    reason: str
    message: str
    raw: bytes


class FilteredBlock(msgspec.Struct):
    """The result for one block: batch items in order, and why the other lines were dropped."""

    lines: int
    items: list[bytes]
    digests: list[str]  # of the items, if requested
    filtered: dict[str, int]
    bad: list[RejectedLine]


def merge_ranges(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """Return the ranges sorted and disjoint, so that a capture in two of them is selected once."""
    found: list[KeyRange] = []
    for part in sorted(ranges, key=lambda part: (part.start, part.end)):
        if found and part.start <= found[-1].end:
            found[-1] = KeyRange(found[-1].start, max(found[-1].end, part.end))
        else:
            found.append(part)
    return tuple(found)


def ranges_between(ranges: Sequence[KeyRange], first: bytes, last: bytes) -> Sequence[KeyRange]:
    """Return the merged ranges that may contain lines from `first` to `last`, inclusive; these may be prefixes of
    lines."""
    low = bisect_right(ranges, first, key=lambda part: part.end)
    high = bisect_right(ranges, last, lo=low, key=lambda part: part.start[: len(last)])
    return ranges[low:high]


def lines_within(lines: list[bytes], ranges: Sequence[KeyRange]) -> list[bytes]:
    """Return the lines, which are sorted, that are in the ranges."""
    if not ranges or not lines:
        return lines
    found: list[bytes] = []
    for part in ranges_between(ranges, lines[0], lines[-1]):
        found += lines[bisect_left(lines, part.start) : bisect_left(lines, part.end)]
    return found


def filter_block(text: bytes, wanted: Selection) -> FilteredBlock:
    """Return the wanted lines of one block as batch items."""
    block_filter = compile_selection(wanted)
    decode = block_filter.decode if text.isascii() else block_filter.decode_text
    if wanted.ranges:
        text = b"\n".join([*lines_within(split_lines(text), wanted.ranges), b""])
    return filter_ordinary_lines(text, block_filter, decode) or filter_each_line(
        split_lines(text), block_filter, decode
    )


def filter_ordinary_lines(text: bytes, block_filter: BlockFilter, decode: Decode) -> FilteredBlock | None:
    """Filter a block of ordinary lines on the fast path; return None if one line is not ordinary.

    Only kept data outlives its line, so that a block stays in the processor's cache.
    """
    languages, statuses, others = block_filter.languages, block_filter.statuses, block_filter.others
    result = FilteredBlock(0, [], [], dict.fromkeys(FILTERS, 0), [])
    filtered, keep, surts = result.filtered, result.items.append, list[bytes]()
    by_status = by_language = 0
    try:
        for line in BytesIO(text if text.endswith(b"\n") else text + b"\n" * bool(text)):
            surt, timestamp, data = line.split(b" ", 2)
            fields = decode(data)
            if statuses and fields.status not in statuses:
                by_status += 1
            elif languages is not None and not languages[fields.languages]:
                by_language += 1
            elif others and (why := first_failed_check(others, LineParts(line[:-1], timestamp, fields))):
                filtered[why] += 1
            elif len(timestamp) != 14 or not timestamp.isdigit() or not surt or len(line) > MAX_LINE:
                return None
            else:
                surts.append(surt)
                keep(ENTRY % (surt, timestamp, data[:-1]))
                if block_filter.digests:
                    result.digests.append(fields.digest)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    if not are_json_safe(surts):
        return None
    filtered["status"], filtered["language"] = by_status, by_language
    result.lines = len(surts) + sum(filtered.values())
    return result


def filter_each_line(lines: Sequence[bytes], block_filter: BlockFilter, decode: Decode) -> FilteredBlock:
    """Filter the lines one by one, whatever they hold: this is the reference implementation."""
    result = FilteredBlock(len(lines), [], [], dict.fromkeys(FILTERS, 0), [])
    checks = [*block_filter.checks()]
    for number, line in enumerate(lines):
        try:
            surt, timestamp, data = parts_of(line)
            fields = decode(data)
        except (ValueError, msgspec.DecodeError, RecursionError):
            # Blank, damaged or unusual: the slow path says which.
            fields = reparse_line(line, block_filter, number, result)
            if fields is None:
                continue
            line = line if b" {" in line else from_columns(line).rstrip(b"\n")
            surt, timestamp, data = parts_of(line)
        if why := first_failed_check(checks, LineParts(line, timestamp, fields)):
            result.filtered[why] += 1
        elif len(line) > MAX_LINE or not surt or not is_timestamp(timestamp):
            reparse_line(line, block_filter, number, result)  # records what is wrong with it
        else:
            result.items.append(format_item(surt, timestamp, data))
            if block_filter.digests:
                result.digests.append(fields.digest)
    return result


# --- compiled filters -----------------------------------------------------------------------------------------------


class LineParts(NamedTuple):
    """A line, split and decoded as far as the checks need it."""

    line: bytes
    timestamp: bytes
    fields: Any  # the struct of the filter


Check = Callable[[LineParts], bool]
Decode = Callable[[bytes], Any]


class LanguageFilter(dict[str, bool]):
    """Maps a `languages` field to whether it is wanted: there are few different values, so each is checked once."""

    def __init__(self, wanted: Iterable[str], *, primary: bool) -> None:
        self._wanted = frozenset(wanted)
        self._most = 1 if primary else None

    def __missing__(self, languages: str) -> bool:
        if len(self) >= MAX_REMEMBERED:
            self.clear()
        verdict = self[languages] = not self._wanted.isdisjoint(languages.split(",")[: self._most])
        return verdict


class BlockFilter(NamedTuple):
    """A selection, compiled: its decoders and checks."""

    fields: type[msgspec.Struct]
    decode: Decode  # for ASCII: skips unread fields without checking their encoding
    decode_text: Decode
    statuses: frozenset[str]
    languages: LanguageFilter | None
    others: tuple[tuple[str, Check], ...]  # besides status and language
    digests: bool

    def checks(self) -> Iterator[tuple[str, Check]]:
        """Yield all checks, in the order in which they are counted."""
        statuses, languages = self.statuses, self.languages
        if statuses:
            yield "status", lambda parts: parts.fields.status in statuses
        if languages is not None:
            yield "language", lambda parts: languages[parts.fields.languages]
        yield from self.others


@lru_cache(maxsize=16)
def compile_selection(wanted: Selection) -> BlockFilter:
    """Compile a selection; only the fields that it reads are decoded. Raise BadInput (bad_filter) for a bad regex."""
    values = {"mime": wanted.mimes, "mime_detected": wanted.mimes_detected, "charset": wanted.charsets}
    needed = [name for name, accepted in values.items() if accepted]
    needed += ["status"] * bool(wanted.statuses) + ["languages"] * bool(wanted.languages)
    needed += ["url"] * bool(wanted.url_regex) + ["digest"] * wanted.digests
    fields = msgspec.defstruct("Fields", [(name, str, "") for name in needed], rename=FIELDS, gc=False)
    decode = msgspec.json.Decoder(fields).decode
    return BlockFilter(
        fields,
        decode,
        lambda data: decode(data.decode()),  # UnicodeDecodeError is a ValueError
        frozenset(wanted.statuses),
        LanguageFilter(wanted.languages, primary=wanted.primary) if wanted.languages else None,
        (*(_one_of(name, accepted) for name, accepted in values.items() if accepted), *_others(wanted)),
        wanted.digests,
    )


def first_failed_check(checks: Iterable[tuple[str, Check]], parts: LineParts) -> str | None:
    """Return the name of the first check that fails; None if all pass."""
    return next((name for name, holds in checks if not holds(parts)), None)


def _one_of(name: str, accepted: Iterable[str]) -> tuple[str, Check]:
    values = frozenset(accepted)
    return name, lambda parts: getattr(parts.fields, name) in values


def _others(wanted: Selection) -> Iterable[tuple[str, Check]]:
    if wanted.start or wanted.end:
        first, last = wanted.start.encode(), wanted.end.encode() or b"9" * 14
        yield "date", lambda parts: first <= parts.timestamp <= last
    if wanted.url_regex:
        pattern = compile_url_regex(wanted.url_regex)
        yield "url", lambda parts: pattern.search(without_surrogates(parts.fields.url)) is not None
    if wanted.sample < 1:
        yield "sample", make_sampler(wanted.sample, seed=wanted.seed)


def make_sampler(share: float, *, seed: int) -> Check:
    """Return a check that samples by the bytes of a line: the same on every machine, whatever precedes the line."""
    most, key = int(share * 2.0**64), b"%d" % seed
    return lambda parts: int.from_bytes(blake2b(parts.line, digest_size=8, key=key).digest()) < most


def compile_url_regex(pattern: str) -> re2._Regexp:
    try:
        return compile_pattern(pattern)
    except BadInput as error:
        message = f"not a valid RE2 regular expression: {pattern[:80]!r}: {error.message}"
        raise BadInput(message, reason="bad_filter") from error


def reparse_line(line: bytes, block_filter: BlockFilter, number: int, result: FilteredBlock) -> Any | None:
    """Return the fields of a line that the fast decoder refused; None, and counted, if it is not a capture."""
    if not line.strip():
        result.filtered["blank"] += 1
        return None
    try:
        capture = parse(line)
    except BadInput as error:
        result.bad.append(RejectedLine(number, error.reason, error.message, line[:1024]))
        return None
    return block_filter.fields(
        **{name: capture.text(FIELDS.get(name, name)) for name in block_filter.fields.__struct_fields__}
    )

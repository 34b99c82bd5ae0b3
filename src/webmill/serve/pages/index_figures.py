"""Counts what an index holds: every line of a small one, a sample of blocks of a large one, in bounded time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import TypeVar

import msgspec

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import parts_of
from webmill.formats.cdx.zipnum import MAX_SUMMARY_LINE, ZipnumBlock, parse_summary_line, split_lines
from webmill.formats.timestamps import is_timestamp
from webmill.formats.url.domains import registered_domain
from webmill.index.lookup.indexes import Generation, ZipNumIndex
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra.storage.base import Readable

WHOLE_SUMMARY = 1 << 20  # bytes read completely; larger summaries are sampled
KEPT = 50  # values reported per kind
TIMES = 2000  # distinct minutes; above that hours are counted, then days
LONGEST_VALUE = 80
_CODE = re.compile("[1-5][0-9]{2}")
K = TypeVar("K")


class CaptureAmount(msgspec.Struct):
    captures: int = 0
    bytes: int = 0


class IndexFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of an index, extrapolated if it was sampled. `times`: by minute (202404151030), hour or day."""

    blocks: int
    counted_blocks: int
    captures: int
    bytes: int
    unreadable: int
    times: dict[str, CaptureAmount]
    statuses: dict[str, int]
    types: dict[str, int]
    languages: dict[str, int]
    domains: dict[str, int]

    @property
    def is_sample(self) -> bool:
        return self.counted_blocks < self.blocks


class _CountedFields(msgspec.Struct, gc=False):
    status: str | int | None = None
    mime: str | None = None
    detected: str | None = msgspec.field(default=None, name="mime-detected")
    languages: str | None = None
    length: str | int = 0


_decoder = msgspec.json.Decoder(_CountedFields)


def count_index(storage: Readable, *, most: int) -> IndexFigures:
    """Count an index, reading at most `most` blocks. `BadInput`: a block that was read is damaged."""
    generation = ZipNumIndex(storage, SUMMARY).current()
    blocks, chosen = choose_blocks(storage, generation, most=most)
    tally = _IndexTally()
    for block in chosen:
        for text in generation.read_group([block]):
            tally.add(split_lines(text))
    return tally.figures(blocks=blocks, counted=len(chosen))


def choose_blocks(storage: Readable, generation: Generation, *, most: int) -> tuple[int, list[ZipnumBlock]]:
    """Return the number of blocks and at most `most` of them, evenly spread."""
    if generation.stat.size <= WHOLE_SUMMARY:
        blocks = [*generation.all_blocks()]
        step = max(1.0, len(blocks) / most)
        return len(blocks), [blocks[int(place * step)] for place in range(min(most, len(blocks)))]
    size = generation.stat.size
    lines = [*_lines_at(storage, generation, [size * place // most for place in range(most)])]
    if not lines:
        raise BadInput("the summary has no lines", reason="bad_summary", source=SUMMARY)
    chosen = {line: parse_summary_line(line, line_number=place) for place, line in enumerate(lines, 1)}
    mean = sum(map(len, lines)) / len(lines) + 1
    return max(len(chosen), round(size / mean)), [*chosen.values()]


def _lines_at(storage: Readable, generation: Generation, places: Iterable[int]) -> Iterator[bytes]:
    """Yield the first line that starts at or after each position."""
    size = generation.stat.size
    for place in places:
        start = max(0, place - 1)  # the byte before shows whether a line starts here
        data = storage.read(SUMMARY, start=start, length=min(2 * MAX_SUMMARY_LINE, size - start))
        begin = data.index(b"\n") + 1 if place and b"\n" in data else 0
        line, end, _ = data[begin:].partition(b"\n")
        if line and end:
            yield line


class _IndexTally:
    """Running counts. Values are counted raw and interpreted at the end: few are distinct."""

    def __init__(self) -> None:
        self.captures = self.unreadable = self.bytes = 0
        self.times: dict[bytes, CaptureAmount] = {}
        self.digits = 12  # of a timestamp that are distinguished
        self.statuses: Counter[str | int | None] = Counter()
        self.types: Counter[str] = Counter()
        self.languages: Counter[str] = Counter()
        self.domains: Counter[str] = Counter()

    def add(self, lines: Iterable[bytes]) -> None:
        for host, group in groupby(lines, key=_host_part):
            before = self.captures
            for line in group:
                self._add_line(line)
            self.domains[domain_of(host)] += self.captures - before
        while len(self.times) > TIMES and self.digits > 8:
            self.digits -= 2
            self.times = _merge_times(self.times, self.digits)
        _keep_most(self.domains)
        _keep_most(self.types)
        _keep_most(self.languages)
        _keep_most(self.statuses)

    def _add_line(self, line: bytes) -> None:
        try:
            _, timestamp, data = parts_of(line)
            fields = _decoder.decode(data)
        except (
            ValueError,
            RecursionError,
        ):  # too few parts, invalid JSON (msgspec raises ValueError), or nested too deeply
            self.unreadable += 1
            return
        size = parse_size(fields.length)
        self.captures += 1
        self.bytes += size
        self.statuses[fields.status] += 1
        self.types[fields.detected or fields.mime or "unknown"] += 1
        if fields.languages:
            self.languages[fields.languages] += 1
        moment = timestamp[: self.digits]
        amount = self.times.get(moment)
        if amount is None:
            if not is_timestamp(timestamp):
                return
            amount = self.times[moment] = CaptureAmount()
        amount.captures += 1
        amount.bytes += size

    def figures(self, *, blocks: int, counted: int) -> IndexFigures:
        factor = blocks / counted if counted else 1.0
        return IndexFigures(
            blocks=blocks,
            counted_blocks=counted,
            captures=round(self.captures * factor),
            bytes=round(self.bytes * factor),
            unreadable=self.unreadable,
            times={
                key.decode(): CaptureAmount(round(one.captures * factor), round(one.bytes * factor))
                for key, one in self.times.items()
            },
            statuses=_scale_counts(self.statuses, status_of, factor),
            types=_scale_counts(self.types, type_of, factor),
            languages=_scale_counts(self.languages, first_language, factor),
            domains=_scale_counts(self.domains, str, factor),
        )


def sum_figures(parts: Iterable[IndexFigures]) -> IndexFigures:
    """Return the sum of several indexes."""
    parts = [*parts]
    times: dict[str, CaptureAmount] = {}
    for key, amount in chain.from_iterable(part.times.items() for part in parts):
        one = times.setdefault(key, CaptureAmount())
        one.captures += amount.captures
        one.bytes += amount.bytes
    return IndexFigures(
        blocks=sum(part.blocks for part in parts),
        counted_blocks=sum(part.counted_blocks for part in parts),
        captures=sum(part.captures for part in parts),
        bytes=sum(part.bytes for part in parts),
        unreadable=sum(part.unreadable for part in parts),
        times=times,
        statuses=_sum_counts(part.statuses for part in parts),
        types=_sum_counts(part.types for part in parts),
        languages=_sum_counts(part.languages for part in parts),
        domains=_sum_counts(part.domains for part in parts),
    )


def status_of(value: str | int | None) -> str:
    """Return the status of three digits, or "none" (revisits have none)."""
    text = str(value or "")
    return text if _CODE.fullmatch(text) else "none"


def type_of(value: str) -> str:
    return value.partition(";")[0].strip().lower()[:LONGEST_VALUE]


def first_language(value: str) -> str:
    return value.partition(",")[0][:LONGEST_VALUE]


def parse_size(value: str | int) -> int:
    """Return the size in a field, or 0 if it is not a plausible one."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 15 else 0


def domain_of(host: bytes) -> str:
    """Return the registered domain of a host in SURT form: `com,example,www` is of example.com."""
    labels = host.decode("utf-8", "replace").partition(":")[0].split(",")
    name = ".".join(reversed(labels))[: 4 * LONGEST_VALUE]
    return registered_domain(name) or name


def _host_part(line: bytes) -> bytes:
    return line.partition(b" ")[0].partition(b")")[0]


def _keep_most(counter: Counter[K]) -> None:
    """Drop rare values of a large counter. Since an index is sorted, the count of a domain is complete once passed."""
    if len(counter) > 200 * KEPT:
        kept = dict(counter.most_common(20 * KEPT))
        counter.clear()
        counter.update(kept)


def _scale_counts(counts: Counter[K], name: Callable[[K], str], factor: float) -> dict[str, int]:
    named: Counter[str] = Counter()
    for value, count in counts.items():
        named[name(value)] += count
    return {value: round(count * factor) for value, count in named.most_common(KEPT)}


def _merge_times(times: Mapping[bytes, CaptureAmount], digits: int) -> dict[bytes, CaptureAmount]:
    found: dict[bytes, CaptureAmount] = {}
    for key, amount in times.items():
        one = found.setdefault(key[:digits], CaptureAmount())
        one.captures += amount.captures
        one.bytes += amount.bytes
    return found


def _sum_counts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total.most_common(KEPT))

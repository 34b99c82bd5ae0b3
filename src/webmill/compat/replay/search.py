"""`cdxj-search`: how it names files, its key ranges, its filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from glob import glob
from itertools import chain
from pathlib import Path

from webmill.errors import BadInput, WebmillError
from webmill.formats.cdx.cdxj import CdxjLine, parse, prefix_of
from webmill.formats.cdx.query import KeyRange, compile_filter
from webmill.index.lines import Batch
from webmill.index.lookup.gzip_scan import GzipIndex, is_gzip
from webmill.index.lookup.indexes import CaptureIndex, open_index
from webmill.index.lookup.query import surt_range

FILTER = re.compile(r"([^!=~]+)(!~|!=|~|=)(.*)", re.DOTALL)
LONGEST_KEY = 10_000
ENDINGS = (".cdxj", ".idx")

Warn = Callable[[str], None]


def search_range(key: str, match_type: str) -> KeyRange:
    if not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
        raise BadInput(f"a key has 1 to {LONGEST_KEY} characters and no NUL", reason="bad_key")
    if match_type in ("exact", "prefix"):
        return surt_range(key, "exact" if match_type == "exact" else "prefix")
    return surt_range(key.partition(")")[0] + (")" if match_type == "domain" else ","), "prefix")


def find_index_files(names: Iterable[str]) -> list[Path]:
    """Return each file once. In folders: .cdxj and .idx files, and .cdxj.gz files that are not shards."""
    found = set(chain.from_iterable(map(expand_name, names)))
    return sorted(file.resolve() for file in found)


def expand_name(name: str) -> Iterator[Path]:
    path = Path(name)
    if path.is_dir():
        for file in path.rglob("*"):
            if file.name.endswith(ENDINGS) or (file.name.endswith(".cdxj.gz") and not is_shard(file)):
                yield file
    elif path.is_file():
        yield path
    else:
        yield from (Path(match) for match in glob(name, recursive=True) if Path(match).is_file())  # noqa: PTH207


def is_shard(file: Path) -> bool:
    return any(file.parent.glob("*.idx"))


class AnyIndexFile:
    """An index file of any kind. With `skipped`, a file that fails yields what it could, and is reported there."""

    def __init__(self, path: Path, *, skipped: Warn | None) -> None:
        self._path, self._skipped = path, skipped

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        try:
            yield from self._open().batches(wanted)
        except WebmillError as error:
            if not self._skipped:
                raise
            self._skipped(f"Error processing {self._path}: {error}")

    def _open(self) -> CaptureIndex:
        if not is_gzip(self._path):
            return open_index(self._path)
        summary = self._path.with_name(self._path.name.removesuffix(".gz").rpartition(".")[0] + ".idx")
        return open_index(summary) if summary.is_file() else GzipIndex(self._path)


def compile_conditions(filters: Iterable[str]) -> Callable[[CdxjLine], bool]:
    tests = [compile_condition(text) for text in filters]
    return lambda capture: all(test(capture) for test in tests)


def compile_condition(text: str) -> Callable[[CdxjLine], bool]:
    """Compile a filter. A missing field equals and matches nothing: `!=` and `!~` hold for it."""
    parts = FILTER.fullmatch(text)
    if not parts:
        raise BadInput(f"{text!r} is not FIELD=VALUE, FIELD!=VALUE, FIELD~RE2 or FIELD!~RE2", reason="bad_filter")
    name, operator, value = parts.groups()
    inverted = operator.startswith("!")
    # pywb's filter is anchored at the start of the field, this one is not.
    inner = compile_filter(f"={name}:{value}" if operator.endswith("=") else f"~{name}:(?s:.*?)(?:{value})")
    return lambda capture: (name in capture.fields and inner(capture)) is not inverted


def filter_lines(lines: Iterable[bytes], holds: Callable[[CdxjLine], bool], *, warn: Warn) -> Iterator[bytes]:
    """Yield the lines whose captures pass the filters; lines that are not CDXJ are counted and reported."""
    bad = 0
    for line in lines:
        try:
            capture = parse(line)
        except BadInput:
            bad += 1
            continue
        if holds(capture):
            yield line
    if bad:
        warn(f"Warning: {bad} lines that are no CDXJ were left out: no filter can be asked of them")


def drop_repeats(lines: Iterable[bytes]) -> Iterator[bytes]:
    last = b""
    for line in lines:
        if prefix_of(line) != last:
            last = prefix_of(line)
            yield line

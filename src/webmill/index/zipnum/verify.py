"""Verifies a ZipNum index to the last byte: summary, locations, shards, every block, every line.

Nothing is trusted, and nothing ends the check: each error is a finding, and the check goes on after it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.cdxj import parse, prefix_of
from webmill.formats.cdx.zipnum import MAX_BLOCK, ZipnumBlock, decode_block, parse_summary_line
from webmill.index.lines import Batch, read_lines
from webmill.index.lookup.indexes import SUMMARY_ENDINGS, find_summary
from webmill.index.order import is_sorted
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.index.zipnum.summary_checksums import checksum_pages, read_summary_checksums
from webmill.index.zipnum.writer import SHARD_NAME
from webmill.infra.storage.local import LocalStorage

Severity = Literal["error", "note"]


class IndexFinding(msgspec.Struct, frozen=True):
    """A fault of an index. `kind` is a fixed code (docs/reference/zipnum.md). An index with notes only is sound."""

    kind: str
    where: str
    message: str
    severity: Severity = "error"


class VerifyCounts(msgspec.Struct):
    """What was checked; complete once the findings are exhausted."""

    shards: int = 0
    blocks: int = 0
    lines: int = 0
    bytes: int = 0


def verify(
    path: Path, *, checked: VerifyCounts | None = None, lines_per_block: int | None = None
) -> Iterator[IndexFinding]:
    """Yield all findings about the index in a folder, or of a summary.

    `lines_per_block`, when given, is what every block but a shard's last must have.
    """
    summary = (path if path.name.endswith(SUMMARY_ENDINGS) else find_summary(path)).resolve()
    shards = ShardLocations(LocalStorage(summary.parent), summary.name, elsewhere={})
    yield from _wrong_checksums(summary)
    yield from _unreadable_locations(shards)
    rows = _Rows(summary.name)
    contents = _Contents(shards, checked or VerifyCounts(), lines_per_block=lines_per_block)
    for number, block in enumerate(_blocks(summary), start=1):
        if isinstance(block, IndexFinding):
            yield block
            continue
        yield from rows.check(block, number)
        yield from contents.check(block)
    yield from contents.check_ends()
    yield from _unused(summary.parent, shards, contents.names)


def _blocks(summary: Path) -> Iterator[ZipnumBlock | IndexFinding]:
    lines = enumerate(read_lines(summary), start=1)
    while True:
        try:
            number, line = next(lines)
        except StopIteration:
            return
        except BadInput as error:  # an endless line: what follows it cannot be read
            yield IndexFinding(error.reason, summary.name, error.message)
            return
        try:
            yield parse_summary_line(line, line_number=number)
        except BadInput as error:
            yield IndexFinding(error.reason, summary.name, error.message)


def _unreadable_locations(shards: ShardLocations) -> Iterator[IndexFinding]:
    try:
        _ = shards.locations
    except BadInput as error:
        yield IndexFinding("bad_location", error.source or "", error.message)
        shards.locations = {}  # go on without them: shards are searched beside the summary


def _unused(folder: Path, shards: ShardLocations, names: set[str]) -> Iterator[IndexFinding]:
    """Yield unused locations and shards. A location without blocks is an error: a cut summary or a killed rebuild.

    A shard that nothing names is harmless, and normal after a rebuild: it belongs to the index before.
    """
    for name in sorted(shards.locations.keys() - names):
        yield IndexFinding("unused_location", name, "has a location, but no block in the summary")
    known = names | {path for name in names for path in shards.paths(name)}
    for name in sorted(path.name for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name)):
        if name not in known:
            yield IndexFinding("unused_shard", name, "not named in the summary", "note")


def _wrong_checksums(summary: Path) -> Iterator[IndexFinding]:
    try:
        known = read_summary_checksums(LocalStorage(summary.parent), summary.name)
        found = checksum_pages([summary.read_bytes()])
    except BadInput as error:
        yield IndexFinding("bad_checksums", error.source or summary.name, error.message)
    else:
        if known and found not in known.generations:
            yield IndexFinding("bad_checksums", summary.name, "does not have its checksum")


class _Rows:
    """Checks the summary: order and running numbers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = b""
        self._expected: int | None = 1

    def check(self, block: ZipnumBlock, line: int) -> Iterator[IndexFinding]:
        if block.key < self._last:
            yield self._finding("unsorted", f"line {line}: {block.key[:80]!r} sorts before the line above it")
        self._last = block.key
        if block.number is None:
            if self._expected is not None:
                yield self._finding("no_number", f"line {line} and maybe others: pywb shows one page only", "note")
            self._expected = None
        elif self._expected is not None:
            if block.number != self._expected:
                message = f"line {line}: running number {block.number}, expected {self._expected}"
                yield self._finding("bad_number", message)
            self._expected = block.number + 1

    def _finding(self, kind: str, message: str, severity: Severity = "error") -> IndexFinding:
        return IndexFinding(kind, self._name, message, severity)


class _ShardProgress:
    """How far a shard was read. `digest` is None once a gap was seen."""

    def __init__(self) -> None:
        self.end = 0
        self.digest: hashlib._Hash | None = hashlib.sha256()
        self.short: ZipnumBlock | None = None


class _Contents:
    """Checks the shards and their blocks."""

    def __init__(self, shards: ShardLocations, checked: VerifyCounts, *, lines_per_block: int | None) -> None:
        self._shards = shards
        self._checked = checked
        self._lines_per_block = lines_per_block
        self._read: dict[str, _ShardProgress] = {}
        self._missing: set[str] = set()
        self._last = b""

    @property
    def names(self) -> set[str]:
        return self._read.keys() | self._missing

    def check(self, block: ZipnumBlock) -> Iterator[IndexFinding]:
        if block.shard in self._missing:
            return
        shard = self._read.setdefault(block.shard, _ShardProgress())
        yield from self._check_place(block, shard)
        try:
            if block.length > MAX_BLOCK:
                raise BadInput(f"a block of {block.length} bytes", reason="block_too_large")
            data = self._shards.read(block.shard, start=block.offset, length=block.length)
            if shard.digest:
                shard.digest.update(data)
            text = decode_block(data)
        except NotFound as error:
            self._missing.add(block.shard)
            del self._read[block.shard]
            yield IndexFinding("missing_shard", block.shard, str(error))
        except BadInput as error:
            yield _at(block, error.reason, error.message)
        else:
            self._checked.blocks += 1
            yield from self._check_text(block, text)

    def _check_place(self, block: ZipnumBlock, shard: _ShardProgress) -> Iterator[IndexFinding]:
        if block.offset != shard.end:
            yield _at(block, "gap", f"the block before it ends at {shard.end}")
            shard.digest = None
        shard.end = block.offset + block.length
        if shard.short:
            yield _at(shard.short, "short_block", f"not {self._lines_per_block} lines, and not the shard's last block")
            shard.short = None

    def _check_text(self, block: ZipnumBlock, text: bytes) -> Iterator[IndexFinding]:
        lines = BytesIO(text).readlines()
        self._checked.lines += len(lines)
        if not lines:
            yield _at(block, "empty_block", "a block without lines")
            return
        if self._lines_per_block and len(lines) != self._lines_per_block:
            self._read[block.shard].short = block
        if not text.endswith(b"\n"):
            message = "the last line has no newline: whoever reads the shard as one stream joins it with the next"
            yield IndexFinding("no_newline", f"{block.shard} at byte {block.offset}", message, "note")
        if prefix_of(lines[0].rstrip(b"\r\n")) != block.key:
            yield _at(block, "wrong_key", f"begins with {lines[0][:80]!r}, the summary says {block.key[:80]!r}")
        yield from self._check_order(block, lines)
        yield from _check_lines(block, lines)

    def _check_order(self, block: ZipnumBlock, lines: Batch) -> Iterator[IndexFinding]:
        if lines[0] < self._last:
            yield _at(block, "unsorted", "begins before the block above it ends")
        if not is_sorted(lines):
            at = next(number for number, (above, line) in enumerate(pairwise(lines), start=2) if line < above)
            yield _at(block, "unsorted", f"line {at} of the block sorts before the one above it")
        self._last = lines[-1]

    def check_ends(self) -> Iterator[IndexFinding]:
        for name, shard in self._read.items():
            size = self._shards.size(name)
            self._checked.shards += 1
            self._checked.bytes += size
            if size != shard.end:
                yield IndexFinding("wrong_size", name, f"{size} bytes, but {shard.end} in the summary")
                continue
            stamped = SHARD_NAME.fullmatch(name)
            if stamped and stamped[1] and shard.digest and not shard.digest.hexdigest().startswith(stamped[1]):
                yield IndexFinding("wrong_stamp", name, "its bytes do not have the hash in its name")


def _check_lines(block: ZipnumBlock, lines: Batch) -> Iterator[IndexFinding]:
    """Yield one finding for a block, however many of its lines are bad."""
    bad = 0
    first = ""
    for number, line in enumerate(lines, start=1):
        try:
            parse(line)
        except BadInput as error:
            bad += 1
            first = first or f"line {number}: {error}"
    if bad:
        yield _at(block, "bad_line", f"{bad} of {len(lines)} lines are not CDXJ; {first}")


def _at(block: ZipnumBlock, kind: str, message: str) -> IndexFinding:
    return IndexFinding(kind, f"{block.shard} at byte {block.offset}", message)

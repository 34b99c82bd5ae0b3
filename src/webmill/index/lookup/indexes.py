"""Find lines in sorted indexes without reading them: a ZipNum index, a flat sorted CDXJ, or several as one.

    index = open_index(Path("cc-index/collections/NAME/indexes"))
    for line in index.lines(key_range("example.com", "domain")): …

Memory is bounded by a few blocks, whatever the range. All reading goes through a storage, so a remote index over HTTP
ranges is `ZipNumIndex(HttpStorage(…), "cc-index/collections/CC-MAIN-2024-30/indexes/cluster.idx")`. Damaged or missing
files are errors that name them; there are never silently fewer lines.

An index may be replaced while it is read. A query that has yielded nothing yet starts again with the new one; another
is finished with the old shards, or `Conflict` when those are gone too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.cdx.columns import Columns, parse_header
from webmill.formats.cdx.query import KeyRange
from webmill.formats.cdx.zipnum import MAX_BLOCK, MAX_SUMMARY_LINE, ZipnumBlock, decode_block, parse_summary_line
from webmill.index.cdxj.merge import merge_batches
from webmill.index.columns import as_cdxj
from webmill.index.lines import BLOCK, GZIP_MAGIC, MAX_LINE, Batch, split_lines, stream_blocks
from webmill.index.lookup.block_cache import BlockCache
from webmill.index.lookup.sorted_file import PAGE, Pages, bracket_key, line_at, lower_bound, partition_point
from webmill.index.order import ensure_byte_order
from webmill.index.zipnum.shard_locations import ShardLocations
from webmill.index.zipnum.summary_checksums import SummaryChecksums, read_summary_checksums
from webmill.infra.storage.base import Readable, Stat
from webmill.infra.storage.local import LocalStorage

SUMMARY_ENDINGS = (".idx", ".summary")
MAX_GROUP = 16  # contiguous blocks in one read; the first reads of a query have fewer
MAX_GROUP_BYTES = 8 << 20
ATTEMPTS = 5
EVERYTHING = KeyRange(b"", b"\xff")

T = TypeVar("T")


class CaptureIndex(Protocol):
    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        """Yield all lines of the range in byte order, with repeats."""
        ...

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        """Yield the lines one by one, each with its line feed."""
        ...


def open_index(*paths: Path) -> CaptureIndex:
    """Open a ZipNum folder, its summary, or a sorted CDXJ file; the lines of several are merged."""
    if not paths:
        raise Misconfigured("name at least one index")
    indexes = [_open(path) for path in paths]
    return indexes[0] if len(indexes) == 1 else MergedIndex(indexes)


def _open(path: Path) -> CaptureIndex:
    if path.is_dir():
        path = find_summary(path)
    elif not path.exists():
        raise NotFound(f"no index at {path}")
    storage = LocalStorage(path.resolve().parent)
    name = path.resolve().name
    return ZipNumIndex(storage, name) if path.name.endswith(SUMMARY_ENDINGS) else FlatIndex(storage, name)


def find_summary(folder: Path) -> Path:
    """Return the summary (`cluster.idx`) of a folder."""
    found = sorted(path for path in folder.iterdir() if path.name.endswith(SUMMARY_ENDINGS))
    if not found:
        raise NotFound(f"no summary (cluster.idx) in {folder}")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise Misconfigured(f"several summaries in {folder}; name one of {names}")
    return found[0]


class ZipNumIndex:
    """A ZipNum index. `elsewhere` declares where a `.loc` may point outside of the storage, by prefix of path or URL.

    `cache` may be shared by several indexes. Threads may share an index: a query holds the generation that it began
    with, even if it is replaced, and the caches are thread-safe.
    """

    def __init__(
        self,
        storage: Readable,
        summary: str = "cluster.idx",
        *,
        elsewhere: Mapping[str, Readable] | None = None,
        cache: BlockCache | None = None,
    ) -> None:
        self._storage = storage
        self._summary = summary
        self._elsewhere = dict(elsewhere or {})
        self._cache = cache or BlockCache()
        self._generation: Generation | None = None

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return self._read(lambda generation: generation.batches(wanted))

    def batches_in_blocks(self, wanted: KeyRange, whole: KeyRange, *, first: int, count: int) -> Iterator[Batch]:
        """Yield lines from `count` blocks only, of those that may hold lines of `whole`, from number `first` on."""
        return self._read(
            lambda generation: generation.batches_in(generation.slice_blocks(whole, first=first, count=count), wanted)
        )

    def slice_blocks(self, wanted: KeyRange, *, first: int, count: int) -> Iterator[ZipnumBlock]:
        """Yield `count` of the blocks that may hold lines of the range, from number `first` on."""
        return self._read(lambda generation: generation.slice_blocks(wanted, first=first, count=count))

    def count_blocks(self, wanted: KeyRange) -> int:
        return next(self._read(lambda generation: iter([generation.count_blocks(wanted)])))

    def _read(self, find: Callable[[Generation], Iterator[T]]) -> Iterator[T]:
        for attempt in range(1, ATTEMPTS + 1):
            generation = self.current()
            try:
                found = find(generation)
                first = next(found, None)
            except (NotFound, Conflict, BadInput):
                if attempt == ATTEMPTS or not self._is_replaced(generation):
                    raise
                continue
            if first is not None:
                yield first
                yield from self._rest(generation, found)
            return

    def current(self) -> Generation:
        """Return the generation of the current summary. Cached pages and blocks are used until it changes."""
        stat = self._storage.stat(self._summary)
        generation = self._generation
        if generation is None or generation.stat != stat:
            shards = ShardLocations(self._storage, self._summary, elsewhere=self._elsewhere)
            checksums = read_summary_checksums(self._storage, self._summary)
            generation = Generation(self._storage, stat, shards, cache=self._cache, checksums=checksums)
            self._generation = generation
        return generation

    def _rest(self, generation: Generation, found: Iterator[T]) -> Iterator[T]:
        try:
            yield from found
        except (NotFound, BadInput) as error:
            if self._is_replaced(generation):
                raise Conflict(f"{self._summary} was replaced while it was read: {error}") from error
            raise

    def _is_replaced(self, generation: Generation) -> bool:
        return self._storage.stat(self._summary) != generation.stat


class Generation:
    """One version of the summary, and its blocks."""

    def __init__(
        self,
        storage: Readable,
        stat: Stat,
        shards: ShardLocations,
        *,
        cache: BlockCache,
        checksums: SummaryChecksums | None = None,
    ) -> None:
        self.stat = stat
        self._storage = storage
        self._checksums = checksums
        check = partial(checksums.check, size=stat.size, source=stat.key) if checksums else None
        self._pages = Pages(storage, stat, check=check) if check else Pages(storage, stat)
        self._shards = shards
        self._cache = cache
        self._cache_id = object()  # distinguishes our blocks in the cache, without keeping us alive

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        """Yield the lines of the range. The summary has first lines only, so the block before it is read, too."""
        return self.batches_in(self.blocks(wanted), wanted)

    def batches_in(self, blocks: Iterable[ZipnumBlock], wanted: KeyRange) -> Iterator[Batch]:
        last = b""
        for text in self._read_blocks(blocks):
            start = lower_bound(text, wanted.start, max_line=MAX_BLOCK)
            end = lower_bound(text, wanted.end, low=start, max_line=MAX_BLOCK)
            batch = BytesIO(text[start:end]).readlines()
            if batch:
                if not batch[-1].endswith(b"\n"):
                    batch[-1] += b"\n"
                (batch,) = ensure_byte_order([batch], source=self.stat.key, after=last)
                last = batch[-1]
                yield from as_cdxj([batch])

    def blocks(self, wanted: KeyRange) -> Iterator[ZipnumBlock]:
        """Yield the blocks that may hold lines of the range.

        Summary keys are `urlkey SP timestamp`: many blocks may begin with the same, so the range is cut to that too.
        """
        low, _, high = self._span(wanted)
        return self._rows(low, high)

    def slice_blocks(self, wanted: KeyRange, *, first: int, count: int) -> Iterator[ZipnumBlock]:
        """Yield `count` of the blocks from number `first` on; with running numbers, rows before are not read."""
        low, _, high = self._span(wanted)
        begin = next(self._rows(low, high), None)
        if begin is None or begin.number is None:
            return islice(self._rows(low, high), first, first + count)
        number = begin.number + first
        _, low = partition_point(
            self._pages, lambda line: _number(line) < number, low=low, high=high, max_line=MAX_SUMMARY_LINE
        )
        return islice(self._rows(low, high), count)

    def count_blocks(self, wanted: KeyRange) -> int:
        low, last, high = self._span(wanted)
        numbers = [block.number for block in (*islice(self._rows(low, high), 1), *self._rows(last, high))]
        if numbers and numbers[0] is not None and numbers[-1] is not None and numbers[0] <= numbers[-1]:
            return numbers[-1] - numbers[0] + 1
        return sum(1 for _ in self._rows(low, high))

    def _span(self, wanted: KeyRange) -> tuple[int, int, int]:
        """Return offsets in the summary: the start of the first row, the start of the last, and its end."""
        low, _ = bracket_key(self._pages, prefix_of(wanted.start), max_line=MAX_SUMMARY_LINE)
        last, high = bracket_key(self._pages, wanted.end, low=low, max_line=MAX_SUMMARY_LINE)
        return low, last, high

    def all_blocks(self) -> Iterator[ZipnumBlock]:
        return self._rows(0, self.stat.size)

    def _rows(self, low: int, high: int) -> Iterator[ZipnumBlock]:
        last = b""
        for number, line in enumerate(chain.from_iterable(self._summary_lines(low, high)), start=1):
            try:
                block = parse_summary_line(line, line_number=number)
                if block.key < last:
                    raise BadInput(f"line {number}: sorts before the line above it", reason="unsorted")
            except BadInput as error:
                message = f"{error.message} (counted from byte {low})" if low else error.message
                raise BadInput(message, reason=error.reason, source=self.stat.key) from error
            yield block
            last = block.key

    def _summary_lines(self, low: int, high: int) -> Iterator[Batch]:
        """Read a short part from cached pages; a long one as a stream, which stays with the file it was opened on."""
        if high - low <= BLOCK:
            yield from split_lines([self._pages[low:high]] if high > low else [], source=self.stat.key)
            return
        etag, checksums = self.stat.etag or None, self._checksums
        start = low - low % PAGE if checksums else low
        end = min(-(-high // PAGE) * PAGE, self.stat.size) if checksums else high
        with self._storage.open(self.stat.key, start=start, length=end - start, etag=etag) as stream:
            if checksums:
                pieces = checksums.pieces(stream, low=low, high=high, size=self.stat.size, source=self.stat.key)
                yield from split_lines(pieces, source=self.stat.key)
            else:
                yield from split_lines(stream_blocks(stream), source=self.stat.key)

    def _read_blocks(self, blocks: Iterable[ZipnumBlock]) -> Iterator[bytes]:
        for group in group_contiguous(blocks):
            if len(group) == 1:
                yield self._read_block(group[0])
            else:
                yield from self.read_group(group)

    def _read_block(self, block: ZipnumBlock) -> bytes:
        return self._cache.get((self._cache_id, block), lambda: next(self.read_group([block])))

    def read_group(self, group: Sequence[ZipnumBlock]) -> Iterator[bytes]:
        """Yield the texts of contiguous blocks of one shard, in one read."""
        first = group[0]
        data = self._shards.read(first.shard, start=first.offset, length=sum(block.length for block in group))
        for block in group:
            start = block.offset - first.offset
            yield decode_checked_block(block, data[start : start + block.length])


def _number(line: bytes) -> int:
    """Return the running number of a row; 0 for a bad one, which is reported when it is read."""
    try:
        return parse_summary_line(line, line_number=1).number or 0
    except BadInput:
        return 0


def decode_checked_block(block: ZipnumBlock, data: bytes) -> bytes:
    """Return the text of a block. BadInput with shard and offset, also if it is not the one of the summary."""
    try:
        text = decode_block(data)
    except BadInput as error:
        raise BadInput(error.message, reason=error.reason, source=block.shard, offset=block.offset) from error
    if not text.startswith(block.key):
        message = f"the block does not begin with {block.key[:80]!r}, as the summary says"
        raise BadInput(message, reason="wrong_block", source=block.shard, offset=block.offset)
    return text


def group_contiguous(blocks: Iterable[ZipnumBlock]) -> Iterator[list[ZipnumBlock]]:
    """Group contiguous blocks. Groups grow during a query, so that the first lines come early."""
    group: list[ZipnumBlock] = []
    most = 1
    for block in blocks:
        if block.length > MAX_BLOCK:
            raise BadInput(f"a block of {block.length} bytes", reason="block_too_large", source=block.shard)
        if group and not (len(group) < most and _is_contiguous(group, block)):
            yield group
            group, most = [], min(MAX_GROUP, 2 * most)
        group.append(block)
    if group:
        yield group


def _is_contiguous(group: Sequence[ZipnumBlock], block: ZipnumBlock) -> bool:
    last = group[-1]
    if last.shard != block.shard or last.offset + last.length != block.offset:
        return False
    return block.offset + block.length - group[0].offset <= MAX_GROUP_BYTES


class FlatIndex:
    """A sorted CDXJ file."""

    def __init__(self, storage: Readable, key: str) -> None:
        self._storage = storage
        self._key = key

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                start, stream, columns = self._open_range(wanted)
                break
            except Conflict:  # replaced meanwhile
                if attempt == ATTEMPTS:
                    raise
        with stream:
            batches = split_lines(stream_blocks(stream), source=self._key)
            ordered = ensure_byte_order(batches, source=f"{self._key}, from byte {start}")
            yield from as_cdxj(ordered, columns=columns)

    def _open_range(self, wanted: KeyRange) -> tuple[int, BinaryIO, Columns | None]:
        """Return the offset of the lines, and a stream of them, which stays with the file it was opened on; and the
        columns that its header names."""
        pages = Pages(self._storage, self._storage.stat(self._key))
        if pages[: len(GZIP_MAGIC)] == GZIP_MAGIC:
            raise Misconfigured(
                f"{self._key} is gzipped as a whole: make a ZipNum index of it with `webmill cdxj zipnum`"
            )
        columns = parse_header(line_at(pages, 0, max_line=MAX_LINE))
        start = lower_bound(pages, wanted.start, max_line=MAX_LINE)
        end = lower_bound(pages, wanted.end, low=start, max_line=MAX_LINE)
        if start == end:
            return start, BytesIO(), columns
        etag = pages.stat.etag or None
        return start, self._storage.open(self._key, start=start, length=end - start, etag=etag), columns


class MergedIndex:
    """Several indexes as one; a line that two of them have comes twice."""

    def __init__(self, indexes: Sequence[CaptureIndex]) -> None:
        self.indexes = list(indexes)

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        return merge_batches([index.batches(wanted) for index in self.indexes])


def flatten(index: CaptureIndex) -> Iterator[Batch]:
    """Yield all lines of an index; every block and the order are checked."""
    if isinstance(index, MergedIndex):
        return merge_batches([flatten(part) for part in index.indexes])
    return _flatten_blocks(index) if isinstance(index, ZipNumIndex) else index.batches(EVERYTHING)


def _flatten_blocks(index: ZipNumIndex) -> Iterator[Batch]:
    generation = index.current()
    texts = chain.from_iterable(map(generation.read_group, group_contiguous(generation.all_blocks())))
    batches = (BytesIO(text if text.endswith(b"\n") else text + b"\n").readlines() for text in texts)
    return ensure_byte_order(as_cdxj(batches), source=generation.stat.key)

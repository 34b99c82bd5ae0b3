"""Indexes: written inline when small, else in shards that versions share. Reading checks every hash.

Where a shard begins depends on the id alone: on one bit pattern in the hash of the id. So an item that comes or goes
changes the shard it is in (or splits it, or joins two), and all others keep their bytes and their names. Shards are
small, 16 items on average, since a change writes a whole one (of 32 on average: a change is rather in a large one): of
100,000 items with 1 % changed at random, 15 % of the shards change. Smaller ones would be longer to list.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

from webmill.errors import BadInput, NotFound
from webmill.forgotten import Forgotten, forgotten_in
from webmill.infra.storage.base import Readable
from webmill.publish.blobs import read_blob
from webmill.publish.keys import blob_key
from webmill.publish.rows import Row
from webmill.publish.types import IndexShard, ItemIndex, PublishedItem, decode, encode

MAX_INLINE = 1000  # items that an index holds itself; a list of notices is one file
MEAN_SHARD = 16
MAX_SHARD = 32 * MEAN_SHARD  # ids could be chosen so that no shard ever ends


def write_index(rows: Iterable[Row], *, put: Callable[[bytes], str], inline: int = MAX_INLINE) -> bytes:
    """Return the bytes of an index file. Rows are (id, encoded item), sorted; `put` stores a shard."""
    rows = iter(rows)
    first = list(islice(rows, inline + 1))
    if len(first) <= inline:
        return b'{"count":%d,"items":[\n%s\n]}\n' % (len(first), b",\n".join(line for _, line in first))
    return format_index([store_shard(shard, put) for shard in cut_into_shards(chain(first, rows))])


def format_index(shards: Sequence[IndexShard]) -> bytes:
    """Return the bytes of an index file that names these shards."""
    count = sum(shard.count for shard in shards)
    return b'{"count":%d,"shards":[\n%s\n]}\n' % (count, b",\n".join(map(encode, shards)))


def cut_into_shards(rows: Iterable[Row]) -> Iterator[list[Row]]:
    shard: list[Row] = []
    for row in rows:
        if shard and (begins_a_shard(row[0]) or len(shard) == MAX_SHARD):
            yield shard
            shard = []
        shard.append(row)
    if shard:
        yield shard


def begins_a_shard(key: bytes) -> bool:
    """Whether a shard begins with this id. CRC-32 is enough: this decides about sizes, not about trust."""
    return zlib.crc32(key) % MEAN_SHARD == 0


def store_shard(shard: list[Row], put: Callable[[bytes], str]) -> IndexShard:
    """Store the rows as a shard, and return what an index says of it."""
    data = b"[\n" + b",\n".join(line for _, line in shard) + b"\n]\n"
    return IndexShard(put(data), len(data), len(shard), shard[0][0].decode())


def read_index(data: bytes, *, source: str) -> ItemIndex:
    index = decode(data, ItemIndex, source=source)
    if (index.items is None) == (index.shards is None):
        raise BadInput("neither items nor shards, or both", reason="bad_json", source=source)
    return index


def read_items(storage: Readable, index: ItemIndex) -> Iterator[PublishedItem]:
    """Yield all items in the order of ids, with one shard in memory at a time. What was taken down is among them: who
    shows them leaves it out with `shown_items`."""
    yield from index.items or ()
    for shard in index.shards or ():
        yield from read_shard(storage, shard)


def read_items_ahead(
    storage: Readable, index: ItemIndex, *, readers: int, on_damage: Callable[[IndexShard, BadInput | NotFound], None]
) -> Iterator[PublishedItem]:
    """Yield all items, reading several shards at once. Shards that cannot be read are left out, and reported."""
    yield from index.items or ()
    for shard, read in _read_ahead(storage, index.shards or (), readers=readers):
        try:
            yield from read()
        except (BadInput, NotFound) as error:
            on_damage(shard, error)


def _read_ahead(
    storage: Readable, shards: Iterable[IndexShard], *, readers: int
) -> Iterator[tuple[IndexShard, Callable[[], list[PublishedItem]]]]:
    if readers == 1:  # threads cost more than a near storage takes
        yield from ((shard, partial(read_shard, storage, shard)) for shard in shards)
        return
    with ThreadPoolExecutor(readers, thread_name_prefix="webmill-shards") as pool:
        rest = iter(shards)
        waiting = deque((shard, pool.submit(read_shard, storage, shard)) for shard in islice(rest, 2 * readers))
        while waiting:
            shard, reading = waiting.popleft()
            waiting.extend((next_, pool.submit(read_shard, storage, next_)) for next_ in islice(rest, 1))
            yield shard, reading.result


def read_shard(storage: Readable, shard: IndexShard) -> list[PublishedItem]:
    return decode(read_blob(storage, shard.hash), list[PublishedItem], source=blob_key(shard.hash))


def find_item(storage: Readable, index: ItemIndex, id_: str) -> PublishedItem | None:
    """Return the item of this id, unless it was taken down, with one read at most: shards say where they begin."""
    items: Iterable[PublishedItem] = index.items or ()
    if index.shards:
        at = bisect_right(index.shards, id_, key=lambda shard: shard.first)
        items = read_shard(storage, index.shards[at - 1]) if at else ()
    found = next((item for item in items if item.id == id_), None)
    return None if found and is_forgotten(forgotten_in(storage), found) else found


# --- what was taken down ---


def shown_items(storage: Readable, items: Iterable[PublishedItem]) -> Iterator[PublishedItem]:
    """Yield the items without those that were taken down."""
    forgotten = forgotten_in(storage)
    return (item for item in items if not is_forgotten(forgotten, item)) if forgotten else iter(items)


def is_forgotten(forgotten: Forgotten, item: PublishedItem) -> bool:
    """Return whether an item was taken down, by its id (the key of a page in an index) or its address."""
    url = item.metadata.get("url")
    return forgotten.covers_key(item.id) or (isinstance(url, str) and forgotten.covers(url))

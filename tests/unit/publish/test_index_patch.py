"""An index with some items changed has the bytes of one that is written anew."""

from __future__ import annotations

import random

import pytest

from webmill.errors import BadInput
from webmill.publish import shards
from webmill.publish.index_patch import IndexPatch, rows_of_shard
from webmill.publish.keys import sha256
from webmill.publish.shards import begins_a_shard, read_index, write_index
from webmill.publish.types import PublishedItem, encode


class Blobs(dict[str, bytes]):
    def put(self, data: bytes) -> str:
        self[sha256(data)] = data
        return sha256(data)


class Recorder:
    """Changes items to these, and remembers what they were."""

    def __init__(self, new: dict[bytes, bytes | None]) -> None:
        self.new, self.had = new, dict[bytes, bytes | None]()

    def change(self, id_: bytes, before: bytes | None) -> bytes | None:
        self.had[id_] = before
        return self.new[id_]


def line(id_: bytes, content: int) -> bytes:
    return encode(PublishedItem(id_.decode(), "s", f"{content:064x}", metadata={"title": 'a,\n"b"', "n": 1.5}))


def written(lines: dict[bytes, bytes], blobs: Blobs, *, inline: int) -> bytes:
    return write_index(sorted(lines.items()), put=blobs.put, inline=inline)


@pytest.mark.parametrize("largest", [5, 512])
@pytest.mark.parametrize("seed", range(20))
def test_a_patched_index_has_the_bytes_of_one_written_anew(
    seed: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MAX_SHARD", largest)
    dice, blobs = random.Random(seed), Blobs()
    ids = [f"id {number:04}".encode() for number in range(600)]
    lines = {id_: line(id_, 0) for id_ in ids if dice.random() < 0.6}
    index = read_index(written(lines, blobs, inline=10), source="")
    for round_ in range(1, 8):
        if round_ == 7:  # nearly all are removed
            changed = [id_ for id_ in ids if dice.random() < 0.99]
            new: dict[bytes, bytes | None] = dict.fromkeys(changed)
        else:
            changed = sorted(dice.sample(ids, dice.choice([0, 1, 3, 50])))
            changed = sorted({*changed, *(id_ for id_ in lines if begins_a_shard(id_) and dice.random() < 0.2)})
            new = {id_: line(id_, round_) if dice.random() < 0.5 else None for id_ in changed}
        recorded = Recorder(new)
        patch = IndexPatch(index, changed, recorded.change, read=blobs.__getitem__)
        assert recorded.had == {id_: lines.get(id_) for id_ in changed}
        lines = {id_: one for id_, one in (lines | new).items() if one is not None}
        assert patch.count == len(lines)
        data = patch.write(put=blobs.put, inline=10)
        assert data == written(lines, blobs, inline=10)
        index = read_index(data, source="")


def test_only_shards_with_a_changed_item_are_read() -> None:
    blobs, read = Blobs(), list[str]()
    lines = {f"id {number:04}".encode(): line(b"x", 0) for number in range(3000)}
    lines = {id_: line(id_, 0) for id_ in lines}
    index = read_index(written(lines, blobs, inline=10), source="")

    def watched(hash_: str) -> bytes:
        read.append(hash_)
        return blobs[hash_]

    IndexPatch(index, [b"id 1500"], lambda *_: line(b"id 1500", 1), read=watched)
    assert len(index.shards or ()) > 50
    assert len(read) == 1


@pytest.mark.parametrize("data", [b"", b"[]", b"[\n{}\n]\n", b'[\n{"id":1}\n]\n', b"[\n{\n]\n", b"[\n\xff\n]\n"])
def test_what_is_no_shard_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput):
        list(rows_of_shard(data, source="x"))

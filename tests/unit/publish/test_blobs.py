"""Canonical JSON, and blobs that are checked and put right."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput, NotFound
from webmill.infra.storage.base import Stat
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish.blobs import BlobStore, canonical_json, restore
from webmill.publish.keys import blob_key, hash_of_key, version_of_key

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def without_surrogates(content: object) -> bool:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(JSON.filter(without_surrogates))
@settings(deadline=None)
def test_canonical_json_means_the_same_and_does_not_depend_on_the_order_of_keys(content: object) -> None:
    data = canonical_json(content)  # type: ignore[arg-type]
    assert json.loads(data) == content
    if isinstance(content, dict):
        assert canonical_json(dict(reversed(content.items()))) == data


def test_its_bytes_are_fixed_for_ever() -> None:
    """Another form would give every blob another name."""
    assert canonical_json({"제목": "학사", "b": [1, 2.5, None, True], "a": "\n"}) == (
        '{"a":"\\n","b":[1,2.5,null,true],"제목":"학사"}'.encode()
    )


@given(st.dictionaries(st.text(), st.none() | st.text(), max_size=5).filter(without_surrogates))
@settings(deadline=None)
def test_texts_alone_have_the_bytes_that_they_have_beside_a_number(content: dict[str, str | None]) -> None:
    """They are written by another encoder, which must be no other form."""
    beside = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical_json(content) == beside.encode()


def test_every_letter_has_the_same_bytes_from_both_encoders() -> None:
    letters = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    assert canonical_json({"text": letters}) == canonical_json({"text": letters, "z": 1})[: -len(b',"z":1}')] + b"}"


def deep() -> object:
    value: object = []
    for _ in range(100_000):
        value = [value]
    return value


NO_JSON = {
    "nan": float("nan"),
    "infinity": float("inf"),
    "surrogate": "\ud800",
    "surrogate_in_a_text": {"text": "\ud800"},
    "surrogate_in_a_key": {"\ud800": "text"},
    "set": {1},
    "key": {(1, 2): 3},
    "deep": deep(),
}


@pytest.mark.parametrize("content", NO_JSON.values(), ids=NO_JSON)
def test_what_no_json_can_hold_is_refused(content: object) -> None:
    with pytest.raises(BadInput, match="bad_content"):
        canonical_json(content)  # type: ignore[arg-type]


BAD_HASHES = [
    "",
    "abc",
    "A" * 64,
    "a" * 63,
    "a" * 65,
    "../" + "a" * 61,
    "a" * 64 + "\n",
    "g" * 64,
    "a" * 32 + "/" + "a" * 31,
]


@pytest.mark.parametrize("hash_", BAD_HASHES, ids=range(len(BAD_HASHES)))
def test_what_is_no_hash_never_becomes_a_key_c06(hash_: str) -> None:
    blobs = BlobStore(MemoryStorage())
    for call in (blob_key, blobs.get, blobs.exists, lambda text: restore(MemoryStorage(), text)):
        with pytest.raises(BadInput, match="bad_hash"):
            call(hash_)
    assert hash_of_key(f"blobs/sha256/{hash_}.json") is None


def test_keys_of_strangers_are_told_from_ours() -> None:
    assert version_of_key("snapshots/00000001-0123abcd/index/all.json") == "00000001-0123abcd"
    for key in ("snapshots/_history/000000000001.json", "snapshots/readme.txt", "snapshots/1-2/x"):
        assert version_of_key(key) is None


def test_a_blob_is_written_once() -> None:
    blobs = BlobStore(MemoryStorage())
    hashes = {blobs.put({"a": 1, "b": 2}), blobs.put({"b": 2, "a": 1})}
    assert len(hashes) == 1
    assert (blobs.tally.written, blobs.tally.present) == (1, 1)
    with pytest.raises(NotFound):
        blobs.get("0" * 64)


def test_a_blob_of_another_size_is_always_found() -> None:
    storage = MemoryStorage()
    blobs = BlobStore(storage, sample=0)
    hash_ = blobs.put({"text": "x"})
    storage.write(blob_key(hash_), b"")
    blobs.put({"text": "x"})
    assert blobs.get(hash_) == b'{"text":"x"}'
    assert blobs.tally.repaired == 1


def test_of_rotten_blobs_a_sample_is_found() -> None:
    storage = MemoryStorage()
    hashes = [BlobStore(storage).put({"number": number}) for number in range(300)]
    for hash_ in hashes:
        key = blob_key(hash_)
        storage.write(key, storage.read(key).replace(b"number", b"rotten"))
    blobs = BlobStore(storage, sample=0.1, rng=random.Random(5))
    for number in range(300):
        blobs.put({"number": number})
    assert 10 < blobs.tally.repaired < 60


class Taken(MemoryStorage):
    """Whatever is looked at is taken away at once."""

    def stat(self, key: str) -> Stat:
        found = super().stat(key)
        self.delete(key)
        return found


def test_a_blob_that_is_taken_while_it_is_looked_at_is_put_again() -> None:
    storage = Taken()
    blobs = BlobStore(storage, sample=1)
    hash_ = blobs.put({"text": "x"})
    assert blobs.put({"text": "x"}) == hash_
    assert blobs.get(hash_) == b'{"text":"x"}'


def test_a_blob_comes_back_only_from_a_whole_copy() -> None:
    storage, mirror = MemoryStorage(), MemoryStorage()
    hash_ = BlobStore(mirror).put({"text": "x"})
    storage.write(f"snapshots/_trash/{hash_}.json", b"rotten too")
    assert not restore(storage, hash_)
    assert restore(storage, hash_, mirrors=[MemoryStorage(), mirror])
    assert BlobStore(storage).get(hash_) == b'{"text":"x"}'

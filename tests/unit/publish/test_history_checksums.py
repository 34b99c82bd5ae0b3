"""Every record of the history and the pointer to it are checked: each flipped bit is an error, or changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from webmill.errors import WebmillError
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import history
from webmill.publish.keys import LATEST, record_key
from webmill.publish.types import Version, decode, encode

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def version(number: int) -> Version:
    name = f"{number:08d}-{number:08x}"
    return Version(
        version=name,
        sequence=number,
        published_at=NOW,
        count=number,
        manifest_sha256=f"{number:064x}",
        manifest_bytes=5,
        run="run",
    )


@pytest.fixture
def storage() -> MemoryStorage:
    storage, last = MemoryStorage(), None
    for number in (1, 2, 3):
        last = history.append_record(storage, last, kind="publish", at=NOW, live=version(number))
    return storage


def read_all(storage: MemoryStorage) -> object:
    last = history.read_last_record(storage)
    assert last
    return [history.live_version(storage), history.versions_at(storage, last)]


@pytest.mark.parametrize("key", [record_key(1), record_key(2), record_key(3), LATEST])
def test_every_flipped_bit_is_an_error_that_names_the_file_or_changes_nothing(storage: MemoryStorage, key: str) -> None:
    whole, data, refused = read_all(storage), storage.read(key), list[str]()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        storage.write(key, bytes(flipped))
        try:
            assert read_all(storage) == whole, f"bit {bit}"
        except WebmillError as error:
            refused.append(str(error))
    assert len(refused) > 6 * len(data)
    assert all(key in message for message in refused)


def test_records_of_before_have_no_checksum_and_are_checked_by_the_next_one(storage: MemoryStorage) -> None:
    storage = MemoryStorage()
    first = history.append_record(storage, None, kind="publish", at=NOW, live=version(1))
    storage.write(record_key(1), encode(first.commit))
    before = history.read_last_record(storage)
    assert before
    assert before.commit == first.commit
    last = history.append_record(storage, before, kind="publish", at=NOW, live=version(2))
    assert [one.version for one in history.versions_at(storage, last)] == [version(1).version, version(2).version]
    storage.write(record_key(1), storage.read(record_key(1)).replace(b'"count":1', b'"count":9'))
    with pytest.raises(WebmillError, match=record_key(1)):
        history.versions_at(storage, last)
    assert decode(storage.read(record_key(1)), dict, source="")["live"]["count"] == 9

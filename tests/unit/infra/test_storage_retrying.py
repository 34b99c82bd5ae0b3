"""Patience around a storage that is down for a while: what is tried again, from where, and what is not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from webmill.errors import Unavailable
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Absent, Stat
from webmill.infra.storage.memory import MemoryStorage
from webmill.infra.storage.retrying import Retrying


class Flaky(MemoryStorage):
    """Fails the next `down` calls; a write fails after it has read half of its source."""

    def __init__(self) -> None:
        super().__init__()
        self.down = 0
        self.calls = 0

    def _work(self) -> None:
        self.calls += 1
        if self.down:
            self.down -= 1
            raise Unavailable("down")

    def stat(self, key: str) -> Stat:
        self._work()
        return super().stat(key)

    def read(self, key: str, **options: Any) -> bytes:
        self._work()
        return super().read(key, **options)

    def open(self, key: str, **options: Any) -> BinaryIO:
        self._work()
        return super().open(key, **options)

    def write(self, key: str, data: Any, **options: Any) -> Stat:
        if self.down and hasattr(data, "read"):
            data.read(3)
        self._work()
        return super().write(key, data, **options)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        for stat in super().list(prefix, start_after=start_after):
            self._work()
            yield stat

    def delete(self, key: str) -> None:
        self._work()
        super().delete(key)


@pytest.fixture
def flaky() -> Flaky:
    return Flaky()


@pytest.fixture
def storage(flaky: Flaky) -> Retrying:
    return Retrying(flaky, policy=BackoffPolicy(attempts=3), sleep=lambda _: None)


def test_what_may_be_repeated_is_repeated(flaky: Flaky, storage: Retrying) -> None:
    flaky.down = 2
    storage.write("k", b"value")
    for look in (storage.stat, storage.read, storage.open, storage.delete):
        flaky.down = 2
        look("k")
    flaky.down = 3
    with pytest.raises(Unavailable):
        storage.stat("k")


def test_a_stream_is_written_again_from_where_it_stood(flaky: Flaky, storage: Retrying) -> None:
    stream = io.BytesIO(b"skip, value")
    stream.seek(6)
    flaky.down = 2
    storage.write("k", stream)
    assert storage.read("k") == b"value"


def test_a_stream_that_cannot_go_back_is_written_once(flaky: Flaky, storage: Retrying) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    flaky.down = 1
    with pytest.raises(Unavailable):
        storage.write("k", Pipe(b"value"))
    assert flaky.calls == 1


def test_a_conditional_write_is_not_repeated(flaky: Flaky, storage: Retrying) -> None:
    flaky.down = 1
    with pytest.raises(Unavailable):
        storage.write("k", b"value", condition=Absent())
    assert flaky.calls == 1
    storage.write("k", b"value", condition=Absent())


def test_a_list_goes_on_behind_the_last_key(flaky: Flaky, storage: Retrying) -> None:
    names = [f"k{n}" for n in range(6)]
    for name in names:
        storage.write(name, b"x")
    found = []
    for stat in storage.list("k"):
        found.append(stat.key)
        flaky.down = 2
    assert found == names

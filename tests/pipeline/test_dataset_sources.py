"""A file that is read again in part: the same bytes, few requests, little memory."""

from __future__ import annotations

import io
import tracemalloc
from typing import BinaryIO

from webmill.pipeline.extract.task_files import ReplayStream

DATA = bytes(range(256)) * 40


class Opened:
    def __init__(self) -> None:
        self.at: list[int] = []

    def __call__(self, at: int) -> BinaryIO:
        self.at.append(at)
        return io.BytesIO(DATA[at:])


def read_to(replay: ReplayStream, end: int, *, at: int) -> bytes:
    data = b""
    while at + len(data) < end:
        data += replay.read(min(100, end - at - len(data)))
    return data


def test_what_is_kept_is_read_again_without_opening_the_file_anew() -> None:
    opened = Opened()
    replay = ReplayStream(opened, at=50, keep=1000)
    assert read_to(replay, 900, at=50) == DATA[50:900]
    replay.rewind(300)
    assert read_to(replay, 2000, at=300) == DATA[300:2000]
    replay.rewind(2000)
    assert opened.at == [50]
    replay.close()


def test_what_is_not_kept_any_more_is_read_from_the_file() -> None:
    opened = Opened()
    replay = ReplayStream(opened, at=0, keep=1000)
    read_to(replay, 5000, at=0)
    replay.rewind(3000)
    assert read_to(replay, 9000, at=3000) == DATA[3000:9000]
    assert opened.at == [0, 3000]
    replay.close()


class Zeros(io.RawIOBase):
    def read(self, size: int = -1, /) -> bytes:
        return bytes(size)


def test_a_record_that_never_ends_takes_no_more_memory_than_is_kept() -> None:
    replay = ReplayStream(lambda _: Zeros(), at=0, keep=1 << 20)  # type: ignore[arg-type, return-value]
    tracemalloc.start()
    for _ in range(1000):
        replay.read(64 << 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    replay.close()
    assert peak < 4 << 20

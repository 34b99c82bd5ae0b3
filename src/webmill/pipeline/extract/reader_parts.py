"""Parts of a task whose files are read by a class of your own (`webmill.extract.own_reader`).

The class may keep a state of its own while it reads: so a task that goes on reads its files again from the beginning,
and the answers that are durable already are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from webmill.errors import BadInput, WebmillError
from webmill.extract.own_reader import FileReader, Reading
from webmill.formats.compression.decompressors import ERRORS, Decompressor, GzipDecompressor, ZstdDecompressor
from webmill.pipeline.extract.parts import TaskPart
from webmill.pipeline.extract.receipts import Receipt
from webmill.pipeline.extract.task_files import LocateFile, ReplayStream, open_task_files
from webmill.pipeline.extract.tasks import Task

T = TypeVar("T")

READINGS = "READINGS"  # how many answers of a reader are done
CHUNK = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class ReaderTask(NamedTuple):
    """A task, who reads it, where its files are, and what it has done so far."""

    task: Task
    reader: FileReader
    find: LocateFile
    done: list[Receipt]


def reader_parts(
    work: ReaderTask, *, new_part: Callable[[], TaskPart], progressed: Callable[[], None]
) -> Iterator[TaskPart]:
    """Yield parts: the answers of the reader in their order, those behind the last receipt."""
    behind = work.done[-1].resume.get(READINGS, 0) if work.done else 0
    known = work.done[-1].sources if work.done else {}
    files = dict(_ask(work.reader.resolve, work.task.files))
    with open_task_files(files, work.find, start={}, known=known) as (streams, sources):
        part = new_part()
        for at, reading in enumerate(_readings(work.reader, files, streams), start=1):
            progressed()
            if at <= behind:
                continue
            part.add_reading(reading)
            part.sources, part.resume = sources, {READINGS: at}
            if part.is_full() or part.is_full_of_errors():
                yield part
                part = new_part()
        part.sources, part.resume, part.last = sources, part.resume or {READINGS: behind}, True
        yield part


def _readings(reader: FileReader, files: Mapping[str, str], streams: Mapping[str, ReplayStream]) -> Iterator[Reading]:
    opened = {name: PlainFile(files[name], stream) for name, stream in streams.items()}
    answers = iter(_ask(reader.read, opened))
    while (answer := _ask(next, answers, None)) is not None:
        yield answer


def _ask(call: Callable[..., T], *arguments: object) -> T:
    """Call code of yours. BadInput (reader_failed): it raised something, and would again."""
    try:
        return call(*arguments)
    except (WebmillError, MemoryError):
        raise
    except Exception as error:
        raise BadInput(f"{type(error).__name__}: {error}", reason="reader_failed") from error


class PlainFile:
    """A file without its compression, gzip or zstd."""

    def __init__(self, name: str, stream: ReplayStream) -> None:
        self.name = name
        self._stream = stream
        self._pieces = self._decompressed()
        self._left = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        data, self._left = self._left[:size], self._left[size:]
        return bytes(data)

    def _decompressed(self) -> Iterator[bytes]:
        first = self._stream.read(CHUNK)
        decompressor = self._decompressor(first)
        data = first
        while data:
            if decompressor is None:
                yield data
            else:
                yield from self._fed(decompressor, data)
            data = self._stream.read(CHUNK)
        if decompressor and first and not decompressor.ended:
            raise BadInput("the file ends within its compressed data", reason="truncated_member", source=self.name)

    def _decompressor(self, first: bytes) -> Decompressor | None:
        if first.startswith(GZIP):
            return GzipDecompressor()
        return ZstdDecompressor() if first.startswith(ZSTD) else None

    def _fed(self, decompressor: Decompressor, data: bytes) -> Iterator[bytes]:
        try:
            yield from (piece for piece in decompressor.feed(data) if piece)
        except ERRORS as error:
            raise BadInput(str(error), reason="bad_compression", source=self.name) from error

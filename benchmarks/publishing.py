"""Publishing documents as `webmill publish documents` does: all of them, then again with 1 % changed; and how the two
versions differ. They are read from JSON lines (zstd), 5000 in a file, which is part of our times. With `BENCH_PLACES=1`
they say where they were captured, as those of `webmill cc` do, and each of them somewhere else the second time.

The rival is reference 004's first implementation: every version holds every document in a file of its own, written
anew. It syncs nothing; the line below it is the same with the writes made durable, as ours are.
`BENCH_DOCUMENTS` sets the number of documents (100,000). The folder is on the disk of `TMPDIR`. On a machine that
others use as well, look at the CPU's time.
"""

from __future__ import annotations

import json
import os
import random
import resource
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import zstandard

from benchmarks.frame import cpu_seconds
from webmill.infra.atomic import write_bytes
from webmill.infra.storage.base import Condition, Data, Stat
from webmill.infra.storage.local import LocalStorage
from webmill.model import Document
from webmill.pipeline.documents import DocumentFiles
from webmill.pipeline.publish.documents import WRITERS, publish_documents
from webmill.publish import history
from webmill.publish.diff import diff_indexes
from webmill.publish.manifest import read_version_index
from webmill.publish.publication import PublishOptions

FILE = 5000
Row = tuple[str, dict[str, str]]
PLACES = os.environ.get("BENCH_PLACES") == "1"
DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "100000"))
WORDS = [f"{first}{second}" for first in ("ba", "ke", "lo", "mi", "ru") for second in ("n", "st", "ra", "ler", "vo")]


LOCK = threading.Lock()


class Counting(LocalStorage):
    writes = written = 0

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        stat = super().write(key, data, condition=condition)
        with LOCK:
            self.writes += 1
            self.written += stat.size
        return stat


def documents(changed: frozenset[int] = frozenset()) -> Iterator[Row]:
    """About 3 KB each, as the text of a web page."""
    dice = random.Random(1)
    for number in range(DOCUMENTS):
        text = " ".join(dice.choices(WORDS, k=700)) + (" changed" if number in changed else "")
        yield f"com,example{number % 5000})/page/{number}", {"text": text, "title": text[:60], "language": "eng"}


def place_of(id_: str, *, again: bool) -> dict[str, str | int]:
    """Every page was captured again, also those that are the same."""
    date, file = ("2024-09-01T00:00:00Z", "37-00017") if again else ("2024-06-01T00:00:00Z", "23-00042")
    if not PLACES:
        return {"date": date}
    name = f"crawl-data/CC-MAIN-2024-{file[:2]}/segments/1720763514387.30/warc/CC-MAIN-{date[:10]}-{file}.warc.gz"
    offset = zlib.crc32(f"{id_} {date}".encode())
    return {"date": date, "warc_filename": name, "warc_offset": offset, "warc_length": 5000 + len(id_)}


def line_of(id_: str, known: dict[str, str | int]) -> bytes:
    document = Document(id=id_, url=f"http://{id_}", urlkey=id_)
    row = msgspec.to_builtins(document) | known | {"text_chars": len(str(known["text"]))}
    return msgspec.json.encode(row) + b"\n"


def write_files(place: LocalStorage, changed: frozenset[int] = frozenset()) -> None:
    for number, rows in enumerate(batched(documents(changed), FILE)):
        lines = [line_of(id_, {**place_of(id_, again=bool(changed)), **content}) for id_, content in rows]
        place.write(f"part-{number:05d}.jsonl.zst", zstandard.ZstdCompressor().compress(b"".join(lines)))


def batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, size)):
        yield batch


class Silent:
    def advance(self, count: int = 1) -> None: ...


def publish(storage: Counting, place: LocalStorage) -> None:
    files = DocumentFiles(place, folder=place.root)
    publish_documents(storage, files, options=PublishOptions(facets=("language",), writers=WRITERS), bar=Silent())


def publish_plainly(place: Path, changed: frozenset[int], *, durable: bool) -> None:
    place.mkdir()
    for number, (id_, content) in enumerate(documents(changed)):
        data = json.dumps({"id": id_, **content}).encode()
        if durable:
            write_bytes(place / f"{number}.json", data)
        else:
            (place / f"{number}.json").write_bytes(data)


def timed(title: str, work: object, *, storage: Counting | None = None) -> tuple[float, float, int, int]:
    writes, written = (storage.writes, storage.written) if storage else (0, 0)
    started, cpu = time.perf_counter(), cpu_seconds()
    work()  # type: ignore[operator]
    seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
    writes, written = (storage.writes - writes, storage.written - written) if storage else (0, 0)
    told = f"{writes:,} | {written / 1e6:,.1f}" if storage else " | "
    print(f"| {title} | {seconds:,.1f} | {cpu:,.1f} | {told} |")
    return seconds, cpu, writes, written


def main() -> None:
    changed = frozenset(random.Random(2).sample(range(DOCUMENTS), DOCUMENTS // 100))
    print(f"\n## publishing {DOCUMENTS:,} documents, then again with {len(changed):,} changed\n")
    print("| | seconds | CPU seconds | writes | MB written |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        storage = Counting(Path(folder) / "ours")
        place = LocalStorage(Path(folder) / "documents")
        write_files(place)
        first = timed("first publication", lambda: publish(storage, place), storage=storage)
        write_files(place, changed)
        second = timed("second publication", lambda: publish(storage, place), storage=storage)
        compare(storage, len(changed))
        for durable in (False, True):
            place = Path(folder) / f"plain-{durable}"
            title = f"a file for every document, in each version{', synced' if durable else ''}"
            timed(title, lambda place=place, d=durable: publish_plainly(place, changed, durable=d))
    ratios = [f"{after / before:.1%}" for before, after in zip(first, second, strict=True)]
    print(f"\nSecond to first: time {ratios[0]}, CPU {ratios[1]}, writes {ratios[2]}, bytes {ratios[3]}.")
    print(f"Most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB.")


def compare(storage: Counting, changed: int) -> None:
    last = history.read_head(storage)
    assert last
    old, new = history.versions_at(storage, last)

    def difference() -> None:
        found = [*diff_indexes(storage, read_version_index(storage, old), read_version_index(storage, new))]
        assert [difference.change for difference in found] == ["changed"] * changed

    timed("difference of the two", difference)


if __name__ == "__main__":
    main()

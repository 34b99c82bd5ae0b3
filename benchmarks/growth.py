"""How cost and memory grow with size: the same work on inputs of several sizes, each made and done in processes of
their own. What one thing costs should not grow with their number, and memory should come to its bound: runs of a sort
(256 MiB), the journal and filters of a frontier, a search index's buffer. Small sizes pay for the start of things, and
an index of few blocks is held in memory.

The picture is `benchmarks/growth.svg`. `BENCH_SHARE=0.1` for a tenth of the sizes.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.frame import cpu_seconds
from benchmarks.growth_plot import Point, plot

SHARE = float(os.environ.get("BENCH_SHARE", "1"))
PICTURE = Path(__file__).with_name("growth.svg")

# What a subject needs is imported in its functions: the memory of one is not that of another's libraries.


def make_warc(folder: Path, size: int) -> None:
    from benchmarks.indexing import make_file

    make_file(folder / "one.warc.gz", captures=size)


def index_warc(folder: Path, _: int) -> int:
    from webmill.index.build.warc import index_file
    from webmill.model import Damage

    with (folder / "one.warc.gz").open("rb", buffering=0) as file:
        return sum(not isinstance(item, Damage) for item in index_file(file, filename="one.warc.gz"))


def make_lines(folder: Path, size: int) -> None:
    from benchmarks.cdxj_tools import make_line

    dice = random.Random(1)
    with (folder / "lines").open("wb") as out:
        out.writelines(make_line(dice) for _ in range(size))


def sort_into_zipnum(folder: Path, size: int) -> int:
    from webmill.index.cdxj.sort import sort_lines
    from webmill.index.lines import read_batches
    from webmill.index.zipnum.writer import write_index

    lines = read_batches(folder / "lines")
    write_index(sort_lines(lines, folder=folder), folder / "index", threads=1)
    return size


def make_index(folder: Path, size: int) -> None:
    make_lines(folder, size)
    sort_into_zipnum(folder, size)


def look_up(folder: Path, _: int) -> int:
    from benchmarks.zipnum import make_queries
    from webmill.formats.cdx.query import key_range
    from webmill.index.lookup.indexes import open_index

    reader, queries = open_index(folder / "index"), make_queries(folder / "lines", "exact", 1000)
    assert all(next(iter(reader.lines(key_range(url, "exact"))), None) for url, _ in queries)
    return len(queries)


def make_nothing(folder: Path, size: int) -> None:
    pass


def add_to_frontier(folder: Path, size: int) -> int:
    from benchmarks.frontier import Web
    from webmill.crawl.frontier.base import FrontierUpdate
    from webmill.crawl.frontier.local import LocalFrontier

    web, added, given = Web(max(100, size // 50)), 0, 0
    with closing(LocalFrontier(folder / "frontier")) as frontier:
        while added < size:
            links = web.links()
            added += frontier.commit(FrontierUpdate(links=links), now=float(added)).added
            given += len(links)
    return given


def queue_up(folder: Path, size: int) -> int:
    from webmill.infra.queue.base import Message
    from webmill.infra.queue.sqlite import SqliteQueue

    with closing(SqliteQueue(folder / "queue")) as queue:
        for start in range(0, size, 100):
            queue.publish(Message(str(number), b"x" * 500) for number in range(start, start + 100))
        with queue.consume(prefetch=20) as consumer:
            for _ in range(size):
                delivery = consumer.receive(timeout=60)
                assert delivery
                delivery.ack()
    return size


def make_version(folder: Path, _: int) -> None:
    from benchmarks import publishing
    from webmill.infra.storage.local import LocalStorage

    place = LocalStorage(folder / "documents")
    publishing.write_files(place)
    publishing.publish(publishing.Counting(folder / "published"), place)
    changed = frozenset(random.Random(2).sample(range(publishing.DOCUMENTS), publishing.DOCUMENTS // 100))
    publishing.write_files(place, changed)


def publish_again(folder: Path, size: int) -> int:
    from benchmarks import publishing
    from webmill.infra.storage.local import LocalStorage

    publishing.publish(publishing.Counting(folder / "published"), LocalStorage(folder / "documents"))
    return size


def make_documents(folder: Path, _: int) -> None:
    from benchmarks.searching import write_documents

    write_documents(folder / "documents")


def feed_search(folder: Path, _: int) -> int:
    from benchmarks.searching import index_ours

    return index_ours(folder / "documents", folder / "search")


def make_search(folder: Path, size: int) -> None:
    make_documents(folder, size)
    feed_search(folder, size)


def ask_search(folder: Path, _: int) -> int:
    """For words that are in few documents, so that what is counted is finding them."""
    from benchmarks.searching import LANGUAGES
    from webmill.search.base import SearchRequest
    from webmill.search.embedded.engine import EmbeddedEngine
    from webmill.search.query import parse

    words = random.Random(2).choices(LANGUAGES[0][0].words[10_000:], k=300)
    with closing(EmbeddedEngine(folder / "search")) as engine:
        for word in words:
            engine.search(SearchRequest(query=parse(word)))
    return len(words)


@dataclass(frozen=True)
class Subject:
    title: str
    unit: str
    make: Callable[[Path, int], None]
    work: Callable[[Path, int], int]
    sizes: tuple[int, ...]


SUBJECTS = {
    "index": Subject("WARC to CDXJ", "capture", make_warc, index_warc, (250, 1000, 4000)),
    "sort": Subject(
        "sort CDXJ into ZipNum", "line", make_lines, sort_into_zipnum, (30_000, 100_000, 300_000, 1_000_000)
    ),
    "lookup": Subject("exact lookup in ZipNum", "query", make_index, look_up, (10_000, 100_000, 1_000_000)),
    "frontier": Subject(
        "add links to the frontier", "link", make_nothing, add_to_frontier, (30_000, 100_000, 300_000, 1_000_000)
    ),
    "queue": Subject("queue: publish, receive, ack", "message", make_nothing, queue_up, (1000, 4000, 16_000)),
    "publish": Subject(
        "publish again, 1 % changed", "document", make_version, publish_again, (2000, 6000, 18_000, 54_000)
    ),
    "feed": Subject("feed the search index", "document", make_documents, feed_search, (2000, 6000, 18_000, 54_000)),
    "ask": Subject("ask for a rare word", "query", make_search, ask_search, (2000, 6000, 18_000, 54_000)),
}


def measured(name: str, folder: Path, size: int) -> Point:
    """In a process of its own: what was made before does not count as memory."""
    for step in ("make", "work"):
        command = [sys.executable, "-m", "benchmarks.growth", name, step, str(folder), str(size)]
        environment = {**os.environ, "BENCH_DOCUMENTS": str(size)}
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout
    count, cpu, peak = json.loads(said)
    return Point(size, cpu / count * 1e6, peak / 1024)


def main() -> None:
    print("\n## Cost and memory by size\n\n| | size | CPU, µs each | of the smallest | most memory, MiB |")
    print("|---|---:|---:|---:|---:|")
    charts: dict[str, list[Point]] = {}
    for name, subject in SUBJECTS.items():
        points = charts.setdefault(f"{subject.title}, µs of CPU for each {subject.unit}", [])
        for size in (max(1000 if name != "index" else 10, int(size * SHARE)) for size in subject.sizes):
            with tempfile.TemporaryDirectory(prefix="webmill-bench-") as folder:
                points.append(point := measured(name, Path(folder), size))
            ratio = point.cost / points[0].cost
            print(f"| {subject.title} | {size:,} | {point.cost:,.1f} | {ratio:.2f} | {point.memory:,.0f} |", flush=True)
    PICTURE.write_text(plot(charts))
    print("\n![cost of one and memory by size](growth.svg)")


def one(name: str, step: str, folder: str, size: str) -> None:
    """What `measured` starts."""
    subject = SUBJECTS[name]
    if step == "make":
        subject.make(Path(folder), int(size))
        return
    before = cpu_seconds()
    count = subject.work(Path(folder), int(size))
    cpu = cpu_seconds() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
    print(json.dumps([count, cpu, peak]))


if __name__ == "__main__":
    one(*sys.argv[1:])

"""What 500 changed pages cost in collections of 10,000 and of 100,000 documents: index, extract, publish, search.

The collections are made by the real WARC writer, 2,000 small pages in a file; then everything is indexed, extracted,
published and made searchable. The 500 changes are one more WARC file, with pages from all over the collection. Each
stage is the command that a user runs, in a process of its own: CPU is of it and all its children, *written* is what
they gave to `write`, also to temporary files. What only depends on the changes has the ratio 1.

A search index that is there is brought up to date by `publish`, so that `search` finds nothing left to do.

`BENCH_SHARE=0.1` for a tenth of the sizes and of the changes. `BENCH_KEEP=DIR` keeps the collections for the next time.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.frame import as_installed, cpu_seconds
from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.collection import Collection
from webmill.formats.warc.capture import Capture
from webmill.model import Exchange

SHARE = float(os.environ.get("BENCH_SHARE", "1"))
SIZES = tuple(int(size * SHARE) for size in (10_000, 100_000))
CHANGES = int(500 * SHARE)
PAGES_IN_FILE = 2_000
HOSTS = 100
CRAWL = "BENCH"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = [f"{first}{second}" for first in ("ba", "ke", "lo", "mi", "ru") for second in ("n", "st", "ra", "ler", "vo")]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n"
STAGES = {
    "index": ("index",),
    "extract": ("extract",),
    "publish": ("publish", "documents"),
    "search": ("search", "update"),
}


@dataclass(frozen=True)
class Cost:
    """CPU seconds, and bytes given to `write`."""

    cpu: float
    written: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu + other.cpu, self.written + other.written)


def main() -> None:
    costs = {size: measure_changes(size) for size in SIZES}
    print(f"\n## {CHANGES} changed pages\n\n| | {' | '.join(f'CPU s at {size:,}' for size in SIZES)} | ratio", end="")
    print(f" | {' | '.join(f'MB written at {size:,}' for size in SIZES)} | ratio |\n|---|{'---:|' * 6}")
    for stage in (*STAGES, "together"):
        small, large = (costs[size][stage] for size in SIZES)
        print(f"| {stage} | {small.cpu:.2f} | {large.cpu:.2f} | {large.cpu / small.cpu:.2f}", end="")
        print(f" | {small.written / 1e6:.2f} | {large.written / 1e6:.2f} | {ratio(small.written, large.written)} |")


def ratio(small: int, large: int) -> str:
    return f"{large / small:.2f}" if small else "-"


def measure_changes(size: int) -> dict[str, Cost]:
    """Return what each stage costs after the changes, and all of them together."""
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as folder:
        root = make_collection(Path(folder) / "collection", size)
        change_pages(root, size)
        costs = {stage: run_stage(root, stage) for stage in STAGES}
    return costs | {"together": sum(costs.values(), Cost(0.0, 0))}


def make_collection(root: Path, size: int) -> Path:
    """Make a collection of this many documents, published and searchable, in `root` or from `BENCH_KEEP`."""
    kept = Path(os.environ["BENCH_KEEP"]) / str(size) if "BENCH_KEEP" in os.environ else None
    if kept and kept.is_dir():
        shutil.copytree(kept, root)
    else:
        for start in range(0, size, PAGES_IN_FILE):
            write_pages(root, range(start, min(size, start + PAGES_IN_FILE)), at=BEGAN, label="first")
    for stage in STAGES:  # a copy has other inodes: it is looked at again
        run_stage(root, stage)
    if kept and not kept.is_dir():
        shutil.copytree(root, kept)
    return root


def change_pages(root: Path, size: int) -> None:
    changed = sorted(random.Random(2).sample(range(size), CHANGES))
    write_pages(root, changed, at=BEGAN + timedelta(days=1), label="changed")


def write_pages(root: Path, numbers: Iterable[int], *, at: datetime, label: str) -> None:
    writer = WarcWriter(
        Collection(root, CRAWL),
        segment="1",
        stem=label,
        software=WarcinfoDetails(),
        now=lambda: at,
        languages=False,
    )
    with writer:
        for capture in captures(numbers, at=at, label=label):
            writer.append(capture)
        writer.sync()


def captures(numbers: Iterable[int], *, at: datetime, label: str) -> Iterator[Capture]:
    for number in numbers:
        host, path = f"www.site{number % HOSTS}.example", f"/page/{number}"
        dice = random.Random(f"{number} {label}")
        paragraphs = "".join(f"<p>{' '.join(dice.choices(WORDS, k=60)).capitalize()}.</p>" for _ in range(4))
        body = f"<!doctype html><title>Page {number}</title><h1>{label} {number}</h1>{paragraphs}".encode()
        asked = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        exchange = Exchange(
            url=f"https://{host}{path}",
            date=at + timedelta(seconds=number),
            seconds=0.05,
            ip="192.0.2.1",
            request=asked,
            response=HEAD + body,
        )
        yield Capture(exchange=exchange, payload=body)


def run_stage(root: Path, stage: str) -> Cost:
    """Run the command of a stage. Linux adds what a child wrote to its parent's account when it has ended."""
    cpu, written = cpu_seconds(), bytes_written()
    command = [sys.executable, "-m", "webmill", "--quiet", *STAGES[stage], str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=as_installed())
    return Cost(cpu_seconds() - cpu, bytes_written() - written)


def bytes_written() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


if __name__ == "__main__":
    main()

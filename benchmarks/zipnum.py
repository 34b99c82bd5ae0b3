"""ZipNum beside Python's gzip (writing) and pywb's own reader (lookup, in the judges' environment).

`BENCH_LINES` sets the number of lines (1,000,000). Both readers answer the same queries over the same index, each in a
process that is warm; only the CPU time of the queries counts. pywb's lines come parsed, ours as bytes.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cdxj_tools import make_line
from benchmarks.frame import Result, print_table, race
from webmill.formats.cdx.query import key_range
from webmill.formats.cdx.zipnum import LINES_PER_BLOCK, encode_block
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import Batch, in_batches, read_batches
from webmill.index.lookup.indexes import ZipNumIndex, flatten, open_index
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.local import LocalStorage

LINES = int(os.environ.get("BENCH_LINES", "1000000"))
QUERIES = 300
ROUNDS = 3
JUDGES = Path(__file__).parent.parent / ".venv-judges" / "bin"

Query = tuple[str, str]

ASK_PYWB = """
import json, sys, time
from pywb.warcserver.index.zipnum import ZipNumIndexSource

source = ZipNumIndexSource(sys.argv[1], {"max_blocks": 10**9})
queries = json.load(sys.stdin)
for _ in range(int(sys.argv[2])):
    start, count = time.process_time(), 0
    for url, kind in queries:
        count += sum(1 for _ in source.load_index({"url": url, "matchType": kind}))
    print(count, time.process_time() - start, flush=True)
"""


def make_blocks(count: int) -> Iterator[Batch]:
    dice = random.Random(1)
    return in_batches((make_line(dice) for _ in range(count)), size=LINES_PER_BLOCK)


def race_writing(path: Path, folder: Path) -> None:
    blocks = [block for block, _ in zip(_blocks_of(path), range(30), strict=False)]
    size = sum(len(line) for block in blocks for line in block)
    ours = sum(len(encode_block(block)) for block in blocks)
    theirs = sum(len(gzip.compress(b"".join(block), 6)) for block in blocks)

    def with_gzip() -> int:
        with (folder / "gzip").open("wb") as out:
            for block in blocks:
                out.write(gzip.compress(b"".join(block), 6))
        return size

    def with_webmill() -> int:
        write_index(blocks, folder / "written", threads=1)
        return size

    race(
        "zipnum, one thread, index published",
        {"webmill": with_webmill, "gzip.compress 6, no index": with_gzip},
        unit="bytes",
    )
    print(f"\nsize: {ours:,} bytes, gzip 6 {theirs:,}: {ours / theirs:.3f} of it")


def _blocks_of(path: Path) -> Iterator[Batch]:
    return in_batches((line for batch in read_batches(path) for line in batch), size=LINES_PER_BLOCK)


def race_flatten(index: Path) -> None:
    shards = sorted(index.glob("cdx-*.gz"))

    def with_gzip() -> int:
        count = 0
        for shard in shards:
            with gzip.open(shard) as lines:
                count += sum(1 for _ in lines)
        return count

    ours = lambda: sum(map(len, flatten(ZipNumIndex(LocalStorage(index)))))  # noqa: E731
    race("flatten, order and members checked", {"webmill": ours, "gzip.open": with_gzip}, unit="lines", rounds=1)


def make_queries(path: Path, kind: str, count: int) -> list[Query]:
    dice = random.Random(3)
    with path.open("rb") as file:
        size = path.stat().st_size
        queries = []
        while len(queries) < count:
            file.seek(dice.randrange(size - (1 << 16)))
            file.readline()
            queries.append((json.loads(file.readline().split(b" ", 2)[2])["url"], kind))
    return queries


def ask_webmill(index: Path, queries: list[Query]) -> Result:
    reader = open_index(index)
    best = Result("webmill", 0, float("inf"))
    for _ in range(ROUNDS):
        start = time.process_time()
        count = sum(1 for url, kind in queries for _ in reader.lines(key_range(url, kind)))  # type: ignore[arg-type]
        best = min(best, Result("webmill", count, time.process_time() - start), key=lambda result: result.cpu)
    return best


def ask_pywb(index: Path, queries: list[Query]) -> Result:
    command = [JUDGES / "python", "-W", "ignore", "-c", ASK_PYWB, index / "cluster.idx", ROUNDS]
    said = subprocess.run(
        [str(word) for word in command], input=json.dumps(queries), stdout=subprocess.PIPE, text=True, check=True
    )
    rounds = [line.split() for line in said.stdout.splitlines()]
    return min((Result("pywb", int(count), float(cpu)) for count, cpu in rounds), key=lambda result: result.cpu)


def race_lookup(index: Path, path: Path, kind: str, count: int) -> None:
    queries = make_queries(path, kind, count)
    ours, theirs = ask_webmill(index, queries), ask_pywb(index, queries)
    print_table(f"{count} {kind} lookups in {LINES:,} lines", {"webmill": ours, "pywb": theirs}, unit="lines")
    print(f"\nper query: {ours.cpu / count * 1e3:.2f} ms of CPU, pywb {theirs.cpu / count * 1e3:.2f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "all.cdxj"
        with path.open("wb", buffering=0) as out:
            for batch in sort_lines(make_blocks(LINES), folder=folder):
                out.write(b"".join(batch))
        race_writing(path, folder)
        write_index(read_batches(path), folder / "index")
        race_lookup(folder / "index", path, "exact", QUERIES)
        race_lookup(folder / "index", path, "host", 20)
        race_flatten(folder / "index")


if __name__ == "__main__":
    main()

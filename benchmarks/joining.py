"""Joining WARC, WAT and WET files into pages, beside a bare FastWARC iteration over the same three files.

webmill joins, proves every member and reads title and text of every page; FastWARC only steps over the records. The
target is half of FastWARC's pages per second. Then one process beside two, each with its own files, by wall clock:
the target is 1.7 times the pages per second, and needs two cores that have nothing else to do.

The files are the Common Crawl-like sample when WEBMILL_TEST_DATA (default ../shared/data) has it, else made here.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.unit.commoncrawl.triples import WARC, WAT, WET, Spec, make_triple

from benchmarks.frame import race
from webmill.commoncrawl.aligned import read_pages
from webmill.commoncrawl.page import Page

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator
    from fastwarc.warc import WarcRecordType

SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc"
EXTENSIONS = {WARC: ".gz", WAT: ".wat.gz", WET: ".wet.gz"}
ROUNDS = 5
REPEATS = 2  # of the whole join in one process, so that starting processes does not count


def join(base: Path) -> int:
    pages = 0
    with ExitStack() as stack:
        warc, wat, wet = (stack.enter_context(path.open("rb")) for path in paths(base))
        for page in read_pages(warc, wat, wet):
            if isinstance(page, Page):
                pages += 1
                _ = page.title, page.text
    return pages


def iterate(base: Path) -> int:
    pages = 0
    for path in paths(base):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, parse_http=False):
                pages += record.record_type == WarcRecordType.response
    return pages


def join_often(base: Path) -> int:
    return sum(join(base) for _ in range(REPEATS))


def paths(base: Path) -> list[Path]:
    return [Path(f"{base}{extension}") for extension in EXTENSIONS.values()]


def wall_clock(bases: list[Path]) -> float:
    """Seconds per page, with one process per base, the processes being there already."""
    with ProcessPoolExecutor(len(bases)) as pool:
        list(pool.map(join, bases))
        start = time.perf_counter()
        pages = sum(pool.map(join_often, bases))
        return (time.perf_counter() - start) / pages


def make_files(base: Path, *, pages: int = 500) -> None:
    dice = random.Random(1)
    words = [dice.randbytes(dice.randint(1, 6)).hex() for _ in range(5000)]
    specs = []
    for number in range(pages):
        text = " ".join(dice.choices(words, k=dice.randint(50, 2000)))
        markup = " ".join(f"<p class={word}>" for word in dice.choices(words, k=dice.randint(500, 10_000)))
        specs.append(Spec(str(number), body=f"<html><title>{{0}}</title>{markup}{text}", text=text))
    triple = make_triple(specs)
    for file_type, path in zip(EXTENSIONS, paths(base), strict=True):
        path.write_bytes(triple.of(file_type))


def main() -> None:
    samples = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first.warc", Path(folder) / "second.warc"
        if Path(f"{samples / SAMPLE}.gz").is_file():
            for source, copy in zip(paths(samples / SAMPLE), paths(first), strict=True):
                shutil.copy(source, copy)
        else:
            make_files(first)
        for source, copy in zip(paths(first), paths(second), strict=True):
            shutil.copy(source, copy)
        contestants = {"webmill: pages": lambda: join(first), "FastWARC: records": lambda: iterate(first)}
        race("Joining WARC, WAT and WET", contestants, unit="pages", rounds=ROUNDS)
        turns = [(wall_clock([first]), wall_clock([first, second])) for _ in range(ROUNDS)]
        one, two = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
        print(f"\nTwo processes join {one / two:.2f} times the pages per second of one.")


if __name__ == "__main__":
    main()

"""Programs that archive, to be killed and obstructed: each prints a line for what was acknowledged.

work ROOT STEM      captures in batches of three; a line after each sync
too_early ROOT STEM the same with its lines before the sync: the negative control
stubborn ROOT STEM  the same, going on after every refusal of the disk
fill ROOT STEM      until the disk is full, then with the ballast removed
recover ROOT        what a start after a crash does
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tests.pipeline.archive_checker import account
from tests.unit.archive.captures import NAME, capture, check_files, folder, read_place, sealed, writer
from webmill.archive.recovery import recover
from webmill.archive.writer import WarcWriter
from webmill.collection import Collection
from webmill.errors import Unavailable
from webmill.formats.warc.capture import Subset, WrittenCapture

BATCH = 3
CAPTURES = 15
SUBSETS: tuple[Subset, ...] = ("warc", "warc", "crawldiagnostics", "warc", "robotstxt")


def main() -> None:
    mode, root, *rest = sys.argv[1:]
    if mode == "recover":
        recover(Collection(Path(root), NAME))
        return
    programs = {"work": work, "too_early": too_early, "stubborn": stubborn, "fill": fill}
    programs |= {"endless-work": endless, "endless-faulty": faulty}
    programs[mode](Path(root), rest[0])


def work(root: Path, stem: str) -> None:
    with writer(root, stem=stem, max_bytes=2500) as out:
        for batch in batches():
            places = [append(out, number) for number in batch]
            out.sync()
            acknowledge(root, places)


def too_early(root: Path, stem: str) -> None:
    with writer(root, stem=stem, max_bytes=2500) as out:
        for batch in batches():
            acknowledge(root, [append(out, number) for number in batch], sizes={})
            out.sync()


def stubborn(root: Path, stem: str) -> None:
    """Whatever is refused is tried again in a later batch; the end is when all is acknowledged."""
    due, refusals = list(range(CAPTURES)), 0
    with writer(root, stem=stem, max_bytes=2500) as out:
        while due:
            batch, due = due[:BATCH], due[BATCH:]
            places: dict[int, WrittenCapture] = {}
            for number in batch:
                try:
                    places[number] = append(out, number)
                except Unavailable:
                    refusals += 1
                    due.append(number)
            try:
                out.sync()
            except Unavailable:
                refusals += 1
                due += places
            else:
                acknowledge(root, list(places.values()))
            assert refusals < 50, "it never ends"
    print(json.dumps({"refusals": refusals}), flush=True)


def endless(root: Path, stem: str) -> None:
    with writer(root, stem=stem, max_bytes=50_000) as out:
        for number in range(0, 1_000_000, BATCH):
            places = [append(out, number + more) for more in range(BATCH)]
            out.sync()
            acknowledge(root, places, sizes={})


def faulty(root: Path, stem: str) -> None:
    """Says so without a sync."""
    with writer(root, stem=stem) as out:
        for number in range(1_000_000):
            acknowledge(root, [append(out, number)], sizes={})


def fill(root: Path, stem: str) -> None:
    ballast = root / "ballast"
    ballast.write_bytes(bytes(100_000))
    places: list[WrittenCapture] = []
    refused = 0
    with writer(root, stem=stem) as out:
        for number in range(100_000):
            try:
                place = append(out, number, size=4000)
                out.sync()
            except Unavailable:
                refused += 1
                if refused == 5:
                    ballast.unlink()
            else:
                places.append(place)
                if refused >= 5:
                    break
    for place in places:
        read_place(root, place)
    records = check_files(list(sealed(root)))
    captures = sum(record.type == "response" for record in records)
    lost = len(account(root, places).lost)
    left = [file.name for file in folder(root).iterdir() if file.name.endswith(".open")]
    reported = {"refused": refused, "acknowledged": len(places), "captures": captures, "lost": lost, "open": left}
    print(json.dumps(reported))


def batches() -> Iterator[range]:
    return (range(start, start + BATCH) for start in range(0, CAPTURES, BATCH))


def append(out: WarcWriter, number: int, *, size: int = 0) -> WrittenCapture:
    noise = bytes((number * 7919 + at * at * 31) % 251 for at in range(size))  # does not compress
    return out.append(capture(number, subset=SUBSETS[number % len(SUBSETS)] if not size else "warc", body=noise))


def acknowledge(root: Path, places: list[WrittenCapture], *, sizes: dict[str, int] | None = None) -> None:
    """With the sizes that the files have now: all of it is durable."""
    if sizes is None:
        sizes = open_sizes(root)
    print(json.dumps({"places": msgspec.to_builtins(places), "sizes": sizes}), flush=True)


def open_sizes(root: Path) -> dict[str, int]:
    """Return the sizes of open files. Another process may give its own their final names meanwhile."""
    sizes: dict[str, int] = {}
    for file in (root / "crawl-data").rglob("*.warc.gz.open"):
        with suppress(FileNotFoundError):
            sizes[str(file)] = file.stat().st_size
    return sizes


if __name__ == "__main__":
    main()

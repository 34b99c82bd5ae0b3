"""The streaming CDXJ tools beside what people use: json for add-field, sort -m and heapq.merge, grep -E -v -f, dicts.

`BENCH_LINES` sets the number of lines (300,000). All write real files. The memory table runs each tool in a child, on
a tenth of the lines and on all.
"""

from __future__ import annotations

import gzip
import heapq
import json
import multiprocessing
import os
import random
import re
import resource
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from benchmarks.frame import race
from webmill.index.cdxj.add_fields import AddFieldCounts, add_fields
from webmill.index.cdxj.blocklist import Blocklist, block, load_blocklist
from webmill.index.cdxj.excessive import drop_excessive
from webmill.index.cdxj.extract_field import FieldCounts, field_as_text
from webmill.index.cdxj.merge import MergeRange, merge, merge_range, plan_ranges
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import Batch, FilterCounts, read_batches, write_batches

LINES = int(os.environ.get("BENCH_LINES", "300000"))
FILES = 16
T = TypeVar("T")
BYTE_ORDER = {"LC_ALL": "C", "PATH": os.environ["PATH"]}


def make_line(dice: random.Random) -> bytes:
    top, site = dice.choice(("com", "de", "net", "org", "pt")), f"site{dice.randrange(4000):05d}"
    words = (
        f"{dice.choice(('a', 'artigo', 'img', 'news', 'x'))}{dice.randrange(50)}" for _ in range(dice.randrange(1, 5))
    )
    path, file = "/".join(words), f"CC-MAIN-20240220211055-20240221001055-{dice.randrange(900):05d}.warc.gz"
    data = {
        "url": f"https://www.{site}.{top}/{path}",
        "mime": "text/html",
        "status": "200",
        "digest": f"{dice.getrandbits(160):032X}"[:32],
        "length": str(dice.randrange(100_000)),
        "offset": str(dice.randrange(10**9)),
        "filename": f"crawl-data/CC-MAIN-2024-10/segments/1707947473347.0/warc/{file}",
    }
    stamp = (
        f"20{dice.randrange(10, 25)}{dice.randrange(1, 13):02d}{dice.randrange(1, 29):02d}{dice.randrange(86400):06d}"
    )
    return f"{top},{site})/{path} {stamp} {json.dumps(data)}\n".encode()


def make_inputs(folder: Path, count: int) -> tuple[list[Path], Path]:
    """Sorted files of like size, and the whole as one sorted file."""
    dice = random.Random(1)
    paths = [folder / f"part-{number:02d}.cdxj" for number in range(FILES)]
    for path in paths:
        path.write_bytes(b"".join(sorted(make_line(dice) for _ in range(count // FILES))))
    write(merge(paths), folder / "all.cdxj")
    return paths, folder / "all.cdxj"


def write(batches: Iterable[Batch], path: Path) -> int:
    with path.open("wb", buffering=0) as out:
        return write_batches(batches, out)


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def run(*command: str | Path, out: Path) -> int:
    """A rival's process; its line count is known without reading the output again."""
    with out.open("wb") as target:
        subprocess.run([str(word) for word in command], stdout=target, env=BYTE_ORDER, check=True)
    return 0


# --- add-field ------------------------------------------------------------------------------------------------------


def add_with_json(source: Path, target: Path) -> int:
    count = 0
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            key, stamp, text = line.rstrip("\n").split(" ", 2)
            data = json.loads(text)
            data["collection"] = "EAWP"
            out.write(f"{key} {stamp} {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n")
            count += 1
    return count


def race_addfield(source: Path, out: Path) -> None:
    ours = lambda: write(add_fields(read_batches(source), {"collection": "EAWP"}, counts=AddFieldCounts()), out)  # noqa: E731
    race("add-field", {"webmill": ours, "json.loads/dumps": lambda: add_with_json(source, out)}, unit="lines")


# --- merge and sort -------------------------------------------------------------------------------------------------


def merge_with_heapq(paths: list[Path], target: Path) -> int:
    files = [path.open("rb", buffering=1 << 20) for path in paths]
    with target.open("wb", buffering=1 << 20) as out:
        out.writelines(heapq.merge(*files))
    for file in files:
        file.close()
    return 0


def race_merge(paths: list[Path], out: Path) -> None:
    total = sum(count_lines(path) for path in paths)
    contestants = {
        "webmill (order checked)": lambda: write(merge(paths), out),
        "LC_ALL=C sort -m": lambda: run("sort", "-m", *paths, out=out) or total,
        "heapq.merge on lines": lambda: merge_with_heapq(paths, out) or total,
    }
    race(f"merge of {len(paths)} files", contestants, unit="lines")


def merge_one(task: tuple[MergeRange, Path]) -> float:
    before = time.process_time()
    write(merge_range(task[0]), task[1])
    return time.process_time() - before


def race_ranges(paths: list[Path], folder: Path) -> None:
    """Elapsed time, for once, and the CPU time of the slower process, which a busy machine disturbs less."""
    elapsed, cpu = {1: 1e9, 2: 1e9}, {1: 1e9, 2: 1e9}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.map(count_lines, paths[:2])
        for parts in (1, 2) * 5:
            start = time.perf_counter()
            tasks = [(part, folder / f"range-{n}") for n, part in enumerate(plan_ranges(paths, parts=parts))]
            slower = max(pool.map(merge_one, tasks, chunksize=1))
            elapsed[parts] = min(elapsed[parts], time.perf_counter() - start)
            cpu[parts] = min(cpu[parts], slower)
    print("\n## merge in 2 ranges by 2 processes, in parts of 1 process\n")
    print(f"elapsed {elapsed[2] / elapsed[1]:.2f}, CPU of the slower process {cpu[2] / cpu[1]:.2f}")


def race_sort(paths: list[Path], out: Path) -> None:
    total = sum(count_lines(path) for path in paths)
    shuffled = out.with_name("shuffled.cdxj")
    lines = [line for path in paths for line in path.read_bytes().splitlines(keepends=True)]
    random.Random(2).shuffle(lines)
    shuffled.write_bytes(b"".join(lines))
    contestants = {
        "webmill, 16 MiB": lambda: write(sort_lines(read_batches(shuffled), memory=16 << 20, folder=out.parent), out),
        "LC_ALL=C sort -S 16M": lambda: run("sort", "-S", "16M", "-T", out.parent, shuffled, out=out) or total,
    }
    race("sort", contestants, unit="lines")


# --- filters --------------------------------------------------------------------------------------------------------


def make_rules(folder: Path, count: int) -> Path:
    """Nine literal prefixes to one rule for the whole line, up to 1,000 of the latter."""
    dice = random.Random(count)
    prefixes = [
        f"^{dice.choice(('com', 'pt'))},site{dice.randrange(4000):05d})/{dice.randrange(10**6)}" for _ in range(count)
    ]
    others = [
        rf'^\S* [0-9]{{14}} \{{"url": "(.*://)?(www.)?site{number:05d}.pt/files/x{number}.pdf(\S)*"'
        for number in range(min(1000, max(1, count // 10)))
    ]
    path = folder / f"rules-{count}"
    path.write_text("\n".join(["# a list", "", *prefixes[len(others) :], *others]) + "\n")
    return path


def race_block(source: Path, folder: Path) -> None:
    out, total = folder / "out", count_lines(source)
    for count in (10, 1_000, 100_000):
        rules = make_rules(folder, count)
        start = time.process_time()
        blocklist = load_blocklist(rules)
        build = time.process_time() - start
        plain = folder / "grep-rules"
        plain.write_text("\n".join(rules.read_text().split("\n")[2:-1]) + "\n")
        contestants = {"webmill": partial(block_with_webmill, source, blocklist, out)}
        if count <= 1_000:  # with 100,000 rules grep needs minutes
            contestants["grep -a -E -v -f"] = partial(block_with_grep, source, plain, out, total)
        race(f"block, {count} rules (loaded in {build:.2f} s)", contestants, unit="lines")


def block_with_webmill(source: Path, rules: Blocklist, out: Path) -> int:
    return write(block(read_batches(source), rules, tally=FilterCounts()), out)


def block_with_grep(source: Path, rules: Path, out: Path, total: int) -> int:
    return run("grep", "-a", "-E", "-v", "-f", rules, source, out=out) or total


def drop_with_dict(source: Path, target: Path, limit: int) -> int:
    counts: Counter[str] = Counter()
    with source.open(encoding="utf-8") as lines:
        for line in lines:
            counts[line.split(" ", 1)[0]] += 1
    kept = 0
    with source.open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            if counts[line.split(" ", 1)[0]] <= limit:
                out.write(line)
                kept += 1
    return kept


def race_excessive(source: Path, out: Path) -> None:
    ours = lambda: write(drop_excessive(read_batches(source), limit=1000, tally=FilterCounts()), out)  # noqa: E731
    race(
        "excessive auto", {"webmill": ours, "dict of all keys": lambda: drop_with_dict(source, out, 1000)}, unit="lines"
    )


def race_gzip(source: Path, folder: Path) -> None:
    packed = folder / "all.cdxj.gz"
    packed.write_bytes(gzip.compress(source.read_bytes(), 6))

    def with_gzip() -> int:
        with gzip.open(packed) as lines:
            return sum(1 for _ in lines)

    ours = lambda: sum(map(len, read_batches(packed)))  # noqa: E731
    race("read lines of a gzip file", {"webmill": ours, "gzip.open": with_gzip}, unit="lines")


def race_field(source: Path, out: Path) -> None:
    def with_json() -> int:
        count = 0
        with source.open(encoding="utf-8") as lines, out.open("w", encoding="utf-8") as target:
            for line in lines:
                target.write(json.loads(line.split(" ", 2)[2])["url"] + "\n")
                count += 1
        return count

    ours = lambda: write(field_as_text(read_batches(source), "url", counts=FieldCounts()), out)  # noqa: E731
    race("field", {"webmill": ours, "json.loads": with_json}, unit="lines")


# --- memory ---------------------------------------------------------------------------------------------------------


def peak_of(tool: str, source: Path, rules: Path) -> int:
    """Runs in a fresh child: its own peak, in KiB (bytes on macOS)."""
    out = source.with_name("memory-out")
    batches = read_batches(source)
    match tool:
        case "add-field":
            write(add_fields(batches, {"collection": "X"}, counts=AddFieldCounts()), out)
        case "block":
            write(block(batches, load_blocklist(rules), tally=FilterCounts()), out)
        case "excessive":
            write(drop_excessive(batches, limit=1000, tally=FilterCounts()), out)
        case "merge":
            write(merge([source] * FILES), out)
        case "field":
            write(field_as_text(batches, "url", counts=FieldCounts()), out)
        case "sort":
            write(sort_lines(batches, memory=16 << 20, folder=source.parent), out)
    return peak_kib()


def peak_kib() -> int:
    """Linux tells the peak of this program; getrusage includes what the process was before it became this program."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1])


def print_memory(source: Path, folder: Path) -> None:
    small, rules = folder / "tenth.cdxj", make_rules(folder, 1_000)
    with source.open("rb") as lines:
        write(([line] for line in islice(lines, LINES // 10)), small)
    print(f"\n## peak memory of a process, MiB\n\n| | {LINES // 10:,} lines | {LINES:,} lines |\n|---|---:|---:|")
    for tool in ("add-field", "block", "excessive", "merge", "field", "sort"):
        peaks = [in_child(peak_of, tool, path, rules) for path in (small, source)]
        print(f"| {tool} | {peaks[0] >> 10} | {peaks[1] >> 10} |")


def in_child(function: Callable[..., T], *arguments: object) -> T:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Memory comes first, and the input from a child: where only getrusage tells, a process inherits a peak.
        paths, source = in_child(make_inputs, folder, LINES)
        print_memory(source, folder)
        out = folder / "out"
        race_addfield(source, out)
        race_merge(paths, out)
        race_ranges(paths, folder)
        race_sort(paths, out)
        race_block(source, folder)
        race_excessive(source, out)
        race_field(source, out)
        race_gzip(source, folder)


if __name__ == "__main__":
    main()

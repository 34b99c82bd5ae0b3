"""How soon `webmill serve` answers with its first page (the overview) over an index of 5,000,000 captures.

The index is made of generated lines. The server is the real command. It is ready when `/healthz` answers; then the
overview is asked for, before anything was counted, and again a moment later. CPU is of the server and its processes,
from ready to the first answer: on a busy machine it says more than the clock.

`BENCH_SHARE=0.1` for a tenth of the captures. `BENCH_KEEP=DIR` keeps the collection for the next time.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.frame import as_installed
from webmill.errors import Unavailable
from webmill.index.lines import Batch
from webmill.index.zipnum.writer import write_index

CAPTURES = int(5_000_000 * float(os.environ.get("BENCH_SHARE", "1")))
PER_HOST = 250
ARCHIVES = 500
ROUNDS = 5
NAME = "BIG"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="webmill-bench-") as folder:
        kept = os.environ.get("BENCH_KEEP")
        root = Path(kept or folder) / f"first-page-{CAPTURES}" / NAME
        if not root.is_dir():
            make_collection(root)
        rounds = [measure_round(root) for _ in range(ROUNDS)]
    print(f"\n## The first page of a server over {CAPTURES:,} captures\n")
    print("| | median | slowest |\n|---|---:|---:|")
    for name, numbers in zip(
        ("first answer, s", "CPU of it, s", "second answer, s"), zip(*rounds, strict=True), strict=True
    ):
        print(f"| {name} | {median(numbers):.2f} | {max(numbers):.2f} |")


def make_collection(root: Path) -> None:
    write_index(capture_lines(), root / "cc-index/collections" / NAME / "indexes")
    archives = root / "crawl-data" / NAME / "segments/1/warc"
    archives.mkdir(parents=True)
    for number in range(ARCHIVES):
        (archives / f"part-{number:05}.warc.gz").touch()


def capture_lines() -> Iterator[Batch]:
    for host in range(CAPTURES // PER_HOST):
        yield [capture_line(host, page) for page in range(PER_HOST)]


def capture_line(host: int, page: int) -> bytes:
    moment = f"202601{1 + (host + page) % 28:02}{page % 24:02}{host % 60:02}{page % 60:02}"
    status, digest = 404 if page % 11 == 0 else 200, f"{(host * PER_HOST + page) * 2654435761 % (1 << 64):032X}"
    return (
        f'com,site{host:06})/page/{page:05} {moment} {{"url": "https://site{host:06}.com/page/{page:05}", '
        f'"mime": "text/html", "mime-detected": "text/html", "status": "{status}", "digest": "sha1:{digest}", '
        f'"length": "{3000 + page * 37 % 9000}", "offset": "{page * 5000}", "languages": "eng", "encoding": "UTF-8", '
        f'"filename": "crawl-data/{NAME}/segments/1/warc/part-{host % ARCHIVES:05}.warc.gz", "collection": "{NAME}"}}\n'
    ).encode()


def measure_round(root: Path) -> tuple[float, float, float]:
    """Return the seconds of the first answer, the CPU seconds for it, and the seconds of the second answer."""
    with serving(root) as (address, process):
        before = cpu_of_tree(process.pid)
        first = timed_page(address)
        cpu = cpu_of_tree(process.pid) - before
        time.sleep(1)
        return first, cpu, timed_page(address)


def timed_page(address: str) -> float:
    started = time.monotonic()
    page = fetch(f"{address}/")
    taken = time.monotonic() - started
    if not re.search(r"<dt>Captures</dt>", page):
        raise Unavailable("this is not the overview")
    return taken


@contextmanager
def serving(root: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Start the command, and yield its address when it is ready."""
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "webmill", "--quiet", "serve", str(root), "--port", address.rpartition(":")[2]]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=as_installed()) as process:
        try:
            wait_until_ready(address)
            yield address, process
        finally:
            process.send_signal(signal.SIGTERM)


def wait_until_ready(address: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            fetch(f"{address}/healthz")
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Unavailable("the server does not answer")


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        body: bytes = response.read()
    return body.decode()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and of those below it."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if pid in (int(stat.parent.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

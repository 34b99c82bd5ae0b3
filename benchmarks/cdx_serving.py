"""The CDX API beside pywb's CDX server: CPU of the server's processes per request, over the same index, in one run.

`BENCH_LINES` sets the number of lines (300,000). Both servers have one process that answers, are asked over connections
that stay open, by the same client, in turns, and must give the same number of lines. The client's CPU is not counted.
pywb is its `warcserver`, which its front end would ask in turn: that is less than a user of pywb pays for.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.frame import Result, print_table
from benchmarks.zipnum import JUDGES, make_blocks, make_queries
from webmill.collection import Collection
from webmill.index.cdxj.sort import sort_lines
from webmill.index.lines import read_batches
from webmill.index.zipnum.writer import write_index

LINES = int(os.environ.get("BENCH_LINES", "300000"))
NAME = "BENCH"
ROUNDS = 3
TICK = 1 / os.sysconf("SC_CLK_TCK")

Params = dict[str, str]


class Server:
    def __init__(self, name: str, pid: int, port: int, path: str, more: Params) -> None:
        self.name = name
        self._pid = pid
        self._path = path
        self._more = more
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, params: Params) -> int:
        self._connection.request("GET", f"{self._path}?{urlencode(params | self._more)}")
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status in (200, 404), (answer.status, body[:200])
        return body.count(b"\n") if answer.status == 200 else 0

    def hang_up(self) -> None:
        self._connection.close()

    def cpu(self) -> float:
        """Seconds, of the process and all below it."""
        parents = {pid: parent for pid, parent, _ in _processes()}
        return sum(spent for pid, _, spent in _processes() if self._is_below(pid, parents))

    def _is_below(self, pid: int, parents: dict[int, int]) -> bool:
        while pid not in (self._pid, 0, 1):
            pid = parents.get(pid, 0)
        return pid == self._pid


def _processes() -> Iterator[tuple[int, int, float]]:
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield int(file.parent.name), int(words[1]), (int(words[11]) + int(words[12])) * TICK


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(name: str, command: list[str], *, folder: Path, port: int, path: str, more: Params) -> Iterator[Server]:
    with (
        (folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            end = time.monotonic() + 120
            while not _listens(port):
                assert process.poll() is None, (folder / f"{name}.log").read_text()[-2000:]
                assert time.monotonic() < end, f"{name} did not start"
                time.sleep(0.1)
            yield Server(name, process.pid, port, path, more)
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def webmill(root: Path) -> AbstractContextManager[Server]:
    port = free_port()
    program = str(Path(sys.executable).with_name("webmill"))
    command = [program, "serve", str(root), "--port", str(port), "--replay-port", "0", "--rate", "0", "--no-feed"]
    command += ["--processes", "1"]
    return running("webmill", command, folder=root, port=port, path=f"/{NAME}/cdx", more={})


def pywb(root: Path) -> AbstractContextManager[Server]:
    index = Collection(root, NAME).zipnum
    (root / "config.yaml").write_text(
        f"enable_auto_colls: false\ncollections:\n  {NAME}:\n    archive_paths: ./\n    index:\n      type: zipnum\n"
        f"      path: {index}/cluster.idx\n      max_blocks: 5\n"
        f"      shard_index_loc: {{match: '.+', replace: '{index}/'}}\n"
    )
    port = free_port()
    command = [str(JUDGES / "warcserver"), "-b", "127.0.0.1", "-p", str(port)]
    more = {"nosource": "true", "allowFuzzy": "0"}  # it would look twice, and write more
    return running("pywb", command, folder=root, port=port, path=f"/{NAME}/index", more=more)


def race_requests(title: str, servers: list[Server], questions: list[Params]) -> None:
    best: dict[str, Result] = {}
    for _ in range(ROUNDS):
        for server in servers:
            server.hang_up()  # no connection stays open while another server is asked
            before = server.cpu()
            count = sum(server.ask(params) for params in questions)
            result = Result(server.name, count, server.cpu() - before)
            if server.name not in best or result.cpu < best[server.name].cpu:
                best[server.name] = result
    print_table(title, best, unit="lines")
    each = ", ".join(f"{name} {result.cpu / len(questions) * 1e3:.2f} ms" for name, result in best.items())
    print(f"\nCPU per request: {each}")


def build(root: Path) -> Path:
    flat = root / "all.cdxj"
    with flat.open("wb", buffering=0) as out:
        for batch in sort_lines(make_blocks(LINES), folder=root):
            out.write(b"".join(batch))
    folder = Collection(root, NAME).zipnum
    folder.mkdir(parents=True)
    write_index(read_batches(flat), folder)
    return flat


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        flat = build(root)
        exact = [{"url": url, "output": "json"} for url, _ in make_queries(flat, "exact", 500)]
        host = [question | {"matchType": "host", "limit": "100"} for question in exact[:200]]
        domain = [{"url": "*.com", "page": str(page), "output": "json"} for page in range(3)]
        with webmill(root) as ours, pywb(root) as theirs:
            for server in (ours, theirs):
                server.ask(exact[0])
            race_requests(f"exact lookups in {LINES:,} lines", [ours, theirs], exact)
            race_requests("host, at most 100 lines", [ours, theirs], host)
            race_requests("pages of a domain, 5 blocks each", [ours, theirs], domain)


if __name__ == "__main__":
    main()

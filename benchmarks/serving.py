"""Immutable blobs over HTTP: `webmill serve`, one process, beside what else could serve them. Asked by wrk on loopback.

`BENCH_SECONDS` sets how long each is asked in a round (3). Rivals: a bare ASGI application with the blobs in a
dictionary, on the same uvicorn, without any limit or check: what Python can do at most; Starlette's StaticFiles; nginx.
Requests a second depend on who else uses the cores, wrk among them; the CPU time that a server needs for a request does
not, and is what the last column compares.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.serve.server_process import is_listening, serving, wait_until_true
from tests.services.base import CannotStart, free_port
from tests.services.nginx import nginx_serving

SECONDS = int(os.environ.get("BENCH_SECONDS", "3"))
ROUNDS = 3
BLOBS = 2000
CONNECTIONS = 32
TICK = 1 / os.sysconf("SC_CLK_TCK")

RAW = """
import sys, uvicorn
from pathlib import Path
blobs = {f"/blobs/sha256/{path.name}": path.read_bytes() for path in Path(sys.argv[1], "blobs/sha256").iterdir()}
async def app(scope, receive, send):
    body = blobs[scope["path"]]
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
               (b"etag", scope["path"][14:-5].encode()), (b"cache-control", b"public, max-age=31536000, immutable")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""
STATIC = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
app = Starlette(routes=[Mount("/", StaticFiles(directory=sys.argv[1]))])
"""
RUN = (
    'uvicorn.run(app, port=int(sys.argv[2]), http="httptools", log_level="critical", access_log=False, lifespan="off")'
)
ASK = """
local paths = {}
for line in io.lines("%s") do paths[#paths + 1] = line end
local at = math.random(#paths)
request = function() at = at %% #paths + 1; return wrk.format("GET", paths[at]) end
"""


@dataclass
class Server:
    name: str
    url: str
    pid: int
    rates: list[float] = field(default_factory=list)  # requests a second
    costs: list[float] = field(default_factory=list)  # microseconds of CPU for a request

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK


def main() -> None:
    if not shutil.which("wrk"):
        print("\n## Serving blobs\n\nwrk is not installed (Debian: apt-get install wrk): not measured.")
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = Path(folder) / "collection"
        script = write_input(root, Path(folder))
        servers = [stack.enter_context(one) for one in (ours(root), of_python("a dictionary (ASGI)", RAW, root))]
        servers.append(stack.enter_context(of_python("StaticFiles", STATIC, root)))
        try:
            nginx = stack.enter_context(nginx_serving(root, directives="access_log off;"))
            servers.append(Server("nginx", nginx.url, nginx.running.process.pid))
        except CannotStart as error:
            print(error)
        for number in range(ROUNDS + 1):
            for server in servers[:: 1 if number % 2 else -1]:
                ask(server, script, warm=number == 0)
        tell(servers)


def write_input(root: Path, folder: Path) -> Path:
    """Blobs of 1.5 KB, and the addresses of all in an order of their own."""
    rng = random.Random(1)
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    paths = []
    for number in range(BLOBS):
        words = " ".join(str(rng.randrange(100_000)) for _ in range(240))
        data = f'{{"title":"Notice {number}","text":"{words}"}}'.encode()
        name = f"{hashlib.sha256(data).hexdigest()}.json"
        (blobs / name).write_bytes(data)
        paths.append(f"/blobs/sha256/{name}\n")
    rng.shuffle(paths)
    (folder / "paths").write_text("".join(paths))
    (folder / "ask.lua").write_text(ASK % (folder / "paths"))
    return folder / "ask.lua"


@contextmanager
def ours(root: Path) -> Iterator[Server]:
    with serving(root, root.parent / "errors", "--rate", "0", "--no-feed", "--processes", "1") as running:
        (worker,) = wait_until_true(running.workers, "a process that answers")
        yield Server("webmill", running.address, worker)


@contextmanager
def of_python(name: str, program: str, root: Path) -> Iterator[Server]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", program + RUN, str(root), str(port)])
    try:
        wait_until_true(lambda: is_listening(process.pid, port) or process.poll() is not None, name)
        yield Server(name, f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait()


def ask(server: Server, script: Path, *, warm: bool) -> None:
    before = server.cpu()
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{1 if warm else SECONDS}s", "-s", str(script), server.url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"{server.name}: {said}")
    count = int(re.findall(r"(\d+) requests in", said)[0])
    if not warm:
        server.rates.append(float(re.findall(r"Requests/sec:\s+(\S+)", said)[0]))
        server.costs.append(1e6 * (server.cpu() - before) / count)


def tell(servers: list[Server]) -> None:
    best = min(servers[0].costs)
    print(f"\n## Serving {BLOBS:,} blobs of 1.5 KB\n")
    print(
        "| | requests/s | CPU us/request | webmill's rate / theirs | their CPU / webmill's |\n|---|---:|---:|---:|---:|"
    )
    for server in servers:
        rate, cost = max(server.rates), min(server.costs)
        ratio = max(servers[0].rates) / rate
        print(f"| {server.name} | {rate:,.0f} | {cost:.0f} | {ratio:.2f} | {cost / best:.2f} |")


if __name__ == "__main__":
    main()

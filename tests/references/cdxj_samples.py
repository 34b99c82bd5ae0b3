"""What the tests of the CDXJ tools are run on: WARC files, index lines, the drop-in commands on a path, a shell."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.serve.warc_fixtures import response

WHEN = "20240101120000"


def line(key: str, when: str = WHEN, **fields: str) -> bytes:
    host, _, path = key.partition(")")
    url = "http://" + ".".join(reversed(host.split(","))) + path
    return f"{key} {when} {json.dumps({'url': url, 'mime': 'text/html', 'status': '200', **fields})}\n".encode()


def put(path: Path, lines: Iterable[bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))
    return path


def put_warc(path: Path, *urls: str, when: str = WHEN) -> Path:
    return put(path, [response(url, when, f"page {url}".encode()) for url in urls])


def run_shell(script: str, folder: Path, commands: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as its document has it, with the drop-in commands on the path."""
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    command = ["bash", "-o", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name[0] != "."}

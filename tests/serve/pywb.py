"""pywb's own server over indexes of ours, and answers of CDX servers in a form that can be compared."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

MAX_BLOCKS = 5  # Common Crawl's, and our page size


@contextmanager
def warcserver(judges: Path, folder: Path, indexes: dict[str, Path]) -> Iterator[int]:
    """Its port. `/NAME/index` is the CDX server of each index, as pywb's front end asks it."""
    config = "enable_auto_colls: false\ncollections:\n"
    for name, index in indexes.items():
        config += (
            f"  {name}:\n    archive_paths: ./\n    index:\n      type: zipnum\n"
            f"      path: {index / 'cluster.idx'}\n      max_blocks: {MAX_BLOCKS}\n"
            f"      shard_index_loc: {{match: '.+', replace: '{index}/'}}\n"
        )
    (folder / "config.yaml").write_text(config)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(judges / "warcserver"), "-b", "127.0.0.1", "-p", str(port)]
    with (
        (folder / "pywb.log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server,
    ):
        try:
            wait_until_it_listens(port, server)
            yield port
        finally:
            server.terminate()


def wait_until_it_listens(port: int, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert server.poll() is None, "pywb ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("pywb did not start")


def ask(port: int, path: str, params: Sequence[tuple[str, str]]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", f"{path}?{urlencode(params)}")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def meant(status: int, text: str, params: Sequence[tuple[str, str]]) -> object:
    """Nothing found is nothing, however it is told; an error is its status; else the lines, taken apart."""
    asked = dict(params)
    if status == 404 or (status == 200 and not text):
        return []
    if status != 200:
        return status
    if "showNumPages" in asked:
        return json.loads(text)
    lines = text.removesuffix("\n").split("\n")
    if asked["output"] == "json":
        return [json.loads(line) for line in lines]
    if asked["output"] == "cdxj":
        return [(*line.split(" ", 2)[:2], json.loads(line.split(" ", 2)[2])) for line in lines]
    return lines


def as_pywb_asks(params: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """No guesses, no names of sources; and all pages where none is asked for, of which pywb would give the first."""
    more = [("nosource", "true"), ("allowFuzzy", "0")]
    if not {"page", "showNumPages", "showPagedIndex"} & {name for name, _ in params}:
        more.append(("pageSize", "1000000"))
    return [*params, *more]

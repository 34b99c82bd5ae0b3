"""Replay a collection with pywb, on our index and WARC files as they lie.

    python3 -m venv pywb && pywb/bin/pip install pywb      # it has a licence of its own (GPL)
    webmill demo --no-serve --keep demo/
    python examples/pywb/replay.py demo/ http://news.mill.example/ --wayback pywb/bin/wayback

Prints the captures of the address and the newest of them, both as pywb gives them. With --stay it goes on serving, for
a browser. The configuration is config.yaml, beside this file.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

CONFIG = Path(__file__).with_name("config.yaml")
PATIENCE = 120  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("url")
    parser.add_argument("--wayback", default="wayback", help="pywb's program")
    parser.add_argument("--stay", action="store_true", help="serve until Ctrl-C")
    asked = parser.parse_args()
    with pywb(asked.collection.resolve(), wayback=asked.wayback) as address:
        listed = get(f"{address}/mine/cdx?url={quote(asked.url, safe='')}&output=json")
        captures = [json.loads(line) for line in listed.splitlines()]
        print(f"{len(captures)} captures, from {captures[0]['timestamp']} to {captures[-1]['timestamp']}")
        print(get(f"{address}/mine/{captures[-1]['timestamp']}id_/{asked.url}"))
        if asked.stay:
            input(f"{address}/mine/{asked.url}  (Enter ends)")


@contextmanager
def pywb(collection: Path, *, wayback: str) -> Iterator[str]:
    """Its address."""
    crawl = next(collection.glob("cc-index/collections/*/indexes/cluster.idx")).parts[-3]
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = CONFIG.read_text().replace("COLLECTION", str(collection)).replace("CRAWL", crawl)
        Path(folder, "config.yaml").write_text(config)
        line = [str(Path(wayback).resolve()) if "/" in wayback else wayback, "-b", "127.0.0.1", "-p", str(port)]
        with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()


def get(address: str) -> str:
    """Waits until pywb listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(address, timeout=PATIENCE) as answer:
                return str(answer.read(), "utf-8")
        except HTTPError:
            raise
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()

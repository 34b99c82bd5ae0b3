"""A server of a whole collection that lies about one file of it in every way that we know; and who reads from it.

`python -m tests.trust.hostile_remote BASE` reads all that a collection gives, in a process of its own, whose memory is
measured.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tests.contracts.range_server import RangeServer, serving
from tests.memory import peak_memory
from webmill.commoncrawl import crawl_storage
from webmill.errors import WebmillError
from webmill.infra.retry import BackoffPolicy
from webmill.pipeline import collection_reader
from webmill.pipeline.collection_reader import open_collection
from webmill.settings import HttpSettings

Lie = Callable[[Any], None]
MB = 1 << 20
COLLINFO = "collinfo.json"
DRIP = 0.2  # seconds between two bytes
PATIENCE = 2.0  # seconds for one answer


@contextmanager
def serving_collection(root: Path) -> Iterator[RangeServer]:
    """Serve the files of a collection as Common Crawl does, honestly as yet."""
    with serving() as server:
        for folder in ("crawl-data", "cc-index"):
            for path in (root / folder).rglob("*"):
                if path.is_file():
                    server.values[path.relative_to(root).as_posix()] = path.read_bytes()
        names = sorted(path.name for path in (root / "crawl-data").iterdir())
        server.values[COLLINFO] = json.dumps([{"id": name} for name in names]).encode()
        yield server


# --- lies about any file ---


def endless(handler: Any) -> None:
    """A body in chunks that has no end."""
    handler.send_response(206 if handler.headers.get("Range") else 200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while handler.command == "GET":
        handler.send(b"10000\r\n" + bytes(65536) + b"\r\n")


def huge(handler: Any) -> None:
    """A length of a petabyte, and bytes for as long as somebody reads."""
    ranged = handler.headers.get("Range")
    headers = {"Content-Range": f"{ranged.replace('=', ' ')}/{1 << 50}"} if ranged else {}
    handler.answer(206 if ranged else 200, length=1 << 50, etag='"h"', **headers)
    while handler.command == "GET":
        handler.send(bytes(65536))


def shorter(handler: Any) -> None:
    """Half of what was promised, then the end."""
    value = handler.server.values[handler.path.removeprefix("/data/")]
    handler.answer(200, value[: len(value) // 2], length=len(value), etag='"s"')
    handler.close_connection = True


def changing(handler: Any) -> None:
    """Another value, with another etag, each time."""
    handler.server.sent += 1
    value = handler.server.values[handler.path.removeprefix("/data/")]
    handler.honest(value + b" " * (handler.server.sent % 97))


def dripping_body(handler: Any) -> None:
    value = handler.server.values[handler.path.removeprefix("/data/")]
    handler.answer(200, length=len(value))
    for byte in value if handler.command == "GET" else b"":
        handler.send(bytes([byte]))
        handler.wfile.flush()
        if handler.server.over.wait(DRIP):
            return


def dripping_head(handler: Any) -> None:
    """A head that never ends, a byte at a time."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not handler.server.over.wait(DRIP):
        handler.send(b"x")
        handler.wfile.flush()


def endless_head(handler: Any) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.send(b"X-More: " + b"x" * 60000 + b"\r\n")


BOMB = gzip.compress(bytes(256 * MB), 1)
DEEP = b"[" * 4_000_000
LARGE = b"[" + b'{"id":"x"},' * 1_000_000 + b'{"id":"y"}]'
LINE = b"x" * (16 * MB)


def bomb(handler: Any) -> None:
    """Whatever is asked for: a gzip member of 256 MB of zeros."""
    handler.honest(BOMB)


def deep_json(handler: Any) -> None:
    handler.honest(DEEP)


def large_json(handler: Any) -> None:
    handler.honest(LARGE)


def endless_line(handler: Any) -> None:
    handler.honest(LINE)


def petabyte(handler: Any) -> None:
    """Every range of a petabyte of one letter, as a server should answer."""
    found = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
    if not found:
        handler.answer(200, length=1 << 50, etag='"p"')
        handler.close_connection = True
        return
    length = int(found[2]) - int(found[1]) + 1
    handler.answer(
        206,
        b"x" * min(length, MB),
        length=length,
        etag='"p"',
        **{"Content-Range": f"bytes {found[1]}-{found[2]}/{1 << 50}"},
    )


LIES: dict[str, Lie] = {
    lie.__name__: lie
    for lie in (
        endless,
        huge,
        shorter,
        changing,
        dripping_body,
        dripping_head,
        endless_head,
        bomb,
        deep_json,
        large_json,
        endless_line,
        petabyte,
    )
}


def redirect_to(address: str) -> Lie:
    return lambda handler: handler.answer(302, Location=address)


# --- who reads ---


def read_all(base: str, *, captures: int = 20) -> str:
    """Return how it ended: how much was read, or what was said."""
    try:
        with open_collection(base, rate=1000.0) as collection:
            found = list(islice(collection.lines("*.example"), 10_000))
            pages = [collection.read(line.capture) for line in found[:captures]]
            return f"read {len(found)} lines, {len(pages)} pages"
    except WebmillError as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    collection_reader.HttpSettings = partial(HttpSettings, timeout=PATIENCE)  # type: ignore[assignment,misc]
    crawl_storage.INTERACTIVE_RETRIES = BackoffPolicy(attempts=2, first_wait=0.1)
    collection_reader.INTERACTIVE_RETRIES = crawl_storage.INTERACTIVE_RETRIES
    began = time.monotonic()
    outcome = read_all(sys.argv[1])
    print(json.dumps({"outcome": outcome, "peak": peak_memory(), "seconds": time.monotonic() - began}))

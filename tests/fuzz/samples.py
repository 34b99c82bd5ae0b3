"""Real inputs where they are at hand (`WEBMILL_TEST_DATA`), cut to what a target takes; long ones are cut short."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from webmill.formats.warc.http_records import read_response
from webmill.formats.warc.reader import read_records
from webmill.model import Record

SAMPLES = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
MOST, LONGEST = 60, 32 << 10


def samples(kind: str) -> list[bytes]:
    return [data[:LONGEST] for data in islice(KINDS[kind](), MOST)] if kind and SAMPLES.is_dir() else []


def files(*folders: str) -> Iterator[bytes]:
    for folder in folders:
        for path in sorted((SAMPLES / folder).rglob("*")):
            if path.is_file():
                with path.open("rb") as file:
                    yield file.read(LONGEST)


def records(pattern: str) -> Iterator[Record]:
    for path in sorted((SAMPLES / "triple").glob(pattern)):
        with path.open("rb") as file:
            yield from (item for item in read_records(file) if isinstance(item, Record))


def responses() -> Iterator[bytes]:
    return (record.content for record in records("*.warc.gz") if record.type == "response")


def pages() -> Iterator[bytes]:
    return (read_response(block).content.data for block in responses())


def archives() -> Iterator[bytes]:
    yield from files("warc")
    yield from (data for data in files("hostile") if data.startswith(b"WARC/"))


def lines() -> Iterator[bytes]:
    for path in sorted((SAMPLES / "triple").glob("*.cdx*")):
        data = path.read_bytes()
        yield from io.BytesIO(gzip.decompress(data) if path.suffix == ".gz" else data)
    yield from (data for data in files("hostile") if data.startswith(b"com,"))


def addresses() -> Iterator[bytes]:
    for path in sorted((SAMPLES / "urls").glob("urltestdata*.json")):
        for test in json.loads(path.read_bytes()):
            if isinstance(test, dict):
                yield test["input"].encode("utf-8", "surrogatepass")


KINDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "warc": archives,
    "http": responses,
    "pages": pages,
    "packed": lambda: files("hostile"),
    "lines": lines,
    "wat": lambda: (record.content for record in records("*.wat.gz") if record.type == "metadata"),
    "robots": lambda: files("robots", "hostile"),
    "urls": addresses,
}

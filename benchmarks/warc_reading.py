"""Reading every record of a WARC file, bodies included: webmill beside FastWARC and warcio.

webmill also proves each member (CRC, length, terminator) and reports what is damaged; the others do less.
The file is the Common Crawl-like sample when WEBMILL_TEST_DATA (default ../shared/data) has it, else one made here.
"""

from __future__ import annotations

import gzip
import logging
import os
import random
import tempfile
import warnings
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from benchmarks.frame import race
from webmill.formats.warc.reader import read_records
from webmill.model import Record

with warnings.catch_warnings():  # it warns of its own old classes while it is imported
    warnings.simplefilter("ignore")
    from fastwarc import ArchiveIterator as FastWarcIterator

SAMPLE = "triple/CC-MAIN-20240712094214-20240712124214-00000.warc.gz"


def webmill(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(item.content) for item in read_records(file) if isinstance(item, Record))


def fastwarc(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(record.reader.read()) for record in FastWarcIterator(file, parse_http=False))


def warcio(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(record.raw_stream.read()) for record in WarcioIterator(file, no_record_parse=True))


def make_file(path: Path, *, captures: int = 1000) -> None:
    """Request, response and metadata records in Common Crawl's proportions, one gzip member each."""
    dice = random.Random(1)
    words = [dice.randbytes(dice.randint(1, 6)).hex() for _ in range(5000)]
    with path.open("wb") as file:
        for number in range(captures):
            page = " ".join(dice.choices(words, k=dice.randint(100, 20_000))).encode()
            for kind, body in (("request", b"GET / HTTP/1.1\r\n\r\n"), ("response", page), ("metadata", b"a: b\r\n")):
                file.write(gzip.compress(make_record(number, kind, body)))


def make_record(number: int, kind: str, body: bytes) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Date: 2024-07-12T10:00:03Z\r\n"
        f"WARC-Record-ID: <urn:uuid:{number:08}-{kind}>\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/http; msgtype={kind}\r\nWARC-Target-URI: http://site.example/{number}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def main() -> None:
    logging.disable(logging.WARNING)  # warcio's, of spaces in URIs
    samples = Path(os.environ.get("WEBMILL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))
    with tempfile.TemporaryDirectory() as folder:
        path = samples / SAMPLE
        if not path.is_file():
            path = Path(folder) / "made.warc.gz"
            make_file(path)
        plain = Path(folder) / "plain.warc"
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        for title, file in (("Reading a WARC file, gzip per record", path), ("Reading a WARC file, plain", plain)):
            contestants = {
                "webmill": lambda file=file: webmill(file),
                "FastWARC": lambda file=file: fastwarc(file),
                "warcio": lambda file=file: warcio(file),
            }
            race(title, contestants, unit="bytes", rounds=5)


if __name__ == "__main__":
    main()

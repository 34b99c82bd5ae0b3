"""Captures as a crawl makes them, and the checks that every file of a crawl must pass."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from warcio.archiveiterator import ArchiveIterator

from webmill.archive.segment import open_stored
from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.collection import Collection
from webmill.formats.warc.capture import Capture, Subset, WrittenCapture
from webmill.formats.warc.digest import DigestVerdict, check
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.record_headers import OriginalCapture
from webmill.formats.warc.single_record import read_record_at
from webmill.model import Exchange, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own
    from fastwarc.warc import ArchiveIterator as FastIterator

NAME = "TEST-2024"
DATE = datetime(2024, 7, 12, 9, 42, 14, tzinfo=UTC)
PAGE = b"<!doctype html><title>A page</title><p>Some words of plain English for a reader who has the time.</p>"


def exchange(
    number: int = 0, *, body: bytes = PAGE, head: str = "Content-Type: text/html", status: int = 200, **more: Any
) -> Exchange:
    url = more.pop("url", f"http://site.example/{number}")
    response = f"HTTP/1.1 {status} Said\r\n{head}\r\n\r\n".encode() + body
    request = f"GET /{number} HTTP/1.1\r\nHost: site.example\r\n\r\n".encode()
    return Exchange(url=url, date=DATE, seconds=0.25, ip="192.0.2.1", request=request, response=response, **more)


def capture(
    number: int = 0,
    *,
    subset: Subset = "warc",
    kind: Literal["response", "not_modified", "identical"] = "response",
    original: OriginalCapture | None = None,
    extra: tuple[tuple[str, str], ...] = (),
    payload: bytes | None = None,
    **about: Any,
) -> Capture:
    made = exchange(number, **about)
    body = made.response.partition(b"\r\n\r\n")[2] if payload is None else payload
    return Capture(exchange=made, payload=body, kind=kind, original=original, subset=subset, extra=extra)


def writer(root: Path, *, stem: str = "a", **options: Any) -> WarcWriter:
    options = {"now": lambda: DATE, "languages": False, "software": WarcinfoDetails(), **options}
    return WarcWriter(Collection(root, NAME), segment="1", stem=stem, **options)


def folder(root: Path, subset: str = "warc") -> Path:
    return root / "crawl-data" / NAME / "segments" / "1" / subset


def names(root: Path, subset: str = "warc") -> list[str]:
    return sorted(file.name for file in folder(root, subset).iterdir()) if folder(root, subset).is_dir() else []


def read_place(root: Path, place: WrittenCapture) -> Record:
    """The record alone in exactly its bytes."""
    with open_stored(Collection(root, NAME), place.capture.filename) as file:
        file.seek(place.capture.offset)
        stored = file.read(place.capture.length)
    assert len(stored) == place.capture.length
    record = read_record_at(stored, offset=place.capture.offset)
    assert record.record_id == place.record_id
    assert record.length == place.capture.length
    return record


def sealed(root: Path) -> Iterator[Path]:
    yield from sorted((root / "crawl-data").rglob("*.warc.gz"))


def check_file(file: Path) -> list[Record]:
    return check_files([file])


def check_files(files: list[Path]) -> list[Record]:
    """Ours, warcio, FastWARC and gzip agree that they are whole."""
    if files:
        subprocess.run(["gzip", "-t", *files], check=True)
    return [record for file in files for record in _check_records(file)]


def _check_records(file: Path) -> Iterator[Record]:
    ids = []
    with file.open("rb") as stream:
        for record in read_records(stream):
            assert isinstance(record, Record), record
            digests = check(record.headers, record.content)
            assert DigestVerdict.MISMATCH not in (digests.block, digests.payload)
            ids.append(record.record_id)
            yield record
    assert len(set(ids)) == len(ids)
    assert list(_by_warcio(file)) == ids
    assert list(_by_fastwarc(file)) == ids


def _by_warcio(file: Path) -> Iterator[str]:
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, check_digests="raise"):
            yield record.rec_headers.get_header("WARC-Record-ID")
            record.content_stream().read()


def _by_fastwarc(file: Path) -> Iterator[str]:
    with file.open("rb") as stream:
        for record in FastIterator(stream, parse_http=False):
            assert "WARC-Block-Digest" not in record.headers or record.verify_block_digest(consume=False)
            if record.headers["WARC-Type"] == "response":
                record.parse_http()
                assert record.verify_payload_digest()
            yield record.headers["WARC-Record-ID"]

"""Archiving captures durably: request, response and metadata of pages of 10 to 20 KB, synced every 50 captures.

The same records by warcio's WARCWriter and by FastWARC's writer, into a file that is synced as often. They find out
nothing about the pages: identification, charset and languages are ours alone, and each is timed apart below.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from benchmarks.frame import race
from benchmarks.warc_writing import make_pages
from webmill.archive.identify import identify_media_type
from webmill.archive.writer import WarcinfoDetails, WarcWriter
from webmill.collection import Collection
from webmill.formats.cld2 import detect_languages
from webmill.formats.html.charset import decode_page
from webmill.formats.warc.capture import Capture
from webmill.formats.warc.writer import compress_dense, compress_fast
from webmill.model import Exchange

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of its own
    from fastwarc.stream_io import GzipWriter
    from fastwarc.warc import WarcRecord, WarcRecordType

PAGES = 1000
BATCH = 50
DATE = datetime(2024, 7, 12, tzinfo=UTC)
NOTE = b"fetchTimeMs: 56\r\ncharset-detected: UTF-8\r\n"
FIELDS = [("Content-Type", "text/html; charset=UTF-8"), ("Server", "nginx"), ("X-Cache", "miss")]
HEAD = ("HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in FIELDS) + "\r\n").encode()
ASKED = [("Host", "example.org"), ("User-Agent", "webmill"), ("Accept", "*/*")]
REQUEST = ("GET / HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in ASKED) + "\r\n").encode()

Pages = list[tuple[str, bytes]]


def sized_pages() -> Pages:
    return [(url, page[: 10_000 + number % 10 * 1_000]) for number, (url, page) in enumerate(make_pages(PAGES))]


def write_ours(pages: Pages, folder: Path, *, languages: bool) -> int:
    captures = [
        Capture(
            exchange=Exchange(url=url, date=DATE, seconds=0.056, ip="192.0.2.1", request=REQUEST, response=HEAD + body),
            payload=body,
        )
        for url, body in pages
    ]
    writer = WarcWriter(
        Collection(folder, "BENCH"),
        segment="1",
        stem="a",
        software=WarcinfoDetails(),
        now=lambda: DATE,
        languages=languages,
    )
    with writer:
        for start in range(0, len(captures), BATCH):
            for capture in writer.describe(captures[start : start + BATCH]):
                writer.append(capture)
            writer.sync()
    return len(pages)


def write_warcio(pages: Pages, folder: Path) -> int:
    with (folder / "x.warc.gz").open("wb") as out:
        writer = WARCWriter(out, gzip=True)
        for number, (url, body) in enumerate(pages, start=1):
            asked = StatusAndHeaders("GET / HTTP/1.1", ASKED, is_http_request=True)
            answered = StatusAndHeaders("200 OK", FIELDS, protocol="HTTP/1.1")
            question = writer.create_warc_record(url, "request", http_headers=asked)
            about = {"WARC-IP-Address": "192.0.2.1", "WARC-Identified-Payload-Type": "text/html"}
            answer = writer.create_warc_record(
                url, "response", payload=io.BytesIO(body), http_headers=answered, warc_headers_dict=about
            )
            writer.write_request_response_pair(question, answer)
            note = writer.create_warc_record(
                url, "metadata", payload=io.BytesIO(NOTE), warc_content_type="application/warc-fields"
            )
            writer.write_record(note)
            if number % BATCH == 0:
                out.flush()
                os.fdatasync(out.fileno())
    return len(pages)


def write_fastwarc(pages: Pages, folder: Path) -> int:
    with (folder / "x.warc.gz").open("wb") as out:
        stream = GzipWriter(out)
        for number, (url, body) in enumerate(pages, start=1):
            for kind, content in (
                (WarcRecordType.request, REQUEST),
                (WarcRecordType.response, HEAD + body),
                (WarcRecordType.metadata, NOTE),
            ):
                fastwarc_record(url, kind, content).write(stream, checksum_data=True)
            if number % BATCH == 0:
                out.flush()
                os.fdatasync(out.fileno())
        stream.close()
    return len(pages)


def fastwarc_record(url: str, kind: WarcRecordType, content: bytes) -> WarcRecord:
    record = WarcRecord()
    record.init_headers(kind)
    record.headers["WARC-Target-URI"] = url
    record.headers["WARC-IP-Address"] = "192.0.2.1"
    record.is_http = kind != WarcRecordType.metadata
    record.set_bytes_content(content)
    return record


def in_folder(write: Callable[[Pages, Path], int], pages: Pages) -> Callable[[], int]:
    def contest() -> int:
        folder = Path(tempfile.mkdtemp(prefix="webmill-bench-"))
        try:
            return write(pages, folder)
        finally:
            shutil.rmtree(folder)

    return contest


def each(work: Callable[[bytes], object], pages: Pages) -> Callable[[], int]:
    def contest() -> int:
        for _, body in pages:
            work(body)
        return len(pages)

    return contest


def main() -> None:
    pages = sized_pages()
    contests = {
        "webmill": lambda pages, folder: write_ours(pages, folder, languages=False),
        "webmill, with languages": lambda pages, folder: write_ours(pages, folder, languages=True),
        "warcio": write_warcio,
        "FastWARC": write_fastwarc,
    }
    race(
        f"Archiving pages of 10 to 20 KB, a sync for each {BATCH}",
        {name: in_folder(write, pages) for name, write in contests.items()},
        unit="captures",
    )
    parts: dict[str, Callable[[bytes], object]] = {
        "compress, ISA-L 1 (what we do)": compress_fast,
        "compress, libdeflate 6": compress_dense,
        "identify": lambda body: identify_media_type(body, "text/html"),
        "charset, without a label": decode_page,
        "languages (CLD2, in this process)": detect_languages,
    }
    race("What one page costs", {name: each(work, pages) for name, work in parts.items()}, unit="pages")


if __name__ == "__main__":
    main()

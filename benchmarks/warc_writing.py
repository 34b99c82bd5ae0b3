"""Writing WARC records: ours beside warcio's WARCWriter, and the compressors that one can choose from.

The pages are made of words with a natural spread, about 30 KB each, with a request and a metadata record: what a crawl
writes. Digests are computed in every contest of whole records.
"""

from __future__ import annotations

import io
import random
import uuid
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter
from zlib_ng import zlib_ng

from benchmarks.frame import race
from webmill.formats.warc.record_headers import (
    CaptureEvent,
    describe_block,
    describe_http_block,
    encode_warc_fields,
    metadata_headers,
    request_headers,
    response_headers,
)
from webmill.formats.warc.writer import compress_dense, compress_fast, compress_record, encode_record

PAGES = 400
DATE = datetime(2024, 7, 12, tzinfo=UTC)
REQUEST = b"GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: webmill\r\nAccept: */*\r\n\r\n"
FIELDS = [("Content-Type", "text/html; charset=UTF-8"), ("Server", "nginx"), ("X-Cache", "miss")]


def make_pages(count: int) -> list[tuple[str, bytes]]:
    dice = random.Random(1)
    words = ["".join(dice.choices("etaoinshrdlucmfwypvbgkqjxz", k=dice.randint(2, 11))) for _ in range(20_000)]
    return [(f"http://example.org/page/{number}", one_page(dice, words)) for number in range(count)]


def one_page(dice: random.Random, words: list[str]) -> bytes:
    paragraphs = []
    for number in range(dice.randint(40, 120)):
        text = " ".join(words[min(int(dice.paretovariate(0.6)), len(words)) - 1] for _ in range(50))
        paragraphs.append(
            f'<div class="entry-{number % 7}"><a href="/page/{number}">{text[:20]}</a><p>{text}</p></div>\n'
        )
    return "".join(["<!doctype html><html><body>\n", *paragraphs, "</body></html>"]).encode()


def new_id() -> str:
    return f"urn:uuid:{uuid.uuid4()}"


def write_ours(pages: list[tuple[str, bytes]], write: Callable[..., bytes], **options: Callable[[bytes], bytes]) -> int:
    out = io.BytesIO()
    head = ("HTTP/1.1 200 OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in FIELDS) + "\r\n").encode()
    for uri, body in pages:
        visit, ids = CaptureEvent(uri=uri, date=DATE, ip="192.0.2.1"), (new_id(), new_id(), new_id())
        block, about = head + body, encode_warc_fields([("fetchTimeMs", "56")])
        out.write(write(request_headers(visit, describe_block(REQUEST), record_id=ids[0]), REQUEST, **options))
        headers = response_headers(
            visit, describe_http_block(block), record_id=ids[1], concurrent_to=ids[0], payload_type="text/html"
        )
        out.write(write(headers, block, **options))
        out.write(
            write(
                metadata_headers(visit, describe_block(about), record_id=ids[2], concurrent_to=ids[1]), about, **options
            )
        )
    return len(pages) * 3


def write_warcio(pages: list[tuple[str, bytes]], *, gzip: bool) -> int:
    writer = WARCWriter(io.BytesIO(), gzip=gzip)
    asked = REQUEST.decode().split("\r\n")
    for uri, body in pages:
        lines = [tuple(line.split(": ", 1)) for line in asked[1:-2]]
        question = writer.create_warc_record(
            uri, "request", http_headers=StatusAndHeaders("GET / HTTP/1.1", lines, is_http_request=True)
        )
        answer = writer.create_warc_record(
            uri,
            "response",
            payload=io.BytesIO(body),
            http_headers=StatusAndHeaders("200 OK", FIELDS, protocol="HTTP/1.1"),
            warc_headers_dict={"WARC-IP-Address": "192.0.2.1", "WARC-Identified-Payload-Type": "text/html"},
        )
        writer.write_request_response_pair(question, answer)
        about = io.BytesIO(b"fetchTimeMs: 56\r\n")
        writer.write_record(
            writer.create_warc_record(uri, "metadata", payload=about, warc_content_type="application/warc-fields")
        )
    return len(pages) * 3


def members(compress: Callable[[bytes], bytes], pages: list[tuple[str, bytes]]) -> Callable[[], int]:
    return lambda: sum(len(body) for _, body in pages if compress(body))


def gzip_by(library: object, level: int) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        packer = library.compressobj(level, zlib.DEFLATED, 31)  # type: ignore[attr-defined]
        return bytes(packer.compress(data) + packer.flush())

    return compress


def main() -> None:
    pages = make_pages(PAGES)
    race(
        "Writing compressed WARC records, digests included",
        {
            "webmill, fast (ISA-L 1)": lambda: write_ours(pages, compress_record),
            "webmill, dense (libdeflate 6)": lambda: write_ours(pages, compress_record, compress=compress_dense),
            "warcio": lambda: write_warcio(pages, gzip=True),
        },
        unit="records",
    )
    race(
        "Writing plain WARC records, digests included",
        {"webmill": lambda: write_ours(pages, encode_record), "warcio": lambda: write_warcio(pages, gzip=False)},
        unit="records",
    )
    codecs = {
        "ISA-L 1 (fast)": compress_fast,
        "libdeflate 6 (dense)": compress_dense,
        "zlib-ng 6": gzip_by(zlib_ng, 6),
        "zlib 6": gzip_by(zlib, 6),
        "zlib 9 (warcio)": gzip_by(zlib, 9),
    }
    race("Compressing pages", {name: members(compress, pages) for name, compress in codecs.items()}, unit="bytes")
    total = sum(len(body) for _, body in pages)
    for name, compress in codecs.items():
        print(f"- {name}: {total / sum(len(compress(body)) for _, body in pages):.2f} times smaller")


if __name__ == "__main__":
    main()

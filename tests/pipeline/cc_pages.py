"""A small crawl in the shape of Common Crawl, its index, and what is to be expected of it, by other people's code."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from base64 import b32encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.pipeline.index_samples import START, at_rest, no_progress
from webmill.collection import Collection
from webmill.commoncrawl.batch import batch_id, encode_batch
from webmill.formats.url.surt import surt
from webmill.formats.warc import record_headers as records
from webmill.formats.warc.writer import compress_record
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.queue.base import Message
from webmill.pipeline.index import IndexingOptions, index_collection
from webmill.testing.articles import ArticleLink, render_article, write_article
from webmill.testing.languages import LANGUAGES

RUN = "0123456789ab"
ISO = {"en": "eng", "de": "deu", "fr": "fra", "es": "spa", "ko": "kor", "ja": "jpn", "zh": "zho", "ru": "rus"}


@dataclass(frozen=True)
class Page:
    """A capture: what was archived, and its line of the index."""

    url: str
    html: bytes
    surt: str
    timestamp: str
    fields: dict[str, str]

    @property
    def place(self) -> tuple[str, int]:
        return self.fields["filename"], int(self.fields["offset"])

    @property
    def line(self) -> bytes:
        return f"{self.surt} {self.timestamp} {json.dumps(self.fields)}\n".encode()


def html_page(number: int) -> tuple[str, bytes, str]:
    """URL, HTML and language of the page of this number."""
    language = LANGUAGES[number % len(LANGUAGES)]
    url = f"http://h{number % 11}.example.{'org' if number % 2 else 'com'}/stories/{number:05}.html?q=a%20b"
    article = write_article(seed=7, url=url, number=number, revision=1, language=language)
    body = render_article(
        article, nav=[ArticleLink("/", "home")], related=[ArticleLink(f"/{number + 1}", "next")], picture="/logo.png"
    )
    return url, body, ISO.get(language.code, "und")


def http_response(body: bytes, *, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def write_crawl(root: Path, *, pages: int, files: int = 3) -> list[Page]:
    """WARC files below `root`, captures dealt out in turn as a crawler meets them; the index in its order."""
    found: list[Page] = []
    for file in range(files):
        name = f"crawl-data/TEST-2024/segments/1/warc/TEST-{file:05}.warc.gz"
        out = io.BytesIO()
        found += [_write_page(out, name, number) for number in range(file, pages, files)]
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(out.getvalue())
    return sorted(found, key=lambda page: page.line)


def _write_page(out: io.BytesIO, name: str, number: int) -> Page:
    url, body, language = html_page(number)
    content = http_response(body, status="404 Not Found" if number % 13 == 5 else "200 OK")
    visit = records.CaptureEvent(uri=url, date=START + timedelta(minutes=number))
    stored = compress_record(
        records.response_headers(visit, records.describe_http_block(content), record_id=f"urn:x:{number}"), content
    )
    offset = out.tell()
    out.write(stored)
    out.write(_metadata(visit, number, language))
    fields = {
        "url": url,
        "mime": "text/html",
        "mime-detected": "text/html",
        "status": "404" if number % 13 == 5 else "200",
        "digest": b32encode(hashlib.sha1(body).digest()).decode(),
        "length": str(len(stored)),
        "offset": str(offset),
        "filename": name,
        "languages": language,
    }
    return Page(url, body, surt(url), visit.date.strftime("%Y%m%d%H%M%S"), fields)


def _metadata(visit: records.CaptureEvent, number: int, language: str) -> bytes:
    """What Common Crawl notes beside a page: its languages, of which some pages have two."""
    codes = [language, "fra"] if number % 5 == 0 and language != "fra" else [language]
    printed = json.dumps({"reliable": True, "languages": [{"code-iso-639-3": code} for code in codes]})
    content = records.encode_warc_fields([("languages-cld2", printed)])
    headers = records.metadata_headers(
        visit, records.describe_block(content), record_id=f"urn:m:{number}", concurrent_to=f"urn:x:{number}"
    )
    return compress_record(headers, content)


def index_crawl(root: Path) -> None:
    """By webmill itself."""
    options = IndexingOptions(shards=3, lines=50, parquet=False)
    index_collection(
        Collection(root, "TEST-2024"), options, executor=InlineExecutor(), progress=no_progress, clock=at_rest
    )


def lines_of_index(root: Path) -> list[tuple[str, str, dict[str, str]]]:
    """Key, time and fields of every line, read plainly."""
    shards = sorted((root / "cc-index" / "collections" / "TEST-2024" / "indexes").glob("cdx-*.gz"))
    lines = b"".join(gzip.decompress(shard.read_bytes()) for shard in shards).decode().splitlines()
    found = [line.split(" ", 2) for line in lines]
    return [(key, timestamp, json.loads(fields)) for key, timestamp, fields in found]


def batches(pages: Iterable[Page], *, size: int = 10, run: str = RUN) -> Iterator[Message]:
    lines = [page.line for page in pages]
    for number, start in enumerate(range(0, len(lines), size), 1):
        yield Message(batch_id(run, number), encode_batch(lines[start : start + size]))


def files_in(root: Path) -> dict[str, bytes]:
    """The WARC files of a crawl, by their keys."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.warc.gz")}


def resiliparse_text(html: bytes) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return str(extract_plain_text(html.decode(), main_content=True, alt_texts=False, comments=False))


def trafilatura_text(html: bytes) -> str:
    from trafilatura import extract

    return extract(html.decode(), fast=True, include_comments=False) or ""


def parts(out: Path) -> list[Path]:
    return sorted(path for path in out.glob("*/part-*") if path.is_file())


def rows(out: Path) -> list[dict[str, Any]]:
    """Read by pyarrow and zstandard themselves."""
    import pyarrow.parquet
    import zstandard

    found: list[dict[str, Any]] = []
    for path in parts(out):
        if path.suffix == ".parquet":
            found += pyarrow.parquet.read_table(path).to_pylist()
        else:
            with path.open("rb") as file:
                text = zstandard.ZstdDecompressor().stream_reader(file).read()
            found += [json.loads(line) for line in text.splitlines()]
    return found


def stamp(row: dict[str, Any]) -> str:
    """When a row was captured, as an index writes it."""
    date = row["date"]
    return (datetime.fromisoformat(date) if isinstance(date, str) else date).strftime("%Y%m%d%H%M%S")


def snapshot(out: Path) -> dict[str, bytes]:
    """All that a reader is promised: the parts, and the records of what they hold."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("*/**/part-*"))}

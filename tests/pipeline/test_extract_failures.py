"""Captures that cannot be had or read, and batches that cannot be worked: told, kept, and in nobody's way."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import serving
from tests.pipeline.cc_pages import (
    RUN,
    Page,
    batches,
    rows,
    write_crawl,
)
from tests.pipeline.cc_workers import JSONL, output_at, queue_of, work, work_all
from webmill.commoncrawl.batch import batch_id, encode_batch
from webmill.commoncrawl.captures import Fetcher
from webmill.commoncrawl.ranges import RangeLimits
from webmill.errors import Misconfigured
from webmill.infra.metrics import Metrics
from webmill.infra.origin import Refused
from webmill.infra.queue.base import Message
from webmill.infra.sandbox import Sandbox
from webmill.infra.storage.http import HttpStorage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.pipeline.extract.batch import BatchReader
from webmill.pipeline.extract.metrics import ALL
from webmill.pipeline.extract.output import Shape
from webmill.pipeline.extract.page import CHILD, Reading


def archive(root: Path) -> LocalStorage:
    return LocalStorage(root / "crawl")


@pytest.fixture
def pages(tmp_path: Path) -> list[Page]:
    return write_crawl(tmp_path / "crawl", pages=40)


# --- captures that are not there, or not whole ------------------------------------------------------------------------


def changed(page: Page, **fields: str) -> bytes:
    return f"{page.surt} {page.timestamp} {json.dumps(page.fields | fields)}\n".encode()


def test_a_capture_that_cannot_be_had_is_a_row_with_its_reason(tmp_path: Path, pages: list[Page]) -> None:
    good, other = pages[0], pages[1]
    short = str(int(good.fields["length"]) - 20)
    lines = [
        good.line,
        changed(good, filename="no/such.warc.gz"),
        changed(good, offset=str(10**9)),
        changed(good, length=short),
        changed(good, offset=str(int(good.fields["offset"]) + 3)),
        changed(good, url="http://other.example.org/"),
        changed(good, filename="../../etc/passwd"),
        changed(good, length=str(10**15)),
        other.line,
    ]
    queue = queue_of(Message(batch_id(RUN, 1), encode_batch(lines)))
    work_all(queue, archive(tmp_path), output_at(tmp_path / "out"))
    found = rows(tmp_path / "out")
    assert [row["extraction"] for row in found] == [
        "ok",
        "not_found",
        "bad_place",
        "bad_record",
        "bad_record",
        "bad_record",
        "bad_place",
        "bad_place",
        "ok",
    ]
    assert all((row["text"] is None) == (row["error"] is not None) for row in found)
    assert "truncated" in found[3]["error"]
    assert "wrong_record" in found[5]["error"]


def test_an_entry_that_is_none_is_a_row_too(tmp_path: Path, pages: list[Page]) -> None:
    body = encode_batch([pages[0].line])[:-1] + b', {"surt_url": "x", "timestamp": "y", "metadata": {}}, 5]'
    work_all(queue_of(Message(batch_id(RUN, 1), body)), archive(tmp_path), output_at(tmp_path / "out"))
    found = rows(tmp_path / "out")
    assert [row["extraction"] for row in found] == ["ok", "bad_item", "bad_item"]
    assert found[1]["error"].startswith("no_filename")


class OneRecord:
    """An archive of a single WARC record with this content."""

    def __init__(self, content: bytes, *, kind: str = "response") -> None:
        from tests.pipeline.index_samples import START
        from webmill.formats import warc_records as records
        from webmill.formats.warc_writer import compress_record

        visit = records.Visit(uri="http://example.org/", date=START)
        headers = (records.response if kind == "response" else records.request)(
            visit,
            records.measure_http(content) if kind == "response" else records.measure(content),
            record_id="urn:x:1",
        )
        stored = compress_record(headers, content)
        self.storage = MemoryStorage()
        self.storage.write("one.warc.gz", stored)
        fields = {"url": "http://example.org/", "filename": "one.warc.gz", "offset": "0", "length": str(len(stored))}
        self.fields = fields | {"status": "200", "mime": "text/html"}

    def row(
        self, out: Path, *, shape: Shape = JSONL, fields: dict[str, str] | None = None, **options: Any
    ) -> dict[str, Any]:
        line = f"org,example)/ 20240101000000 {json.dumps(self.fields | (fields or {}))}\n".encode()
        work_all(
            queue_of(Message(batch_id(RUN, 1), encode_batch([line]))), self.storage, output_at(out, shape), **options
        )
        (row,) = rows(out)
        return row


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=iso-8859-1\r\n"


def test_chunks_codings_and_charsets_are_undone(tmp_path: Path) -> None:
    import gzip

    page = "<html><body><article><p>Käse, Brot und Äpfel für alle, die früh genug kommen.</p></article></body></html>"
    body = gzip.compress(page.encode("latin-1"))
    chunked = b"".join(
        b"%x\r\n%b\r\n" % (len(body[at : at + 20]), body[at : at + 20]) for at in range(0, len(body), 20)
    )
    content = HEAD + b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" + chunked + b"0\r\n\r\n"
    row = OneRecord(content).row(tmp_path / "out")
    assert row["text"].strip() == "Käse, Brot und Äpfel für alle, die früh genug kommen."
    assert row["charset"] == "windows-1252"


@pytest.mark.parametrize(
    ("kind", "content", "fields", "extraction"),
    [
        ("response", HEAD + b"\r\n", {}, "empty"),
        (
            "response",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF",
            {"mime": "application/pdf"},
            "not_html",
        ),
        ("response", HEAD + b"\r\n{}", {"mime-detected": "application/json"}, "not_html"),
        ("request", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", {}, "not_response"),
    ],
    ids=["empty", "pdf", "detected", "request"],
)
def test_what_is_no_page_is_told(
    tmp_path: Path, kind: str, content: bytes, fields: dict[str, str], extraction: str
) -> None:
    row = OneRecord(content, kind=kind).row(tmp_path / "out", fields=fields)
    assert row["extraction"] == extraction
    assert not row["text"]


def test_a_page_that_freezes_the_parser_costs_only_itself(tmp_path: Path) -> None:
    bomb = OneRecord(HEAD + b"\r\n" + b"<div>" * 200_000)
    row = bomb.row(tmp_path / "out", limits=CHILD._replace(cpu=1))
    assert (row["extraction"], row["text"]) == ("parse_limit", None)


def test_a_page_that_kills_the_parser_costs_only_itself(tmp_path: Path, pages: list[Page]) -> None:
    reading = Fetcher(archive(tmp_path), concurrency=1, limits=RangeLimits())
    message = next(batches(pages))
    with closing(reading) as fetcher, Sandbox("tests.pipeline.cc_crashes:crash", returns=Reading) as sandbox:
        reader = BatchReader(fetcher, sandbox, JSONL, Metrics(ALL))
        made = reader.read(message.id, message.body, checkpoint=lambda: None)
        again = reader.read(message.id, message.body, checkpoint=lambda: None)
    assert made.facts.extraction == {"not_html": 8, "parse_crash": 2}
    assert made == again


def test_a_body_that_blows_up_is_cut(tmp_path: Path) -> None:
    import brotli

    body = brotli.compress(b"<p>a</p>" * 2_000_000)
    row = OneRecord(HEAD + b"Content-Encoding: br\r\n\r\n" + body).row(tmp_path / "out", limits=CHILD._replace(cpu=5))
    assert row["extraction"] in ("ok", "parse_limit")
    assert row["extraction"] == "parse_limit" or "decode_limit" in row["error"]


# --- batches that cannot be worked ------------------------------------------------------------------------------------


def test_a_message_that_is_no_batch_is_buried_and_others_flow(tmp_path: Path, pages: list[Page]) -> None:
    poison = [Message("poison", b"\xff{"), Message(batch_id(RUN, 5), b"{}")]
    queue = queue_of(*batches(pages), *poison)
    report = work_all(queue, archive(tmp_path), output_at(tmp_path / "out"))
    assert report.buried == 2
    assert {(letter.id, letter.body) for letter in queue.buried()} == {(one.id, one.body) for one in poison}
    assert all("bad_batch" in letter.reason for letter in queue.buried())
    assert len(rows(tmp_path / "out")) == 40


def test_an_archive_that_is_out_of_reach_sends_the_batch_back_until_it_is_buried(
    tmp_path: Path, pages: list[Page]
) -> None:
    with serving() as server, HttpStorage(server.url, user_agent="tests") as storage:
        for name in {page.fields["filename"] for page in pages}:
            server.lies[name] = lambda handler: handler.answer(502)
        queue = queue_of(*batches(pages, size=40), max_attempts=3)
        report = work(queue, storage, output_at(tmp_path / "out"))
    assert report.given_back == 3
    (letter,) = queue.buried()
    assert letter.attempts == 3
    assert "status 502" in letter.reason


def test_a_batch_that_fails_for_a_while_is_done_in_the_end(tmp_path: Path, pages: list[Page]) -> None:
    name = pages[0].fields["filename"]
    left = [2]

    def sometimes(handler: Any) -> None:
        left[0] -= 1
        handler.answer(503, **{"Retry-After": "0"}) if left[0] >= 0 else handler.honest(values[name])

    values = {
        str(path.relative_to(tmp_path / "crawl")): path.read_bytes() for path in (tmp_path / "crawl").rglob("*.gz")
    }
    with serving() as server, HttpStorage(server.url, user_agent="tests") as storage:
        server.values.update(values)
        server.lies[name] = sometimes
        report = work_all(queue_of(*batches(pages)), storage, output_at(tmp_path / "out"))
    assert report.given_back >= 1
    assert [row["url"] for row in rows(tmp_path / "out")] == [page.url for page in pages]


def test_a_server_that_refuses_us_stops_the_work_and_keeps_the_batch(tmp_path: Path, pages: list[Page]) -> None:
    with serving() as server, HttpStorage(server.url, user_agent="tests") as storage:
        for name in {page.fields["filename"] for page in pages}:
            server.lies[name] = lambda handler: handler.answer(403)
        queue = queue_of(*batches(pages))
        with pytest.raises(Refused):
            work(queue, storage, output_at(tmp_path / "out"))
        assert len(server.requests) <= 3  # what was on its way
    stats = queue.stats()
    assert stats.ready + stats.delayed == 4


def test_an_output_that_cannot_be_written_stops_the_work_and_keeps_the_batch(tmp_path: Path, pages: list[Page]) -> None:
    class Full(LocalStorage):
        def write(self, key: str, data: Any, **options: Any) -> Any:
            if key.startswith("spool/"):
                raise Misconfigured("no right to write there")
            return super().write(key, data, **options)

    output = output_at(tmp_path / "out")
    output.storage = Full(tmp_path / "out")
    queue = queue_of(*batches(pages))
    with pytest.raises(Misconfigured, match="no right"):
        work(queue, archive(tmp_path), output)
    stats = queue.stats()
    assert stats.ready + stats.delayed == 4

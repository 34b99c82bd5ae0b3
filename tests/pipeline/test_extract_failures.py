"""Captures that cannot be had or read, and batches that cannot be worked: told, kept, and in nobody's way."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import serving
from tests.pipeline.cc_pages import (
    RUN,
    Page,
    batches,
    files_in,
    rows,
    write_crawl,
)
from tests.pipeline.cc_workers import JSONL, output_at, queue_of, work, work_all
from webmill.commoncrawl.batch import batch_id, encode_batch
from webmill.commoncrawl.crawl_storage import open_crawl_storage
from webmill.errors import Misconfigured
from webmill.extract.capture import SANDBOX_LIMITS
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message
from webmill.infra.request_outcome import AccessRefused
from webmill.infra.retry import BackoffPolicy
from webmill.pipeline.extract import resources, row_maker
from webmill.pipeline.extract.metrics import ALL
from webmill.pipeline.extract.output import OutputShape


def archive(root: Path) -> Path:
    return root / "crawl"


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
    assert Counter(row["outcome"] for row in found) == {"ok": 2, "not_found": 1, "bad_place": 3, "bad_record": 3}
    assert {row["url"] for row in found if row["outcome"] == "ok"} == {good.url, other.url}
    assert all((row["text"] is None) == (row["error"] is not None) for row in found)
    by_place = {(row["warc_filename"], row["warc_offset"], row["warc_length"], row["url"]): row for row in found}

    def row_of(**printed: Any) -> dict[str, Any]:
        fields = good.fields | printed
        return by_place[fields["filename"], int(fields["offset"]), int(fields["length"]), fields["url"]]

    assert row_of()["outcome"] == "ok"
    assert row_of(filename="no/such.warc.gz")["outcome"] == "not_found"
    assert row_of(offset=10**9)["outcome"] == "bad_place"
    assert "truncated" in row_of(length=short)["error"]
    assert row_of(offset=int(good.fields["offset"]) + 3)["outcome"] == "bad_record"
    assert "wrong_record" in row_of(url="http://other.example.org/")["error"]
    assert row_of(filename="../../etc/passwd")["outcome"] == "bad_place"
    assert row_of(length=10**15)["outcome"] == "bad_place"
    assert len({row["id"] for row in found}) >= 6


def test_an_entry_that_is_none_is_a_row_too(tmp_path: Path, pages: list[Page]) -> None:
    body = encode_batch([pages[0].line])[:-1] + b', {"surt_url": "x", "timestamp": "y", "metadata": {}}, 5]'
    work_all(queue_of(Message(batch_id(RUN, 1), body)), archive(tmp_path), output_at(tmp_path / "out"))
    found = rows(tmp_path / "out")
    assert sorted(row["outcome"] for row in found) == ["bad_item", "bad_item", "ok"]
    bad = {row["id"]: row["error"] for row in found if row["outcome"] == "bad_item"}
    assert list(bad) == [f"{batch_id(RUN, 1)}#{number}" for number in (1, 2)]
    assert bad[f"{batch_id(RUN, 1)}#1"].startswith("no_filename")


def test_a_row_of_a_bad_entry_keeps_what_the_batch_knew(tmp_path: Path, pages: list[Page]) -> None:
    """A record that shares a gzip member with others has the length 0 in an index: no range holds it."""
    good = json.loads(encode_batch([pages[0].line]))[0]
    entry = {**good, "metadata": {**good["metadata"], "length": "0"}}
    message = Message(batch_id(RUN, 1), json.dumps([entry]).encode())
    work_all(queue_of(message), archive(tmp_path), output_at(tmp_path / "out"))
    (row,) = rows(tmp_path / "out")
    assert (row["outcome"], row["url"], row["urlkey"]) == ("bad_item", good["metadata"]["url"], good["surt_url"])
    assert (row["warc_filename"], row["warc_offset"]) == (
        entry["metadata"]["filename"],
        int(entry["metadata"]["offset"]),
    )
    assert row["date"] is not None


class OneRecord:
    """An archive of a single WARC record with this content."""

    def __init__(self, content: bytes, *, kind: str = "response") -> None:
        from tests.pipeline.index_samples import START
        from webmill.formats.warc import record_headers as records
        from webmill.formats.warc.writer import compress_record

        visit = records.CaptureEvent(uri="http://example.org/", date=START)
        headers = (records.response_headers if kind == "response" else records.request_headers)(
            visit,
            records.describe_http_block(content) if kind == "response" else records.describe_block(content),
            record_id="urn:x:1",
        )
        stored = compress_record(headers, content)
        self.stored = stored
        fields = {"url": "http://example.org/", "filename": "one.warc.gz", "offset": "0", "length": str(len(stored))}
        self.fields = fields | {"status": "200", "mime": "text/html"}

    def row(self, out: Path, *, shape: OutputShape = JSONL, fields: dict[str, str] | None = None) -> dict[str, Any]:
        line = f"org,example)/ 20240101000000 {json.dumps(self.fields | (fields or {}))}\n".encode()
        folder = out.with_name("archive")
        folder.mkdir()
        (folder / "one.warc.gz").write_bytes(self.stored)
        work_all(queue_of(Message(batch_id(RUN, 1), encode_batch([line]))), folder, output_at(out, shape))
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
    ("kind", "content", "fields", "outcome"),
    [
        ("response", HEAD + b"\r\n", {}, "empty"),
        (
            "response",
            b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF",
            {"mime": "application/pdf"},
            "parse_error",
        ),
        ("response", b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nPNG", {}, "other_type"),
        ("response", b"HTTP/1.1 200 OK\r\n\r\n{}", {"mime-detected": "application/json"}, "other_type"),
        ("request", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", {}, "not_response"),
    ],
    ids=["empty", "pdf", "picture", "detected", "request"],
)
def test_what_is_no_page_is_told(
    tmp_path: Path, kind: str, content: bytes, fields: dict[str, str], outcome: str
) -> None:
    row = OneRecord(content, kind=kind).row(tmp_path / "out", fields=fields)
    assert row["outcome"] == outcome
    assert not row["text"]


def test_a_page_that_freezes_the_parser_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_maker, "SANDBOX_LIMITS", SANDBOX_LIMITS._replace(cpu=1))
    row = OneRecord(HEAD + b"\r\n" + b"<div>" * 200_000).row(tmp_path / "out")
    assert (row["outcome"], row["text"]) == ("parse_limit", None)


def test_a_page_that_kills_the_parser_costs_only_itself(
    tmp_path: Path, pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_maker, "SANDBOX_FUNCTION", "tests.pipeline.cc_crashes:crash")
    made = work_all(queue_of(next(batches(pages))), archive(tmp_path), output_at(tmp_path / "one"))
    again = work_all(queue_of(next(batches(pages))), archive(tmp_path), output_at(tmp_path / "two"))
    first = sum(page.fields["offset"] == "0" for page in pages[:10])
    assert made.outcomes == again.outcomes == {"other_type": 10 - first, "parse_crash": first}
    assert first
    assert rows(tmp_path / "one") == rows(tmp_path / "two")


def test_a_body_that_blows_up_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import brotli

    monkeypatch.setattr(row_maker, "SANDBOX_LIMITS", SANDBOX_LIMITS._replace(cpu=5))
    body = brotli.compress(b"<p>a</p>" * 2_000_000)
    row = OneRecord(HEAD + b"Content-Encoding: br\r\n\r\n" + body).row(tmp_path / "out")
    assert row["outcome"] in ("ok", "parse_limit")
    assert row["outcome"] == "parse_limit" or "decode_limit" in row["error"]


# --- batches that cannot be worked ------------------------------------------------------------------------------------


def test_a_message_that_is_no_batch_is_buried_and_others_flow(tmp_path: Path, pages: list[Page]) -> None:
    poison = [Message("poison", b"\xff{"), Message(batch_id(RUN, 5), b"{}")]
    queue = queue_of(*batches(pages), *poison)
    metrics = Metrics(ALL)
    report = work_all(queue, archive(tmp_path), output_at(tmp_path / "out"), metrics=metrics)
    assert {failure.task for failure in report.failures} == {one.id for one in poison}
    assert "worker_batch_processing_errors_total 2.0" in metrics.render().decode()
    assert {(letter.id, letter.body) for letter in queue.dead_letters()} == {(one.id, one.body) for one in poison}
    assert {
        letter.id: any(why in letter.reason for why in ("bad_batch", "bad_task")) for letter in queue.dead_letters()
    } == {one.id: True for one in poison}
    assert len(rows(tmp_path / "out")) == 40


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is tried once: what follows is up to the queue."""
    monkeypatch.setattr(resources, "open_crawl_storage", partial(open_crawl_storage, policy=BackoffPolicy(attempts=1)))


def test_an_archive_that_is_out_of_reach_sends_the_batch_back_until_it_is_buried(
    tmp_path: Path, pages: list[Page], impatient: None
) -> None:
    with serving() as server:
        for name in {page.fields["filename"] for page in pages}:
            server.lies[name] = lambda handler: handler.answer(502)
        queue = queue_of(*batches(pages, size=40), max_attempts=3)
        report = work(queue, server.url, output_at(tmp_path / "out"))
    assert report.given_back == 3
    (letter,) = queue.dead_letters()
    assert letter.attempts == 3
    assert "status 502" in letter.reason


def test_a_batch_that_fails_for_a_while_is_done_in_the_end(tmp_path: Path, pages: list[Page], impatient: None) -> None:
    name = pages[0].fields["filename"]
    left = [2]

    def sometimes(handler: Any) -> None:
        left[0] -= 1
        handler.answer(503, **{"Retry-After": "0"}) if left[0] >= 0 else handler.honest(values[name])

    values = files_in(archive(tmp_path))
    with serving() as server:
        server.values.update(values)
        server.lies[name] = sometimes
        report = work_all(queue_of(*batches(pages)), server.url, output_at(tmp_path / "out"))
    assert report.given_back >= 1
    assert [row["url"] for row in rows(tmp_path / "out")] == [page.url for page in pages]


def test_a_server_that_refuses_us_stops_the_work_and_keeps_the_batch(tmp_path: Path, pages: list[Page]) -> None:
    with serving() as server:
        for name in {page.fields["filename"] for page in pages}:
            server.lies[name] = lambda handler: handler.answer(403)
        queue = queue_of(*batches(pages))
        with pytest.raises(AccessRefused):
            work(queue, server.url, output_at(tmp_path / "out"))
        assert len(server.requests) <= 3  # what was on its way
    stats = queue.stats()
    assert stats.ready + stats.delayed == 4


@pytest.mark.parametrize("processes", [0, 2])
def test_an_output_that_cannot_be_written_stops_the_work_and_keeps_the_batch(
    tmp_path: Path, pages: list[Page], processes: int
) -> None:
    output = output_at(tmp_path / "out")
    (tmp_path / "out" / ".webmill" / "spool").write_text("in the way")
    queue = queue_of(*batches(pages))
    with ExitStack() as stack:
        executor = stack.enter_context(closing(PoolExecutor(workers=processes))) if processes else None
        with pytest.raises(Misconfigured):
            work(queue, archive(tmp_path), output, executor=executor)
    stats = queue.stats()
    assert stats.ready + stats.delayed == 4

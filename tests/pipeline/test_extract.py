"""Batches to documents: every capture once, whoever works it, and however often."""

from __future__ import annotations

import html
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.cc_pages import (
    RUN,
    Page,
    batches,
    parts,
    resiliparse_text,
    rows,
    snapshot,
    trafilatura_text,
    write_crawl,
)
from tests.pipeline.cc_workers import JSONL, output_at, queue_of, work_all
from webmill.commoncrawl.batch import encode_batch
from webmill.errors import Misconfigured, Unavailable
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.s3 import S3Options, S3Storage
from webmill.pipeline.extract.metrics import ALL
from webmill.pipeline.extract.output import Shape
from webmill.pipeline.extract.rows import Keep


def archive(root: Path) -> LocalStorage:
    return LocalStorage(root / "crawl")


@pytest.fixture
def pages(tmp_path: Path) -> list[Page]:
    return write_crawl(tmp_path / "crawl", pages=40)


def test_every_capture_is_a_row_with_the_text_of_the_extractor_itself(tmp_path: Path, pages: list[Page]) -> None:
    queue = queue_of(*batches(pages, size=7))
    output = output_at(tmp_path / "out", Shape(format="parquet", detect=True))
    metrics = Metrics(ALL)
    report = work_all(queue, archive(tmp_path), output, metrics=metrics, processes=2)
    found = rows(tmp_path / "out")
    assert [row["url"] for row in found] == [page.url for page in pages]  # in the order of the index
    assert [row["text"] for row in found] == [resiliparse_text(page.html) for page in pages]
    for row, page in zip(found, pages, strict=True):
        said = page.fields
        assert (row["surt"], row["timestamp"], row["digest"]) == (page.surt, page.timestamp, said["digest"])
        assert (row["filename"], row["offset"], row["length"]) == (
            said["filename"],
            int(said["offset"]),
            int(said["length"]),
        )
        assert (str(row["status"]), row["mime"], row["charset"]) == (said["status"], "text/html", "utf-8")
        assert (row["extraction"], row["error"], row["extractor"]) == ("ok", None, "resiliparse")
        assert row["text_length"] == len(row["text"])
        assert f"<title>{row['title']}</title>" in html.unescape(page.html.decode())
        assert row["languages"] == said["languages"]
        assert row["language"] == said["languages"] or said["languages"] == "und"
    assert (report.batches, report.items, report.rows) == (6, 40, 40)
    assert not list((tmp_path / "out" / "spool").iterdir())
    told = metrics.render().decode()
    assert "worker_batches_total 6.0" in told
    assert "worker_documents_written_total 40.0" in told
    assert "worker_documents_extracted_total 40.0" in told


def test_trafilatura_is_asked_as_it_would_be_asked_directly(tmp_path: Path, pages: list[Page]) -> None:
    output = output_at(tmp_path / "out", Shape(extractor="trafilatura", format="jsonl"))
    work_all(queue_of(*batches(pages[:10])), archive(tmp_path), output)
    assert [row["text"] for row in rows(tmp_path / "out")] == [trafilatura_text(page.html) for page in pages[:10]]


def test_without_an_extractor_rows_have_no_text(tmp_path: Path, pages: list[Page]) -> None:
    work_all(
        queue_of(*batches(pages)),
        archive(tmp_path),
        output_at(tmp_path / "out", Shape(extractor="none", format="jsonl")),
    )
    found = rows(tmp_path / "out")
    assert {(row["text"], row["extraction"], row["language"] == row["languages"]) for row in found} == {
        (None, "none", True)
    }


def test_the_metrics_have_the_names_of_the_reference() -> None:
    names = (
        "worker_batches worker_batch_items_total worker_batch_items_processed worker_download_bytes_total "
        "worker_warc_records_total worker_warc_records_response worker_warc_records_non_response "
        "worker_documents_extracted worker_documents_extraction_failed worker_documents_written "
        "worker_upload_bytes_total worker_upload_errors worker_batch_item_download_errors "
        "worker_batch_item_parse_errors worker_batch_processing_errors"
    )
    assert {metric.name for metric in ALL} == set(names.split())


# --- filters ----------------------------------------------------------------------------------------------------------


def test_pages_that_are_filtered_are_counted_by_reason(tmp_path: Path, pages: list[Page]) -> None:
    texts = sorted(len(resiliparse_text(page.html)) for page in pages)
    keep = Keep(min_text=texts[5], max_text=texts[-6], languages=("eng", "deu"))
    output = output_at(tmp_path / "out", Shape(format="jsonl", keep=keep))
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    found = rows(tmp_path / "out")
    expected = [
        page.url
        for page in pages
        if texts[5] <= len(resiliparse_text(page.html)) <= texts[-6] and page.fields["languages"] in ("eng", "deu")
    ]
    assert [row["url"] for row in found] == expected
    (receipt,) = output.receipts([RUN])
    assert receipt.filtered["too_short"] == sum(length < texts[5] for length in texts)
    assert receipt.filtered["too_long"] == sum(length > texts[-6] for length in texts)
    assert receipt.items == receipt.rows + sum(receipt.filtered.values()) == 40


def test_filters_on_text_need_an_extractor() -> None:
    with pytest.raises(Misconfigured, match="--extractor"):
        Shape(extractor="none", keep=Keep(min_text=5)).check()


def test_an_output_is_made_with_one_set_of_settings(tmp_path: Path) -> None:
    output_at(tmp_path / "out", Shape(extractor="trafilatura"))
    output_at(tmp_path / "out", Shape(extractor="trafilatura"))
    with pytest.raises(Misconfigured, match="begun with --extractor trafilatura"):
        output_at(tmp_path / "out", Shape(extractor="resiliparse"))


# --- once, in effect --------------------------------------------------------------------------------------------------


def test_the_same_batches_twice_change_nothing(tmp_path: Path, pages: list[Page]) -> None:
    output = output_at(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    before = snapshot(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), output_at(tmp_path / "out"))
    assert snapshot(tmp_path / "out") == before
    assert Counter(row["url"] for row in rows(tmp_path / "out")) == Counter(page.url for page in pages)


def test_a_worker_whose_lease_is_over_publishes_nothing(tmp_path: Path, pages: list[Page]) -> None:
    """As one that was stopped (SIGSTOP) while another took its batch."""
    now = [1000.0]
    queue = SqliteQueue(tmp_path / "queue.sqlite", lease=60, clock=lambda: now[0])
    queue.publish(batches(pages, size=40))
    output = output_at(tmp_path / "out")

    class Slow(LocalStorage):
        def read(self, key: str, **options: Any) -> bytes:
            if not taken:
                now[0] += 61  # the lease is over, and somebody else comes
                with queue.consume() as other:
                    taken.append(other.receive(timeout=0))
            return super().read(key, **options)

    taken: list[Any] = []
    work_over = work_until(queue, Slow(tmp_path / "crawl"), output, taken)
    assert work_over.batches == 0
    assert taken[0].attempts == 2
    assert not (tmp_path / "out" / "spool").exists()
    taken[0].ack()
    queue.close()


def work_until(queue: SqliteQueue, storage: LocalStorage, output: Any, taken: list[Any]) -> Any:
    import threading
    from contextlib import closing

    from webmill.commoncrawl.captures import Fetcher
    from webmill.commoncrawl.ranges import RangeLimits
    from webmill.pipeline.extract.workers import Options, Workers

    with closing(Fetcher(storage, concurrency=1, limits=RangeLimits())) as fetcher:
        workers = Workers(queue, fetcher, output, Options(), metrics=Metrics(ALL))
        return workers.run(stop=threading.Event(), is_over=lambda: bool(taken))


def test_a_batch_of_another_batcher_is_worked_too(tmp_path: Path, pages: list[Page]) -> None:
    work_all(
        queue_of(Message("anything", encode_batch([pages[0].line]))), archive(tmp_path), output_at(tmp_path / "out")
    )
    assert [row["url"] for row in rows(tmp_path / "out")] == [pages[0].url]


@pytest.mark.server("s3")
def test_documents_may_go_to_an_object_store(tmp_path: Path, pages: list[Page], s3_url: str) -> None:
    from webmill.pipeline.extract.output import Output

    bucket, question, options = s3_url.partition("?")
    storage = S3Storage(S3Options.from_url(f"{bucket}/{secrets.token_hex(6)}{question}{options}"))
    output = Output(storage, folder=None, shape=JSONL)
    output.prepare()
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    local = output_at(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), local)
    assert {stat.key: storage.read(stat.key) for stat in storage.list(f"{RUN}/")} == snapshot(tmp_path / "out")


def test_a_broken_queue_is_waited_for(tmp_path: Path, pages: list[Page]) -> None:
    from webmill.infra.queue.memory import MemoryQueue

    class Shaky(MemoryQueue):
        failures = 2

        def claim(self, count: int) -> Any:
            if self.failures:
                self.failures -= 1
                raise Unavailable("gone for a moment", retry_after=0.0)
            return super().claim(count)

    queue = Shaky()
    queue.publish(batches(pages))
    work_all(queue, archive(tmp_path), output_at(tmp_path / "out"))
    assert len(rows(tmp_path / "out")) == 40
    assert len(parts(tmp_path / "out")) == 1

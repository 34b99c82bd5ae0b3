"""Batches to documents: every capture once, whoever works it, and however often."""

from __future__ import annotations

import html
import secrets
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import serving
from tests.pipeline.cc_pages import (
    RUN,
    Page,
    batches,
    files_in,
    parts,
    resiliparse_text,
    rows,
    snapshot,
    trafilatura_text,
    write_crawl,
)
from tests.pipeline.cc_workers import output_at, queue_of, work, work_all
from webmill.commoncrawl.batch import encode_batch
from webmill.errors import Misconfigured, Unavailable
from webmill.extract.recipe import Recipe
from webmill.infra.executor.base import PAUSE
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.infra.metrics import Metrics
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.extract.metrics import ALL
from webmill.pipeline.extract.output import OutputShape
from webmill.pipeline.extract.plan import DocumentFilter

PLAIN = Recipe(extractor="resiliparse")


def archive(root: Path) -> Path:
    return root / "crawl"


@pytest.fixture
def pages(tmp_path: Path) -> list[Page]:
    return write_crawl(tmp_path / "crawl", pages=40)


def test_every_capture_is_a_row_with_the_text_of_the_extractor_itself(tmp_path: Path, pages: list[Page]) -> None:
    queue = queue_of(*batches(pages, size=7))
    recipe = Recipe(extractor="resiliparse", detect=True)
    output = output_at(tmp_path / "out", OutputShape(recipe=recipe, format="parquet"))
    metrics = Metrics(ALL)
    with closing(PoolExecutor(workers=2)) as executor:
        report = work_all(queue, archive(tmp_path), output, metrics=metrics, executor=executor)
    found, expected = rows(tmp_path / "out"), pages
    assert [row["url"] for row in found] == [page.url for page in expected]
    assert [row["text"] for row in found] == [resiliparse_text(page.html) for page in expected]
    for row, page in zip(found, expected, strict=True):
        printed = page.fields
        assert (row["urlkey"], f"{row['date']:%Y%m%d%H%M%S}") == (page.surt, page.timestamp)
        assert row["digest"] == f"sha1:{printed['digest']}"
        assert (row["warc_filename"], row["warc_offset"], row["warc_length"]) == (*page.place, int(printed["length"]))
        assert (str(row["status"]), row["mime"], row["charset"].lower()) == (printed["status"], "text/html", "utf-8")
        assert (row["outcome"], row["error"], row["extractor"]) == ("ok", None, "resiliparse")
        assert row["text_chars"] == len(row["text"])
        assert f"<title>{row['title']}</title>" in html.unescape(page.html.decode())
        assert row["language"] == printed["languages"] or printed["languages"] == "und"
        assert row["languages"][:1] == ([row["language"]] if row["language"] else [])
    assert (report.tasks, report.captures, report.documents) == (6, 40, 40)
    assert not list((tmp_path / "out" / ".webmill" / "spool").glob("*.zst"))
    reported = metrics.render().decode()
    assert "worker_batches_total 6.0" in reported
    assert "worker_documents_written_total 40.0" in reported
    assert "worker_documents_extracted_total 40.0" in reported


def test_trafilatura_is_asked_as_it_would_be_asked_directly(tmp_path: Path, pages: list[Page]) -> None:
    output = output_at(tmp_path / "out", OutputShape(recipe=Recipe(extractor="trafilatura"), format="jsonl"))
    work_all(queue_of(*batches(pages[:10])), archive(tmp_path), output)
    assert [row["text"] for row in rows(tmp_path / "out")] == [trafilatura_text(page.html) for page in pages[:10]]


def test_without_an_extractor_rows_have_no_text(tmp_path: Path, pages: list[Page]) -> None:
    work_all(
        queue_of(*batches(pages)),
        archive(tmp_path),
        output_at(tmp_path / "out", OutputShape(recipe=Recipe(extractor="none"), format="jsonl")),
    )
    found = rows(tmp_path / "out")
    assert {(row["text"], row["outcome"], [row["language"]] == row["languages"]) for row in found} == {
        (None, "none", True)
    }
    printed = {page.url: page.fields["languages"] for page in pages}
    assert {row["url"]: row["language"] for row in found} == printed  # without CLD2: what the index says


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
    keep = DocumentFilter(min_text=texts[5], max_text=texts[-6], languages=("eng", "deu"))
    output = output_at(tmp_path / "out", OutputShape(recipe=PLAIN, format="jsonl", keep=keep))
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    found = rows(tmp_path / "out")
    expected = [
        page.url
        for page in pages
        if texts[5] <= len(resiliparse_text(page.html)) <= texts[-6] and page.fields["languages"] in ("eng", "deu")
    ]
    assert [row["url"] for row in found] == expected
    (part,) = output.parts(RUN)
    assert part.left_out["too_short"] == sum(length < texts[5] for length in texts)
    assert part.left_out["too_long"] == sum(length > texts[-6] for length in texts)
    assert part.captures == part.rows + sum(part.left_out.values()) == 40


def test_filters_on_text_need_an_extractor() -> None:
    with pytest.raises(Misconfigured, match="--extractor"):
        OutputShape(recipe=Recipe(extractor="none"), keep=DocumentFilter(min_text=5)).check()


def test_an_output_is_made_with_one_set_of_settings(tmp_path: Path) -> None:
    output_at(tmp_path / "out", OutputShape(recipe=Recipe(extractor="trafilatura")))
    output_at(tmp_path / "out", OutputShape(recipe=Recipe(extractor="trafilatura")))
    with pytest.raises(Misconfigured, match="started with --extractor trafilatura"):
        output_at(tmp_path / "out", OutputShape(recipe=PLAIN))


# --- once, in effect --------------------------------------------------------------------------------------------------


def test_the_same_batches_twice_change_nothing(tmp_path: Path, pages: list[Page]) -> None:
    output = output_at(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    before = snapshot(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), output_at(tmp_path / "out"))
    assert snapshot(tmp_path / "out") == before
    assert Counter(row["url"] for row in rows(tmp_path / "out")) == Counter(page.url for page in pages)


@pytest.mark.parametrize("settled", ["acked", "left"])
def test_a_worker_whose_lease_is_over_adds_nothing(tmp_path: Path, pages: list[Page], settled: str) -> None:
    """As one that was stopped (SIGSTOP) while another took its batch."""
    now = [1000.0]
    queue = SqliteQueue(tmp_path / "queue.sqlite", lease=60, clock=lambda: now[0])
    queue.publish(batches(pages, size=40))
    output = output_at(tmp_path / "out")
    taken: list[Any] = []
    alone = threading.Lock()  # several ranges are asked for at once

    with serving() as server:

        def slow(handler: Any) -> None:
            with alone:
                if not taken:
                    now[0] += 61  # the lease is over, and somebody else comes
                    with queue.consume() as other:
                        taken.append(other.receive(timeout=0))
            handler.honest(server.values[handler.path.removeprefix("/data/")])

        server.values.update(files_in(archive(tmp_path)))
        server.lies.update(dict.fromkeys(server.values, slow))
        report = work(queue, server.url, output, is_over=lambda: bool(taken))
        assert report.tasks == 0
        assert (report.given_back, report.failures) == (0, [])
        assert taken[0].attempts == 2
        assert queue.stats().leased == 1  # it is the other's still
        if settled == "acked":  # the other has done it, too
            taken[0].ack()
        else:
            taken[0].retry("gone")
        work_all(queue, server.url, output)
    assert Counter(row["url"] for row in rows(tmp_path / "out")) == Counter(page.url for page in pages)
    queue.close()


def test_a_batch_that_comes_to_us_twice_is_not_settled_before_it_is_durable(tmp_path: Path, pages: list[Page]) -> None:
    """Its lease ran out while we were stopped, and the queue has handed it to us again."""
    now = [1000.0]
    queue = SqliteQueue(tmp_path / "queue.sqlite", lease=60, clock=lambda: now[0])
    queue.publish(batches(pages, size=40))
    output = output_at(tmp_path / "out")

    class Twice(InlineExecutor):
        """Asks for a second item before it begins the first."""

        def run(self, function: Any, items: Any, *, attempts: int = 3) -> Any:
            def two_at_first() -> Any:
                first = next(source)
                now[0] += 61
                assert next(source) is PAUSE
                stats = queue.stats()
                assert (stats.leased, stats.waiting) == (1, 1)  # in our hands again, not done
                yield first
                yield from source

            source = iter(items)
            return super().run(function, two_at_first(), attempts=attempts)

    report = work_all(queue, archive(tmp_path), output, executor=Twice(), killable=False)
    assert (report.tasks, report.captures) == (1, 40)
    assert queue.stats().waiting == 0
    assert len(rows(tmp_path / "out")) == 40
    queue.close()


def test_a_batch_of_another_batcher_is_worked_too(tmp_path: Path, pages: list[Page]) -> None:
    work_all(
        queue_of(Message("anything", encode_batch([pages[0].line]))), archive(tmp_path), output_at(tmp_path / "out")
    )
    assert [row["url"] for row in rows(tmp_path / "out")] == [pages[0].url]


@pytest.mark.server("s3")
def test_documents_may_go_to_an_object_store(tmp_path: Path, pages: list[Page], s3_url: str) -> None:
    bucket, question, options = s3_url.partition("?")
    output = output_at(f"{bucket}/{secrets.token_hex(6)}{question}{options}")
    storage = open_storage(output.place)
    work_all(queue_of(*batches(pages)), archive(tmp_path), output)
    local = output_at(tmp_path / "out")
    work_all(queue_of(*batches(pages)), archive(tmp_path), local)
    found = {stat.key: storage.read(stat.key) for stat in storage.list(f"{RUN}/")}
    records = {f".webmill/{stat.key}": output.notes.read(stat.key) for stat in output.notes.list("sealed/")}
    assert found | records == snapshot(tmp_path / "out")


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

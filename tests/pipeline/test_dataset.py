"""Datasets, undisturbed: what comes out, where, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.pipeline.datasets import (
    create,
    drafts,
    lines_of,
    pages,
    plan,
    pool,
    run,
    snapshot,
    views,
    write_files,
    write_triple,
)
from tests.unit.commoncrawl.triples import CRAWL, WARC, WAT, WET, Spec, Writer, make_triple
from webmill.compat.index_record import IndexRecord
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.extract.extractors import default_extractor
from webmill.formats.cld2 import can_detect_languages
from webmill.formats.warc import record_headers as records
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.sinks import json_lines
from webmill.infra.sinks.base import Delivered, SinkRow
from webmill.infra.sinks.files import FileSink
from webmill.infra.storage.base import Readable, Stat
from webmill.infra.storage.memory import MemoryStorage
from webmill.model import Document
from webmill.pipeline.dataset import folder as dataset_folder
from webmill.pipeline.dataset.folder import open_dataset
from webmill.pipeline.dataset.views import error_lines, read_receipts, redrive
from webmill.pipeline.extract import plan as extraction_plan
from webmill.pipeline.extract.receipts import Receipt, Receipts
from webmill.pipeline.extract.resources import ArchiveLocator
from webmill.pipeline.extract.worker import Worker

SMALL = {"pages_per_part": 4}


def test_every_page_becomes_one_document(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=3, count=10)
    folder = create(tmp_path, lines, source=tmp_path / "in", write=SMALL)
    report = run(folder)
    documents = lines_of(folder.path / "output")
    assert [document["url"] for document in documents] == [
        f"https://example.org/{file}-{number}" for file in range(3) for number in range(10)
    ]
    assert all(msgspec.convert(document, Document) for document in documents)
    assert documents[0]["text"] == "Title of 0-0\nBody of 0-0"
    assert (documents[6]["text"], documents[6]["outcome"]) == ("", "empty")
    assert (report.tasks, report.captures, report.documents, report.errors) == (3, 30, 30, 0)
    assert len(list((folder.path / "output").glob("*.jsonl.gz"))) == 3 * 3


def test_a_second_run_does_nothing(tmp_path: Path) -> None:
    folder = create(tmp_path, write_files(tmp_path / "in", files=2, count=5), source=tmp_path / "in")
    run(folder)
    before = snapshot(folder)
    assert run(folder).tasks == 0
    assert snapshot(folder) == before


def test_the_pool_makes_the_bytes_of_one_process(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=4, count=9)
    one, many = (create(tmp_path / name, lines, source=tmp_path / "in", write=SMALL) for name in ("one", "many"))
    run(one)
    run(many, pool())
    assert snapshot(one) == snapshot(many)
    assert not drafts(many)


def test_a_bare_path_is_a_task_of_a_warc_file_alone(tmp_path: Path) -> None:
    write_files(tmp_path / "in", files=1, count=3)
    folder = create(
        tmp_path, ["f0.warc.gz", f"WARC:{tmp_path}/in/f0.warc.gz|WET:f0.warc.wet.gz"], source=tmp_path / "in"
    )
    run(folder)
    documents = lines_of(folder.path / "output")
    assert [document["extractor"] for document in documents] == [default_extractor()] * 3 + ["wet"] * 3
    assert documents[0]["title"] == documents[3]["title"] == "Title of 0-0"


def test_index_records(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=3)
    kind: dict[str, object] = {"kind": "index-record"}
    folder = create(tmp_path, lines, source=tmp_path / "in", document=kind, write={"compression": "zstd"})
    run(folder)
    records = [msgspec.convert(line, IndexRecord) for line in lines_of(folder.path / "output")]
    assert [record.doc_text for record in records] == [f"Title of 0-{n}\nBody of 0-{n}" for n in range(3)]


def test_parquet_opens_in_duckdb_with_typed_columns(tmp_path: Path) -> None:
    import duckdb

    lines = write_files(tmp_path / "in", files=2, count=10)
    folder = create(
        tmp_path,
        lines,
        source=tmp_path / "in",
        write={"format": "parquet", "pages_per_part": 4},
        document={"links": True},
    )
    run(folder)
    with duckdb.connect() as database:
        table = f"read_parquet('{folder.path}/output/*.parquet')"
        columns = {row[0]: row[1] for row in database.execute(f"describe select * from {table}").fetchall()}
        assert columns["date"] == "TIMESTAMP WITH TIME ZONE"
        assert columns["status"] == "BIGINT"
        assert columns["language_score"] == "DOUBLE"
        assert columns["languages"] == "VARCHAR[]"
        assert columns["links"] == 'STRUCT(url VARCHAR, "text" VARCHAR, rel VARCHAR, path VARCHAR)[]'
        assert list(columns) == list(Document.__struct_fields__)
        counts = "count(*), count(distinct url), count(nullif(text, '')), min(status), max(links[1].url)"
        assert database.execute(f"select {counts} from {table}").fetchone() == (
            20,
            20,
            18,
            200,
            "https://example.org/next",
        )


def test_index_records_are_a_table_too(tmp_path: Path) -> None:
    import duckdb

    lines = write_files(tmp_path / "in", files=1, count=3)
    kind: dict[str, object] = {"kind": "index-record"}
    folder = create(tmp_path, lines, source=tmp_path / "in", document=kind, write={"format": "parquet"})
    run(folder)
    with duckdb.connect() as database:
        table = f"read_parquet('{folder.path}/output/*.parquet')"
        found = database.execute(f"select documentId, languages[1].language, documentMetadata from {table}").fetchone()
    assert found == ("https://example.org/0-0", "GERMAN", "{}")


# --- errors -----------------------------------------------------------------------------------------------------------


def damaged(tmp_path: Path) -> tuple[str, set[str]]:
    """A triple with holes in all three files, and the pages that are hit."""
    triple, hit = make_triple(pages(0, 30)), set()
    for file_type, at in ((WARC, 0.3), (WAT, 0.55), (WET, 0.8)):
        data = bytearray(triple.of(file_type))
        start = int(len(data) * at)
        data[start : start + 40] = bytes(40)
        hit |= triple.damaged_by(file_type, start, start + 40)
        triple = triple.replacing(file_type, bytes(data))
    return write_triple(tmp_path / "in", "f0", triple), hit


def test_what_is_damaged_is_told_with_its_byte_ranges(tmp_path: Path) -> None:
    line, hit = damaged(tmp_path)
    folder = create(tmp_path, [line], source=tmp_path / "in", write=SMALL)
    report = run(folder)
    names = {document["url"].rpartition("/")[2] for document in lines_of(folder.path / "output")}
    assert names == {spec.name for spec in pages(0, 30)} - hit
    errors = [json.loads(error) for error in error_lines(folder)]
    assert report.errors == len(errors) >= 3
    assert {error["recordType"] for error in errors} == {"WARC_ERROR", "WAT_ERROR", "WET_ERROR"}
    for error in errors:
        assert error["reason"]
        assert error["files"]["WARC"] == "f0.warc.gz"
        assert all(error["startOffset"][name] <= error["endOffset"][name] for name in error["startOffset"])
        assert error["flaws"][0]["start"] < error["flaws"][0]["end"]
    assert errors == lines_of(folder.path / "errors")


def test_where_parts_end_changes_nothing_about_what_is_in_them(tmp_path: Path) -> None:
    """Also in damaged files: the place to read on is right after every page."""
    line, _ = damaged(tmp_path)
    whole = create(tmp_path / "whole", [line], source=tmp_path / "in")
    run(whole)
    for size in (1, 2, 3, 7):
        cut = create(tmp_path / str(size), [line], source=tmp_path / "in", write={"pages_per_part": size})
        run(cut)
        assert lines_of(cut.path / "output") == lines_of(whole.path / "output")
        assert lines_of(cut.path / "errors") == lines_of(whole.path / "errors")


@pytest.mark.parametrize("place", ["output", "./errors/../output"])
def test_documents_and_errors_may_share_a_folder(tmp_path: Path, place: str) -> None:
    line, _ = damaged(tmp_path)
    shared: dict[str, object] = {"to": place, "compression": "gzip"}
    folder = create(tmp_path, [line], source=tmp_path / "in", errors=shared)
    report = run(folder)
    rows = lines_of(folder.path / "output")
    assert sum("reason" in row for row in rows) == report.errors >= 3
    assert sum("text" in row for row in rows) == report.documents >= 20


def test_receipts_lie_where_other_machines_find_the_output(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=3)
    inside = create(tmp_path / "a", lines, source=tmp_path / "in", write={"to": "./x/../made"})
    outside = create(tmp_path / "b", lines, source=tmp_path / "in", write={"to": str(tmp_path / "disk")})
    for folder, place in ((inside, inside.path), (outside, tmp_path / "disk" / ".webmill")):
        run(folder)
        assert len(list((place / "receipts").glob("*/*.json"))) == 1
        assert len(read_receipts(folder, next(folder.tasks()))) == 1
    assert lines_of(tmp_path / "disk") == lines_of(inside.path / "made")
    assert not (outside.path / "receipts").exists()


def orphaned(tmp_path: Path) -> str:
    """A triple with texts that belong to no page, three in a row: reading on begins behind all of them."""
    writer = Writer()
    writer.begin()
    for number, spec in enumerate(pages(0, 6)):
        writer.page(spec, number)
        for name in "abc":
            text = Spec(f"orphan-{number}-{name}")
            writer._text(text, records.CaptureEvent(uri=text.target, date=CRAWL, ip="192.0.2.1"))
    return write_triple(tmp_path / "in", "f0", writer.triple())


def test_records_that_belong_to_no_page_are_told_once(tmp_path: Path) -> None:
    folder = create(tmp_path, [orphaned(tmp_path)], source=tmp_path / "in", write={"pages_per_part": 1})
    run(folder)
    assert len(lines_of(folder.path / "output")) == 6
    errors = [error["url"].rpartition("/")[2] for error in lines_of(folder.path / "errors")]
    assert sorted(errors) == [f"orphan-{number}-{name}" for number in range(6) for name in "abc"]


LONELY = 2500


def lonely(tmp_path: Path) -> str:
    """Metadata without captures, very many in a row, and texts without pages behind the last page."""
    writer = Writer()
    writer.begin()
    writer.page(Spec("first"), 0)
    for number in range(LONELY):
        spec = Spec(f"lone-{number}")
        writer._metadata(spec, records.CaptureEvent(uri=spec.target, date=CRAWL, ip="192.0.2.1"))
    writer.page(Spec("last"), 1)
    for number in range(LONELY):
        spec = Spec(f"text-{number}")
        writer._text(spec, records.CaptureEvent(uri=spec.target, date=CRAWL, ip="192.0.2.1"))
    return write_triple(tmp_path / "in", "f0", writer.triple())


@pytest.mark.parametrize(("limit", "most"), [({"pages_per_part": 7}, 1000), ({"bytes_per_part": 4000}, 2400)])
def test_parts_of_errors_end_too(tmp_path: Path, limit: dict[str, object], most: int) -> None:
    line = lonely(tmp_path)
    whole = create(tmp_path / "whole", [line], source=tmp_path / "in")
    folder = create(tmp_path / "cut", [line], source=tmp_path / "in", write=limit)
    assert run(whole).errors == run(folder).errors == 2 * LONELY
    assert lines_of(folder.path / "errors") == lines_of(whole.path / "errors")
    assert lines_of(folder.path / "output") == lines_of(whole.path / "output")
    sizes = [len(file.read_bytes().splitlines()) for file in (folder.path / "errors").glob("*.jsonl")]
    assert sum(sizes) == 2 * LONELY
    assert max(sizes) <= most


@pytest.mark.parametrize("what", ["damaged", "orphaned", "lonely"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_task_resumed_after_any_part_gives_the_same_bytes(tmp_path: Path, what: str, size: int) -> None:
    line = {
        "damaged": lambda: damaged(tmp_path)[0],
        "orphaned": lambda: orphaned(tmp_path),
        "lonely": lambda: lonely(tmp_path),
    }[what]()
    folder = create(tmp_path, [line], source=tmp_path / "in", write={"pages_per_part": size})
    run(folder)
    expected = snapshot(folder)
    (task,) = views(folder)
    for keep in range(len(read_receipts(folder, next(folder.tasks())))):
        for file in (folder.path / "receipts" / task.id).iterdir():
            if int(file.stem) >= keep:
                file.unlink()
        folder.queue.unlink()
        for name in expected:  # a part that lost its receipt may be there or not
            if int(name.split("-")[2][:5]) >= keep and keep % 2:
                (folder.path / name).unlink()
        run(folder)
        assert snapshot(folder) == expected


def test_a_missing_file_fails_its_task_and_no_other(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=2, count=3)
    folder = create(tmp_path, [lines[0], "none.warc.gz", lines[1]], source=tmp_path / "in")
    report = run(folder)
    assert [view.state for view in views(folder)] == ["done", "failed", "done"]
    assert "none.warc.gz" in report.failures[0].reason
    assert report.documents == 6


def test_a_failed_task_is_redriven(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=2, count=3)
    lost = tmp_path / "in" / "f1.warc.wet.gz"
    lost.rename(tmp_path / "aside")
    folder = create(tmp_path, lines, source=tmp_path / "in")
    run(folder)
    (tmp_path / "aside").rename(lost)
    assert run(folder).tasks == 0
    with pytest.raises(NotFound, match="no such task"):
        redrive(folder, ["no such task"])
    assert redrive(folder, []) == 1
    assert run(folder).documents == 3
    assert [view.state for view in views(folder)] == ["done", "done"]


def test_a_file_that_changed_since_the_task_began_fails_it(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=9)
    folder = create(tmp_path, lines, source=tmp_path / "in", write=SMALL)
    run(folder)
    (task,) = views(folder)
    (folder.path / "receipts" / task.id / "00002.json").unlink()
    folder.queue.unlink()
    write_triple(tmp_path / "in", "f0", make_triple(pages(5, 9)))
    report = run(folder)
    assert "source_changed" in report.failures[0].reason


# --- your own function ------------------------------------------------------------------------------------------------

FUNCTION = """
import msgspec
from webmill.commoncrawl.page import Page

class Short(msgspec.Struct):
    name: str
    words: int
    protocols: tuple[str, ...]
    file: str

def document(page: Page) -> Short | None:
    name = page.target_uri.rpartition("/")[2]
    if name.endswith("-2"):
        return None
    if name.endswith("-3"):
        raise KeyError("three")
    return Short(name, len((page.text or "").split()), tuple(page.typed_capture.protocols), page.filename)
"""


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_function_of_yours_takes_the_place_of_the_default(tmp_path: Path, form: str) -> None:
    import duckdb

    lines = write_files(tmp_path / "in", files=1, count=6)
    (tmp_path / "in" / "mine.py").write_text(FUNCTION)
    folder = create(
        tmp_path, lines, source=tmp_path / "in", document={"function": "mine.py:document"}, write={"format": form}
    )
    (tmp_path / "in" / "mine.py").unlink()  # it was copied
    report = run(open_dataset(folder.path), pool())
    assert (report.captures, report.documents, report.left_out, report.errors) == (6, 4, {"function": 1}, 1)
    if form == "jsonl":
        assert lines_of(folder.path / "output")[0] == {
            "name": "0-0",
            "words": 6,
            "protocols": ["h2", "tls/1.3"],
            "file": "f0.warc.gz",
        }
    else:
        with duckdb.connect() as database:
            found = database.execute(f"select * from '{folder.path}/output/*.parquet' limit 1").fetchone()
        assert found == ("0-0", 6, ["h2", "tls/1.3"], "f0.warc.gz")
    (error,) = lines_of(folder.path / "errors")
    assert error["reason"] == "function_failed"
    assert error["errorMessage"] == "KeyError: 'three'"
    assert error["url"] == "https://example.org/0-3"
    assert error["startOffset"]["WARC"] < error["endOffset"]["WARC"]


ODD = """
import msgspec

class Other(msgspec.Struct):
    size: int

class Odd(msgspec.Struct):
    name: str
    count: int = 1
    names: list[str] = []
    size: int | None = None

def document(page) -> Odd:
    name = page.target_uri.rpartition("-")[2]
    match name:
        case "1": return Odd(name, 2**70)
        case "2": return Odd(name, 2**63)
        case "3": return Odd(name, "three")
        case "4": return Odd(None)
        case "5": return Odd(name, names=["a", None])
        case "6": return Other(6)
        case "7": raise SystemExit(7)
        case "8": return "eight"
    return Odd(name, names=["a"])
"""


@pytest.mark.parametrize("executor", [InlineExecutor, pool])
def test_one_bad_value_is_an_error_of_its_page_only(tmp_path: Path, executor: Callable[[], Executor]) -> None:
    import duckdb

    lines = write_files(tmp_path / "in", files=1, count=10)
    (tmp_path / "in" / "odd.py").write_text(ODD)
    named: dict[str, object] = {"function": "odd.py:document"}
    folder = create(tmp_path, lines, source=tmp_path / "in", document=named, write={"format": "parquet"})
    report = run(folder, executor())
    assert (report.captures, report.documents, report.errors, report.failures) == (10, 2, 8, [])
    with duckdb.connect() as database:
        assert database.execute(f"select name from '{folder.path}/output/*.parquet'").fetchall() == [("0",), ("9",)]
    reasons = {error["url"][-1]: error["reason"] for error in lines_of(folder.path / "errors")}
    assert reasons == {number: "function_failed" if number == "7" else "wrong_type" for number in "12345678"}


def test_an_installed_function(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=2)
    named: dict[str, object] = {"function": "webmill.compat.index_record:make_index_record"}
    folder = create(tmp_path, lines, source=tmp_path / "in", document=named)
    run(folder)
    assert lines_of(folder.path / "output")[0]["recordType"] == "IndexRecord"


@pytest.mark.parametrize("name", ["mine.py", "mine.py:none", "no.such.module:f", "gone.py:document", "bad.py:document"])
def test_a_function_that_cannot_be_loaded_is_told_when_the_dataset_is_made(tmp_path: Path, name: str) -> None:
    lines = write_files(tmp_path / "in", files=1, count=1)
    (tmp_path / "in" / "mine.py").write_text(FUNCTION)
    (tmp_path / "in" / "bad.py").write_text("def document(")
    with pytest.raises(Misconfigured):
        create(tmp_path, lines, source=tmp_path / "in", document={"function": name})
    assert not (tmp_path / "test").exists()


# --- queues and stdout ------------------------------------------------------------------------------------------------


def test_documents_and_errors_go_to_queues(tmp_path: Path) -> None:
    line, _ = damaged(tmp_path)
    folder = create(
        tmp_path, [line], source=tmp_path / "in", write={"to": "sqlite:docs.q", **SMALL}, errors={"to": "sqlite:bad.q"}
    )
    report = run(folder)
    queue = SqliteQueue(folder.path / "docs.q")
    with queue.consume() as consumer:
        bodies = {}
        while delivery := consumer.receive(timeout=0):
            bodies[delivery.id] = json.loads(delivery.body)
            delivery.ack()
    queue.close()
    assert len(bodies) == report.documents
    (task,) = views(folder)
    assert f"{task.id}-00000-00000" in bodies
    errors = SqliteQueue(folder.path / "bad.q")
    assert errors.stats().ready == report.errors
    errors.close()


def test_documents_and_errors_may_share_a_queue(tmp_path: Path) -> None:
    line, _ = damaged(tmp_path)
    both: dict[str, object] = {"to": "sqlite:both.q"}
    folder = create(tmp_path, [line], source=tmp_path / "in", write={**both, **SMALL}, errors=both)
    report = run(folder)
    queue = SqliteQueue(folder.path / "both.q")
    assert queue.stats().ready == report.documents + report.errors
    queue.close()


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_changed_description_is_refused_and_nothing_is_mixed(tmp_path: Path) -> None:
    folder = create(tmp_path, write_files(tmp_path / "in", files=1, count=3), source=tmp_path / "in")
    file = folder.path / "dataset.json"
    before = file.read_text()
    file.write_text(before.replace('"compression": null', '"compression": "zstd"'))
    assert file.read_text() != before
    with pytest.raises(Conflict, match="another description"):
        open_dataset(folder.path)
    file.write_text(before.replace('"attempts": 3', '"attempts": 1'))
    assert open_dataset(folder.path).dataset.compute.attempts == 1
    file.write_text(before)
    (folder.path / "manifest.txt").write_text("other.warc.gz\n")
    with pytest.raises(Conflict):
        open_dataset(folder.path)


def test_what_is_installed_later_does_not_change_how_documents_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in", files=2, count=3)
    monkeypatch.setattr(extraction_plan, "default_extractor", lambda: "plain")
    folder = create(tmp_path, ["f0.warc.gz", "f1.warc.gz"], source=tmp_path / "in")
    monkeypatch.setattr(extraction_plan, "default_extractor", lambda: "resiliparse")
    run(open_dataset(folder.path))
    assert {document["extractor"] for document in lines_of(folder.path / "output")} == {"plain"}
    monkeypatch.setattr(dataset_folder, "can_detect_languages", lambda: False)
    if folder.making.recipe.detect:
        with pytest.raises(Misconfigured, match=r"webmill\[languages\]"):
            run(folder)


def test_a_dataset_is_not_made_twice_nor_run_twice_at_once(tmp_path: Path) -> None:
    lines = write_files(tmp_path / "in", files=1, count=1)
    folder = create(tmp_path, lines, source=tmp_path / "in")
    with pytest.raises(Conflict, match="already"):
        create(tmp_path, lines, source=tmp_path / "in")
    with dataset_folder.lock_job(folder.path):
        assert folder.is_running()
        with pytest.raises(Conflict, match="another process"):
            run(folder)
        with pytest.raises(Conflict):
            dataset_folder.delete_dataset(folder.path)
    assert not folder.is_running()
    dataset_folder.delete_dataset(folder.path)
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["WAT:x|WET:y"], "no WARC"),
        (["WARC:x|WARC:y"], "once"),
        (["WARC:x|what"], "names no"),
        (["x", "y", "x"], "line 3 is line 1"),
        (["x", "WARC:x"], "line 2 is line 1"),
        (["WARC:x|WAT:y", "wat: y | warc: x"], "line 2 is line 1"),
        (["# nothing", ""], "no tasks"),
        (["WARC:|WAT:y"], "once, with a path"),
    ],
)
def test_a_bad_manifest_is_told_with_its_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        create(tmp_path, lines, source=tmp_path)


def test_a_path_that_looks_like_something_else_stays_the_path(tmp_path: Path) -> None:
    folder = create(tmp_path, ["WARC:#1.warc.gz", "WARC:WAT:x", "x"], source=tmp_path)
    assert [task.files for task in folder.tasks()] == [{WARC: "#1.warc.gz"}, {WARC: "WAT:x"}, {WARC: "x"}]


# --- receipts that cannot be trusted ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["empty", "cut", "flipped", "garbage", "future", "lost part", "short part"])
def test_a_damaged_receipt_is_passed_over_with_all_that_follow(tmp_path: Path, how: str) -> None:
    lines = write_files(tmp_path / "in", files=1, count=20)
    folder = create(tmp_path, lines, source=tmp_path / "in", write=SMALL)
    run(folder)
    expected = snapshot(folder)
    (task,) = views(folder)
    place = folder.path / "receipts" / task.id
    second, data = place / "00002.json", (place / "00002.json").read_bytes()
    match how:
        case "empty":
            second.write_bytes(b"")
        case "cut":
            second.write_bytes(data[: len(data) // 2])
        case "flipped":
            second.write_bytes(data.replace(b'"captures":4', b'"captures":5'))
        case "garbage":
            second.write_bytes(b"\xff\x00" * 50)
        case "future":
            second.rename(place / "00017.json")
        case "lost part":
            (folder.path / "output" / f"{task.id}-00002.jsonl.gz").unlink()
        case "short part":
            (folder.path / "output" / f"{task.id}-00002.jsonl.gz").write_bytes(b"short")
    folder.queue.unlink()
    run(folder)
    assert snapshot(folder) == expected
    assert sorted(file.name for file in place.iterdir()) == [f"{n:05d}.json" for n in range(5)]
    assert views(folder)[0].totals.captures == 20


def receipt(number: int) -> Receipt:
    return Receipt(
        number=number,
        resume={WARC: 5 * number},
        sources={},
        output=Delivered(f"task-{number:05d}.jsonl", 1, 9, "sha256:a"),
        errors=None,
        captures=1,
        last=False,
        seconds=1.0,
    )


def test_receipts_are_read_in_the_order_of_their_numbers() -> None:
    receipts = Receipts(MemoryStorage(), "task/", files=None, error_files=None)
    for number in (100_000, 99_998, 99_999, 100_001):
        receipts.add(receipt(number))
    assert [one.number for one in receipts.read_after(99_999)] == [99_999, 100_000, 100_001]


def test_a_part_that_is_not_the_same_twice_is_a_conflict() -> None:
    receipts, one = Receipts(MemoryStorage(), "task/", files=None, error_files=None), receipt(0)
    receipts.add(one)
    receipts.add(msgspec.structs.replace(one, seconds=2.0))
    with pytest.raises(Conflict, match="made otherwise"):
        receipts.add(msgspec.structs.replace(one, output=Delivered("task-00000.jsonl", 1, 9, "sha256:b")))
    assert receipts.read() == [one]


def test_a_part_that_counts_is_not_replaced_and_one_that_does_not_is() -> None:
    storage, counting = MemoryStorage(), set[str]()
    sink = FileSink(
        storage, partial(json_lines.encode, compression="none"), ending="jsonl", counts=counting.__contains__
    )
    for text in (b"killed", b"whole"):
        sink.deliver("part", [SinkRow(None, text)])
        assert storage.read("part.jsonl") == text + b"\n"
    counting.add("part.jsonl")
    sink.deliver("part", [SinkRow(None, b"whole")])
    with pytest.raises(Conflict, match="other rows each time"):
        sink.deliver("part", [SinkRow(None, b"other")])
    assert storage.read("part.jsonl") == b"whole\n"


CHANCE = """
import os, msgspec
from webmill.extract.capture import document_of
from webmill.model import Document

def document(page) -> Document:
    return msgspec.structs.replace(document_of(page), title=os.urandom(8).hex())
"""


def test_a_worker_that_comes_late_does_not_replace_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at one task: the first is whole while the second has found nothing yet."""
    lines = write_files(tmp_path / "in", files=1, count=3)
    (tmp_path / "in" / "chance.py").write_text(CHANCE)
    folder = create(tmp_path, lines, source=tmp_path / "in", document={"function": "chance.py:document"})
    (task,) = folder.tasks()
    given = plan(folder, killable=False)
    first: list[dict[str, bytes]] = []
    find = ArchiveLocator.find

    def overtaken(archives: ArchiveLocator, path: str) -> tuple[Readable, str]:
        if not first:
            first.append({})  # it opens its files, too
            with closing(Worker(given)) as worker:
                worker.run(task)
            first[0] = snapshot(folder)
        return find(archives, path)

    monkeypatch.setattr(ArchiveLocator, "find", overtaken)
    with closing(Worker(given)) as late, pytest.raises(Conflict, match="other rows each time"):
        late.run(task)
    assert snapshot(folder) == first[0]


class Overtaking(MemoryStorage):
    """While one worker looks through the receipts, another adds one."""

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        seen = [*super().list(prefix, start_after=start_after)]
        if seen and len(seen) < 2:
            Receipts(self, "task/", files=None, error_files=None).add(receipt(1))
        return iter(seen)


def test_a_receipt_that_another_worker_adds_meanwhile_is_not_removed() -> None:
    receipts = Receipts(Overtaking(), "task/", files=None, error_files=None)
    receipts.add(receipt(0))
    assert receipts.read_and_clear() == [receipt(0)]
    assert receipts.read() == [receipt(0), receipt(1)]


def test_a_triple_of_common_crawl(tmp_path: Path, shared_data: Path) -> None:
    import duckdb

    stem = "CC-MAIN-20240712094214-20240712124214-00000.warc"
    line = f"WARC:{stem}.gz|WAT:{stem}.wat.gz|WET:{stem}.wet.gz"
    write: dict[str, object] = {"format": "parquet", "pages_per_part": 300}
    folder = create(tmp_path, [line], source=shared_data / "triple", write=write)
    report = run(folder)
    assert (report.documents, report.errors, report.failures) == (1143, 0, [])
    with duckdb.connect() as database:
        columns = "count(distinct id), count(nullif(text, '')), count(distinct language)"
        found = database.execute(f"select {columns} from '{folder.path}/output/*.parquet'").fetchone()
    languages = (
        18 if can_detect_languages() else 17
    )  # of the texts; of the pages, as grep counts languages-cld2 in the WARC file
    assert found == (1143, 1137, languages)


def test_the_output_does_not_depend_on_hash_seed_time_zone_or_language(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    lines = write_files(tmp_path / "in", files=1, count=9)
    made = []
    for number, (seed, zone, lang) in enumerate([("0", "UTC", "C"), ("1", "Asia/Tokyo", "de_DE.UTF-8")]):
        folder = create(tmp_path / str(number), lines, source=tmp_path / "in", write={"format": "parquet"})
        command = [sys.executable, "-m", "webmill", "-q", "dataset", "run", str(folder.path), "--executor", "inline"]
        env = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": lang}
        assert subprocess.run(command, env=env, check=False).returncode == 0
        made.append(snapshot(folder))
    assert made[0] == made[1]

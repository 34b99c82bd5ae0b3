"""Readers with letsdata's methods, run as `document.reader` of a dataset."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.datasets import create, lines_of, receipts, run, snapshot, views
from tests.unit.cli.command import webmill
from tests.unit.compat import letsdata_readers
from tests.unit.compat.letsdata_readers import pattern
from webmill.compat.letsdata.documents import RecordHintType, RecordParseHint
from webmill.compat.letsdata.records import RecordScanner
from webmill.errors import BadInput
from webmill.pipeline.dataset.folder import DatasetFolder
from webmill.pipeline.extract.manifest import own_manifest_line, parse_own_line

SOURCE = Path(letsdata_readers.__file__)


def dataset(root: Path, line: str | list[str], reader: str, files: dict[str, bytes], **more: Any) -> DatasetFolder:
    source = root / "in"
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    lines = [line] if isinstance(line, str) else line
    return create(root / "d", lines, source=source, document={"reader": f"{SOURCE}:{reader}"}, **more)


def log_line(number: int, level: str) -> bytes:
    return json.dumps({"ts": number, "lvl": level}, separators=(",", ":")).encode() + b"\n"


LOG = b"# a head that is no record\n" + b"".join(
    [
        log_line(1, "WARN"),
        log_line(2, "ERROR"),
        b'{"ts":3,"lvl":"ERROR",}\n',
        log_line(4, "BROKEN"),
        log_line(5, "ERROR"),
    ]
)


def test_every_record_is_a_document_an_error_or_skipped(tmp_path: Path) -> None:
    folder = dataset(tmp_path, "day.log.gz", "ErrorLogParser", {"logs/day.log.gz": LOG})
    report = run(folder)
    assert [row["ts"] for row in lines_of(folder.path / "output")] == [2, 5]
    assert (report.documents, report.errors, report.left_out) == (2, 2, {"skipped": 1})
    wrong, broken = lines_of(folder.path / "errors")
    assert "no JSON" in wrong["errorMessage"]
    assert LOG[wrong["startOffset"]["LOGFILE"] : wrong["endOffset"]["LOGFILE"]] == b'{"ts":3,"lvl":"ERROR",}\n'
    assert broken["errorMessage"] == "ValueError: broken line"
    assert LOG[broken["startOffset"]["LOGFILE"] : broken["endOffset"]["LOGFILE"]] == log_line(4, "BROKEN")
    assert broken["files"] == {"LOGFILE": "logs/day.log.gz"}


PAIRS = b"".join(f"META m{n}\nDATA d{n}\n".encode() for n in range(9)).replace(b"DATA d4", b"DATA ?")


def test_records_of_one_file_make_a_document_together(tmp_path: Path) -> None:
    folder = dataset(tmp_path, "DATAFILE:pairs.txt", "PairReader", {"pairs.txt": PAIRS})
    run(folder)
    assert lines_of(folder.path / "output") == [{"META": f"m{n}", "DATA": f"d{n}"} for n in range(9) if n != 4]
    (error,) = lines_of(folder.path / "errors")
    assert (error["recordType"], error["errorMessage"]) == ("DATA", "no DATA")
    assert PAIRS[error["startOffset"]["DATAFILE"] : error["endOffset"]["DATAFILE"]] == b"META m4\nDATA ?\n"


def test_records_of_several_files_make_a_document_together(tmp_path: Path) -> None:
    files = {"June/metadata/1.gz": b"a\nb\n", "June/data/1.gz": b"1\n2\n"}
    folder = dataset(tmp_path, "METADATALOG:June/metadata/1.gz | DATALOG : 1.gz", "TwoFilesReader", files)
    assert run(folder).documents == 2
    assert lines_of(folder.path / "output") == [
        {"METADATALOG": "a", "DATALOG": "1"},
        {"METADATALOG": "b", "DATALOG": "2"},
    ]
    (view,) = views(folder)
    assert view.files == {"METADATALOG": "June/metadata/1.gz", "DATALOG": "1.gz"}


@pytest.mark.parametrize("kept", range(4))
def test_a_task_that_was_killed_goes_on_with_the_same_bytes(tmp_path: Path, kept: int) -> None:
    write = {"pages_per_part": 3}
    folder = dataset(tmp_path, "pairs.txt", "PairReader", {"pairs.txt": PAIRS}, write=write)
    run(folder)
    whole, all_receipts = snapshot(folder), sorted(folder.path.glob("receipts/*/*.json"))
    assert len(all_receipts) == 4  # the last has no rows: nine answers are three full parts
    for receipt in all_receipts[kept:]:
        receipt.unlink()
    folder.queue.unlink()
    for file in sorted((folder.path / "output").glob("[!.]*"))[kept:]:
        file.unlink()
    run(folder)
    assert snapshot(folder) == whole
    assert receipts(folder) == 4


def test_a_reader_that_fails_fails_its_task_with_the_reason(tmp_path: Path) -> None:
    files = {"June/metadata/1": b"a\nb\n", "June/data/1": b"1\n", "June/metadata/2": b"a\n", "June/data/2": b"1\n"}
    lines = ["METADATALOG:June/metadata/1|DATALOG:1", "METADATALOG:June/metadata/2|DATALOG:1", "DATALOG:x"]
    folder = dataset(tmp_path, lines, "TwoFilesReader", files)
    run(folder)
    short, good, other = views(folder)
    assert (short.state, good.state, other.state) == ("failed", "done", "failed")
    assert "reader_failed" in short.reason
    assert "the reader wants DATALOG, METADATALOG" in other.reason
    assert short.totals.documents == 0


def test_a_reader_that_takes_nothing_does_not_run_for_ever(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text(
        "from tests.unit.compat.letsdata_readers import *\n"
        "class Idle(PairReader):\n"
        "    def parseDocument(self, file_type, last_type, last, reader):\n"
        "        return result_of(joined([]), [reader])\n"
    )
    (tmp_path / "x").write_bytes(PAIRS)
    folder = create(tmp_path / "d", ["x"], source=tmp_path, document={"reader": "idle.py:Idle"})
    run(folder)
    assert "took no record" in views(folder)[0].reason


@pytest.mark.parametrize(
    ("document", "write", "says"),
    [
        ({"reader": "tests.unit.compat.letsdata_readers:pattern"}, {}, "cannot be made without arguments"),
        ({"reader": "tests.unit.compat.letsdata_readers:UpperCaseMessages"}, {}, "reads no files"),
        ({"reader": "x.py:Y", "function": "x.py:z"}, {}, "name one of them"),
        ({"reader": "x.py:Y"}, {"format": "parquet"}, "has no columns"),
    ],
)
def test_what_cannot_read_is_said_before_anything_runs(
    tmp_path: Path, document: dict[str, object], write: dict[str, object], says: str
) -> None:
    table = {"name": "x", "manifest": ["f"], "document": document, "write": write}
    (tmp_path / "x.json").write_bytes(msgspec.json.encode(table))
    made = webmill("dataset", "create", tmp_path / "x.json", "--in", tmp_path / "d")
    assert made.code == 1
    assert says in made.err


class Dribbling(io.BytesIO):
    """A file that gives a few bytes at a time."""

    name = "file"

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3)


@given(
    st.lists(st.binary(max_size=12)), st.sampled_from([b"<", b"<<r>", b"ab"]), st.sampled_from([b">", b"</r>", b"ab"])
)
def test_records_do_not_depend_on_how_the_file_is_read(pieces: list[bytes], start: bytes, end: bytes) -> None:
    data = b"".join(start + piece + end for piece in pieces)
    begin, stop = pattern(start.decode()), pattern(end.decode())
    found = []
    for file in (Dribbling(data), type("Whole", (io.BytesIO,), {"name": "file"})(data)):
        scanner = RecordScanner(file)
        found.append([*iter(lambda s=scanner: s.next(begin, stop, following=begin), None)])
    assert found[0] == found[1]
    assert all(data[record.offset : record.end] == record.data for record in found[0])
    assert all(record.data.startswith(start) for record in found[0])
    assert all(one.end <= two.offset for one, two in zip(found[0], found[0][1:], strict=False))


def test_a_hint_may_be_a_number_of_bytes() -> None:
    scanner = RecordScanner(Dribbling(b"--abcd--efgh--ij"))
    start, end = (RecordParseHint(RecordHintType.OFFSET, None, count) for count in (2, 4))
    assert [record.data for record in iter(lambda: scanner.next(start, end, following=start), None)] == [
        b"abcd",
        b"efgh",
        b"ij",
    ]


def test_a_compressed_file_that_ends_too_early_is_an_error_of_its_task(tmp_path: Path) -> None:
    folder = dataset(tmp_path, "pairs.gz", "PairReader", {"pairs.gz": PAIRS * 100})
    file = tmp_path / "in" / "pairs.gz"
    file.write_bytes(file.read_bytes()[:-20])
    run(folder)
    assert "truncated_member" in views(folder)[0].reason


@pytest.mark.parametrize("line", ["a.gz", "LOG:a.gz", "A:a|B:b", "s3://bucket/a.gz", "FILE:x:y", "WARC:a", "FILE:#a"])
def test_a_line_of_your_own_types_is_written_as_it_is_read(line: str) -> None:
    files = parse_own_line(line)
    assert parse_own_line(own_manifest_line(files)) == files


@pytest.mark.parametrize("line", ["A:a|b", "A:a|A:b", "A:", "A:a|"])
def test_a_line_that_names_no_files_is_refused(line: str) -> None:
    with pytest.raises(BadInput):
        parse_own_line(line)

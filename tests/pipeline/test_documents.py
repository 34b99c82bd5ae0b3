"""Documents are read back as they were written, from wherever they lie, and no more of them than was asked for."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet as pq
import pytest
import zstandard

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra.sinks import parquet
from webmill.infra.sinks.base import SinkRow
from webmill.model import Document, DocumentLink
from webmill.pipeline.documents import documents

WRITTEN = [
    Document(
        id=f"urn:uuid:{number}",
        url=f"https://example.org/{number}",
        urlkey=f"org,example)/{number}",
        date=datetime(2024, 5, 1, 12, number, tzinfo=UTC),
        title="T",
        text=f"text {number}",
        text_chars=6,
        language="eng" if number % 2 else "kor",
        languages=("eng", "kor"),
        digest="sha1:AAA",
        links=(DocumentLink("https://example.org/", "home", None, "A@/href"),),
        warc_filename="a.warc.gz",
        warc_offset=number,
        warc_length=9,
    )
    for number in range(4)
]


def lines(rows: list[Any]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def as_parquet(rows: list[Document]) -> bytes:
    return parquet.encode([SinkRow(row, b"") for row in rows], kind=Document, compression="zstd")


FORMS = {
    "a.jsonl": lines,
    "a.jsonl.gz": lambda rows: gzip.compress(lines(rows)),
    "run/a.jsonl.zst": lambda rows: zstandard.ZstdCompressor().compress(lines(rows)),
    "run/a.parquet": as_parquet,
}


def put(folder: Path, name: str, data: bytes) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


@pytest.mark.parametrize("name", FORMS)
def test_documents_come_back_as_they_were_written(name: str, tmp_path: Path) -> None:
    put(tmp_path, name, FORMS[name](WRITTEN))
    assert [*documents(tmp_path)] == WRITTEN


def test_those_of_a_collection_are_in_its_folder_of_documents(tmp_path: Path) -> None:
    put(tmp_path, "documents/a.parquet", as_parquet(WRITTEN[:1]))
    put(tmp_path, "cc-index/table/a.parquet", b"something else")
    assert [*documents(tmp_path)] == [*documents(str(tmp_path / "documents"))] == WRITTEN[:1]
    with pytest.raises(NotFound):
        next(documents(tmp_path / "none"))


def test_of_parquet_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    put(tmp_path, "a.parquet", as_parquet(WRITTEN))
    assert [*documents(tmp_path, columns=["language"], where=lambda one: one.language == "kor")] == [
        Document(id=f"urn:uuid:{number}", url=f"https://example.org/{number}", language="kor") for number in (0, 2)
    ]
    with pytest.raises(Misconfigured, match="no column colour"):
        next(documents(tmp_path, columns=["colour"]))


@pytest.mark.parametrize("name", [".webmill/a.jsonl", "_temporary/a.jsonl", ".a.jsonl", "_a.jsonl", "a.json"])
def test_what_is_hidden_and_what_is_no_data_is_left_alone(name: str, tmp_path: Path) -> None:
    put(tmp_path, name, b"not documents\n")
    assert [*documents(tmp_path)] == []


def test_what_cannot_be_read_is_told_and_the_rest_is_read(tmp_path: Path) -> None:
    put(tmp_path, "a.jsonl", lines(WRITTEN[:1]) + b"no row\n" + lines(WRITTEN[1:2]))
    put(tmp_path, "b.jsonl.gz", gzip.compress(lines(WRITTEN[2:3]))[:-9])
    put(tmp_path, "c.parquet", as_parquet(WRITTEN[3:]))
    reported: list[BadInput] = []
    assert [one.id for one in documents(tmp_path, rejected=reported.append)] == [one.id for one in WRITTEN]
    assert [(one.reason, one.source) for one in reported] == [("bad_row", "a.jsonl"), ("bad_documents", "b.jsonl.gz")]
    with pytest.raises(BadInput):
        [*documents(tmp_path)]


def test_documents_of_others_need_an_address_and_a_text(tmp_path: Path) -> None:
    """What they call as we do is taken, whatever else they have; an id is made of what is known."""
    rows: list[dict[str, Any]] = [
        {"id": 7, "url": "https://a.test/", "text": "a", "date": "2024-05-01T00:00:00", "score": 0.5},
        {"url": "https://b.test/", "text": "b", "date": "2024-05-01T00:00:00Z", "warc_filename": 7, "digest": 1},
        {"url": "https://c.test/", "text": "c", "warc_filename": "c.warc.gz", "warc_offset": 5, "warc_length": 6},
        {"url": "https://d.test/", "text": 1},
    ]
    put(tmp_path, "a.jsonl", lines(rows))
    reported: list[BadInput] = []
    may = datetime(2024, 5, 1, tzinfo=UTC)
    place = {"warc_filename": "c.warc.gz", "warc_offset": 5, "warc_length": 6}
    assert [*documents(tmp_path, rejected=reported.append)] == [
        Document(id="7", url="https://a.test/", text="a", date=may),
        Document(id="20240501000000/https://b.test/", url="https://b.test/", text="b", date=may),
        Document(id="c.warc.gz#5", url="https://c.test/", text="c", **place),  # type: ignore[arg-type]
    ]
    assert [one.reason for one in reported] == ["bad_row"]


def test_parquet_of_others_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    table = pyarrow.table({"url": ["https://a.test/"], "text": ["a"], "language": ["en"], "dump": ["CC"]})
    pq.write_table(table, tmp_path / "a.parquet")
    assert [*documents(tmp_path)] == [Document(id="/https://a.test/", url="https://a.test/", text="a", language="en")]


EARLIER: dict[str, tuple[dict[str, Any], str]] = {
    "cc": (
        {"url": "https://a.test/", "surt": "test,a)/", "timestamp": "20240101000000", "text": "a", "extraction": "ok"},
        "run the same `webmill cc run` into another --output",
    ),
    "extract": (
        {"id": "a", "url": "https://a.test/", "text": "a", "warc_filename": "a.warc.gz", "language_reliable": None},
        "run `webmill extract DIR --from-scratch`",
    ),
}


@pytest.mark.parametrize("maker", EARLIER)
@pytest.mark.parametrize("name", ["run/a.jsonl", "run/a.parquet"])
def test_documents_of_an_earlier_webmill_are_refused_by_name_with_the_command_that_repairs(
    maker: str, name: str, tmp_path: Path
) -> None:
    row, repair = EARLIER[maker]
    put(tmp_path, name, lines([row]))
    if name.endswith("parquet"):
        pq.write_table(pyarrow.Table.from_pylist([row]), tmp_path / name)
    with pytest.raises(Misconfigured, match=f"{name} was made by an earlier webmill: {repair}"):
        next(documents(tmp_path, rejected=lambda _: None))

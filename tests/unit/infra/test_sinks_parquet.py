"""Documents as Parquet: a column for every field, of the type that the field has."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from webmill.infra.sinks import parquet
from webmill.infra.sinks.base import SinkRow
from webmill.model import Document, DocumentLink, columns

FULL = Document(
    id="urn:uuid:1",
    url="https://example.org/",
    date=datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    text="words",
    language_score=0.5,
    languages=("eng", "kor"),
    links=(DocumentLink("https://example.org/a", "a", None, "A@/href"),),
    warc_filename="a.warc.gz",
    warc_offset=1 << 40,
    warc_length=7,
)
BARE = Document(id="a.warc.gz#0", url="https://example.org/none", outcome="not_text")


def test_every_column_of_a_document_has_the_type_of_its_field() -> None:
    schema = parquet.schema_of(Document)
    assert schema.names == [column.name for column in columns()]
    types = {name: schema.field(name).type for name in ("url", "date", "status", "language_score", "languages")}
    assert types == {
        "url": pa.string(),
        "date": pa.timestamp("us", tz="UTC"),
        "status": pa.int64(),
        "language_score": pa.float64(),
        "languages": pa.list_(pa.field("element", pa.string(), nullable=False)),
    }
    assert pa.types.is_struct(schema.field("links").type.value_type)
    assert not schema.field("url").nullable
    assert schema.field("links").nullable


def test_documents_come_back_from_parquet_as_they_were() -> None:
    rows = [SinkRow(one, b"") for one in (FULL, BARE)]
    for row in rows:
        parquet.check(row, kind=Document)
    data = parquet.encode(rows, kind=Document, compression="zstd")
    table = pq.read_table(io.BytesIO(data))
    assert [msgspec.convert(row, Document) for row in table.to_pylist()] == [FULL, BARE]

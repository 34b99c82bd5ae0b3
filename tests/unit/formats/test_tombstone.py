"""A record that takes the place of others is exactly as long, and every reader passes it."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime

import pytest
from warcio.archiveiterator import ArchiveIterator

from webmill.errors import BadInput
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.tombstone import tombstone
from webmill.model import Record

AT = datetime(2026, 11, 19, tzinfo=UTC)
SIZES = (*range(190, 480), *range(65_500, 65_620), *range(131_040, 131_240), 1_000_003)


@pytest.mark.parametrize("kind", ["warc", "gzip", "zstd"])
def test_it_has_the_length_that_is_wanted_and_is_one_whole_record(kind: str) -> None:
    for size in SIZES:
        made = tombstone(size, kind, at=AT, name="a")
        assert len(made) == size
        whole = made + b"\r\n\r\n" if kind == "warc" else made  # in its place these are there already
        (record,) = read_records(io.BytesIO(whole))
        assert isinstance(record, Record), (size, record)
        assert (record.type, record.target_uri) == ("metadata", None)


def test_others_pass_it() -> None:
    after = gzip.compress(
        b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a/\r\nContent-Length: 2\r\n\r\nab\r\n\r\n"
    )
    for size in (230, 300, 500, 70_000):
        data = tombstone(size, "gzip", at=AT, name="a") + after
        assert [one.rec_type for one in ArchiveIterator(io.BytesIO(data))] == ["metadata", "resource"]


def test_where_there_is_no_room_it_is_refused() -> None:
    for kind in ("warc", "gzip", "zstd", "arc"):
        with pytest.raises(BadInput):
            tombstone(10, kind, at=AT, name="a")

"""What a published item says becomes what can be searched."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from webmill.pipeline.search.documents import capture_place, document_date, item_mark
from webmill.publish.types import PublishedItem

StoredFields: TypeAlias = dict[str, object]


@pytest.mark.parametrize(
    ("stated", "content", "expected"),
    [
        ({"captured": "20240101000000"}, {}, 1704067200),
        ({"captured": "20240101000000", "date": "2024-05-01"}, {}, 1714521600),
        ({"captured": "20240101000000"}, {"date": "2024-05-01T02:00:00+02:00"}, 1714521600),
        ({"captured": "20240101000000", "date": "yesterday"}, {}, 1704067200),
        ({"captured": "20249901000000"}, {}, 0),
        ({"captured": "2024"}, {}, 0),
        ({"captured": 20240101000000}, {}, 0),
        ({}, {}, 0),
    ],
)
def test_a_date_is_what_is_written_else_when_it_was_first_seen(
    stated: StoredFields, content: StoredFields, expected: int
) -> None:
    found = document_date(stated, content)
    assert (int(found.timestamp()) if found else 0) == expected


def test_numbers_of_any_size_are_no_reason_to_fail() -> None:
    item = PublishedItem(
        "a", "s", "h", metadata={"warc": "a.warc.gz", "offset": 1 << 70, "length": -1, "pages": 1 << 70}
    )
    assert capture_place(item) == {}
    assert item_mark(item) != item_mark(PublishedItem("a", "s", "h", metadata={"pages": 1 << 71}))


@pytest.mark.parametrize(
    "metadata",
    [
        {"warc_filename": "a.warc.gz", "warc_offset": 5, "warc_length": 6},
        {"warc": "a.warc.gz", "offset": 5, "length": 6, "captured": "20240101000000"},
    ],
)
def test_where_a_capture_lies_is_read_from_items_of_today_and_of_before(metadata: dict[str, object]) -> None:
    item = PublishedItem("a", "s", "h", metadata=metadata)
    assert capture_place(item) == {"warc_filename": "a.warc.gz", "warc_offset": 5, "warc_length": 6}

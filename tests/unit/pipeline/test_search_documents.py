"""What a published item says becomes what can be searched."""

from __future__ import annotations

import pytest

from webmill.pipeline.search.documents import capture_of, date_of, mark_of
from webmill.publish.nouns import Item


@pytest.mark.parametrize(
    ("said", "content", "expected"),
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
def test_a_date_is_what_is_written_else_when_it_was_first_seen(said: object, content: object, expected: int) -> None:
    assert date_of(said, content) == expected


def test_numbers_of_any_size_are_no_reason_to_fail() -> None:
    item = Item("a", "s", "h", metadata={"warc": "a.warc.gz", "offset": 1 << 70, "length": -1, "pages": 1 << 70})
    assert capture_of(item) is None
    assert mark_of(item) != mark_of(Item("a", "s", "h", metadata={"pages": 1 << 71}))

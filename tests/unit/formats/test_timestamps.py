from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats import timestamps


@pytest.mark.parametrize(
    ("period", "first", "last"),
    [
        ("2021", "20210101000000", "20211231235959"),
        ("2020-02", "20200201000000", "20200229235959"),
        ("202102", "20210201000000", "20210228235959"),
        ("2021-02-03", "20210203000000", "20210203235959"),
        ("20210203", "20210203000000", "20210203235959"),
        ("2021020304", "20210203040000", "20210203045959"),
        ("2021-02-03T04:05", "20210203040500", "20210203040559"),
        ("20210203040506", "20210203040506", "20210203040506"),
        ("2021-02-03T04:05:06.789Z", "20210203040506", "20210203040506"),
        ("2021-02-03 04:05:06+00:00", "20210203040506", "20210203040506"),
    ],
)
def test_a_period_begins_and_ends_where_its_precision_says(period: str, first: str, last: str) -> None:
    assert (timestamps.earliest(period), timestamps.latest(period)) == (first, last)


@pytest.mark.parametrize(
    "text", ["", "20", "20211", "2021-13", "20210230", "2021022", "0000", "notadate", "２０２１", "2021\n"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    for read in (timestamps.earliest, timestamps.latest, timestamps.to_datetime):
        with pytest.raises(BadInput) as refused:
            read(text)
        assert refused.value.reason == "bad_timestamp"


@given(st.datetimes(timezones=st.just(UTC)))
@settings(deadline=None)
def test_moments_survive_up_to_the_second(moment: datetime) -> None:
    text = timestamps.from_datetime(moment)
    assert timestamps.is_timestamp(text.encode())
    assert timestamps.to_datetime(text) == moment.replace(microsecond=0)
    assert timestamps.from_warc_date(timestamps.to_warc_date(text)) == text
    assert timestamps.earliest(text) == timestamps.latest(text) == text


def test_other_time_zones_become_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamps.from_datetime(datetime(2024, 1, 1, 1, 0, 0, tzinfo=east)) == "20231231230000"


def test_warc_dates_with_parts_of_a_second_are_cut() -> None:
    assert timestamps.from_warc_date("2024-01-01T00:00:00.123456789Z") == "20240101000000"
    assert timestamps.to_warc_date("20240101000000") == "2024-01-01T00:00:00Z"

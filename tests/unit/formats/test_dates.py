"""Days as boards write them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.formats.dates import ParsedDay, parse_day

KST = timezone(timedelta(hours=9))
NOW = datetime(2024, 5, 20, 0, 10, tzinfo=KST)
MAY_DAY = "2024-05-01"


@pytest.mark.parametrize(
    "text",
    [
        "2024.05.01",
        "2024-05-01",
        "2024/05/01",
        "2024. 5. 1.",
        "2024. 05. 01 (수)",
        "2024년 5월 1일",
        "2024년5월1일 수요일",
        "2024年5月1日",
        "24-05-01",
        "24.05.01",
        "24. 5. 1.",
        "24/05/01",
        "'24.05.01"[1:],
        "20240501",
        "등록일 : 2024.05.01",
        "작성일2024-05-01",
        "Date: 2024-05-01",
        "2024.05.01 14:30",
        "2024-05-01 14:30:59",
        "2024-05-01T14:30:59+09:00",
        "2024-04-30T15:00:00Z",
        "2024-04-30T20:00:00.123-0500",
        "Tue, 30 Apr 2024 15:00:00 GMT",
        "2024.05.01 ~ 2024.05.31",
        "2024.05.01조회 55",
        "May 1, 2024",
        "may 1st, 2024",
        "Sept. 1, 2023",
        "1 May 2024",
        "1st of May 2024",
        "01-May-2024",
        "Wednesday, 1 May 2024",
        "\u00a02024.05.01\t",
    ],
)
def test_a_whole_date_is_read(text: str) -> None:
    expected = "2023-09-01" if "Sept" in text else MAY_DAY
    assert parse_day(text, now=NOW) == ParsedDay(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("오늘", "2024-05-20"),
        ("Today", "2024-05-20"),
        ("방금 전", "2024-05-20"),
        ("어제", "2024-05-19"),
        ("yesterday", "2024-05-19"),
        ("그저께", "2024-05-18"),
        ("00:09", "2024-05-20"),
        ("00:09:31", "2024-05-20"),
        ("오전 12:05", "2024-05-20"),
        ("오후 2:30", "2024-05-19"),
        ("2:30 PM", "2024-05-19"),
        ("23:50", "2024-05-19"),
        ("5분 전", "2024-05-20"),
        ("3시간 전", "2024-05-19"),
        ("약 2시간 전", "2024-05-19"),
        ("3 days ago", "2024-05-17"),
        ("an hour ago", "2024-05-19"),
        ("10 min ago", "2024-05-20"),
        ("1주일 전", "2024-05-13"),
        ("2 weeks ago", "2024-05-06"),
        ("2개월 전", "2024-03-21"),
        ("2 months ago", "2024-03-21"),
        ("1년 전", "2023-05-21"),
        ("05.01", "2024-05-01"),
        ("5월 1일", "2024-05-01"),
        ("05-01 14:30", "2024-05-01"),
        ("12-31", "2023-12-31"),
        ("05-21", "2024-05-21"),
        ("05-22", "2023-05-22"),
    ],
)
def test_what_is_not_said_is_completed_by_now_and_told_apart(text: str, expected: str) -> None:
    assert parse_day(text, now=NOW) == ParsedDay(expected, is_approximate=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1, 3학년",
        "1,234",
        "조회 1234",
        "12",
        "2024",
        "시간 전",
        "2024-13-01",
        "2024-02-30",
        "24-13-01",
        "01/05/2024",
        "99999999",
        "127.0.0.1",
        "02-1234-5678",
        "v1.2.3",
        "May 45, 2024",
        "2099-01-01",
        "1024-05-01",
        "25:00",
        "12:60",
        "30.5.1",
        "02.30",
        "3 \u017f ago",  # a long s, which is an s to those who ignore case
        "1 \u017fep 2024",
        "٢٠٢٤-٠٥-٠١",
        "9999년 전",
    ],
)
def test_what_is_no_date_is_not_made_one(text: str) -> None:
    assert parse_day(text, now=NOW) is None


def test_a_moment_is_a_day_of_the_zone_of_the_board() -> None:
    here = NOW.astimezone(timezone(timedelta(hours=-8)))
    assert parse_day("2024-05-01T20:00:00Z", now=NOW) == ParsedDay("2024-05-02")
    assert parse_day("2024-05-01T20:00:00Z", now=here) == ParsedDay("2024-05-01")


@given(day=st.dates(date(1970, 1, 1), date(2024, 6, 1)))
@settings(deadline=None)
def test_every_day_is_read_as_it_was_written(day: date) -> None:
    for text in (
        f"{day:%Y.%m.%d}",
        f"{day.year}년 {day.month}월 {day.day}일",
        f"{day:%Y%m%d}",
        f"{day:%B} {day.day}, {day.year}",
    ):
        assert parse_day(text, now=NOW) == ParsedDay(day.isoformat())


@given(
    text=st.text(alphabet="0123456789.-/: 년월일전시간오후amp agoJantTZ+,~()ſK\u0000", max_size=40)
    | st.text(max_size=400)
)
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_day_that_there_is_or_none(text: str) -> None:
    found = parse_day(text, now=NOW)
    assert found is None or date.fromisoformat(found.text).isoformat() == found.text

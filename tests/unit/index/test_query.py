"""Queries: what pywb's CDX server would answer, from a stream, in bounded memory."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.index.samples import capture, write
from tests.unit.index.zipnum_samples import build, make_lines, scan
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import CdxjLine, format_line, parse
from webmill.formats.cdx.query import KeyRange, key_range
from webmill.formats.timestamps import to_datetime
from webmill.formats.url.surt import surt
from webmill.index.lookup import query as module
from webmill.index.lookup.indexes import CaptureIndex, open_index
from webmill.index.lookup.query import Query, run_query, surt_range, url_range

LINES = make_lines(2000)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> CaptureIndex:
    folder = tmp_path_factory.mktemp("index")
    build(folder, LINES, block=20, shard_size=5000)
    return open_index(folder)


def ask(index: CaptureIndex, wanted: KeyRange | str, **options: object) -> list[bytes]:
    wanted = url_range(wanted) if isinstance(wanted, str) else wanted
    return list(run_query(index, Query(range=wanted, **options)))  # type: ignore[arg-type]


def stamp(line: bytes) -> str:
    return parse(line).timestamp


def test_patterns_say_their_match_type_and_an_explicit_one_wins() -> None:
    assert url_range("*.a.com") == key_range("a.com", "domain")
    assert url_range("a.com/x*") == key_range("a.com/x", "prefix")
    assert url_range("a.com/x") == key_range("a.com/x", "exact")
    assert url_range("a.com/x*", "exact") == key_range("a.com/x*", "exact")


@pytest.mark.parametrize("kind", ["exact", "prefix", "host", "domain"])
@pytest.mark.parametrize("url", ["http://a.com/", "http://x.a.co.uk/a/b", "http://z.org:81/b.html"])
def test_a_key_means_the_same_as_its_url(kind: str, url: str) -> None:
    assert surt_range(surt(url), kind) == key_range(url, kind)  # type: ignore[arg-type]


def test_a_key_is_taken_as_it_is() -> None:
    assert surt_range("com,a)/X Y", "prefix") == KeyRange(b"com,a)/X Y", b"com,a)/X Z")
    assert surt_range("com", "domain") == KeyRange(b"com,", b"com-")
    with pytest.raises(BadInput, match="bad_key"):
        surt_range("", "prefix")


@pytest.mark.parametrize("pattern", ["*.a.com", "a.com/*", "b.a.com/a?x=1", "nowhere.test"])
@pytest.mark.parametrize(
    ("start", "end"), [("2024-03", None), (None, "2024-03"), ("202403", "20240415120000"), ("2025", None)]
)
def test_a_period_includes_its_ends_whole(
    index: CaptureIndex, pattern: str, start: str | None, end: str | None
) -> None:
    low = (start or "").replace("-", "").ljust(14, "0")
    high = (end or "").replace("-", "").ljust(14, "9")
    expected = [line for line in scan(LINES, url_range(pattern)) if low <= stamp(line) <= high]
    assert ask(index, pattern, start=start, end=end) == expected


def test_up_to_a_year_includes_that_year(tmp_path: Path) -> None:
    lines = [
        capture("com,a)/", "20201231235959"),
        capture("com,a)/", "20211231235959"),
        capture("com,a)/", "2022" + "0" * 10),
    ]
    index = open_index(write(tmp_path / "f", lines))
    assert ask(index, "a.com", end="2021") == lines[:2]


def test_one_day_of_a_page_with_many_captures_reads_few_blocks(tmp_path: Path) -> None:
    lines = [
        capture("com,a)/", f"2024{month:02d}{day:02d}{n:06d}")
        for month in range(1, 13)
        for day in range(1, 29)
        for n in range(9)
    ]
    build(tmp_path, lines, block=10)
    shard = bytearray((tmp_path / "cdx-00000.gz").read_bytes())
    shard[: len(shard) // 2] = bytes(len(shard) // 2)  # whoever reads these blocks fails
    (tmp_path / "cdx-00000.gz").write_bytes(shard)
    found = ask(open_index(tmp_path), "a.com", start="2024-11-05", end="2024-11-05")
    assert found == [line for line in lines if stamp(line).startswith("20241105")]


def test_filters_and_limit_count_together(index: CaptureIndex) -> None:
    expected = [line for line in scan(LINES, url_range("*.a.com")) if parse(line).fields["status"] == "404"]
    assert len(expected) > 20
    assert ask(index, "*.a.com", filters=("=status:404", "mime:html")) == expected
    assert ask(index, "*.a.com", filters=("=status:404",), limit=7) == expected[:7]
    assert ask(index, "*.a.com", limit=0) == []


def test_reverse_gives_the_last_lines_first(index: CaptureIndex) -> None:
    expected = scan(LINES, url_range("*.a.com"))[::-1]
    assert ask(index, "*.a.com", sort="reverse") == expected
    assert ask(index, "*.a.com", sort="reverse", limit=5) == expected[:5]


@settings(deadline=None, max_examples=30)
@given(st.datetimes().map(lambda moment: f"{moment:%Y%m%d%H%M%S}".rjust(14, "0")), st.none() | st.integers(0, 30))
def test_closest_is_a_stable_sort_by_distance(index: CaptureIndex, moment: str, limit: int | None) -> None:
    there = to_datetime(moment)
    every = scan(LINES, url_range("*.b.a.com"))
    expected = sorted(every, key=lambda line: abs(to_datetime(stamp(line)) - there))
    assert ask(index, "*.b.a.com", sort="closest", closest=moment, limit=limit) == expected[:limit]


def test_digits_that_are_no_date_are_farthest(tmp_path: Path) -> None:
    lines = [
        capture("com,a)/", "20240101000000"),
        capture("com,a)/", "20240230000000"),
        capture("com,a)/", "20250101000000"),
    ]
    index = open_index(write(tmp_path / "f", lines))
    assert ask(index, "a.com", sort="closest", closest="2024-02-29") == [lines[0], lines[2], lines[1]]


def test_what_would_not_fit_into_memory_asks_for_a_limit(index: CaptureIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SORTED", 10)
    for sort in ("reverse", "closest"):
        with pytest.raises(BadInput, match="too_many"):
            ask(index, "*.a.com", sort=sort, closest="2024")
        assert len(ask(index, "*.a.com", sort=sort, closest="2024", limit=20)) == 20


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"start": "2020-13"}, "bad_timestamp"),
        ({"end": "soon"}, "bad_timestamp"),
        ({"sort": "closest"}, "bad_timestamp"),
        ({"filters": ("~status:(",)}, "bad_filter"),
        ({"limit": -1}, "bad_limit"),
    ],
)
def test_what_is_asked_wrongly_is_told(index: CaptureIndex, options: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        ask(index, "a.com", **options)


def test_a_line_that_a_filter_cannot_read_is_an_error_and_not_left_out(tmp_path: Path) -> None:
    index = open_index(write(tmp_path / "f", [b"com,a)/ 20240101000000 {broken\n"]))
    with pytest.raises(BadInput, match="bad_json"):
        ask(index, "a.com", filters=("=status:200",))


def test_answers_are_streamed(tmp_path: Path) -> None:
    build(tmp_path, LINES, block=20)
    shard = (tmp_path / "cdx-00000.gz").read_bytes()
    (tmp_path / "cdx-00000.gz").write_bytes(shard[: len(shard) // 2])
    first = LINES[0].split(b" ")[0].decode()
    assert ask(open_index(tmp_path), KeyRange(first.encode(), b"\xff"), limit=1) == LINES[:1]


def test_a_stray_line_passes_no_filter_and_is_told(tmp_path: Path) -> None:
    file = tmp_path / "x.cdxj"
    file.write_bytes(
        b'com,a)/ 20200101000000 {"url": "http://a.com/", "status": "200"}\n'
        b"com,a)/ Traceback (most recent call last):\n"
    )
    wanted = Query(range=url_range("http://a.com/"), filters=("=status:200",))
    reported: list[str] = []
    found = list(run_query(open_index(file), wanted, on_reject=lambda _, error: reported.append(error.reason)))
    assert (len(found), reported) == (1, ["no_json"])
    with pytest.raises(BadInput, match="no_json"):
        list(run_query(open_index(file), wanted))


def test_neighbours_that_agree_collapse_into_the_first(index: CaptureIndex) -> None:
    every = scan(LINES, url_range("*.a.com"))
    by_day = [line for line, above in zip(every, [b" " * 40, *every], strict=False) if stamp(line)[:8] != _day(above)]
    assert ask(index, "*.a.com", collapse=("timestamp:8",)) == by_day
    assert ask(index, "*.a.com", collapse=("urlkey",)) == [
        next(iter(group)) for _, group in groupby(every, lambda line: line.split(b" ")[0])
    ]
    assert ask(index, "*.a.com", collapse=("nosuch",), limit=5) == every[:1]
    assert (
        ask(index, "*.a.com", collapse=("timestamp:8", "urlkey"), limit=3)
        == [next(iter(group)) for _, group in groupby(by_day, lambda line: line.split(b" ")[0])][:3]
    )


def _day(line: bytes) -> str:
    return stamp(line)[:8] if line.strip() else ""


def test_captures_of_one_hour_and_status_collapse_after_the_filters(tmp_path: Path) -> None:
    lines = [
        format_line(CdxjLine("com,a)/", f"20240101{hour:02d}{minute:02d}00", {"status": status}))
        for hour, minute, status in [(1, 0, "200"), (1, 5, "404"), (1, 9, "200"), (2, 0, "200"), (2, 1, "200")]
    ]
    index = open_index(write(tmp_path / "f", lines))
    assert ask(index, "a.com", collapse_time=10) == lines[:4]
    assert ask(index, "a.com", collapse_time=10, filters=("=status:200",)) == [lines[0], lines[3]]


def test_a_revisit_is_resolved_from_an_original_before_the_period(tmp_path: Path) -> None:
    place = {"length": "1", "offset": "2", "filename": "a"}
    lines = [
        format_line(CdxjLine("com,a)/", "20230101000000", {"mime": "text/html", "digest": "D"} | place)),
        format_line(CdxjLine("com,a)/", "20240101000000", {"mime": "warc/revisit", "digest": "D"} | place)),
    ]
    index = open_index(write(tmp_path / "f", lines))
    found = ask(index, "a.com", start="2024", resolve_revisits=True, filters=("=mime:text/html",))
    assert [parse(line).fields["orig.offset"] for line in found] == ["2"]


def test_a_collapse_that_is_none_is_told(index: CaptureIndex) -> None:
    for text in ("", ":8", "timestamp:", "timestamp:0", "timestamp:x", "timestamp:-1", "a:b:c"):
        with pytest.raises(BadInput, match="bad_collapse"):
            ask(index, "a.com", collapse=(text,))

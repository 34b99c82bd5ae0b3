"""/: what a collection holds, counted."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from starlette.testclient import TestClient

from tests.serve.conftest import site_of
from tests.serve.sample_collection import NAME, visits
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import StatusFile
from webmill.errors import BadInput
from webmill.index.zipnum.writer import write_index
from webmill.infra.storage.base import Readable
from webmill.infra.storage.local import LocalStorage
from webmill.publish.history import live_version
from webmill.serve.pages import charts, index_figures, overview, survey
from webmill.serve.pages.index_figures import IndexFigures, count_index
from webmill.serve.pages.survey import Surveyor


def figures(client: TestClient) -> dict[str, str]:
    page = LexborHTMLParser(client.get("/").text)
    return {each.css("dt")[0].text(): each.css("dd")[0].text() for each in page.css(".figures > div")}


def bars(client: TestClient, title: str) -> dict[str, str]:
    """The rows of one of the plots: a label and its count."""
    page = LexborHTMLParser(client.get("/").text)
    (card,) = (card for card in page.css("section.card") if card.css("h2") and card.css("h2")[0].text() == title)
    return {row.css(".label")[0].text(): row.css(".value")[0].text().split()[0] for row in card.css(".bars li")}


def test_the_overview_counts_every_capture_of_a_small_index(client: TestClient) -> None:
    found = visits()
    assert figures(client)["Captures"] == str(len(found))
    statuses = Counter("none" if visit.same else str(visit.status) for visit in found)
    assert bars(client, "Status codes") == {status: str(count) for status, count in statuses.items()}
    assert bars(client, "Top domains")["town.example"] == str(sum("town.example" in visit.url for visit in found))


def test_hosts_and_languages_are_shown_in_their_own_words(client: TestClient) -> None:
    assert bars(client, "Top domains")["서울.example"] == "1"
    languages = {"English": "3", "German": "1", "Japanese": "1", "Korean": "1", "Chinese": "1"}
    assert bars(client, "Languages") == languages  # of the documents


def test_a_plot_has_the_same_numbers_in_a_table(client: TestClient) -> None:
    page = LexborHTMLParser(client.get("/").text)
    table = page.css("figure.chart table")[0]
    rows = {row.css("th")[0].text(): int(row.css("td")[0].text()) for row in table.css("tbody tr")}
    months = Counter(f"{visit.when[:4]}-{visit.when[4:6]}" for visit in visits())
    assert {month: count for month, count in rows.items() if count} == months
    assert len(rows) == 34  # March 2022 to December 2024: also those in which nothing was


def test_the_overview_tells_of_versions_search_crawl_and_failed_tasks(client: TestClient, sample_root: Path) -> None:
    found = figures(client)
    assert found["Live version"] == found["Search"] == f"{live_version(LocalStorage(sample_root)).count} documents"
    assert (found["Crawl"], found["Problems"]) == ("none", "1")


def test_a_damaged_index_is_told_and_the_rest_is_shown(
    sample_root: Path, tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    root = shutil.copytree(sample_root, tmp_path / "town")
    (shard,) = root.glob(f"cc-index/collections/{NAME}/indexes/cdx-*.gz")
    shard.write_bytes(b"\x00" * shard.stat().st_size)
    with client_of(root) as client:
        page = client.get("/")
        assert page.status_code == 200
        assert f"The index of {NAME}" in page.text
        assert "damaged" in page.text
        assert figures(client)["Search"] == "7 documents"


def test_an_index_that_lost_its_end_is_told(
    sample_root: Path, tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    root = shutil.copytree(sample_root, tmp_path / "town")
    write_index([[*lines(range(70))]], root / "cc-index/collections/MORE/indexes", lines=20)
    summary = root / "cc-index/collections/MORE/indexes/cluster.idx"
    summary.write_bytes(summary.read_bytes().splitlines(keepends=True)[0])
    with client_of(root) as client:
        assert "the index of MORE is damaged" in client.get("/").text


def test_a_new_index_is_counted_anew(
    sample_root: Path, tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    root = shutil.copytree(sample_root, tmp_path / "town")
    with client_of(root) as client:
        before = int(figures(client)["Captures"])
        write_index([[*lines(range(7))]], root / "cc-index/collections/MORE/indexes")
        assert int(figures(client)["Captures"]) == before + 7
        write_index([[*lines(range(9))]], root / "cc-index/collections/MORE/indexes")
        assert int(figures(client)["Captures"]) == before + 9


def test_a_page_comes_while_the_first_count_still_runs(
    sample_root: Path, client_of: Callable[[Path], TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()

    def held(storage: Readable, *, most: int) -> index_figures.IndexFigures:
        assert may_go_on.wait(60)
        return count_index(storage, most=most)

    monkeypatch.setattr(survey, "count_index", held)
    monkeypatch.setattr(overview, "PATIENCE", 0.0)
    with client_of(sample_root) as client:
        assert figures(client)["Captures"] == "counting…"
        assert "data-reload" in client.get("/").text
        may_go_on.set()
        deadline = time.monotonic() + 60
        while figures(client)["Captures"] == "counting…":
            assert time.monotonic() < deadline
        assert figures(client)["Captures"] == str(len(visits()))


def test_what_did_not_change_is_looked_at_once(sample_root: Path) -> None:
    surveyor = Surveyor(site_of(sample_root))
    found = surveyor.latest(patience=60)
    assert found
    assert surveyor.latest(patience=60) is found


def test_what_archives_and_folders_are_called_stays_text(
    tmp_path: Path, client_of: Callable[[Path], TestClient]
) -> None:
    odd = "<script>x"
    line = f'example,{odd})/ 20240101000000 {{"mime": "{odd}", "languages": "{odd}", "length": "1", "status": "200"}}\n'
    write_index([[line.encode()]], tmp_path / "cc-index/collections" / odd / "indexes")
    with client_of(tmp_path) as client:
        assert bars(client, "Top domains") == {f"{odd}.example": "1"}
        assert bars(client, "Media types") == bars(client, "Languages") == {odd: "1"}
        text = client.get("/").text
    assert odd not in text
    assert "/%3Cscript%3Ex-index?url=" in text


def test_a_crawl_that_has_begun_is_told(tmp_path: Path, client_of: Callable[[Path], TestClient]) -> None:
    (tmp_path / "frontier").mkdir()
    file = StatusFile(tmp_path / "frontier", name="x", started=0.0, clock=lambda: 1.0)
    file.write(CrawlProgress(shard=-1, pages=1234, waiting=5))
    with client_of(tmp_path) as client:
        assert figures(client)["Crawl"] == "not running"
        assert "1,234 pages, 5 URLs waiting" in client.get("/").text


# --- large and hostile indexes ---


def lines(numbers: range, **fields: str) -> Iterator[bytes]:
    for number in numbers:
        reported = {
            "url": f"https://h{number:06d}.example/",
            "status": "200",
            "mime": "text/html",
            "length": "100",
        } | fields
        yield f"example,h{number:06d})/ 20240101000000 {json.dumps(reported)}\n".encode()


@pytest.mark.parametrize(
    ("count", "lines_per_block"),
    [(4_000, 100), (24_000, 1)],
    ids=["a summary that is read", "a summary that is looked into"],
)
def test_of_a_large_index_some_blocks_are_read_and_the_whole_is_estimated(
    tmp_path: Path, count: int, lines_per_block: int
) -> None:
    write_index([[*lines(range(count))]], tmp_path, lines=lines_per_block)
    is_whole = (tmp_path / "cluster.idx").stat().st_size <= index_figures.WHOLE_SUMMARY
    assert is_whole == (lines_per_block == 100)
    found = count_index(LocalStorage(tmp_path), most=10)
    assert found.is_sample
    assert found.counted_blocks == 10
    assert found.captures == pytest.approx(count, rel=0.02)
    assert found.bytes == 100 * found.captures
    assert found.statuses == {"200": found.captures}


def test_the_page_says_that_its_numbers_are_estimated(
    tmp_path: Path, client_of: Callable[[Path], TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MOST_BLOCKS", 10)
    monkeypatch.setattr(survey, "FIRST_BLOCKS", 10)
    write_index([[*lines(range(4_000))]], tmp_path / "cc-index/collections/LARGE/indexes", lines=100)
    with client_of(tmp_path) as client:
        assert figures(client)["Captures"] == "about 4,000"
        assert "estimated from a sample of 10 of 40 blocks" in client.get("/").text


def test_a_large_index_is_counted_by_a_few_blocks_first_and_then_by_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, counted = threading.Event(), list[int]()

    def held(storage: LocalStorage, *, most: int) -> IndexFigures:
        assert most < 30 or may_go_on.wait(60)
        counted.append(most)
        return count_index(storage, most=most)

    monkeypatch.setattr(survey, "MOST_BLOCKS", 30)
    monkeypatch.setattr(survey, "count_index", held)
    write_index([[*lines(range(4_000))]], tmp_path / "cc-index/collections/LARGE/indexes", lines=100)
    surveyor = Surveyor(site_of(tmp_path))

    def blocks() -> int:
        found = surveyor.latest(patience=60)
        assert found
        assert found.crawls[0].figures
        return found.crawls[0].figures.counted_blocks

    assert blocks() == blocks() == survey.FIRST_BLOCKS
    may_go_on.set()
    deadline = time.monotonic() + 60
    while blocks() != 30:
        assert time.monotonic() < deadline
    assert counted == [survey.FIRST_BLOCKS, 30]


def test_many_different_times_are_told_by_day(tmp_path: Path) -> None:
    moments = (datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=number * 97) for number in range(9000))
    captured = [f"example,a)/ {moment:%Y%m%d%H%M%S} {{}}\n".encode() for moment in moments]
    write_index([captured], tmp_path)
    found = count_index(LocalStorage(tmp_path), most=10)
    assert set(map(len, found.times)) == {8}
    assert len(found.times) == 607
    assert sum(amount.captures for amount in found.times.values()) == 9000


def test_lines_that_make_no_sense_are_counted_as_such(tmp_path: Path) -> None:
    odd = [
        b'example,a)/ 20240101000000 {"status": "200", "length": "9' + b"9" * 5000 + b'"}\n',
        b'example,b)/ 99999999999999 {"status": 7, "mime": null}\n',
        b"example,c)/ 20240101000000 {not json}\n",
        b'example,d)/ 20240101000000 {"mime": ["a"]}\n',
        b"example,e)/\n",
        b'example,ee)/ 20240101000000 {"mime": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'example,f)/ 20240101000000 {"mime": "' + b"m" * 5000 + b'", "languages": "<script>,eng"}\n',
    ]
    write_index([odd], tmp_path)
    found = count_index(LocalStorage(tmp_path), most=10)
    assert (found.captures, found.unreadable, found.bytes) == (3, 4, 0)
    assert found.languages == {"<script>": 1}
    assert max(map(len, found.types)) <= index_figures.LONGEST_VALUE


def test_a_summary_that_speaks_of_blocks_that_are_not_there_is_damage(tmp_path: Path) -> None:
    write_index([[*lines(range(10))]], tmp_path)
    (tmp_path / "cluster.idx").write_bytes(b"example,a)/ 20240101000000\tcdx-00000.gz\t999999\t100\t1\n")
    with pytest.raises(BadInput):
        count_index(LocalStorage(tmp_path), most=10)


# --- plots ---


@pytest.mark.parametrize(
    ("times", "labels"),
    [
        (["202401010559", "202401010601"], ["2024-01-01 05:59", "2024-01-01 06:00", "2024-01-01 06:01"]),
        (["2024010105", "2024010107"], ["2024-01-01 05:00", "2024-01-01 06:00", "2024-01-01 07:00"]),
        (["20240130", "20240202"], ["2024-01-30", "2024-01-31", "2024-02-01", "2024-02-02"]),
        (["20231130", "20240229"], ["2023-11", "2023-12", "2024-01", "2024-02"]),
        (["2001", "20240229"], [str(year) for year in range(2001, 2025)]),
        (["00010101", "20240101", "20240102", "99999999", "20240230"], ["2024-01-01 00:00"]),
    ],
)
def test_time_is_cut_into_hours_days_months_or_years_without_gaps(times: list[str], labels: list[str]) -> None:
    found = charts.bucket_by_time(dict.fromkeys(times, 1.0))
    assert [point.label for point in found][: len(labels)] == labels
    assert sum(point.value for point in found) == 2


@given(st.dictionaries(st.text("0123456789", min_size=8, max_size=12), st.integers(0, 10**15), max_size=50))
@settings(deadline=None)
def test_a_plot_of_any_times_stays_in_its_frame(values: dict[str, int]) -> None:
    plot = charts.column_chart("any", charts.bucket_by_time(values))
    assert len(plot.columns) <= 200
    for column in plot.columns:
        assert 0 <= column.x <= column.x + column.width <= charts.WIDTH + 0.1
        assert 0 <= column.y <= column.y + column.height <= charts.HEIGHT + 0.1


def test_what_is_not_among_the_most_frequent_is_one_bar() -> None:
    found = charts.bar_chart({"a": 5, "b": 3, "c": 1, "d": 1}, most=2)
    assert [(bar.label, bar.value) for bar in found] == [("a", 5), ("b", 3), ("others", 2)]
    assert sum(bar.share for bar in found) == pytest.approx(1)


def test_a_collection_that_was_just_made_says_that_a_run_begins_it(
    client_of: Callable[[Path], TestClient], tmp_path: Path
) -> None:
    (tmp_path / "seeds.txt").write_text("https://example.org/\n")
    with client_of(tmp_path) as client:
        text = LexborHTMLParser(client.get("/").text).css("main")[0].text(separator=" ")
    assert f"webmill run {tmp_path.name}/" in text
    assert "webmill crawl" not in text
    assert "webmill extract" not in text

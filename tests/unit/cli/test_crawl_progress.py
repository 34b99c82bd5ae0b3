"""What a person sees of a crawl, on a terminal of 80 columns and in a log file."""

from __future__ import annotations

import io
import re
from datetime import datetime, timedelta

import msgspec
import pytest
from rich.console import Console

from webmill.cli.crawl_progress import CrawlProgressView, format_most_frequent
from webmill.cli.param_types import DURATION, SIZE
from webmill.cli.status_rows import crawl_rows
from webmill.cli.text import format_count, format_duration, format_size
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.status_file import CrawlStatus

BUSY = CrawlProgress(
    shard=-1,
    pages=1234,
    waiting=98765,
    in_hand=20,
    domains_waiting=321,
    turns=20,
    fetched=1300,
    bytes=45_600_000,
    seconds=130.0,
    errors={"timeout": 12, "dns_notfound": 3, "reset": 2, "tls_host": 1, "http_503": 1},
    refused={"out_of_scope": 4000, "extension": 120, "robots": 7},
    statuses={"2xx": 1200, "3xx": 80, "4xx": 20},
    slowest=[("a-host-with-a-name-that-is-much-too-long-for-any-terminal.example", 12.3)],
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(seen: CrawlProgress) -> str:
    clock = Clock()
    view = CrawlProgressView(quiet=False, stream=io.StringIO(), limit=10_000, clock=clock)
    view.show(seen)
    clock.now = 10.0
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(view.panel(seen, clock.now))
    return console.export_text()


def test_the_panel_fits_eighty_columns_and_shows_what_matters() -> None:
    text = drawn(BUSY)
    assert max(map(len, text.splitlines())) <= 80
    for part in (
        "1,234 of 10,000",
        "45.6 MB",
        "98,765 URLs",
        "321 domains",
        "timeout 12",
        "out_of_scope 4,000",
        "100 ms",
    ):
        assert part in text


def test_it_says_whom_it_waits_for_and_until_when() -> None:
    soon = datetime.now().astimezone() + timedelta(days=2)
    seen = msgspec.structs.replace(
        BUSY, turns=0, is_waiting=True, next_due=soon.timestamp(), waiting_for="slow.example"
    )
    text = drawn(seen)
    assert "none; waiting for slow.example" in text
    assert f"until {soon:%Y-%m-%d %H:%M}" in text
    assert max(map(len, text.splitlines())) <= 80
    view = CrawlProgressView(quiet=True, stream=io.StringIO(), clock=Clock())
    view._past.append((0.0, 0, 0))
    assert f"waiting for slow.example until {soon:%Y-%m-%d %H:%M}" in view.line(seen, 10.0)
    assert "waiting for" not in drawn(msgspec.structs.replace(seen, is_waiting=False))


@pytest.mark.parametrize(
    ("end", "is_running", "is_waiting", "is_told"),
    [("waiting", False, True, True), ("", True, True, True), ("", True, False, False), ("stopped", False, True, False)],
    ids=["ended", "resting", "busy", "stopped"],
)
def test_a_status_says_whom_a_crawl_waits_for(end: str, is_running: bool, is_waiting: bool, is_told: bool) -> None:
    total = msgspec.structs.replace(BUSY, is_waiting=is_waiting, next_due=2e9, waiting_for="slow.example")
    status = CrawlStatus(time=0.0, name="c", started=0.0, end=end, total=total, is_running=is_running)
    assert any("waiting for slow.example until 2033-05-1" in row.text for row in crawl_rows(status, now=1.0)) == is_told


def test_requisites_are_told_beside_the_pages() -> None:
    seen = msgspec.structs.replace(BUSY, page_resources=5678)
    text = drawn(seen)
    assert "1,234 of 10,000" in text
    assert "5,678 page resources" in text
    assert max(map(len, text.splitlines())) <= 80
    clock = Clock()
    view = CrawlProgressView(quiet=True, stream=io.StringIO(), clock=clock)
    view._past.append((0.0, 0, 0))
    assert "1,234 pages (0.0/s), 45.6 MB (0 B/s), 5,678 page resources, " in view.line(seen, 10.0)


def test_names_from_the_web_are_no_markup() -> None:
    seen = CrawlProgress(shard=-1, slowest=[("[bold]x[/]", 1.0)])
    assert "[bold]x[/]" in drawn(seen)


def test_a_disk_that_takes_nothing_is_shown() -> None:
    assert "the disk is full" in drawn(CrawlProgress(shard=-1, write_error="the disk is full"))


def test_a_log_file_gets_a_plain_line_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    with CrawlProgressView(quiet=False, stream=stream, clock=clock) as view:
        for second in range(25):
            clock.now = float(second)
            view.show(BUSY)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("0:00:10  1,234 pages")
    assert "errors: timeout 12, dns_notfound 3, reset 2, http_503 1, others 1" in lines[0]


def test_pages_of_earlier_runs_are_no_speed_of_this_one() -> None:
    clock, stream = Clock(), io.StringIO()
    with CrawlProgressView(quiet=False, stream=stream, clock=clock) as view:
        view.show(CrawlProgress(shard=-1))
        view.show(CrawlProgress(shard=-1, pages=1000))
        clock.now = 10.0
        view.show(CrawlProgress(shard=-1, pages=1050, fetched=60))
    assert stream.getvalue().startswith("0:00:10  1,050 pages (5.0/s)")


def test_a_terminal_is_left_as_it_was() -> None:
    clock, stream = Clock(), Terminal()
    with CrawlProgressView(quiet=False, stream=stream, clock=clock) as view:
        view.show(BUSY)
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is back


def test_quiet_says_nothing() -> None:
    stream = Terminal()
    with CrawlProgressView(quiet=True, stream=stream) as view:
        view.show(BUSY)
    assert stream.getvalue() == ""


def test_numbers_are_written_as_people_read_them() -> None:
    assert [format_size(size) for size in (0, 999, 1500, 999_960, 123_456_789, 5e12)] == [
        "0 B",
        "999 B",
        "1.5 KB",
        "1.0 MB",
        "123 MB",
        "5.0 TB",
    ]
    assert format_duration(3723) == "1:02:03"
    assert format_most_frequent({}) == ""


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("1.5m", 90.0), ("2h", 7200.0), ("7d", 604800.0), ("3", 3.0)]
)
def test_times_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize(("text", "size"), [("500K", 512_000), ("1GiB", 1 << 30), ("64m", 64 << 20), ("7", 7)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert SIZE.convert(text, None, None) == size


def test_one_is_one() -> None:
    one = CrawlProgress(
        shard=-1, pages=1, waiting=1, in_hand=1, domains_waiting=1, turns=1, fetched=1, page_resources=1
    )
    view = CrawlProgressView(quiet=True, stream=io.StringIO(), clock=Clock())
    view._past.append((0.0, 0, 0))
    for text in (drawn(one), view.line(one, 10.0)):
        assert not re.search(r"\b1 (pages|URLs|domains|page resources)", text), text
    assert re.search(r"waiting +1 URL +1 domain\b", drawn(one))


@pytest.mark.parametrize(
    ("count", "noun", "verb", "printed"),
    [
        (1, "page", "", "1 page"),
        (0, "page", "", "0 pages"),
        (1234, "batch", "", "1,234 batches"),
        (1, "URL", "wait", "1 URL waits"),
        (2, "URL", "wait", "2 URLs wait"),
        (1, "WARC file", "were", "1 WARC file was"),
        (2, "WARC file", "are", "2 WARC files are"),
    ],
)
def test_numbers_agree_with_their_words(count: int, noun: str, verb: str, printed: str) -> None:
    assert format_count(count, noun, verb) == printed


def test_that_it_stops_is_told_at_once() -> None:
    stopping = msgspec.structs.replace(BUSY, is_stopping=True)
    assert re.search(r"^stopping +\S+ +Ctrl-C again: stop at once", drawn(stopping), re.MULTILINE)
    clock, stream = Clock(), io.StringIO()
    with CrawlProgressView(quiet=False, stream=stream, clock=clock) as view:
        view.show(BUSY)
        assert stream.getvalue() == ""
        for _ in range(3):
            view.show(stopping)
    (line,) = stream.getvalue().splitlines()
    assert "stopping (Ctrl-C again: stop at once)" in line

"""The judge of crawlers that were killed sees what is lost, doubled, damaged and cut, in every kind of output."""

from __future__ import annotations

import gzip
import json
import random
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.crash_rivals import TOOLS, Tally, crawl, judge, web
from tests.faults.rival_outputs import Output, json_files, json_lines, saved_files, warc_files
from tests.faults.rival_page import page

PAGES = {f"http://127.0.0.1:80/{number}.html": f"<p>page {number}".encode() for number in range(4)}
WRITTEN = [(url, PAGES[url]) for url in list(PAGES)[:2]]
WRITTEN += [WRITTEN[0], (list(PAGES)[2], b"<p>pa")]  # one twice, one that is not the page; the fourth is not there


def as_warc(folder: Path) -> Output:
    members = []
    for url, body in WRITTEN:
        block = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <{url}>\r\nContent-Length: {len(block)}\r\n"
        kind = "Content-Type: application/http; msgtype=response\r\n\r\n"
        members.append(gzip.compress((head + kind).encode() + block + b"\r\n\r\n"))
    (folder / "a.warc.gz").write_bytes(b"".join(members))
    (folder / "b.warc.gz").write_bytes(members[0][:40])
    return warc_files(folder)


def as_json_lines(folder: Path) -> Output:
    lines = [json.dumps({"url": url, "body": body.decode()}) for url, body in WRITTEN]
    (folder / "pages.jsonl").write_text("\n".join([*lines, '{"url": "http:']))
    return json_lines(folder / "pages.jsonl")


def as_json_files(folder: Path) -> Output:
    for number, (url, body) in enumerate(WRITTEN):
        (folder / f"{number}.json").write_text(json.dumps({"url": url, "body": body.decode()}))
    (folder / "__metadata__.json").write_text("{}")
    (folder / "9.json").write_text('{"url"')
    return json_files(folder)


@pytest.mark.parametrize("written", [as_warc, as_json_lines, as_json_files])
def test_every_flaw_is_counted(written: Callable[[Path], Output], tmp_path: Path) -> None:
    tally = Tally()
    judge(tally, written(tmp_path), PAGES)
    assert (tally.lost, tally.twice, tally.damaged, tally.unreadable) == (2, 1, 1, 1)


def test_files_are_compared_with_their_pages(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1:80").mkdir()
    for url, body in WRITTEN:
        (tmp_path / url.removeprefix("http://")).write_bytes(body)
    tally = Tally()
    judge(tally, saved_files(tmp_path), PAGES)
    assert (tally.lost, tally.twice, tally.damaged) == (2, 0, 1)


def test_the_page_has_a_row_for_each_tool_under_its_way_to_be_stopped() -> None:
    told = {"about": "KILLS=2", "versions": "wget 1"}
    rows = [
        {"how": how, "tool": "wget", **told, **vars(Tally(lost=lost))} for how, lost in (("SIGKILL", 7), ("SIGINT", 0))
    ]
    killed, clean = page(rows, when=datetime.now(UTC), pages=4, hosts=1, deadline=5).split("## Stopped")
    assert "| wget | 0 | 0 | 7 |" in killed
    assert "| wget | 0 | 0 | 0 |" in clean


@pytest.mark.slow
@pytest.mark.server("nginx")
def test_webmill_that_is_killed_twice_loses_no_page() -> None:
    with web() as (nginx, pages):
        tally = crawl(TOOLS[0], nginx, pages, how=signal.SIGKILL, chance=random.Random(3))
    assert tally.stops == 2
    assert (tally.lost, tally.damaged, tally.unreadable, tally.failed, tally.unfinished) == (0, 0, 0, 0, 0)
    assert tally.twice <= tally.fetched_again <= 2 * len(pages)  # once more for each kill, if it was in progress

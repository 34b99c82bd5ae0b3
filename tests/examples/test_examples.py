"""Every example is run as its reader would run it, and says what is true of the town (or of the university)."""

from __future__ import annotations

import base64
import ctypes.util
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import duckdb
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.test_api import variables
from tests.serve.sample_collection import HTML, NAME, ROWS, SCRIPT, Visit, ascii_url, visits
from tests.services.ray_cluster import ENVIRONMENT
from webmill.testing import TestWeb
from webmill.testing.features import university

EXAMPLES = Path(__file__).parents[2] / "examples"
PLUGINS = EXAMPLES / "plugins"  # which webmill runs: test_plugins.py
SCRIPTS = sorted(path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py") if PLUGINS not in path.parents)
WARC = f"crawl-data/{NAME}/segments/1/warc/{NAME}-20241231000000-a-00000.warc.gz"
HOME = "https://town.example/"
BOARDS = {3: "engineering/notices", 8: "history/jobs", 101: "physics/jobs", 142: "law/academic"}


def run(script: str, *arguments: str | Path, **more: str) -> list[str]:
    """The lines that it prints."""
    line = [sys.executable, EXAMPLES / script, *arguments]
    environment = {**os.environ, "PYTHONUTF8": "1", **more}
    done = subprocess.run(line, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def pages() -> list[Visit]:
    """Captures of pages with a title and a headline, in the order of the archive."""
    return [visit for visit in visits() if b"<title>" in visit.body and not visit.same]


def titled() -> list[Visit]:
    """Those whose title and headline are words."""
    return [visit for visit in pages() if SCRIPT.encode() not in visit.body]


def words_of(visit: Visit) -> tuple[str, str]:
    """Title and text. The ferry left earlier once, which changes no count."""
    return ROWS[visit.url][:2]


def day(visit: Visit) -> str:
    return f"{visit.when[:4]}-{visit.when[4:6]}-{visit.when[6:8]}"


# --- all of it --------------------------------------------------------------------------------------------------------


def test_from_a_url_to_a_search(tmp_path: Path) -> None:
    with TestWeb(hosts=1, pages_per_host=6) as web:
        reported = run(
            "whole_collection.py", tmp_path / "c", web.home, "mill", "--contact", "me@example.org", **variables(web)
        )
    pages, captures, documents, version, *hits = reported
    assert re.fullmatch(r"\d+ pages: finished", pages)
    assert re.fullmatch(r"\d+ captures in \d+ archives?", captures)
    assert re.fullmatch(r"\d+ documents", documents)
    assert re.fullmatch(r"version 1: \d+ pages", version)
    assert hits
    assert all(hit.startswith("http") for hit in hits)


# --- documents --------------------------------------------------------------------------------------------------------


def test_a_filter_of_ones_own(sample_root: Path) -> None:
    kept = [f"{day(visit)}  {ascii_url(visit.url)}  {words_of(visit)[0]}" for visit in titled()]
    answered = sum(visit.status == 200 for visit in visits())
    reported = f"{len(kept)} articles, {answered - len(kept)} of {answered} pages left out"
    assert run("custom_filter.py", sample_root) == [reported, *kept]


def cards() -> list[str]:
    """The text has the title twice: from the head, and as headline; then the two links that end the page."""
    return [
        f"{title}: {len(f'{title} {title} {text} News Wien'.split())} words"
        for title, text in (words_of(visit) for visit in titled())
    ]


def test_a_function_of_ones_own(sample_root: Path) -> None:
    links = ["nobody" if "wien" in visit.url else "wien.example" for visit in titled()]
    expected = [f"{card}, links to {link}" for card, link in zip(cards(), links, strict=True)]
    assert run("custom_document_function.py", sample_root) == expected


@pytest.mark.slow
@pytest.mark.server("ray")
def test_the_same_function_on_ray(sample_root: Path) -> None:
    reported = run("ray_cluster.py", sample_root, **ENVIRONMENT)
    assert reported == [f"{len(cards())} cards, made on the cluster", *(f"  {card}" for card in cards()[:5])]


# --- the index --------------------------------------------------------------------------------------------------------


def test_sql_over_the_index_and_documents_in_parquet(sample_root: Path, tmp_path: Path) -> None:
    shutil.copytree(sample_root / "cc-index", tmp_path / "cc-index")
    (tmp_path / "documents").mkdir()
    made = f"copy (from '{sample_root}/documents/town.jsonl') to '{tmp_path}/documents/town.parquet'"
    with duckdb.connect() as database:
        database.execute(made)
    reported = run("duckdb_index.py", tmp_path)
    assert reported == run("duckdb_index.py", sample_root)  # whose documents are lines of JSON
    answers = {part[0]: [line.split("\t") for line in part[2:]] for part in paragraphs(reported)}
    types = Counter("None" if visit.same else visit.mime.replace(HTML, "text/html") for visit in visits())
    assert {row[0]: int(row[1]) for row in answers["Types of content"]} == types
    assert answers["The largest captures"] == [[str(size), url] for size, url in largest(sample_root)]
    assert answers["Content that was captured again"] == [["3", "1", HOME]]
    languages = Counter((urlsplit(ascii_url(url)).hostname, language) for url, (_, _, language) in ROWS.items())
    found = {(domain, language): int(count) for domain, language, count in answers["Languages by domain"]}
    assert found == languages


def test_captures_chosen_by_sql_are_those_that_are_fetched(sample_root: Path, tmp_path: Path) -> None:
    lines = run("choose_with_sql.py", sample_root, "content_mime_detected = 'text/html'", TZ="Asia/Tokyo")
    (tmp_path / "chosen.cdxj").write_text("\n".join(sorted(lines)) + "\n")
    webmill = [sys.executable, "-m", "webmill", "-q"]
    subprocess.run([*webmill, "cdxj", "zipnum", tmp_path / "chosen.cdxj", "-o", tmp_path / "chosen"], check=True)
    chosen: list[str | Path] = [
        "--cluster-idx",
        tmp_path / "chosen",
        "--base-url",
        sample_root,
        "--extractor",
        "none",
        "--no-metrics",
    ]
    subprocess.run([*webmill, "cc", "run", *chosen, "-o", tmp_path / "out"], check=True)
    with duckdb.connect() as database:
        columns = "url, strftime(date, '%Y%m%d%H%M%S'), outcome"
        rows = database.execute(f"select {columns} from '{tmp_path}/out/*/part-*.parquet'").fetchall()
    html = [visit for visit in visits() if visit.mime == HTML and not visit.same]
    assert sorted(rows) == sorted((ascii_url(visit.url), visit.when, "none") for visit in html)


def paragraphs(lines: list[str]) -> list[list[str]]:
    return [part.splitlines() for part in "\n".join(lines).strip().split("\n\n")]


def largest(sample_root: Path) -> list[tuple[int, str]]:
    """As warcio measures them. Only captures of pages are this large."""
    sizes = []
    with (sample_root / WARC).open("rb") as file:
        archive = ArchiveIterator(file)
        for record in archive:
            if record.rec_type == "response":
                url = record.rec_headers.get_header("WARC-Target-URI")
                sizes.append((archive.get_record_length(), url))
    return sorted(sizes, reverse=True)[:3]


@pytest.mark.parametrize(("moment", "hour"), [("20220101", "nine"), ("20230501", "noon"), ("21000101", "noon")])
def test_the_capture_of_a_url(sample_root: Path, moment: str, hour: str) -> None:
    reported = run("capture_of_a_url.py", sample_root, HOME, moment)
    there = datetime.fromisoformat(moment)
    found = [visit for visit in visits() if visit.url == HOME]
    assert reported[:4] == [f"{visit.when}  {'as before' if visit.same else 200}  {HOME}" for visit in found]
    captures = [visit.when for visit in found]
    captures.sort(key=lambda when: abs(datetime.fromisoformat(f"{when[:8]}T{when[8:]}") - there))
    place = re.fullmatch(r"([0-9]{14}) is in (.+), bytes ([0-9]+) to ([0-9]+)", reported[5])
    assert place
    assert place[1] == captures[0]
    assert f"The ferry leaves at {hour}." in reported[-1]
    with (sample_root / place[2]).open("rb") as file:
        file.seek(int(place[3]))
        record = next(iter(ArchiveIterator(file)))
        assert record.rec_type == "response"
        assert record.content_stream().read().decode() == reported[-1]


# --- publishing -------------------------------------------------------------------------------------------------------


def test_what_changed_on_a_notice_board(tmp_path: Path) -> None:
    reported = run("notice_board/what_changed.py", tmp_path / "notices")
    count = sum(len(university.notices(university.boards()[number], 1)) for number in BOARDS)
    assert [line.partition(": ")[2] for line in reported[:2]] == [
        f"{count} notices of 4 boards",
        f"{count} notices of 4 boards",  # one more, one less
    ]
    expected = [f"+ {key}: {notice(key, 2).title} ({notice(key, 2).date})" for key in ids(university.ADDED)]
    expected += [f"~ {key}: {notice(key, 1).title} -> {notice(key, 2).title}" for key in ids(university.CHANGED)]
    expected += [f"- {key}: {notice(key, 1).title}" for key in ids(university.REMOVED)]
    assert sorted(reported[2:]) == sorted(expected)


def ids(happened: frozenset[tuple[int, int]]) -> list[str]:
    found = [f"{BOARDS[board]}/{number}" for board, number in happened if board in BOARDS]
    assert found
    return found


def notice(key: str, version: int) -> university.NoticeText:
    source, _, number = key.rpartition("/")
    (board,) = (number for number, name in BOARDS.items() if name == source)
    (found,) = (one for one in university.notices(university.boards()[board], version) if one.number == int(number))
    return found


# --- programs of others -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_pywb_replays_the_newest_capture(judges: Path, sample_root: Path) -> None:
    reported = run("pywb/replay.py", sample_root, HOME, "--wayback", judges / "wayback")
    captures = [visit for visit in visits() if visit.url == HOME]
    first, last = captures[0].when, captures[-1].when
    assert reported == [f"{len(captures)} captures, from {first} to {last}", captures[-1].body.decode()]


@pytest.mark.slow
@pytest.mark.skipif(not ctypes.util.find_library("magic"), reason="datatrove's reader needs libmagic of the system")
def test_datatrove_reads_the_pages_with_the_text_that_was_archived(sample_root: Path) -> None:
    reported = run("datatrove_reading.py", sample_root)
    assert reported == [f"{moment(visit)}  {sha1(visit.body)}  {ascii_url(visit.url)}" for visit in pages()]


def moment(visit: Visit) -> str:
    return f"{day(visit)}T{visit.when[8:10]}:{visit.when[10:12]}:{visit.when[12:]}Z"


def sha1(body: bytes) -> str:
    return base64.b32encode(hashlib.sha1(body).digest()).decode()


# --- as documentation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_an_example_says_how_to_run_it_and_is_in_the_table(script: Path) -> None:
    text = (EXAMPLES / script).read_text()
    assert f"python examples/{script} " in text.partition('"""')[2].partition('"""')[0]
    assert f"]({script})" in (EXAMPLES / "README.md").read_text()


def test_links_of_the_table_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text())
    assert len(links) > len(SCRIPTS)
    assert [link for link in links if not (EXAMPLES / link).exists()] == []

"""`webmill cc run`, `work`, `seal` and `dead` as a person uses them, on a crawl that other people's servers serve."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.pipeline.cc_commands import cc, started
from tests.pipeline.cc_pages import (
    Page,
    index_crawl,
    lines_of_index,
    rows,
    snapshot,
    stamp,
    trafilatura_text,
    write_crawl,
)
from tests.services.nginx import Nginx

ENGLISH = ("--crawl", "TEST-2024", "--language", "eng", "--status", "200", "--no-metrics")


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Page]]:
    root = tmp_path_factory.mktemp("crawl")
    pages = write_crawl(root, pages=2000, files=4)
    index_crawl(root)
    return root, pages


def wanted(root: Path) -> list[tuple[str, str]]:
    """URL and time of what the filters want, by a plain reading of the index."""
    return [
        (fields["url"], timestamp)
        for _, timestamp, fields in lines_of_index(root)
        if fields["status"] == "200" and "eng" in fields.get("languages", "").split(",")
    ]


def fetched_plainly(server: str, root: Path, urls: set[str]) -> dict[str, bytes]:
    """The payload of each, asked for by `requests` one by one and read by warcio."""
    from io import BytesIO

    from warcio.archiveiterator import ArchiveIterator

    found: dict[str, bytes] = {}
    with requests.Session() as session:
        for _, _, fields in lines_of_index(root):
            if fields["url"] in urls:
                first = int(fields["offset"])
                bytes_ = f"bytes={first}-{first + int(fields['length']) - 1}"
                answer = session.get(f"{server}/{fields['filename']}", headers={"Range": bytes_}, timeout=30)
                record = next(iter(ArchiveIterator(BytesIO(answer.content))))
                found[record.rec_headers.get_header("WARC-Target-URI")] = record.content_stream().read()
    return found


@pytest.mark.server("nginx")
def test_a_run_over_http_gives_exactly_the_wanted_captures_each_once(
    crawl: tuple[Path, list[Page]], nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    root, pages = crawl
    server, out = nginx(root), tmp_path / "out"
    flags = (*ENGLISH, "--base-url", server.url, "--out", out, "--rate", "0", "--contact", "a@b.example")
    done = cc("run", *flags, "--executor", "pool", "--processes", "2", "--json")
    assert done.returncode == 0, done.stderr
    expected = wanted(root)
    assert len(expected) > 150
    found = rows(out)
    assert [(row["url"], stamp(row)) for row in found] == expected
    truth = {page.url: page.html for page in pages}
    assert [row["text"] for row in found] == [trafilatura_text(truth[row["url"]]) for row in found]
    summary = json.loads(done.stdout)
    assert (summary["captures"], summary["rows"], summary["failed"]) == (len(expected), len(expected), 0)
    asked = server.log()
    assert {one.user_agent.endswith("(+a@b.example)") for one in asked} == {True}
    assert len([one for one in asked if one.path.endswith(".warc.gz")]) < len(expected)  # neighbours share a request
    plainly = fetched_plainly(server.url, root, {url for url, _ in expected})
    assert plainly == {url: truth[url] for url, _ in expected}
    before, count = snapshot(out), len(server.log())
    assert cc("run", *flags).returncode == 0  # again: nothing to do
    assert snapshot(out) == before
    assert all(one.path.endswith("cluster.idx") for one in server.log()[count:])


@pytest.mark.server("nginx")
def test_two_commands_do_the_same_as_one(
    crawl: tuple[Path, list[Page]], nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    root, _ = crawl
    base = nginx(root).url
    queue = f"sqlite:{tmp_path}/work.sqlite"
    run = cc("run", *ENGLISH, "--base-url", base, "--out", tmp_path / "one", "--format", "jsonl", "--rate", "0")
    assert run.returncode == 0, run.stderr
    batch = cc("batch", *ENGLISH, "--base-url", base, "--queue", queue, WEBMILL_COMMONCRAWL_RATE="0")
    assert batch.returncode == 0, batch.stderr
    out = tmp_path / "two"
    flags = ("--queue", queue, "--out", out, "--base-url", base, "--format", "jsonl", "--rate", "0", "--no-metrics")
    with started("work", *flags, "--until-empty") as other:
        work = cc("work", *flags, "--until-empty", PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C")
        other.wait(100)
    assert (work.returncode, other.returncode) == (0, 0), work.stderr
    assert cc("seal", out, "--queue", queue).returncode == 0
    assert snapshot(out) == snapshot(tmp_path / "one")

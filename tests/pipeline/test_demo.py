"""The demo: what a newcomer sees first."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

DEMO = [sys.executable, "-m", "webmill", "demo"]


@pytest.mark.slow
def test_the_river_flows_by_itself_and_is_a_collection_that_others_can_read(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path / "aside")}
    (tmp_path / "aside").mkdir()
    folder = tmp_path / "demo"
    command = [*DEMO, "--no-serve", "--keep", str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "crawl    420 pages of 20 hosts" in printed
    captures = [int(number.replace(",", "")) for number in re.findall(r"index +([\d,]+) captures", printed)]
    assert captures[0] < captures[1] <= 3 * captures[0], "the second crawl looks once at each page"
    check_claims(printed, folder)
    stages = re.findall(r"^(\w+) ", printed, re.MULTILINE)
    once = ["index", "extract", "publish"]
    assert [stage for stage in stages if stage in {"crawl", "derive", *once, "search"}] == [
        *("crawl", "derive", *once),
        *("crawl", *once, "search"),
    ]
    first, second = re.findall(r"(\d+) published documents, (\d+) added, (\d+) changed", printed)
    assert int(first[0]) == int(first[1]) > 250
    assert 0 < int(second[2]) < int(second[0])
    assert "webmill init news/" in printed
    assert max(map(len, printed.replace(str(folder), "demo").splitlines())) <= 100

    warcs = sorted(folder.glob("crawl-data/DEMO/segments/*/warc/*.warc.gz"))
    with warcs[0].open("rb") as source:
        assert "response" in {record.rec_type for record in ArchiveIterator(source)}
    assert list(folder.glob("crawl-data/DEMO/segments/*/wet/*.gz"))
    assert json.loads((folder / "latest.json").read_bytes())
    verify = [sys.executable, "-m", "webmill", "cdxj", "verify", str(folder / "cc-index/collections/DEMO/indexes")]
    subprocess.run(verify, capture_output=True, timeout=100, check=True)


def check_claims(printed: str, folder: Path) -> None:
    """What the demo says that it made is there."""
    assert ("Parquet" in printed) == bool(list(folder.glob("cc-index/table/**/*.parquet")))
    parts = [gzip.decompress(path.read_bytes()) for path in folder.glob("documents/*.jsonl.gz")]
    rows = [json.loads(line) for part in parts for line in part.splitlines()]
    for column in ("language", "links"):
        assert (column in printed) == any(row.get(column) for row in rows)
    assert any(row.get("text") for row in rows)


def test_a_folder_that_holds_something_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = subprocess.run([*DEMO, "--keep", str(tmp_path)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_it_can_be_stopped_and_says_what_is_left(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([*DEMO, "--no-serve"], env=env, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("webmill-demo-*/frontier")):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, printed.splitlines()[-1]) == (130, "stopped; the collection was deleted")
    assert not list(tmp_path.glob("webmill-demo-*"))


@pytest.mark.slow
def test_it_is_served_until_ctrl_c_and_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [*DEMO, "--port", "0"], env=env, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    try:
        address = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+/?", line)))
        with urllib.request.urlopen(address, timeout=60) as page:
            assert page.status == 200
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.communicate()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("webmill-demo-")]

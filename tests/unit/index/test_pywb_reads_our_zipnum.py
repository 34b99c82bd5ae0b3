"""pywb judges our index: its own ZipNum reader finds what a linear scan finds, and replays a page through it."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.index.zipnum_samples import build, make_lines, make_queries, scan
from webmill.formats.cdx.query import key_range
from webmill.index.lines import read_batches
from webmill.index.lookup.indexes import open_index
from webmill.index.zipnum.writer import write_index

LINES = make_lines(3000)

# Runs with pywb's Python. Every page of every query, so that the running numbers are put to use.
ASK_PYWB = """
import json, sys
from pywb.warcserver.index.zipnum import ZipNumIndexSource

source = ZipNumIndexSource(sys.argv[1], json.loads(sys.argv[2]))
for line in sys.stdin:
    url, kind = json.loads(line)
    params = {"url": url, "matchType": kind}
    (info,) = source.load_index({**params, "showNumPages": "true"})
    found = []
    for page in range(info["pages"]):
        found += [cdx.cdxline.decode("latin-1") for cdx in source.load_index({**params, "page": str(page)})]
    print(json.dumps(found), flush=True)
"""


def ask_pywb(judges: Path, summary: Path, queries: list[tuple[str, str]], **config: object) -> Iterator[list[bytes]]:
    command = [judges / "python", "-W", "ignore", "-c", ASK_PYWB, summary, json.dumps(config)]
    text = "".join(json.dumps(query) + "\n" for query in queries)
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for line in done.stdout.splitlines():
        yield [found.encode("latin-1") for found in json.loads(line)]


@pytest.mark.parametrize("count", [300, pytest.param(1500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("shard_size", [1 << 30, 5000], ids=["one shard", "many shards"])
def test_pywb_finds_what_a_linear_scan_finds_in_many_queries(
    tmp_path: Path, judges: Path, shard_size: int, count: int
) -> None:
    shards = build(tmp_path, LINES, block=20, shard_size=shard_size)
    assert (len(shards) == 1) == (shard_size == 1 << 30)
    queries = make_queries(LINES, count, seed=shard_size)
    answers = ask_pywb(judges, tmp_path / "cluster.idx", queries)
    found = 0
    for (url, kind), answer in zip(queries, answers, strict=True):
        expected = scan(LINES, key_range(url, kind))
        found += bool(expected)
        assert [line.rstrip(b"\n") for line in answer] == [line.rstrip(b"\n") for line in expected], (url, kind)
    assert found > count * 0.4


def test_pywb_finds_shards_without_locations_as_it_does_for_common_crawl(tmp_path: Path, judges: Path) -> None:
    build(tmp_path, LINES, block=20, shard_size=5000)
    (tmp_path / "cluster.loc").unlink()
    config = {"type": "zipnum", "shard_index_loc": {"match": ".+", "replace": f"{tmp_path}/"}, "max_blocks": 5}
    queries = make_queries(LINES, 100)
    for (url, kind), answer in zip(queries, ask_pywb(judges, tmp_path / "cluster.idx", queries, **config), strict=True):
        assert len(answer) == len(scan(LINES, key_range(url, kind))), (url, kind)


def test_pywb_reads_an_index_that_was_replaced(tmp_path: Path, judges: Path) -> None:
    for count in (2000, 2500, 3000):
        build(tmp_path, LINES[:count], block=20, shard_size=5000)
    (answer,) = ask_pywb(judges, tmp_path / "cluster.idx", [("com", "domain")])
    assert len(answer) == len(scan(LINES, key_range("com", "domain")))


# --- replay ---------------------------------------------------------------------------------------------------------

PAGE = b"<html><head><title>A page of ours</title></head><body>found through ZipNum</body></html>"


def make_warc(path: Path) -> None:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE)
    head = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:0a35b1a4-6a6c-4c0e-8f31-000000000001>\r\n"
        b"WARC-Date: 2024-02-03T04:05:06Z\r\nWARC-Target-URI: http://page.example/x\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n" % len(http)
    )
    path.write_bytes(gzip.compress(head + http + b"\r\n\r\n"))


@contextmanager
def wayback(judges: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(judges / "wayback"), "-b", "127.0.0.1", "-p", str(port)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def get(url: str, *, patience: float = 60) -> bytes:
    """Until the server listens."""
    end = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error}: {error.read()[:2000]!r}") from error
        except OSError:
            assert time.monotonic() < end, "pywb did not start"
            time.sleep(0.1)


def test_pywb_replays_a_page_through_our_index(tmp_path: Path, judges: Path) -> None:
    (tmp_path / "warcs").mkdir()
    make_warc(tmp_path / "warcs" / "page.warc.gz")
    lines = subprocess.run(
        [str(judges / "cdx-indexer"), "-j", str(tmp_path / "warcs" / "page.warc.gz")], capture_output=True, check=True
    ).stdout
    (tmp_path / "page.cdxj").write_bytes(b"".join(sorted([*LINES, *lines.splitlines(keepends=True)])))
    write_index(read_batches(tmp_path / "page.cdxj"), tmp_path / "index", lines=50, shard_size=20_000)
    assert len(list(open_index(tmp_path / "index").lines(key_range("http://page.example/x")))) == 1
    (tmp_path / "config.yaml").write_text(
        "collections:\n  ours:\n    index_paths: ./index/cluster.idx\n    archive_paths: ./warcs/\n"
    )
    with wayback(judges, tmp_path) as url:
        replayed = get(f"{url}/ours/20240203040506id_/http://page.example/x")
        listed = get(f"{url}/ours/cdx?url=http://page.example/x&output=json")
    assert replayed == PAGE
    assert json.loads(listed)["filename"] == "page.warc.gz"

"""A collection whose archives lie anywhere: at its root, in folders, on another disk behind a link. What its index
names is served, and cdx_toolkit, `webmill cc run` and pywb read it."""

from __future__ import annotations

import gzip
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import cdx_toolkit
import pytest
from cdx_toolkit import myrequests

from tests.pipeline.cc_pages import rows
from tests.serve.sample_collection import run
from tests.serve.server_process import RunningServer, serving
from tests.serve.warc_fixtures import response
from tests.unit.cli.command import webmill
from tests.unit.index.test_pywb_reads_our_zipnum import get, wayback

WHEN = "20240101000000"
PLACES = {"a": "a.warc.gz", "b": "2024/b.WARC.gz", "c": "linked.warc.gz", "d": "disk/d.warc.gz"}
ODD = {"e": "odd name+%.warc.gz"}  # cdx_toolkit and pywb do not escape the name of a file in an address


def url(name: str) -> str:
    return f"https://site.example/{name}"


def body(name: str) -> bytes:
    text = "A page about the river, its bridges and the people who cross them every day. " * 5
    return f"<html><title>{name}</title><body><p>{name} {text}</p></body></html>".encode()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, disks = tmp_path_factory.mktemp("plain") / "scattered", tmp_path_factory.mktemp("disks")
    for folder in (root / "2024", disks / "one", disks / "two"):
        folder.mkdir(parents=True)
    (root / "linked.warc.gz").symlink_to(disks / "one" / "c.warc.gz")
    (root / "disk").symlink_to(disks / "two")
    for name, place in {**PLACES, **ODD}.items():
        (root / place).write_bytes(response(url(name), WHEN, body(name)))
    (root / "private.txt").write_text("private")
    run("index", root)
    return root


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(root, tmp_path_factory.mktemp("served") / "errors", "--no-feed", "--rate", "0") as server:
        yield server


def test_what_the_list_of_paths_names_is_there_with_ranges(root: Path, server: RunningServer) -> None:
    with urllib.request.urlopen(f"{server.address}/crawl-data/{root.name}/warc.paths.gz") as answer:
        paths = gzip.decompress(answer.read()).decode().splitlines()
    assert sorted(paths) == sorted({**PLACES, **ODD}.values())
    for path in paths:
        address = f"{server.address}/{quote(path)}"
        asked = urllib.request.Request(address, headers={"Range": "bytes=3-9"})
        with urllib.request.urlopen(asked) as answer:
            assert (answer.status, answer.read()) == (206, (root / path).read_bytes()[3:10])


@pytest.mark.parametrize("path", ["private.txt", "cdxj/x.warc.gz", ".hidden.warc.gz", "nothing.warc.gz", "2024"])
def test_nothing_else_is_there(root: Path, server: RunningServer, path: str) -> None:
    (root / ".hidden.warc.gz").write_bytes(b"hidden")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server.address}/{path}")
    with refused.value as answer:
        assert answer.code == 404


def test_cdx_toolkit_reads_the_content(root: Path, server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(myrequests.retry_info, "127.0.0.1", {"next_fetch": 0, "minimum_interval": 0})
    fetcher = cdx_toolkit.CDXFetcher(source=f"{server.address}/{root.name}-index", warc_download_prefix=server.address)
    found = [capture for capture in fetcher.iter("site.example/*") if capture["filename"] in PLACES.values()]
    assert {capture["url"]: capture.content for capture in found} == {url(name): body(name) for name in PLACES}


def test_cc_run_reads_it_as_a_crawl_of_common_crawl(root: Path, server: RunningServer, tmp_path: Path) -> None:
    flags = ("--crawl", root.name, "--output", tmp_path / "out", "--contact", "me@site.example", "--no-metrics")
    run("cc", "run", "--base-url", server.address, *flags, "--processes", "1", "--rate", "0")
    found = rows(tmp_path / "out")
    assert {row["url"] for row in found} == {url(name) for name in {**PLACES, **ODD}}
    assert {row["outcome"] for row in found} == {"ok"}


def test_pywb_reads_it(root: Path, server: RunningServer, judges: Path, tmp_path: Path) -> None:
    served = f"    index: cdx+{server.address}/{root.name}/cdx\n    archive_paths: {server.address}/\n"
    (tmp_path / "config.yaml").write_text(f"collections:\n  plain:\n{served}")
    with wayback(judges, tmp_path) as pywb:
        for name in PLACES:
            assert get(f"{pywb}/plain/{WHEN}id_/{url(name)}") == body(name)


def test_every_command_reads_archives_behind_links(root: Path, tmp_path: Path) -> None:
    link = root / "linked.warc.gz"
    assert b"site.example/c" in webmill("cdxj", "index", link).out
    assert webmill("cdxj", "index", "--fields", "filename", link).out.endswith(b'{"filename": "linked.warc.gz"}\n')
    for command in (
        ["warc", "check", link],
        ["warc", "list", link],
        ["export", "wacz", root, tmp_path / "a.wacz"],
    ):
        done = webmill(*command)
        assert done.code == 0, done.err
    run("extract", root)
    run("derive", "wet", link, "-o", tmp_path / "derived")
    with gzip.open(next((tmp_path / "derived").rglob("linked*.wet.gz"))) as file:
        assert b"the river" in file.read()

"""A crawl uploads its archives to S3 while it runs and drops them; everything that reads archives reads them there."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

import webmill as api
from tests.pipeline.watched_site import HOME, HOST, WatchedSite, watch
from tests.serve.server_process import serving, wait_until_true
from tests.unit.cli.command import started, webmill
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.uploads import uploaded_files
from webmill.testing import TestWeb

pytestmark = pytest.mark.server("s3")
PAGES = 60


def archives(root: Path) -> list[Path]:
    return sorted((root / "crawl-data").rglob("*.warc.gz"))


def test_a_crawl_that_keeps_nothing_local_is_read_from_s3(memory_folder: Path, s3_url: str) -> None:
    root, (address, _, query) = memory_folder / "news", s3_url.partition("?")
    place = f"{address}/crawls/news?{query}"
    site = WatchedSite(*(f"/{number}" for number in range(PAGES)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        settings = {"delay": '"100ms"', "trap_budget": "0", "file_size": '"20KB"'}
        watch(root, web, settings={**settings, "upload": f'"{place}"', "keep_local": '"0"'})
        with started("crawl", root, HOME) as crawl:
            wait_until_true(lambda: uploaded_files(root), "a file is uploaded while the crawl runs")
            assert crawl.poll() is None
            assert crawl.wait(120) == 0
    known = uploaded_files(root)
    assert len(known) > 3
    assert not archives(root)
    storage = open_storage(place)
    assert {key: storage.stat(key).size for key in known} == {key: file.size for key, file in known.items()}

    status = webmill("status", root).out.decode()
    printed = status
    assert f"{len(known)} uploaded, {len(known)} of them only there" in status
    for command in (("index", root), ("extract", root), ("doctor", root), ("index", root)):
        ended = webmill(*command)
        assert ended.code == 0, (command, ended.err)
        printed += ended.out.decode() + ended.err
    assert "not-a-secret" not in printed
    with api.open_collection(root) as collection:
        page = collection.read(collection.capture(f"{HOME}7"))
        assert page.status == 200
        assert b"7" in page.body
    with serving(root, memory_folder / "errors") as server:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/raw/2026/{HOME}7", timeout=30)
        assert answer.read() == page.body
        key = next(iter(known))
        whole = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{key}", timeout=30).read()
    assert len(whole) == known[key].size


def test_a_crawl_goes_on_without_its_store_and_uploads_in_the_next_run(memory_folder: Path, s3_url: str) -> None:
    root, (address, _, query) = memory_folder / "news", s3_url.partition("?")
    down = "s3://webmill:not-a-secret@webmill-test/later?endpoint=http://127.0.0.1:9"
    site = WatchedSite(*(f"/{number}" for number in range(10)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"trap_budget": "0", "upload": f'"{down}"', "keep_local": '"0"'})
        ended = webmill("crawl", root, HOME)
        assert ended.code == 3, ended.err
        assert "not uploaded to s3://***@webmill-test/later" in ended.err
        assert f"the next run goes on with it: webmill crawl {root}" in ended.err
        assert "to be uploaded" in status_of(root)
        assert "not-a-secret" not in ended.err + ended.out.decode()
        assert archives(root)
        problems = webmill("problems", root)
        assert b"WARC files cannot be uploaded" in problems.out
        assert b"not-a-secret" not in problems.out
        ended = webmill("crawl", root, "--upload", f"{address}/later?{query}")
        assert ended.code == 0, ended.err
    assert not archives(root)
    assert b"cannot be uploaded" not in webmill("problems", root).out
    assert "to be uploaded" not in status_of(root)
    assert (root / ".webmill/uploads.sqlite").stat().st_mode & 0o077 == 0


def status_of(root: Path) -> str:
    return " ".join(webmill("status", root).out.decode().split())  # lines are wrapped

"""What is taken down is found nowhere any more: by no command, page, API, feed, file, replay or export."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.crawling import Linked, Setup, crawl_here, visits
from tests.pipeline.taken_down import (
    CLOSED,
    OPEN,
    PATHS,
    SECRET,
    captures,
    found,
    key_of,
    make_collection,
    run,
    unpacked,
)
from tests.serve.conftest import ADDRESS, site_of
from webmill.serve.app import application
from webmill.settings import Settings
from webmill.settings.serve_section import ServeSettings
from webmill.testing import TestWeb

FORGET = ("http://open.test/hush-hush", "gone.test", "--reason", "asked by mail", "--processes", "1")


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forget") / "news"
    make_collection(root)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "news", symlinks=True)
    return tmp_path / "news"


def test_before_it_is_found_at_many_doors(made: Path, tmp_path: Path) -> None:
    assert len(found(made, tmp_path / "out")) > 50  # or the test below would say nothing


@pytest.mark.parametrize("flags", [(), ("--rewrite",)])
def test_what_was_taken_down_is_found_at_no_door(root: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    run("forget", root, *FORGET, *flags)
    assert found(root, tmp_path / "out") == []


def test_others_are_untouched_byte_for_byte(root: Path, tmp_path: Path) -> None:
    before = {url: (data, line) for url, data, line in captures(root)}
    run("forget", root, *FORGET, "--rewrite")
    after = {url: (data, line) for url, data, line in captures(root)}
    assert after == {key: value for key, value in before.items() if not any(path in key.encode() for path in PATHS)}
    for path in (root / "crawl-data").rglob("*.warc.gz"):
        original = root / ".webmill/forget/originals" / path.relative_to(root)
        assert path.stat().st_size == original.stat().st_size
        kept = [(one, data) for one, data in records(original) if not any(part in one.encode() for part in PATHS)]
        assert [(one, data) for one, data in records(path) if one] == kept
        assert b"taken down" in next(data for one, data in records(path) if not one)


def records(path: Path) -> list[tuple[str, bytes]]:
    """Return target and content of each record, as warcio reads them: an independent reader."""
    with path.open("rb") as file:
        return [
            (one.rec_headers.get_header("WARC-Target-URI") or "", one.raw_stream.read())
            for one in ArchiveIterator(file)
        ]


def test_a_person_who_asks_is_told_when_and_why_unless_the_operator_hides_it(root: Path) -> None:
    run("forget", root, *FORGET)
    assert b"asked by mail" in run("forget", root, "--show")
    with TestClient(application(site_of(root)), base_url=ADDRESS) as client:
        for path in (f"/raw/2026/{CLOSED[0]}", f"/documents/item?id={key_of(CLOSED[0])}", f"/history?url={CLOSED[1]}"):
            answer = client.get(path)
            assert answer.status_code == 451, path
            assert "asked by mail" in answer.text
        assert client.get(f"/raw/2026/{OPEN[0]}").status_code == 200
    hiding = Settings(serve=ServeSettings(tombstones=False))
    with TestClient(application(site_of(root, hiding)), base_url=ADDRESS) as client:
        assert client.get(f"/raw/2026/{CLOSED[0]}").status_code == 404


def test_of_an_archive_that_holds_something_other_records_are_given_one_by_one(root: Path) -> None:
    run("forget", root, *FORGET)
    with TestClient(application(site_of(root)), base_url=ADDRESS) as client:
        for url, data, line in captures(root):
            fields = json.loads(line.split(" ", 2)[2])
            start, size = int(fields["offset"]), int(fields["length"])
            there = f"/{fields['filename']}"
            given = client.get(there, headers={"Range": f"bytes={start}-{start + size - 1}"})
            assert (given.status_code, given.content) == (206, data), url
            assert client.get(there, headers={"Range": f"bytes={start}-{start + size}"}).status_code == 451
            assert client.get(there).status_code == 451


def test_it_can_be_undone_until_gc(root: Path, tmp_path: Path) -> None:
    before, files = sorted(captures(root)), archive_bytes(root)
    run("forget", root, *FORGET, "--rewrite")
    assert archive_bytes(root) != files
    run("forget", root, "http://open.test/hush-hush", "gone.test", "--undo")
    assert (sorted(captures(root)), archive_bytes(root)) == (before, files)
    assert SECRET in run("search", root, SECRET.decode())
    run("forget", root, *FORGET, "--rewrite")
    run("forget", root, "--gc")
    assert not [path for path in everything(root) if SECRET in path]
    run("publish", "verify", root, "--read-data")


def archive_bytes(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "crawl-data").rglob("*.warc*.gz")}


def everything(root: Path) -> list[bytes]:
    return [unpacked(path.read_bytes()) for path in root.rglob("*") if path.is_file() and "sqlite" not in path.name]


def test_it_is_never_asked_for_again_by_any_collection(root: Path, tmp_path: Path) -> None:
    run("forget", root, *FORGET)
    with TestWeb(hosts=0, sites={"open.test": Linked(2), "gone.test": Linked(2)}) as web:
        seeds = ("http://open.test/", "http://open.test/hush-hush", "http://gone.test/")
        crawl_here(tmp_path / "other", Setup(seeds=seeds, resolve=dict(web.resolve)))
        asked = [visit for host in ("gone.test", "www.gone.test") for visit in web.log.visits(host=host)]
    known = visits(tmp_path / "other")
    assert known["http://open.test/hush-hush"].error == "forgotten"
    assert known["http://gone.test/"].error == "forgotten"
    assert asked == []  # not even for its robots.txt
    assert known["http://open.test/"].status == 200

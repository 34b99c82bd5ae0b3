"""Lists of pages that are gone: without one they would be published again, so what is lost is told, and mended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.watched_site import HOST, WatchedSite, published, watch
from tests.unit.cli.command import webmill
from webmill.testing import TestWeb


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def run(root: Path, *flags: str) -> None:
    ended = webmill("run", root, *flags)
    assert ended.code == 0, ended.err


def examine(root: Path) -> list[str]:
    found = [json.loads(line) for line in webmill("doctor", root, "--json").lines]
    return [one["found"] for one in found if one["part"] == "removed pages"]


@pytest.fixture(scope="module")
def site() -> WatchedSite:
    return WatchedSite("/a", "/b", "/c")


@pytest.fixture(scope="module")
def root(site: WatchedSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of which two pages are gone, and the others published; nobody answers any more."""
    root = tmp_path_factory.mktemp("removed") / "watched"
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        run(root)
        del site.pages["/b"], site.pages["/c"]
        for _ in range(2):
            time.sleep(1.0)
            run(root)
    assert published(root) == {"/a"}
    assert examine(root) == []
    return root


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
def test_a_list_of_removed_pages_that_is_damaged_stops_publishing_until_it_is_written_again(
    harm: Callable[[Path], None], root: Path
) -> None:
    (file,) = (root / "documents").glob("removed-*.jsonl")
    harm(file)
    refused = webmill("publish", "documents", root)
    assert refused.code == 1, refused.err
    assert str(file) in refused.err
    assert f"webmill crawl {root}" in refused.err
    (told,) = examine(root)
    assert file.name in told
    webmill("crawl", root, "--max-time", "1s")
    assert examine(root) == []
    ended = webmill("publish", "documents", root, "--force")
    assert ended.code == 0, ended.err
    assert published(root) == {"/a"}


def test_a_list_whose_writer_was_killed_before_the_receipt_counts_and_gets_one(root: Path) -> None:
    (receipt,) = (root / ".webmill" / "removed").iterdir()
    receipt.unlink()
    (told,) = examine(root)
    assert receipt.name in told
    ended = webmill("publish", "documents", root, "--force")
    assert ended.code == 0, ended.err
    assert published(root) == {"/a"}
    webmill("crawl", root, "--max-time", "1s")
    assert receipt.exists()
    assert examine(root) == []

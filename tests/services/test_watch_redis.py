"""A collection that is watched by nodes of a cluster: pages that are gone leave the next version there, too."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.pipeline.watched_site import HOME, HOST, WatchedSite, published, watch
from tests.unit.cli.command import webmill
from webmill.testing import HttpReply, TestWeb

pytestmark = [pytest.mark.server("redis"), pytest.mark.timeout(600)]
HOSTS = [HOST, "www.second.test", "www.third.test", "www.fourth.test"]


def watch_by_nodes(root: Path, web: TestWeb, *seeds: str) -> None:
    """As `watch`, but for the number of processes: on nodes there are shards."""
    watch(root, web, *seeds)
    file = root / "webmill.toml"
    file.write_text(file.read_text().replace("\nprocesses = 1\n", "\n"))


def environment(redis_url: str, **settings: str) -> dict[str, str]:
    given = {"FRONTIER": redis_url, "NAME": secrets.token_hex(8), "SHARDS": "4", **settings}
    return {f"WEBMILL_CRAWL_{name}": value for name, value in given.items()}


def removed(root: Path) -> list[str]:
    """The URLs that the archive was told of."""
    files = sorted((root / "documents").glob("removed-*.jsonl"))
    return [json.loads(line)["url"] for file in files for line in file.read_text().splitlines()]


def test_pages_that_are_gone_or_have_moved_leave_the_next_version(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(redis_url).items():
        monkeypatch.setenv(name, value)
    root, site = tmp_path / "watched", WatchedSite("/a", "/b", "/c", "/d")

    def run() -> None:
        ended = webmill("run", root)
        assert ended.code == 0, ended.err
        time.sleep(1.0)

    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch_by_nodes(root, web)
        run()
        assert published(root) == {"/a", "/b", "/c", "/d"}
        del site.pages["/c"]
        site.replies["/d"] = HttpReply(status=301, headers=(("Location", "/a"),), body=b"moved")
        run()
        assert published(root) == {"/a", "/b", "/c"}, "not found once may be a mistake of the server"
        run()
        assert published(root) == {"/a", "/b"}
        del site.replies["/d"]
        run()
        assert published(root) == {"/a", "/b", "/d"}, "what is found again comes back"
    told = sorted(removed(root))  # once for each visit that found it; one that is gone is asked again, seldom
    assert told in ([f"{HOME}{path}" for path in paths] for paths in ("cdd", "ccdd"))


def test_each_node_tells_its_archive_of_the_pages_of_its_shards(redis_url: str, tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    sites = {host: WatchedSite("/a", "/b") for host in HOSTS}
    variables = environment(redis_url, NODES="2")

    def run_both() -> None:
        """Each node is a program with a folder of its own."""
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "webmill", "run", str(root), "--stage", "crawl"],
                env={**os.environ, **variables, "WEBMILL_TRUST": str(tmp_path)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for root in roots
        ]
        for process in started:
            err = process.communicate(timeout=300)[1]
            assert process.returncode == 0, err
        time.sleep(1.0)

    with TestWeb(hosts=1, sites=dict(sites)) as web:
        for root in roots:
            watch_by_nodes(root, web, *(f"http://{host}/" for host in HOSTS))
        run_both()
        for site in sites.values():
            del site.pages["/b"]
        run_both()
        assert [removed(root) for root in roots] == [[], []]
        run_both()
        run_both()
    told = [removed(root) for root in roots]
    assert all(told), "each had shards"
    count = Counter(url for one in told for url in one)  # a page that is gone is asked again, seldom
    assert count.keys() == {f"http://{host}/b" for host in HOSTS}
    assert set(count.values()) <= {1, 2}

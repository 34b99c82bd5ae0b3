"""A crawl on two machines is steered from one of them: both nodes pause, go on by other settings, and stop."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.unit.cli.command import started, webmill
from webmill.crawl.cluster.cluster_state import ClusterState
from webmill.crawl.control import read_events
from webmill.testing import TestWeb

pytestmark = [pytest.mark.server("redis"), pytest.mark.timeout(600), pytest.mark.soak]
HOSTS = [f"www.site{number}.test" for number in range(8)]


PATIENCE = 240.0


@contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that does not outlive its test."""
    with started(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def write_settings(root: Path, web: TestWeb, **values: object) -> None:
    resolve = [f"{host}={address}:{port}" for host, (address, port) in web.resolve.items()]
    fixed = {"allow_private": True, "languages": False, "sitemaps": False, "resolve": resolve, "address_delay": "0s"}
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**fixed, **values}.items()]
    root.mkdir(exist_ok=True)
    (root / "webmill.toml").write_text("\n".join(["[http]", 'contact = "a@b.example"', "[crawl]", *lines, ""]))
    assert webmill("trust", root).code == 0


def test_all_nodes_do_what_one_is_told(redis_url: str, tmp_path: Path) -> None:
    name, roots = secrets.token_hex(8), [tmp_path / "one", tmp_path / "two"]
    seeds = [f"http://{host}/0" for host in HOSTS]
    crawl = ["--name", name, "--frontier", redis_url, "--shards", "4", "--nodes", "2"]
    with TestWeb(hosts=0, sites={host: Linked(500) for host in HOSTS}) as web:

        def pages() -> Counter[str]:
            return Counter(one.host for one in web.log.visits() if one.path != "/robots.txt")

        for root in roots:
            write_settings(root, web, delay="5s")
        with running("crawl", roots[1], *crawl) as two, running("crawl", roots[0], *seeds, *crawl) as one:
            wait_for(lambda: len(pages()) == len(HOSTS))
            write_settings(roots[0], web, delay="100ms", exclude=["/13$"])
            said = webmill("control", roots[0], "reload")
            assert (said.code, "delay: 5s" in said.err) == (0, True), said.err
            added = [f"http://www.site{number}.test/x" for number in range(8)]
            assert webmill("control", roots[1], "add", *added).code == 0
            assert webmill("control", roots[1], "pause").code == 0
            assert webmill("control", roots[0], "stop").code == 0
            assert [one.wait(PATIENCE), two.wait(PATIENCE)] == [130, 130]
        cluster = ClusterState(redis_url, name)
        assert cluster.flags()["delay"] == 0.1
        cluster.close()
        assert [event.action for event in read_events(roots[0] / "frontier") if "@" in event.by] == ["reload", "stop"]
        assert [event.action for event in read_events(roots[1] / "frontier") if "@" in event.by] == ["add", "pause"]
        for root in roots:  # each node has taken the settings
            assert [event.details for event in read_events(root / "frontier") if event.by == "the crawl"]
        assert "no crawl" in webmill("control", roots[0], "stop").err

"""Nodes with a folder each: every one backs up its part of the frontier, and a restore puts the parts together."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.unit.cli.command import Ended, webmill
from webmill.collection import Collection
from webmill.crawl.backends import crawl_backends
from webmill.crawl.cluster.cluster_state import ClusterState
from webmill.crawl.cluster.join import load_or_create_cluster_layout, read_folder_id
from webmill.crawl.frontier.base import FrontierUpdate
from webmill.crawl.layout import CrawlFolder
from webmill.crawl.scheduler.inbox import publish_links, shard_of
from webmill.infra import atomic
from webmill.model import Link

pytestmark = pytest.mark.server("redis")
SHARDS = 4
URLS = [f"https://site{number}.test/page" for number in range(200)]


@pytest.fixture
def crawl(redis_url: str) -> Iterator[str]:
    name = f"parts-{uuid.uuid4().hex[:8]}"
    yield name
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(match=f"{{{name}*", count=1000):
            client.unlink(key)


def frontier(*arguments: str | Path) -> Ended:
    return webmill("-q", "frontier", *arguments)


class Node:
    """The folder of a node that has some shards."""

    def __init__(self, root: Path, redis_url: str, name: str, shards: tuple[int, ...]) -> None:
        self.root, self.redis_url, self.shards = root, redis_url, shards
        self.paths = CrawlFolder(Collection(root, name))
        self.backends = crawl_backends(redis_url, name=name)
        atomic.make_folder(self.paths.path)
        read_folder_id(self.paths.path)
        cluster = ClusterState(redis_url, name)
        load_or_create_cluster_layout(self.paths, cluster, SHARDS)
        cluster.close()

    def add(self, urls: list[str]) -> None:
        for shard in self.shards:
            own = [Link(url) for url in urls if shard_of(url, SHARDS) == shard]
            one = self.backends.open_frontier(self.paths.shard(shard))
            one.commit(FrontierUpdate(links=own), now=1000.0)
            one.close()

    def send(self, url: str) -> None:
        publish_links(self.backends.open_inbox(self.paths.inbox(shard_of(url, SHARDS))), [Link(url)])

    def back_up(self, target: Path) -> Ended:
        return frontier("backup", self.root, target, "--frontier", self.redis_url)


@pytest.fixture
def two(tmp_path: Path, redis_url: str, crawl: str) -> tuple[Node, Node]:
    first, second = (
        Node(tmp_path / name / crawl, redis_url, crawl, shards) for name, shards in (("a", (0, 1)), ("b", (2, 3)))
    )
    for node in (first, second):
        node.add(URLS)
    return first, second


def waiting(root: Path, redis_url: str) -> list[str]:
    ended = frontier("export", root, "--format", "txt", "--frontier", redis_url)
    assert ended.code == 0, ended.err
    return sorted(ended.out.decode().split())


def test_parts_of_two_nodes_become_one_crawl(
    tmp_path: Path, redis_url: str, crawl: str, two: tuple[Node, Node]
) -> None:
    first, second = two
    assert sorted(waiting(first.root, redis_url) + waiting(second.root, redis_url)) == sorted(URLS)
    target, again = tmp_path / "backup", tmp_path / "again"
    assert first.back_up(target).code == 0
    early = frontier("restore", target, again, "--frontier", redis_url, "--name", f"{crawl}-x")
    assert early.code == 1
    assert "shards 2, 3 are in no part" in early.err
    assert second.back_up(target).code == 0
    first.send("https://late.test/")  # in transit: only Redis has it
    restored = frontier("restore", target, again, "--frontier", redis_url, "--name", f"{crawl}-again")
    assert restored.code == 0, restored.err
    assert waiting(again, redis_url) == sorted(URLS)


def test_parts_of_two_moments_are_refused(tmp_path: Path, redis_url: str, crawl: str, two: tuple[Node, Node]) -> None:
    first, second = two
    target = tmp_path / "backup"
    assert first.back_up(target).code == 0
    first.add(["https://site0.test/new", *(f"https://more{number}.test/" for number in range(20))])
    assert second.back_up(target).code == 0
    refused = frontier("restore", target, tmp_path / "again", "--frontier", redis_url, "--name", f"{crawl}-again")
    assert refused.code == 1
    assert "the crawl went on between the parts" in refused.err


def test_a_message_in_transit_is_in_the_newest_part(
    tmp_path: Path, redis_url: str, crawl: str, two: tuple[Node, Node]
) -> None:
    first, second = two
    target, again = tmp_path / "backup", tmp_path / "again"
    assert first.back_up(target).code == 0
    url = next(url for number in range(99) if shard_of(url := f"https://late{number}.test/", SHARDS) in first.shards)
    second.send(url)  # after the first has made its part
    assert second.back_up(target).code == 0
    assert frontier("restore", target, again, "--frontier", redis_url, "--name", f"{crawl}-again").code == 0
    with redis.Redis.from_url(redis_url) as client:
        inbox = f"{{{crawl}-again}}:mail-{shard_of(url, SHARDS):02d}"
        assert any(url.encode() in fields[b"letter"] for _, fields in client.xrange(inbox))


def test_a_part_that_was_killed_is_made_again(
    tmp_path: Path, redis_url: str, crawl: str, two: tuple[Node, Node]
) -> None:
    first, second = two
    target, again = tmp_path / "backup", tmp_path / "again"
    dice = random.Random(3)
    command = [sys.executable, "-m", "webmill", "-q", "frontier", "backup", str(first.root), str(target)]
    for _ in range(3):
        with subprocess.Popen([*command, "--frontier", redis_url], stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(timeout=dice.uniform(0.4, 2.0))
            except subprocess.TimeoutExpired:
                process.kill()
    made = list(target.glob("part-*/manifest.json"))
    assert made or first.back_up(target).code == 0
    assert second.back_up(target).code == 0
    assert frontier("restore", target, again, "--frontier", redis_url, "--name", f"{crawl}-again").code == 0
    assert waiting(again, redis_url) == sorted(URLS)

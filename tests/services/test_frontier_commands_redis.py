"""`webmill frontier` where the frontier is in Redis: what is told through boxes, imported, backed up and restored."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from tests.faults import killer, needs_killer
from tests.faults.matrix import record
from tests.pipeline.crawling import counts, seen_by
from tests.pipeline.test_frontier_backup import PAGES, tree, url_of
from tests.services.crawl_nodes import NodeProgram, NodeSetup, empty, nodes, visits, wait_for
from tests.services.crawler_database import ODD_WAITING, crawler_database
from tests.unit.cli.command import Ended, webmill
from webmill.crawl.backends import crawl_backends
from webmill.crawl.cluster.cluster_state import ClusterState
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier_admin.backend import frontier_backend
from webmill.crawl.frontier_admin.crawl_frontier import crawl_frontier
from webmill.infra import atomic

pytestmark = pytest.mark.server("redis")
DOMAINS = 50
SHARDS = 2
PATIENCE = 120.0


@pytest.fixture
def crawl(redis_url: str) -> Iterator[str]:
    """A name for a crawl of its own in the Redis of all."""
    name = f"care-{uuid.uuid4().hex[:8]}"
    yield name
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(match=f"{{{name}*", count=1000):
            client.unlink(key)


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    name = f"webmill_redis_{os.getpid()}"
    with crawler_database(postgres_url, name, waiting=2000, visited=400, domains=DOMAINS) as url:
        yield url


def frontier(*arguments: str | Path) -> Ended:
    return webmill("-q", "frontier", *arguments)


def contents(url: str, root: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"waiting": [], "visited": [], "excluded": []}
    for folder in sorted(root.glob("frontier/shard-*")):
        one = RedisFrontier(url, folder, prefix=f"{name}:{folder.name}")
        found["waiting"] += [link.url for link in one.waiting()]
        found["visited"] += [visit.url for visit in one.visits()]
        found["excluded"] += list(one.excluded())
        one.close()
    return {kind: sorted(values) for kind, values in found.items()}


def imported(root: Path, database: str, redis_url: str, name: str) -> None:
    options = ("--frontier", redis_url, "--name", name, "--processes", str(SHARDS), "--json")
    ended = frontier("import-postgres", root, "--url", database, *options)
    assert ended.code == 3, ended.err
    counts = msgspec.json.decode(ended.out)
    assert (counts["frontier"]["imported"], counts["visited_urls"]["imported"]) == (2000 + ODD_WAITING, 400)


@pytest.mark.server("postgres")
def test_a_frontier_in_postgres_goes_to_redis_and_its_backup_to_another_crawl(
    tmp_path: Path, redis_url: str, database: str, crawl: str
) -> None:
    root, again = tmp_path / "c", tmp_path / "again"
    imported(root, database, redis_url, crawl)
    before = contents(redis_url, root, crawl)
    assert len(before["waiting"]) == len(set(before["waiting"])) == 2000 + ODD_WAITING
    assert len(before["visited"]) == 400
    at = ("--frontier", redis_url)
    figures = msgspec.json.decode(frontier("stats", root, *at, "--json").out)["total"]
    assert (figures["stats"]["waiting"], figures["known"]) == (2000 + ODD_WAITING, 2400 + ODD_WAITING)
    assert figures["excluded"] == len(before["excluded"]) == 2
    assert frontier("backup", root, tmp_path / "backup", *at).code == 0
    assert frontier("restore", tmp_path / "backup", again).code == 1  # where to?
    taken = frontier("restore", tmp_path / "backup", again, *at)
    assert taken.code == 1
    assert "give another --name" in taken.err
    assert not (again / "frontier").exists()
    assert frontier("restore", tmp_path / "backup", again, *at, "--name", f"{crawl}-again").code == 0
    assert contents(redis_url, again, f"{crawl}-again") == before
    flags = msgspec.json.decode((again / "frontier" / "flags.json").read_bytes())
    assert flags.pop("crc32")
    assert flags == {"frontier": redis_url, "name": f"{crawl}-again"}  # the crawl finds it without being told
    exported = frontier("export", again, "--format", "txt")
    assert sorted(exported.out.decode().split()) == before["waiting"]


def test_what_is_given_waits_in_the_boxes_until_a_node_takes_it(tmp_path: Path, redis_url: str, crawl: str) -> None:
    root, at = tmp_path / "c", ("--frontier", redis_url)
    begin(root, redis_url, crawl)
    assert frontier("add", root, "http://a.test/", "http://b.test/", *at).code == 0
    assert frontier("exclude", root, "c.test", *at).code == 0
    assert frontier("compact", root, *at).code == 0
    cluster = ClusterState(redis_url, crawl)
    letters = [cluster.open_inbox(Path(f"mail-{shard:02d}.sqlite")).read(100) for shard in range(SHARDS)]
    cluster.close()
    assert len([letter for box in letters for letter in box]) >= 1 + 1 + SHARDS
    assert frontier("add", root, "http://a.test/").code == 1  # it does not know where: say so
    assert "--frontier redis://" in frontier("stats", root).err


def begin(root: Path, redis_url: str, name: str) -> None:
    backend = frontier_backend(redis_url, name=name)
    place = crawl_frontier(root, crawl_backends(redis_url, name=name), backend, name=name)
    atomic.make_folder(place.folder)
    backend.settle_layout(place.paths, SHARDS)
    atomic.write_bytes(place.folder / "flags.json", msgspec.json.encode({"name": name}))
    backend.close()


@needs_killer
@pytest.mark.crash
@pytest.mark.server("postgres")
def test_killed_at_any_call_a_restore_can_be_done_again(
    tmp_path: Path, redis_url: str, database: str, crawl: str
) -> None:
    root, target, name = tmp_path / "c", tmp_path / "backup", f"{crawl}-again"
    imported(root, database, redis_url, crawl)
    before = contents(redis_url, root, crawl)
    assert frontier("backup", root, target, "--frontier", redis_url).code == 0
    command = [sys.executable, "-m", "webmill", "-q", "frontier", "restore", str(target), str(tmp_path / "again")]
    command += ["--frontier", redis_url, "--name", name]
    environment = {**os.environ, "LD_PRELOAD": str(killer()), "KILLER_UNDER": str(tmp_path / "again")}
    moments = ("60", "130")
    for calls in moments:
        done = subprocess.run(command, env={**environment, "KILLER_AT": calls}, check=False, capture_output=True)
        assert done.returncode == -9, done.stderr
        assert not (tmp_path / "again" / "frontier").exists()
    done = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    after = contents(redis_url, tmp_path / "again", name)
    every = {*before["waiting"], *before["visited"]}
    lost = every - {*after["waiting"], *after["visited"]}
    fault = "kill -9 before a durable call"
    record("frontier (Redis)", fault, injected=len(moments), acknowledged=len(every), lost=len(lost))
    assert after == before


@pytest.mark.soak
def test_nodes_are_backed_up_while_they_crawl_and_the_crawl_is_finished_elsewhere(
    tmp_path: Path, redis_url: str
) -> None:
    root, again, target = tmp_path / "c", tmp_path / "again", tmp_path / "backup"
    first, other = (redis_url.removesuffix("/0") + f"/{number}" for number in (6, 7))
    everything = {url_of(number) for number in range(PAGES)}
    with tree() as (web, setup):
        with nodes(lambda: NodeProgram(root, NodeSetup(url=first, crawl=setup, shards=SHARDS))) as started:
            wait_for(lambda: len(web.log) >= 40, what="pages", programs=started)
            ended = frontier("backup", root, target, "--frontier", first)
            assert ended.code == 0, ended.err
            started[0].stop()
            started[0].process.wait(PATIENCE)
        web.log.settle()  # what the first crawl had asked last
        asked_before = len(web.log)
        try:
            assert frontier("restore", target, again, "--frontier", other).code == 0
            before = {url for url, visit in visits(other, again).items() if visit.status == 200}
            assert before
            with nodes(lambda: NodeProgram(again, NodeSetup(url=other, crawl=setup, shards=SHARDS))) as started:
                assert started[0].ended()["end"] == "finished"
            web.log.settle()
            assert {url for url, visit in visits(other, again).items() if visit.status == 200} == everything
        finally:
            empty(first)
            empty(other)
    asked = counts(one for one in seen_by(list(web.log.visits())[asked_before:]) if not one.is_robots)
    assert set(asked) == everything - before
    assert set(asked.values()) <= {1}

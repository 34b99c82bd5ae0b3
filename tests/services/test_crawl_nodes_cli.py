"""`webmill crawl --frontier redis://…` and `webmill status` from the outside."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked
from tests.services.redis_kinds import private_redis
from tests.unit.cli.command import webmill
from webmill.crawl.cluster.cluster_state import ClusterState, NodeInfo, NodeReport
from webmill.testing import TestWeb

pytestmark = [pytest.mark.server("redis"), pytest.mark.timeout(600)]


@pytest.fixture
def name() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def cluster(redis_url: str, name: str) -> Iterator[ClusterState]:
    cluster = ClusterState(redis_url, name, life=3600.0, timeout=60.0)
    yield cluster
    cluster.close()


def test_a_crawl_is_begun_gone_on_with_and_told_of(redis_url: str, name: str, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "c", tmp_path / "d"
    with TestWeb(hosts=0, sites={"www.a.test": Linked(3), "www.b.test": Linked(3)}) as web:
        fixed = (f"{host}={address}:{port}" for host, (address, port) in web.resolve.items())
        flags = ["--contact", "crawler@mill.example", "--allow-private", "--delay", "0", "--no-languages"]
        flags += [part for each in fixed for part in ("--resolve", each)]
        begun = webmill(
            "crawl", root, "http://www.a.test/0", "--name", name, "--frontier", redis_url, "--shards", "1", *flags
        )
        assert begun.code == 0, begun.err
        assert "if it dies: durable" in begun.err
        assert "crawl finished" in begun.err
        again = webmill("crawl", root, "http://www.b.test/0", "--json")  # it knows the rest
        assert again.code == 0, again.err
        report = json.loads(again.out)
        assert report["total"]["nodes"]["pages"] == 6
        reported = webmill("status", root)
        assert f"{name}, not running: the last run finished" in reported.out.decode()
        assert "shard      0 no node: 6 pages" in reported.out.decode()
        nodes = json.loads(webmill("status", root, "--json").out)["nodes"]
        assert nodes["records"]["0"]["seen"]["pages"] == 6
        other = webmill("crawl", elsewhere, "--name", name, "--frontier", redis_url, "--shards", "2")
        assert "begun with 1 shards" in other.err
    files = {path.name for path in root.glob("crawl-data/*/segments/*/warc/*.warc.gz")}
    assert len(files) == 2
    assert {path.rpartition("/")[2] for path in lines_of(root / "crawl-data" / name / "warc.paths.gz")} == files


def lines_of(path: Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode().split()


def test_flags_that_others_crawl_with_are_not_changed(
    redis_url: str, name: str, cluster: ClusterState, tmp_path: Path
) -> None:
    node = NodeInfo(id="one", folder="there", slot="there/one", host="elsewhere", pid=1)
    cluster.add_seeds(["http://www.a.test/"])
    cluster.join(node, flags={"contact": "a@b.example", "delay": 5.0}, limits={"max_pages": 10})
    crawl = ["crawl", tmp_path / "c", "--name", name, "--frontier", redis_url]
    for flags in (["--delay", "6s"], ["--max-pages", "11"], ["--refresh"], ["--depth", "3"]):
        cluster.exchange(node, NodeReport())  # it lives
        refused = webmill(*crawl, *flags)
        assert refused.code == 1
        assert f"other nodes crawl with other values of {flags[0]}" in refused.err
    cluster.leave(node)


def test_what_belongs_to_one_machine_and_what_to_many_is_told_apart(redis_url: str, tmp_path: Path) -> None:
    here = ["crawl", tmp_path / "c", "https://mill.example/", "--contact", "a@b.example"]
    assert "name a Redis with --frontier" in webmill(*here, "--shards", "3").err
    assert "say --shards" in webmill(*here, "--frontier", redis_url, "--processes", "2").err
    assert "redis://HOST:PORT/0" in webmill(*here, "--frontier", "mysql://x").err
    alone = ("--name", secrets.token_hex(8), "--join-wait", "1s")
    nobody = webmill("crawl", tmp_path / "c", "--frontier", redis_url, *alone, *here[3:])
    assert "name a URL to begin with" in nobody.err
    assert not (tmp_path / "c").exists()


def test_a_folder_has_one_kind_of_crawl(redis_url: str, name: str, tmp_path: Path) -> None:
    folder = tmp_path / "c" / "frontier"
    folder.mkdir(parents=True)
    (folder / "crawl.json").write_text('{"shards": 2}')
    flags = ["--contact", "a@b.example", "--name", name]
    mixed = webmill("crawl", tmp_path / "c", "https://mill.example/", "--frontier", redis_url, *flags)
    assert "leave --frontier out" in mixed.err
    (folder / "crawl.json").write_text('{"shards": 2, "on_nodes": true}')
    mixed = webmill("crawl", tmp_path / "c", "https://mill.example/", *flags)
    assert "keeps its frontier in Redis" in mixed.err


def test_a_redis_that_may_forget_is_refused_by_those_who_are_strict(name: str, tmp_path: Path) -> None:
    with private_redis("--appendfsync", "everysec") as redis:
        crawl = ["crawl", tmp_path / "c", "https://mill.example/", "--contact", "a@b.example", "--frontier", redis.url]
        refused = webmill(*crawl, "--name", name, "--strict")
    assert refused.code == 1
    assert "not durable (up to one second may be lost)" in refused.err
    assert "CONFIG SET" in refused.err


def test_nodes_without_a_page_name_each_seed_with_its_reason_and_the_flag_that_helps(
    redis_url: str, name: str, tmp_path: Path
) -> None:
    quick = (
        "--contact",
        "me@example.org",
        "--delay",
        "0",
        "--address-delay",
        "0",
        "--max-wait",
        "1s",
        "--max-time",
        "30s",
    )
    seeds = ("http://127.0.0.1:9/", "http://no-such-name.invalid/")
    place = ("--name", name, "--frontier", redis_url)
    ended = webmill("crawl", tmp_path / "c", *seeds, *place, "--shards", "2", *quick)
    assert ended.code == 3, ended.err
    assert "http://127.0.0.1:9/: robots unreachable: blocked_port (--allow-private allows it" in ended.err
    assert "http://no-such-name.invalid/: " in ended.err
    assert "no seed gave a page" in ended.err
    with TestWeb(hosts=0, sites={"www.a.test": Linked(1)}) as web:
        address = "www.a.test={}:{}".format(*web.resolve["www.a.test"])
        again = webmill(
            "crawl", tmp_path / "c", "http://www.a.test/0", *place, *quick, "--allow-private", "--resolve", address
        )
    assert again.code == 0, again.err

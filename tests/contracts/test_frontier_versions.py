"""Frontiers that an earlier webmill has left: without hops, with gates. They open, and nothing of them is lost."""

from __future__ import annotations

import json
from pathlib import Path

import apsw
import pytest
import redis

from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.contracts.test_frontier import NOW, add, claim, everything, settle
from webmill.crawl.frontier.base import NotTried, RetryLater, TurnOutcomes
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.errors import Misconfigured
from webmill.model import Link

LINKS = [Link(f"https://site{at % 3}.com/{at}", at % 5, at % 10) for at in range(30)]


def fill(frontier: LocalFrontier) -> None:
    """Some wait, some come back, some are in hand."""
    add(frontier, *LINKS)
    for turn in claim(frontier, urls=3):
        first, second, _ = turn.items
        settle(frontier, TurnOutcomes(turn.token, [RetryLater(first.url, NOW, "x"), NotTried(second.url)]))


def check(frontier: LocalFrontier) -> None:
    assert set(frontier.waiting()) == set(LINKS)
    assert sorted(everything(frontier, now=NOW + 1000)) == sorted(link.url for link in LINKS)


def test_a_local_frontier_of_the_first_version_opens(tmp_path: Path) -> None:
    frontier = LocalFrontier(tmp_path)
    fill(frontier)
    frontier._stack.close()  # with its journal, and turns in hand
    database = apsw.Connection(str(tmp_path / "state.sqlite"))
    for token, items in database.execute("SELECT token, items FROM turn").fetchall():
        old = json.dumps([item[:6] for item in json.loads(str(items))])
        database.execute("UPDATE turn SET items = ? WHERE token = ?", (old, token))
    database.execute(
        "ALTER TABLE retry DROP COLUMN hops; PRAGMA user_version=1;"
        "DROP INDEX domain_errand; ALTER TABLE domain DROP COLUMN errand;"
        "DROP INDEX domain_rank; DROP INDEX domain_rank_again; ALTER TABLE domain DROP COLUMN rank;"
        "CREATE TABLE gate (key TEXT PRIMARY KEY, time REAL NOT NULL) WITHOUT ROWID"
    )
    database.close()
    with LocalFrontier(tmp_path) as frontier:
        check(frontier)


def test_a_local_frontier_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    LocalFrontier(tmp_path).close()
    database = apsw.Connection(str(tmp_path / "state.sqlite"))
    database.execute("PRAGMA user_version=99")
    database.close()
    with pytest.raises(Misconfigured, match="newer webmill"):
        LocalFrontier(tmp_path)


@pytest.mark.server("redis")
def test_a_frontier_in_redis_of_the_first_version_opens(redis_url: str, tmp_path: Path) -> None:
    prefix = new_prefix()
    frontier = RedisFrontier(redis_url, tmp_path, prefix=prefix)
    fill(frontier)
    frontier._stack.close()
    at = f"{{{prefix}}}:"
    with redis.Redis.from_url(redis_url) as client:
        for key in client.scan_iter(at + "retries:*"):
            for member, score in client.zrange(key, 0, -1, withscores=True):
                client.zrem(key, member)
                client.zadd(key, {json.dumps(json.loads(member)[:5]): score})
        for token, body in client.hgetall(at + "turns").items():
            name, items = json.loads(body)
            client.hset(at + "turns", token, json.dumps([name, [item[:6] for item in items]]))
        client.hset(at + "gates", "host:a.com", "5")
        client.hset(at + "meta", "version", "1")
        with RedisFrontier(redis_url, tmp_path, prefix=prefix) as frontier:
            check(frontier)
        assert client.hget(at + "meta", "version") == b"4"
        assert not client.exists(at + "gates")
        client.hset(at + "meta", "version", "99")
        with pytest.raises(Misconfigured, match="newer webmill"):
            RedisFrontier(redis_url, tmp_path, prefix=prefix)
    forget(redis_url, prefix)

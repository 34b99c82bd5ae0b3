"""The frontier and its Redis: what it promises, whom it obeys, and what it does when Redis fails."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.faults.matrix import record
from tests.services.base import free_port
from tests.services.redis_kinds import bloom, private_redis
from tests.services.redis_proxy import proxied
from webmill.crawl.frontier.base import (
    PAGE_RESOURCE,
    ClaimRequest,
    CommitResult,
    FrontierUpdate,
    LastVisit,
    RetryLater,
    RobotsEntry,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.redis.filter import BitmapFilter, BloomFilter, segment_of_hash
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.frontier.redis.server import RedisDurability, RedisServer, encode_commands, read_script
from webmill.errors import Conflict, Misconfigured, Unavailable
from webmill.model import Link

pytestmark = pytest.mark.server("redis")

NOW = 1_700_000_000.0
APPLY = hashlib.sha1(read_script("apply").encode(), usedforsecurity=False).hexdigest().encode()


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    prefix = new_prefix()
    yield prefix
    forget(redis_url, prefix)


def links(count: int, *, domains: int = 50, start: int = 0) -> list[Link]:
    return [Link(f"https://site{number % domains}.com/{number}") for number in range(start, start + count)]


def visit_all(frontier: RedisFrontier, *, now: float) -> list[str]:
    found: list[str] = []
    while turns := frontier.claim(ClaimRequest(turns=100, urls_per_turn=10, now=now, lease=60, hold=0)):
        urls = {turn.token: [item.url for item in turn.items] for turn in turns}
        done = [
            TurnOutcomes(token, [VisitDone(LastVisit(url=url, time=now)) for url in some], now)
            for token, some in urls.items()
        ]
        assert not frontier.commit(FrontierUpdate(settled=done), now=now).lost
        found += [url for some in urls.values() for url in some]
    return found


# Promises


# Q10 of the list of faults: what is left when Redis dies is read from its settings, told, and can be insisted on.
@pytest.mark.parametrize(
    ("flags", "promise"),
    [
        ((), RedisDurability.DURABLE),
        (("--appendfsync", "everysec"), RedisDurability.SECOND),
        (("--no-appendfsync-on-rewrite", "yes"), RedisDurability.SECOND),
        (("--appendfsync", "no"), RedisDurability.NONE),
        (("--appendonly", "no"), RedisDurability.NONE),
        (("--appendonly", "no", "--save", "60 1"), RedisDurability.NONE),
        (("--rename-command", "CONFIG", ""), RedisDurability.SECOND),
        (("--rename-command", "CONFIG", "", "--appendonly", "no"), RedisDurability.NONE),
    ],
    ids=[
        "always",
        "everysec",
        "not while rewriting",
        "no sync",
        "no log",
        "snapshots",
        "CONFIG forbidden",
        "and no log",
    ],
)
def test_the_promise_is_read_from_the_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, flags: tuple[str, ...], promise: RedisDurability
) -> None:
    caplog.set_level(logging.INFO, logger="webmill")
    with private_redis(*flags) as server:
        with RedisFrontier(server.url, tmp_path / "a", prefix="a") as frontier:
            assert frontier.promise is promise
        (reported,) = [record for record in caplog.records if record.message == "frontier_promise"]
        assert reported.__dict__["promise"] == promise.value
        if promise is RedisDurability.DURABLE:
            RedisFrontier(server.url, tmp_path / "b", prefix="b", strict=True).close()
        else:
            with pytest.raises(Misconfigured, match="CONFIG SET appendfsync always"):
                RedisFrontier(server.url, tmp_path / "b", prefix="b", strict=True)


def test_a_server_that_forgets_keys_is_refused(tmp_path: Path) -> None:
    """Q10."""
    refused = pytest.raises(Misconfigured, match="CONFIG SET maxmemory-policy noeviction")
    with private_redis("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru") as server, refused:
        RedisFrontier(server.url, tmp_path, prefix="a")


# One owner, one folder


def test_a_second_process_on_the_folder_is_refused(redis_url: str, prefix: str, tmp_path: Path) -> None:
    with RedisFrontier(redis_url, tmp_path, prefix=prefix), pytest.raises(Conflict, match="another process"):
        RedisFrontier(redis_url, tmp_path, prefix=prefix)


def test_who_was_taken_for_dead_changes_nothing_any_more(redis_url: str, prefix: str, tmp_path: Path) -> None:
    """The folder's lock is of one machine; on shared storage the number of the owner decides."""
    old = RedisFrontier(redis_url, tmp_path / "old", prefix=prefix)
    old.commit(FrontierUpdate(links=links(10)), now=NOW)
    (turn, *_) = old.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60, hold=70))
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    with RedisFrontier(redis_url, tmp_path / "new", prefix=prefix) as new:
        late = FrontierUpdate(
            settled=[TurnOutcomes(turn.token, [VisitDone(LastVisit(url=turn.items[0].url, time=NOW))], NOW)]
        )
        assert old.commit(late, now=NOW).lost == {turn.token}
        for act in (
            lambda: old.commit(FrontierUpdate(links=links(20)), now=NOW),
            lambda: old.claim(ClaimRequest(turns=5, urls_per_turn=1, now=NOW, lease=60, hold=70)),
            lambda: old.exclude(["site3.com"]),
        ):
            with pytest.raises(Conflict, match="goes on there"):
                act()
        assert new.stats().waiting == 10
        assert new.visit(turn.items[0].url) is None
        again = new.claim(ClaimRequest(turns=20, urls_per_turn=1, now=NOW, lease=60, hold=70))
        assert turn.domain not in {other.domain for other in again}  # its hold outlives its owner
        assert min(other.token for other in again) > turn.token
        old.close()


def test_another_folder_is_refused_and_an_emptied_redis_too(redis_url: str, prefix: str, tmp_path: Path) -> None:
    with RedisFrontier(redis_url, tmp_path / "a", prefix=prefix) as frontier:
        frontier.commit(FrontierUpdate(links=links(5)), now=NOW)
    with pytest.raises(Misconfigured, match="name their folder"):
        RedisFrontier(redis_url, tmp_path / "b", prefix=prefix)
    forget(redis_url, prefix)
    with pytest.raises(Misconfigured, match="restore its data"):
        RedisFrontier(redis_url, tmp_path / "a", prefix=prefix)


def test_frontiers_with_other_prefixes_do_not_meet(redis_url: str, tmp_path: Path) -> None:
    prefixes = [new_prefix(), new_prefix() + "*", new_prefix() + "[a]?"]
    frontiers = [RedisFrontier(redis_url, tmp_path / str(at), prefix=prefix) for at, prefix in enumerate(prefixes)]
    for at, frontier in enumerate(frontiers):
        frontier.commit(FrontierUpdate(links=links(at + 1), notes={"n": str(at)}), now=NOW)
    for at, frontier in enumerate(frontiers):
        frontier.compact()
        assert (frontier.stats().waiting, frontier.notes()) == (at + 1, {"n": str(at)})
        frontier.close()
        with redis.Redis.from_url(redis_url) as client:
            client.delete(
                *[key for key in client.scan_iter("*", count=1000) if key.startswith(f"{{{prefixes[at]}}}:".encode())]
            )


# A Redis that fails


def test_no_server_is_unavailable_and_no_password_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as missing:
        RedisFrontier(f"redis://:secret@127.0.0.1:{free_port()}/0", tmp_path, prefix="a")
    with pytest.raises(Misconfigured) as wrong:
        RedisFrontier("http://:secret@127.0.0.1/0", tmp_path, prefix="a")
    assert "secret" not in f"{missing.value}{wrong.value}"


@pytest.mark.parametrize("lost", [1, 4, 9])
def test_a_step_whose_answer_was_lost_counts_once(redis_url: str, prefix: str, tmp_path: Path, lost: int) -> None:
    """Q11: the server did the work, and the client saw a timeout."""
    with proxied(redis_url) as proxy, RedisFrontier(proxy.url, tmp_path, prefix=prefix) as frontier:
        frontier.commit(FrontierUpdate(links=links(20)), now=NOW)
        turns = frontier.claim(ClaimRequest(turns=10, urls_per_turn=1, now=NOW, lease=60, hold=70))
        done = [
            TurnOutcomes(turn.token, [VisitDone(LastVisit(url=turn.items[0].url, time=NOW))], NOW + 1) for turn in turns
        ]
        step = FrontierUpdate(links=links(30, start=10), settled=done, notes={"a": "b"})
        proxy.mark, proxy.lose = APPLY, lost
        failures = 0
        while True:
            try:
                answer = frontier.commit(step, now=NOW + failures * 100)  # by then the leases are over
                break
            except Unavailable:
                failures += 1
        assert failures == lost // 4
        assert answer == CommitResult(added=20, known=10)
        stats = frontier.stats()
        assert (stats.waiting, stats.in_hand, stats.visited, stats.pages) == (30, 0, 10, 10)
        assert frontier.commit(step, now=NOW + 1000).lost == {turn.token for turn in turns}  # a new step now
        assert frontier.commit(FrontierUpdate(links=links(40)), now=NOW).known == 40


def test_another_call_settles_what_is_in_doubt(redis_url: str, prefix: str, tmp_path: Path) -> None:
    with proxied(redis_url) as proxy, RedisFrontier(proxy.url, tmp_path, prefix=prefix) as frontier:
        proxy.mark, proxy.lose = APPLY, 4
        with pytest.raises(Unavailable):
            frontier.commit(FrontierUpdate(links=links(20)), now=NOW)
        assert len(frontier.claim(ClaimRequest(turns=50, urls_per_turn=1, now=NOW, lease=60, hold=70))) == 20
        assert frontier.commit(FrontierUpdate(links=links(20)), now=NOW) == CommitResult(
            added=20
        )  # the answer it has missed
        assert frontier.commit(FrontierUpdate(links=links(20)), now=NOW) == CommitResult(known=20)


def test_turns_of_a_claim_whose_answer_was_lost_come_back(redis_url: str, prefix: str, tmp_path: Path) -> None:
    """Q11, and Q12: what nobody has in hand any more is had again when its lease is over."""
    with proxied(redis_url) as proxy, RedisFrontier(proxy.url, tmp_path, prefix=prefix) as frontier:
        frontier.commit(FrontierUpdate(links=links(20, domains=20)), now=NOW)
        proxy.mark, proxy.lose = APPLY, 4
        with pytest.raises(Unavailable):
            frontier.claim(ClaimRequest(turns=15, urls_per_turn=1, now=NOW, lease=60, hold=70))
        first = frontier.claim(ClaimRequest(turns=50, urls_per_turn=1, now=NOW, lease=60, hold=70))
        rest = frontier.claim(ClaimRequest(turns=50, urls_per_turn=1, now=NOW + 70, lease=60, hold=70))
        assert (len(first), len(rest)) == (5, 20)
        assert len({turn.token for turn in first + rest}) == 25


def test_of_two_changes_with_one_number_one_counts(redis_url: str, prefix: str) -> None:
    """A claim that was given up may still be on its way when the next change takes its number."""
    server, meta = RedisServer(redis_url), f"{{{prefix}}}:meta"
    server.ask("HSET", meta, "epoch", 3)

    def apply(name: str, *, epoch: int = 3) -> object:
        return server.run("apply", keys=[meta], args=[epoch, name, encode_commands([("HINCRBY", meta, name, "1")])])

    assert [apply("1.a"), apply("1.a"), apply("1.b"), apply("2.b"), apply("1.a"), apply("2.a"), apply("4.a")] == [
        1, 0, -2, 1, -2, -2, -2,
    ]  # fmt: skip
    assert apply("3.a", epoch=2) == -1
    assert server.ask("HMGET", meta, "1.a", "1.b", "2.b", "2.a", "4.a") == [b"1", None, b"1", None, None]
    server.close()


@pytest.mark.crash
def test_a_crawl_goes_on_when_redis_is_back(tmp_path: Path) -> None:
    with private_redis() as server, RedisFrontier(server.url, tmp_path, prefix="a", strict=True) as frontier:
        frontier.commit(FrontierUpdate(links=links(100)), now=NOW)
        server.kill()
        step = FrontierUpdate(links=links(100, start=50))
        with pytest.raises(Unavailable):
            frontier.commit(step, now=NOW)
        with pytest.raises(Unavailable):
            frontier.claim(ClaimRequest(turns=5, urls_per_turn=1, now=NOW, lease=60, hold=70))
        server.restart()
        assert frontier.commit(step, now=NOW) == CommitResult(added=50, known=50)
        wanted, found = {link.url for link in links(150)}, visit_all(frontier, now=NOW)
        numbers = {"lost": len(wanted - set(found)), "duplicated": len(found) - len(set(found))}
        record("frontier (Redis)", "Redis killed", injected=1, acknowledged=len(wanted), **numbers)
        assert sorted(found) == sorted(wanted)


def test_a_full_memory_changes_nothing_and_passes(tmp_path: Path) -> None:
    with private_redis() as server, RedisFrontier(server.url, tmp_path, prefix="a") as frontier:
        frontier.commit(FrontierUpdate(links=links(10)), now=NOW)
        with redis.Redis.from_url(server.url) as client:
            client.config_set("maxmemory", "1mb")
            with pytest.raises(Unavailable, match="memory"):
                frontier.commit(FrontierUpdate(links=links(100, start=10), notes={"a": "b"}), now=NOW)
            assert (frontier.stats().waiting, frontier.notes()) == (10, {})
            client.config_set("maxmemory", "0")
        assert frontier.commit(FrontierUpdate(links=links(100, start=10)), now=NOW).added == 100


@pytest.mark.parametrize(
    ("flags", "kept"),
    [(("--appendfsync", "everysec"), "appendonlydir"), (("--appendonly", "no", "--save", "3600 1"), "dump.rdb")],
    ids=["everysec", "snapshots"],
)
def test_a_redis_that_went_back_is_noticed_and_nothing_is_known_but_nowhere(
    tmp_path: Path, flags: tuple[str, ...], kept: str
) -> None:
    """As a power cut leaves one that is not durable: Redis lacks its end, files and the exact set are ahead.

    The filter has four words: what the exact set knows wrongly would be lost.
    """
    tiny = FrontierLimits(table=16, journal=2000, file=256, open_files=3, waiting=300, fan=2, hashes_per_word=1 << 15)
    with private_redis(*flags) as server:
        frontier = RedisFrontier(server.url, tmp_path / "a", prefix="a", limits=tiny)
        frontier.commit(FrontierUpdate(links=links(200)), now=NOW)
        turns = frontier.claim(ClaimRequest(turns=10, urls_per_turn=2, now=NOW, lease=60, hold=0))
        done = [
            TurnOutcomes(turn.token, [VisitDone(LastVisit(url=turn.items[0].url, time=NOW))], NOW) for turn in turns[:5]
        ]
        frontier.commit(FrontierUpdate(settled=done), now=NOW)
        before = frontier.stats()
        server.stop()
        copy(server.folder / kept, tmp_path / "then")
        server.restart()
        for start in range(200, 400, 10):
            frontier.commit(FrontierUpdate(links=links(10, start=start)), now=NOW)
        visit_all(frontier, now=NOW)
        server.kill()
        copy(tmp_path / "then", server.folder / kept)
        server.restart()
        with pytest.raises(Conflict, match="open the frontier anew"):
            frontier.commit(FrontierUpdate(links=links(1, start=500)), now=NOW)
        frontier.close()
        with RedisFrontier(server.url, tmp_path / "a", prefix="a", limits=tiny) as frontier:
            stats = frontier.stats()
            assert (stats.waiting + stats.in_hand, stats.visited) == (before.waiting + before.in_hand, before.visited)
            assert frontier.commit(FrontierUpdate(links=links(400)), now=NOW) == CommitResult(added=200, known=200)
            found = visit_all(frontier, now=NOW + 100)
            assert sorted(found) == sorted({link.url for link in links(400)} - {s.outcomes[0].url for s in done})


def copy(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


# Cost

FEW = 9  # one by one it would be many hundreds


class Counting(redis.Connection):
    """Counts what is sent at once, a command or a pipeline: after each of them the client waits for the answer."""

    sent = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        Counting.sent += 1
        super().send_packed_command(command, check_health)


def test_a_step_costs_a_few_round_trips_whatever_it_holds(redis_url: str, prefix: str, tmp_path: Path) -> None:
    with RedisFrontier(redis_url, tmp_path, prefix=prefix) as frontier:
        pool = frontier._server.client.connection_pool
        pool.connection_class = Counting
        pool.disconnect()
        pool.reset()
        frontier.commit(FrontierUpdate(links=links(10)), now=NOW)  # the scripts are there
        frontier.claim(ClaimRequest(turns=1, urls_per_turn=1, now=NOW, lease=60, hold=70))
        assert Counting.sent

        def trips(act: Callable[[], object]) -> int:
            before = Counting.sent
            act()
            return Counting.sent - before

        assert trips(lambda: frontier.commit(FrontierUpdate(links=links(3000, domains=900)), now=NOW)) < FEW
        turns = frontier.claim(ClaimRequest(turns=400, urls_per_turn=2, now=NOW, lease=60, hold=70))
        assert len(turns) == 400
        done = [
            TurnOutcomes(
                turn.token, [VisitDone(LastVisit(url=item.url, time=NOW), revisit_due=NOW) for item in turn.items], NOW
            )
            for turn in turns
        ]
        assert trips(lambda: frontier.commit(FrontierUpdate(settled=done), now=NOW)) < FEW
        assert (
            trips(
                lambda: frontier.claim(
                    ClaimRequest(turns=400, urls_per_turn=2, now=NOW, lease=60, hold=70, revisits=True)
                )
            )
            < FEW
        )


def test_a_requisite_is_found_behind_ten_thousand_pages_that_came_back(
    redis_url: str, prefix: str, tmp_path: Path
) -> None:
    pages, picture = 10_001, Link("https://site0.com/picture", priority=PAGE_RESOURCE)
    with RedisFrontier(redis_url, tmp_path, prefix=prefix) as frontier:
        frontier.commit(FrontierUpdate(links=[*links(pages, domains=1), picture]), now=NOW)
        (turn,) = frontier.claim(ClaimRequest(turns=1, urls_per_turn=pages + 1, now=NOW, lease=600, hold=0))
        later = TurnOutcomes(turn.token, [RetryLater(picture.url, NOW + 1, "x")], NOW)  # and all pages at once
        frontier.commit(FrontierUpdate(settled=[later]), now=NOW)
        (turn,) = frontier.claim(
            ClaimRequest(turns=1, urls_per_turn=2, now=NOW + 1, lease=600, hold=0, resources_only=True)
        )
        assert [item.url for item in turn.items] == [picture.url]
        frontier.commit(
            FrontierUpdate(settled=[TurnOutcomes(turn.token, [VisitDone(LastVisit(url=picture.url, time=NOW))], NOW)]),
            now=NOW + 1,
        )
        assert frontier.next_turn(resources_only=True) is None
        assert frontier.stats().waiting == pages


def test_robots_are_kept_small(redis_url: str, prefix: str, tmp_path: Path) -> None:
    with RedisFrontier(redis_url, tmp_path, prefix=prefix) as frontier:
        body = b"User-agent: *\nDisallow: /private/\n" * 1000
        frontier.commit(
            FrontierUpdate(robots=[RobotsEntry(origin="https://a.com", fetched=1, expires=2, body=body)]), now=NOW
        )
        assert frontier.robots("https://a.com").body == body  # type: ignore[union-attr]
        with redis.Redis.from_url(redis_url) as client:
            assert client.hstrlen(f"{{{prefix}}}:robots", "https://a.com") < 1000


# The filter


@pytest.mark.parametrize("kind", ["bitmaps", "bloom"])
def test_the_filter_never_forgets_and_seldom_errs(redis_url: str, prefix: str, kind: str) -> None:
    hashes = [hashlib.blake2b(b"%d" % number, digest_size=16).digest() for number in range(20_000)]
    with private_redis(*(bloom() if kind == "bloom" else ())) as running:
        server = RedisServer(running.url)
        assert server.has_bloom() == (kind == "bloom")
        filter_ = BitmapFilter(server, "x", count=125_000) if kind == "bitmaps" else BloomFilter(server, "x", count=0)
        if isinstance(filter_, BloomFilter):
            filter_.make()
        server.ask("HSET", "meta", "epoch", 1)
        first = filter_.count // 500
        for start in range(0, 10_000, 500):  # across the end of the first segment
            some = hashes[start : start + 500]
            filter_.maybe(some)
            put = encode_commands(filter_.put(some))
            name = f"{filter_.count // 500 + 1 - first}.x"
            assert server.run("apply", keys=["meta"], args=["1", name, put]) == 1
            filter_.count += len(some)
        answers = filter_.maybe(hashes)
        server.close()
    assert all(answers[:10_000])
    assert sum(answers[10_000:]) < 200


def test_segments_grow_and_then_stay() -> None:
    sizes = [0] * 16
    total, step = 0, 1 << 17
    while total < 600_000_000:
        sizes[segment_of_hash(total)] += step
        total += step
    assert sizes[:6] == [(1 << 17) * 4**number for number in range(6)]
    assert sizes[6] == sizes[5]

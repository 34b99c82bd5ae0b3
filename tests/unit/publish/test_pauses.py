"""One program is paused or killed before each of its storage calls in turn, and the others go on: nothing dangles."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from tests.faults.matrix import record
from tests.unit.publish.actors import Actor
from tests.unit.publish.publications import Clock, closure, missing
from webmill.errors import Conflict
from webmill.infra.storage.base import Storage
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import history, leases
from webmill.publish.blobs import BlobStore
from webmill.publish.gc import GcReport, collect_garbage
from webmill.publish.manifest import read_version_index
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.shards import read_items
from webmill.publish.types import PublishedItem
from webmill.publish.verify import verify

NOTHING = timedelta(0)
OLD = {"a": "1", "b": "2", "c": "3", "d": "4"}
LIVE = {"a": "1", "b": "other", "c": "other"}
NEW = {"a": "1", "b": "2", "c": "new", "e": "5"}  # "b" comes back: its blob is only in the version to be retired
OPTIONS = PublishOptions(inline=2, patience=0, force=True)


class World:
    """An old version, a live one, and the content of one that was never published."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.storage = MemoryStorage(now=self.clock)
        self.runs = count()
        self.publish(self.storage, OLD)
        self.publish(self.storage, LIVE)
        with Publication.begin(self.storage, options=OPTIONS) as broken_off:
            broken_off.put({"text": NEW["e"]})

    def publish(self, storage: Storage, texts: dict[str, str]) -> None:
        """As a careful caller does: rebases, and puts again what was taken away."""
        run = f"run-{next(self.runs)}"
        leases.acquire(storage, run, patience=0)
        with Publication.join(storage, run, options=OPTIONS, now=self.clock) as publication:
            for id_, text in texts.items():
                publication.add(PublishedItem(id_, "source", publication.put({"text": text})))
            for _ in range(5):
                try:
                    publication.commit()
                except Conflict:
                    for text in texts.values():
                        publication.put({"text": text})
                else:
                    return
            raise AssertionError("never came to its commit")

    def gc(self, storage: Storage) -> GcReport:
        return collect_garbage(storage, keep=1, grace=NOTHING, now=self.clock())

    def check(self, *expected: dict[str, str]) -> None:
        assert closure(self.storage) in expected
        assert verify(self.storage, read_data=True).findings == ()


def calls_of(work: Callable[[World], Callable[[Storage], object]]) -> int:
    world = World()
    actor, calls = Actor(world.storage, work(world)), 0
    while not actor.done:
        actor.step()
        calls += 1
    actor.finish()
    return calls


def publishing(world: World) -> Callable[[Storage], object]:
    return lambda storage: world.publish(storage, NEW)


def collecting(world: World) -> Callable[[Storage], object]:
    return world.gc


@pytest.mark.crash
@pytest.mark.parametrize("hours", [0, 24, -24])
def test_a_publisher_paused_anywhere_while_gc_runs_publishes_nothing_that_dangles(hours: int) -> None:
    removed = waited = lost = 0
    pauses = calls_of(publishing)
    for calls in range(pauses):
        world = World()
        publisher = Actor(world.storage, publishing(world))
        publisher.step(calls)
        for _ in range(2):
            world.clock.pass_by(hours=hours)
            report = world.gc(world.storage)
            waited += bool(report.waiting_for)
            removed += bool(report.trashed)
        world.check(LIVE, NEW)
        publisher.finish()
        assert publisher.error is None
        lost += missing(world.storage, NEW)
        world.check(NEW)
    fault = "wall clock jumps" if hours else "publisher paused"
    record("gc", fault, injected=pauses, acknowledged=pauses * len(NEW), lost=lost)
    assert (waited > removed) if hours <= 0 else (removed > waited)


@pytest.mark.crash
def test_a_gc_paused_anywhere_for_longer_than_its_lease_takes_nothing_from_a_new_publication() -> None:
    """It is taken for dead; then it goes on, with a delete on its way. Its trash puts that right."""
    overtaken = lost = 0
    pauses = calls_of(collecting)
    for calls in range(pauses):
        world = World()
        gc = Actor(world.storage, world.gc)
        gc.step(calls)
        world.clock.pass_by(hours=24)
        world.publish(world.storage, NEW)
        gc.finish()
        assert gc.error is None or isinstance(gc.error, Conflict)
        overtaken += gc.error is not None
        lost += missing(world.storage, NEW)
        world.check(NEW)
    record("gc", "gc paused past its lease", injected=pauses, acknowledged=pauses * len(NEW), lost=lost)
    assert overtaken


def test_a_gc_that_is_at_work_holds_a_publisher_up() -> None:
    held_up = 0
    for calls in range(calls_of(collecting)):
        world = World()
        gc = Actor(world.storage, world.gc)
        gc.step(calls)
        publisher = Actor(world.storage, publishing(world))
        publisher.finish()
        held_up += publisher.error is not None
        world.check(LIVE, NEW)
        gc.finish()
        world.check(LIVE, NEW)
    assert held_up


@pytest.mark.parametrize("work", [publishing, collecting])
def test_killed_anywhere_it_has_done_no_harm(work: Callable[[World], Callable[[Storage], object]]) -> None:
    for calls in range(calls_of(work)):
        world = World()
        victim = Actor(world.storage, work(world))
        victim.step(calls)
        victim.kill()
        world.check(LIVE, NEW)
        world.clock.pass_by(hours=24)
        world.publish(world.storage, NEW)
        world.check(NEW)
        for _ in range(2):
            world.clock.pass_by(hours=24)
            world.gc(world.storage)
        world.check(NEW)
        reachable = json.loads(world.storage.read("latest.json"))["count"] + 1  # and one shard
        assert len([*world.storage.list("blobs/")]) == reachable
        assert not [*world.storage.list("snapshots/_trash/")]


def test_a_rollback_and_gc_do_not_pass_each_other_unseen() -> None:
    """Either the version is rolled back to, and kept; or it is retired, and not found."""
    outcomes = set()
    for calls in range(60):
        world = World()
        last = history.read_head(world.storage)
        assert last
        old = history.versions_at(world.storage, last)[0].version
        rollback = Actor(
            world.storage, lambda storage, old=old, world=world: history.roll_back(storage, old, at=world.clock())
        )
        rollback.step(calls)
        world.gc(world.storage)
        rollback.finish()
        outcomes.add(type(rollback.error).__name__)
        world.check(LIVE if rollback.error else OLD)
    assert outcomes == {"NoneType", "Conflict", "NotFound"}


def test_gc_gives_way_to_a_publisher_that_waits() -> None:
    world, reports = World(), []
    for number in range(200):
        BlobStore(world.storage).put({"text": f"never published {number}"})
    gc = Actor(world.storage, lambda storage: reports.append(world.gc(storage)))
    while not [*world.storage.list("snapshots/_trash/")]:
        gc.step()
    leases.acquire(world.storage, "waiting", patience=60, sleep=lambda _: gc.step(10))
    gc.finish()
    assert reports[0].waiting_for == ["waiting"]
    assert 0 < reports[0].trashed < 200
    leases.release(world.storage, "waiting")
    assert reports[0].trashed + world.gc(world.storage).trashed == 200 + 3 + 1 + 1  # of the old version, its shard, "5"
    world.check(LIVE)


def test_verify_finds_nothing_where_others_publish_and_collect_meanwhile() -> None:
    outcomes = set()
    for calls in range(calls_of(lambda _: verify)):
        for others in ((World.gc,), (publish_new,), (publish_new, World.gc)):
            world, verdicts = World(), []
            looking = Actor(
                world.storage, lambda storage, verdicts=verdicts: verdicts.append(verify(storage, read_data=True))
            )
            looking.step(calls)
            for other in others:
                other(world, world.storage)
            looking.finish()
            assert [verdict.findings for verdict in verdicts] in ([()], [])
            outcomes.add(type(looking.error))
    assert outcomes == {type(None), Conflict}


def publish_new(world: World, storage: Storage) -> None:
    world.publish(storage, NEW)


def test_what_lies_in_the_trash_though_it_is_needed_is_read_from_there_and_comes_back() -> None:
    """As an overtaken gc leaves it that was killed before it could put it back."""
    world = World()
    needed = [stat.key for stat in world.storage.list("blobs/")]
    for key in needed:
        world.storage.write(key.replace("blobs/sha256", "snapshots/_trash"), world.storage.read(key))
        world.storage.delete(key)
    index = read_version_index(world.storage, history.live_version(world.storage))
    assert {item.id for item in read_items(world.storage, index)} == LIVE.keys()
    assert {finding.reason for finding in verify(world.storage).findings} == {"missing_blob"}
    assert world.gc(world.storage).restored == 2 + 1  # two contents and a shard
    world.check(LIVE)

"""Publishers, gc and rollbacks in one storage: a folder of a machine that loses power, or a bucket behind a network.

At every step of anybody a reader that shares no code with the product follows `latest.json`: its version is there,
with every file and every blob, each with its hash. The pointer never goes back. Records and versions never change, and
each record names the one before it. A version that was acknowledged stays in the history. A publisher that renews its
lease in time never loses content to gc. After all is quiet one gc leaves nothing that no version reaches.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.simulation import seams
from tests.simulation.faults import FaultInjector, FaultRates, Service, pause
from tests.simulation.network import Network, RemoteStorage, SteppedStorage
from tests.simulation.world import EPOCH, Machine, Violation, World
from webmill.errors import Conflict, Misconfigured, NotFound, Unavailable
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import history
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import ContentGone, Publication, PublishOptions
from webmill.publish.types import PublishedItem

HISTORY, BLOBS, TRASH = "snapshots/_history/", "blobs/sha256/", "snapshots/_trash/"


class PublishModel:
    def __init__(self, world: World) -> None:
        self.world, rng = world, world.rng
        self.is_remote = world.chance(0.5)
        self.ttl, self.grace = rng.choice((60.0, 900.0)), rng.choice((0.0, 1200.0, 7200.0))
        self.acknowledged: dict[str, dict[str, str]] = {}  # versions, with what was put into them
        self.records: dict[str, bytes] = {}  # of the history, as they were seen first
        self.versions: set[str] = set()  # that were live
        self.rounds: Counter[str] = Counter()
        self.pointer = 0  # the sequence it had last
        self.is_quiet, self.is_watched = False, True
        self.size = rng.randint(2, 4)
        self.bucket = MemoryStorage(now=self._store_time)
        self.machines = [world.machine(f"machine-{number}") for number in range(3 if self.is_remote else 1)]
        loss = rng.choice((0.0, 0.02, 0.1)) if self.is_remote else 0.0
        self.network = Network(world, loss=loss, late=loss / 2, repeated=loss / 4, timeout=20.0)
        self.services = [self._service(f"publisher-{number}", self._publish) for number in range(rng.randint(2, 3))]
        self.services += [self._service("gc", self._collect), self._service("operator", self._roll_back)]
        self.faults = FaultInjector(world, self.services, self._rates())
        self.faults.on_power_cut = lambda _: self.judge()
        if self.is_remote and loss:
            self._plan_partition()

    def _service(self, name: str, main: Callable[[], None]) -> Service:
        return Service(self.world, self.world.rng.choice(self.machines), name, main)

    def _rates(self) -> FaultRates:
        rng, mean = self.world.rng, 1.5 * self.ttl
        return FaultRates(
            kills=rng.choice((0.0, mean, 4 * mean)),
            stalls=rng.choice((0.0, mean)),
            cuts=0.0 if self.is_remote else rng.choice((0.0, mean)),
            jumps=rng.choice((0.0, 0.0, 4 * mean)),
            longest_stall=3 * self.ttl,
        )

    def _plan_partition(self) -> None:
        def begin() -> None:
            if not self.is_quiet:
                self.network.cut_off(self.world.rng.choice(self.machines), self.world.rng.uniform(1, self.ttl))
                self._plan_partition()

        self.world.after(self.world.rng.expovariate(1 / (4 * self.ttl)), begin)

    def _store_time(self) -> datetime:
        return datetime.fromtimestamp(EPOCH + self.world.now, UTC)

    # --- processes ---

    def storage(self) -> Storage:
        if self.is_remote:
            return RemoteStorage(self.bucket, self._written, self.network, before_write=self._delay)
        return SteppedStorage(
            LocalStorage(self.machines[0].disk.root / "published"), self._written, before_write=self._delay
        )

    def _publish(self) -> None:
        me = seams.current
        assert me
        while self.rounds[me.name] < self.size:
            self.rounds[me.name] += 1
            pause(self.world, self.ttl / 4)
            is_begun = bool(self.acknowledged)
            try:
                self._publish_once(self.rounds[me.name])
            except (Conflict, Unavailable):
                continue
            except Misconfigured as error:
                self.world.check(not is_begun, f"refused to publish: {error}")

    def _publish_once(self, number: int) -> None:
        rng = self.world.rng
        me = seams.current
        assert me
        options = PublishOptions(
            inline=2,
            ttl=timedelta(seconds=self.ttl),
            patience=self.ttl,
            sample=rng.choice((0.0, 1.0)),
            most_lost=1.0,
            policy=BackoffPolicy(attempts=3),
        )
        storage = self.storage()
        contents = {f"id-{n}": f"text {rng.randrange(3)} of {n}" for n in rng.sample(range(6), rng.randint(1, 5))}
        contents["by"] = f"{me.pid}-{number}"
        with Publication.begin(storage, options=options, now=machine_time(me.machine)) as publication:
            for id_, text in contents.items():
                pause(self.world, self.ttl / rng.choice((4, 20)))
                hash_ = publication.put({"text": text})
                publication.add(PublishedItem(id_, "source", hash_))
            self._commit(publication, contents)

    def _commit(self, publication: Publication, contents: dict[str, str]) -> None:
        for _ in range(6):
            try:
                published = publication.commit()
            except ContentGone:
                for text in contents.values():
                    publication.put({"text": text})
                continue
            except Conflict:
                continue
            self.acknowledged[published.version.version] = contents
            self.world.counts["published"] += 1
            self.world.note("world", f"acknowledged sequence {published.version.sequence}")
            return

    def _collect(self) -> None:
        while not all(service.is_done for service in self.services if service.name.startswith("publisher")):
            pause(self.world, self.ttl)
            self._collect_once(self.world.rng.randint(1, 3))

    def _collect_once(self, keep: int) -> bool:
        me = seams.current
        assert me
        is_begun = bool(self.acknowledged)
        times: dict[str, Any] = {"grace": timedelta(seconds=self.grace), "ttl": timedelta(seconds=self.ttl)}
        try:
            report = collect_garbage(self.storage(), keep=keep, now=machine_time(me.machine)(), **times)
        except (Conflict, Unavailable):
            return False
        except Misconfigured as error:
            self.world.check(not is_begun, f"gc refused: {error}")
            return False
        self.world.counts["collections"] += 1
        self.world.counts["trashed"] += report.trashed
        return not report.waiting_for

    def _roll_back(self) -> None:
        for _ in range(2):
            pause(self.world, self.ttl)
            if self.acknowledged and self.world.chance(0.5):
                me = seams.current
                assert me
                try:
                    version = self.world.rng.choice(sorted(self.acknowledged))
                    history.roll_back(self.storage(), version, at=machine_time(me.machine)())
                    self.world.counts["rollbacks"] += 1
                except (Conflict, Unavailable, NotFound):
                    pass  # another committed, or gc has removed it

    # --- judgement, without code of the product ---

    def read(self, key: str) -> bytes | None:
        if self.is_remote:
            found = self.bucket._values.get(key)
            return found[1] if found else None
        try:
            with open(f"{self._root()}/{key}", "rb") as file:  # noqa: PTH123 - read very often
                return file.read()
        except FileNotFoundError:
            return None

    def keys(self, folder: str) -> list[str]:
        if self.is_remote:
            return sorted(key for key in self.bucket._values if key.startswith(folder))
        try:
            names = os.listdir(f"{self._root()}/{folder}")  # noqa: PTH208
        except FileNotFoundError:
            return []
        return sorted(folder + name for name in names if not name.startswith("."))

    def _root(self) -> str:
        return f"{self.machines[0].disk.root}/published"

    def judge(self) -> None:
        """Check all that must hold at any moment."""
        self._judge_history()
        if pointer := self._judge_pointer():
            self.closure(pointer["version"], pointer["manifest_sha256"])

    def _judge_pointer(self) -> dict[str, Any] | None:
        latest = self.read("latest.json")
        if latest is None:
            self.world.check(not self.pointer, "the pointer is gone")
            return None
        pointer: dict[str, Any] = json.loads(latest)
        self.world.check(pointer["sequence"] >= self.pointer, "the pointer went back")
        self.pointer = pointer["sequence"]
        return pointer

    def _delay(self, key: str) -> None:
        """Let others come between what a writer of the pointer has read and what it writes."""
        if key == "latest.json" and not self.is_quiet and self.world.chance(0.2):
            pause(self.world, self.ttl / 8)

    def _written(self, key: str) -> None:
        if key == "latest.json":
            try:
                self._judge_pointer()
            except Violation as error:  # the product may catch what it does not know
                self.world.fail(str(error))

    def _judge_history(self) -> None:
        """Check that records follow on each other, that none was changed, and that none is gone."""
        keys = self.keys(HISTORY)
        for number, key in enumerate(keys, 1):
            data = self.read(key)
            self.world.check(key.endswith(f"/{number:012d}.json"), f"a gap in the history: {key}")
            assert data is not None
            if key in self.records:
                self.world.check(self.records[key] == data, f"{key} has changed")
                continue
            record, before = json.loads(data), self.records.get(keys[number - 2]) if number > 1 else None
            parent = hashlib.sha256(before).hexdigest() if before else None
            self.world.check(record.get("parent") == parent, f"{key} does not follow on the record before it")
            self.records[key] = data
            self.versions.add(record["live"]["version"])
        self.world.check(len(keys) == len(self.records), "records are lost")
        missing = self.acknowledged.keys() - self.versions
        self.world.check(not missing, "an acknowledged version is not in the history")

    def closure(self, version: str, sha256: str) -> set[str]:
        """Return the hashes that a version reaches; all must be there, under their names."""
        found: set[str] = set()
        manifest = self._hashed(f"snapshots/{version}/_manifest.json", sha256)
        for entry in json.loads(manifest)["files"]:
            data = self._hashed(f"snapshots/{version}/{entry['key']}", entry["sha256"])
            if entry["key"].startswith("index/"):
                index = json.loads(data)
                items = list(index.get("items") or ())
                for shard in index.get("shards") or ():
                    found.add(shard["hash"])
                    items += json.loads(self._blob(shard["hash"]))
                for item in items:
                    found.add(item["hash"])
                    self._blob(item["hash"])
        return found

    def _blob(self, hash_: str) -> bytes:
        """Return a blob. Clients look into the trash, too: a late delete may have hit one that came back."""
        data = self.read(f"{BLOBS}{hash_}.json")
        if data is None:
            data = self.read(f"{TRASH}{hash_}.json")
        self.world.check(data is not None, "a blob of the live version is gone")
        assert data is not None
        self.world.check(hashlib.sha256(data).hexdigest() == hash_, "a blob has not its hash")
        return data

    def _hashed(self, key: str, sha256: str) -> bytes:
        data = self.read(key)
        self.world.check(data is not None, f"{key.partition('/')[2][9:]} of the live version is gone")
        assert data is not None
        self.world.check(hashlib.sha256(data).hexdigest() == sha256, f"{key} has not its hash")
        return data

    # --- the course ---

    def watch(self) -> None:
        """Judge again and again: often, but not at each of thousands of steps."""

        def look() -> None:
            if not self.is_watched:
                return
            self._judge_pointer()
            if self.world.chance(0.2):
                self.judge()
            self.world.after(self.world.rng.expovariate(40 / self.ttl), look)

        self.world.after(0.0, look)

    def finish(self) -> None:
        world = self.world
        self.watch()
        world.run(self._is_done, seconds=40 * self.ttl)
        self.is_quiet = self.network.is_calm = True
        self.faults.stop()
        if not world.run(self._is_done, seconds=200 * self.ttl):
            world.fail("publishers did not come to an end")
            return
        self._check_last_collection()

    def _is_done(self) -> bool:
        return all(service.is_done for service in self.services)

    def _check_last_collection(self) -> None:
        """After quiet time one gc, and after the grace another, leave nothing that is not reached."""
        world = self.world
        self.is_watched = False
        world.skip(3 * self.ttl + 86400.0 * world.counts["clock jumps"])  # leases of the dead may lie in the future
        self.grace = 0.0
        last = Service(world, self.machines[0], "last gc", self._collect_twice)
        if not self.acknowledged:
            return
        if not world.run(lambda: last.is_done, seconds=100 * self.ttl):
            world.fail("the last gc did not end")
            return
        self.judge()
        reached = {hash_ for version in self._kept() for hash_ in self.closure(*version)}
        there = {Path(key).stem for key in self.keys(BLOBS)}
        world.check(there == reached, f"{len(there - reached)} blobs left, {len(reached - there)} in the trash alone")

    def _collect_twice(self) -> None:
        for _ in range(2):
            while not self._collect_once(1):
                pause(self.world, self.ttl)

    def _kept(self) -> Iterator[tuple[str, str]]:
        data = self.read(self.keys(HISTORY)[-1])
        assert data is not None
        record = json.loads(data)
        for version in [record["live"], *(record.get("kept") or ())]:
            yield version["version"], version["manifest_sha256"]


def machine_time(machine: Machine) -> Callable[[], datetime]:
    return lambda: datetime.fromtimestamp(machine.wall(), UTC)


def simulate(world: World) -> None:
    PublishModel(world).finish()

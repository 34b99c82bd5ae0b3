"""Publishers, gc and rollbacks, interleaved call by call, paused, killed, with a clock that jumps.

At every step a reader that shares no code with the room finds the whole closure of `latest.json` and of every version
that the history keeps. It reads `blobs/` alone, unless a gc was paused for longer than its lease: a delete that it had
under way may then hit a blob that came back meanwhile, which lies in the trash until that gc, or the next, puts it
back.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.thoroughness import examples
from tests.unit.publish.actors import Actor
from tests.unit.publish.publications import Clock
from webmill.errors import Conflict
from webmill.infra.storage.base import Storage
from webmill.infra.storage.memory import MemoryStorage
from webmill.publish import history, leases
from webmill.publish.gc import collect_garbage
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.types import PublishedItem
from webmill.publish.verify import verify

TTL = timedelta(minutes=15)
GRACE = timedelta(hours=2)
OPTIONS = PublishOptions(inline=2, ttl=TTL, patience=0, sample=0, force=True, facets=("first",))
TEXTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 2).map(str), min_size=1)


@dataclass
class Luck:
    """Whether the clock has jumped over somebody's lease."""

    overslept: bool = False


class Player(Actor):
    def __init__(self, storage: Storage, work: Callable[[Storage], object], *, luck: Luck, kind: str) -> None:
        self.luck, self.kind = luck, kind
        super().__init__(storage, work)


class PublishMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.storage = MemoryStorage(now=self.clock)
        self.actors: list[Player] = []
        self.attempts: list[dict[str, str]] = []
        self.acknowledged: list[str] = []
        self.zombies = False  # some gc was paused for longer than its lease

    def teardown(self) -> None:
        for actor in self.actors:
            actor.kill()

    # --- the programs ---

    def publish(self, storage: Storage, texts: dict[str, str], luck: Luck) -> None:
        run = secrets.token_hex(4)
        leases.acquire(storage, run, ttl=TTL, patience=0)
        with Publication.join(storage, run, options=OPTIONS, now=self.clock) as publication:
            for id_, text in texts.items():
                hash_ = publication.put({"text": f"{id_}{text}"})
                publication.add(PublishedItem(id_, "source", hash_, facets={"first": text}))
            for _ in range(4):
                try:
                    published = publication.commit()
                except Conflict as error:
                    if "put it again" in str(error):
                        assert luck.overslept, "gc took what a publisher at work had written"
                        for id_, text in texts.items():
                            publication.put({"text": f"{id_}{text}"})
                else:
                    self.acknowledged.append(published.version.version)
                    return

    def begin(self, kind: str, work: Callable[[Storage], object], luck: Luck | None = None) -> None:
        self.actors.append(Player(self.storage, work, luck=luck or Luck(), kind=kind))

    @rule(texts=TEXTS)
    def begin_publication(self, texts: dict[str, str]) -> None:
        self.attempts.append(texts)
        luck = Luck()
        self.begin("publish", lambda storage: self.publish(storage, texts, luck), luck)

    @rule(keep=st.integers(1, 2), grace=st.sampled_from([timedelta(0), GRACE]))
    def begin_gc(self, keep: int, grace: timedelta) -> None:
        self.begin("gc", lambda storage: collect_garbage(storage, keep=keep, grace=grace, now=self.clock(), ttl=TTL))

    @precondition(lambda self: self.acknowledged)
    @rule(data=st.data())
    def begin_rollback(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(self.acknowledged))
        self.begin("rollback", lambda storage: history.roll_back(storage, version, at=self.clock()))

    # --- what happens to them ---

    def working(self) -> list[Player]:
        return [actor for actor in self.actors if not actor.done]

    @precondition(lambda self: self.working())
    @rule(data=st.data(), calls=st.integers(1, 40))
    def go_on(self, data: st.DataObject, calls: int) -> None:
        actor = data.draw(st.sampled_from(self.working()))
        for _ in range(calls):
            actor.step()
            self.check_readers()

    @precondition(lambda self: self.working())
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.working())).finish()

    @precondition(lambda self: self.working())
    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.working())).kill()

    @rule(jump=st.sampled_from([timedelta(minutes=1), timedelta(minutes=20), timedelta(days=1), timedelta(hours=-3)]))
    def clock_jumps(self, jump: timedelta) -> None:
        self.clock.now += jump
        for actor in self.working():
            actor.luck.overslept |= abs(jump) >= TTL
            self.zombies |= actor.kind == "gc" and actor.luck.overslept

    @rule()
    def quiet_time(self) -> None:
        """All come to their end; then gc leaves nothing but what is kept."""
        for actor in self.actors:
            actor.finish()
        for _ in range(2):
            self.clock.pass_by(days=2)
            if self.records():
                collect_garbage(self.storage, keep=1, grace=GRACE, now=self.clock(), ttl=TTL)
        self.zombies = False
        if self.records():
            assert verify(self.storage, read_data=True).findings == ()
            blobs = {stat.key[13:77] for stat in self.storage.list("blobs/")}
            versions = self.kept()
            assert blobs == set().union(*(self.reached(version) for version in versions))
            assert {stat.key.split("/")[1] for stat in self.storage.list("snapshots/0")} == versions
            assert not [*self.storage.list("snapshots/_trash/")]

    # --- what must hold ---

    @invariant()
    def check_readers(self) -> None:
        for version in self.kept():
            self.reached(version)
        records = self.records()
        if records:
            texts = self.texts_of(records[-1]["live"]["version"])
            assert texts in self.attempts

    @invariant()
    def the_history_is_a_line(self) -> None:
        records = [*self.storage.list("snapshots/_history/")]
        data = [self.storage.read(stat.key) for stat in records]
        decoded = self.records()
        assert [record["sequence"] for record in decoded] == [*range(1, len(data) + 1)]
        for before, record in zip(data, decoded[1:], strict=False):
            assert record["parent"] == hashlib.sha256(before).hexdigest()
        published = [record["live"]["version"] for record in decoded if record["kind"] == "publish"]
        assert len(published) == len(set(published))
        assert set(self.acknowledged) <= set(published)
        if [*self.storage.list("latest.json")]:
            pointer = json.loads(self.storage.read("latest.json"))
            assert pointer["version"] == decoded[pointer["sequence"] - 1]["live"]["version"]
            assert pointer["version"] in self.kept()

    def records(self) -> list[Any]:
        return [json.loads(self.storage.read(stat.key)) for stat in self.storage.list("snapshots/_history/")]

    def kept(self) -> set[str]:
        names: set[str] = set()
        for record in self.records():
            if record["kind"] == "retire":
                names = {version["version"] for version in record["kept"]}
            names.add(record["live"]["version"])
        return names

    def reached(self, version: str) -> set[str]:
        """Every hash that a version reaches, each of them read and checked."""
        folder = f"snapshots/{version}/"
        manifest = json.loads(self.storage.read(folder + "_manifest.json"))
        hashes: set[str] = set()
        for entry in manifest["files"]:
            data = self.storage.read(folder + entry["key"])
            assert hashlib.sha256(data).hexdigest() == entry["sha256"]
            if entry["key"].startswith("index/"):
                for item in self.items(json.loads(data), hashes):
                    hashes.add(item["hash"])
                    self.blob(item["hash"])
        return hashes

    def texts_of(self, version: str) -> dict[str, str]:
        index = json.loads(self.storage.read(f"snapshots/{version}/index/all.json"))
        return {item["id"]: self.blob(item["hash"])["text"][1:] for item in self.items(index, set())}

    def items(self, index: Any, hashes: set[str]) -> list[Any]:
        shards = [shard["hash"] for shard in index.get("shards", ())]
        hashes.update(shards)
        return index.get("items") or [item for shard in shards for item in self.blob(shard)]

    def blob(self, hash_: str) -> Any:
        places = [f"blobs/sha256/{hash_}.json", *([f"snapshots/_trash/{hash_}.json"] if self.zombies else [])]
        there = [place for place in places if [*self.storage.list(place)]]
        assert there, f"dangling: {hash_}"
        data = self.storage.read(there[0])
        assert hashlib.sha256(data).hexdigest() == hash_
        return json.loads(data)


TestPublishing = PublishMachine.TestCase
TestPublishing.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=30)


@pytest.mark.soak
class TestPublishingAtLength(PublishMachine.TestCase):
    settings = settings(deadline=None, max_examples=120, stateful_step_count=50)

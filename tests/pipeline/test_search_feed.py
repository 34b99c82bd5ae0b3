"""After an update the index holds what the live version holds, whatever happened before it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.faults.matrix import record, seed
from tests.unit.cli.command import webmill
from webmill.cli.progress import Progress
from webmill.errors import Conflict, NotFound
from webmill.infra.storage.base import Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.pipeline.search.documents import item_mark
from webmill.pipeline.search.feed import FeedReport, reconcile, update
from webmill.publish import history
from webmill.publish.gc import collect_garbage
from webmill.publish.keys import blob_key
from webmill.publish.manifest import read_version_index
from webmill.publish.publication import Publication, PublishOptions
from webmill.publish.shards import read_items
from webmill.publish.types import PublishedItem
from webmill.search.base import IndexedDocument, SearchEngine, SearchRequest
from webmill.search.embedded.engine import EmbeddedEngine
from webmill.search.query import parse

OPTIONS = PublishOptions(inline=2, force=True, facets=("group",))
NEVER = timedelta(0)
KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "3"))


def progress(title: str, *, total: int | None = None, unit: str) -> Progress:
    return Progress(title, total=total, unit=unit, quiet=True, stream=sys.stderr)


def publish(storage: Storage, texts: dict[str, str], *, group: str = "one") -> str:
    with Publication.begin(storage, options=OPTIONS) as publication:
        for id_, text in texts.items():
            hash_ = publication.put({"title": f"Title {id_}", "text": text, "language": "eng"})
            publication.add(
                PublishedItem(id_, "test", hash_, facets={"group": group}, metadata={"url": f"https://a.test/{id_}"})
            )
        return publication.commit().version.version


def check(storage: Storage, engine: SearchEngine) -> None:
    """By what the index says of itself, and by searching."""
    live = history.live_version(storage)
    items = list(read_items(storage, read_version_index(storage, live)))
    assert dict(engine.keys()) == {item.id: item_mark(item) for item in items}
    assert engine.cursor() == live.version
    assert engine.search(SearchRequest(query=parse(""))).total == len(items)


def weigh(storage: Storage, engine: SearchEngine) -> dict[str, int]:
    """What is published, what of it the index has not or has as it was before, and what it has twice."""
    wanted = {
        (item.id, item_mark(item))
        for item in read_items(storage, read_version_index(storage, history.live_version(storage)))
    }
    keys = list(engine.keys())
    twice = len(keys) - len({id_ for id_, _ in keys})
    return {"acknowledged": len(wanted), "lost": len(wanted - set(keys)), "duplicated": twice}


@pytest.fixture
def storage() -> Storage:
    return MemoryStorage()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[SearchEngine]:
    with closing(EmbeddedEngine(tmp_path / "search", heap=15 << 20)) as engine:
        yield engine


def test_without_a_version_there_is_nothing_to_index(storage: Storage, engine: SearchEngine) -> None:
    with pytest.raises(NotFound):
        update(storage, engine, progress=progress)


def test_only_what_changed_is_read(storage: Storage, engine: SearchEngine) -> None:
    texts = {f"d{number:04}": f"text {number}" for number in range(300)}
    publish(storage, texts)
    assert update(storage, engine, progress=progress).changed == 300
    texts |= {"d0007": "another text", "new": "a new one"}
    del texts["d0100"]
    version = publish(storage, texts)
    assert update(storage, engine, progress=progress) == FeedReport(version=version, changed=2, removed=1)
    check(storage, engine)
    assert [hit.id for hit in engine.search(SearchRequest(query=parse("another"))).hits] == ["d0007"]
    assert update(storage, engine, progress=progress) == FeedReport(version=version)


def test_what_is_said_of_an_item_beside_its_content_is_brought_up_to_date(
    storage: Storage, engine: SearchEngine
) -> None:
    publish(storage, {"a": "text"})
    update(storage, engine, progress=progress)
    publish(storage, {"a": "text"}, group="two")
    assert update(storage, engine, progress=progress).changed == 1
    assert engine.search(SearchRequest(query=parse("text"))).hits[0].document.facets == {"group": "two"}
    check(storage, engine)


def test_a_rollback_is_followed(storage: Storage, engine: SearchEngine) -> None:
    first = publish(storage, {"a": "old", "b": "same"})
    publish(storage, {"a": "new", "b": "same", "c": "more"})
    update(storage, engine, progress=progress)
    history.roll_back(storage, first, at=datetime.now(UTC))
    update(storage, engine, progress=progress)
    check(storage, engine)
    assert engine.search(SearchRequest(query=parse("new"))).total == 0


def test_when_its_version_is_gone_the_index_is_compared_item_by_item(storage: Storage, engine: SearchEngine) -> None:
    publish(storage, {"a": "one", "b": "two"})
    update(storage, engine, progress=progress)
    for number in range(3):
        publish(storage, {"b": "two", "c": f"three {number}"})
    collect_garbage(storage, keep=1, grace=NEVER, now=datetime.now(UTC) + timedelta(days=9))
    fed = update(storage, engine, progress=progress)
    assert (fed.compared, fed.changed, fed.removed) == (True, 1, 1)
    check(storage, engine)


def test_what_was_lost_doubled_or_left_over_is_mended(storage: Storage, engine: SearchEngine) -> None:
    publish(storage, {"a": "one", "b": "two", "c": "three"})
    update(storage, engine, progress=progress)
    stranger = IndexedDocument(id="x", hash="h", version="v")
    engine.apply([stranger, IndexedDocument(id="b", hash="wrong", version="v")], ["a"], cursor=None)
    fed = reconcile(storage, engine, progress=progress)
    assert (fed.changed, fed.removed) == (2, 1)
    check(storage, engine)


def test_a_blob_that_cannot_be_read_is_told_and_comes_when_it_can(tmp_path: Path, engine: SearchEngine) -> None:
    storage = LocalStorage(tmp_path / "root")
    publish(storage, {"a": "one", "b": "two"})
    item = next(read_items(storage, read_version_index(storage, history.live_version(storage))))
    whole = storage.read(blob_key(item.hash))
    (tmp_path / "root" / blob_key(item.hash)).write_bytes(b"rubbish")
    assert update(storage, engine, progress=progress).skipped == ["a"]
    assert engine.count() == 1
    (tmp_path / "root" / blob_key(item.hash)).write_bytes(whole)
    assert reconcile(storage, engine, progress=progress).changed == 1
    check(storage, engine)


def test_two_updates_at_once_are_one_and_a_sentence(storage: Storage, engine: SearchEngine, tmp_path: Path) -> None:
    publish(storage, {"a": "one"})
    update(storage, engine, progress=progress)
    with closing(EmbeddedEngine(tmp_path / "search")) as other:
        publish(storage, {"a": "two"})
        with pytest.raises(Conflict, match="another process"):
            update(storage, other, progress=progress)
        update(storage, engine, progress=progress)
        check(storage, engine)


def test_made_anew_it_gives_the_same_answers(storage: Storage, engine: SearchEngine) -> None:
    publish(storage, {f"d{number}": f"number {number} of many" for number in range(50)})
    update(storage, engine, progress=progress)
    publish(storage, {f"d{number}": f"number {number} of some" for number in range(10, 60)})
    update(storage, engine, progress=progress)
    before = {text: sorted(found(engine, text)) for text in ("number", "some", "7", "many")}
    engine.clear()
    update(storage, engine, progress=progress)
    check(storage, engine)
    assert {text: sorted(found(engine, text)) for text in before} == before


def found(engine: SearchEngine, text: str) -> list[str]:
    return [hit.id for hit in engine.search(SearchRequest(query=parse(text), limit=100)).hits]


# --- any order of things ---


class Died(Exception):
    pass


class Dying:
    """An engine whose process dies before its nth change."""

    def __init__(self, engine: SearchEngine, *, at: int) -> None:
        self._engine, self._left = engine, at

    def apply(self, changed: Iterable[IndexedDocument], removed: Iterable[str], *, cursor: str | None) -> None:
        self._left -= 1
        if self._left < 0:
            raise Died
        self._engine.apply(changed, removed, cursor=cursor)

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)


class Story(RuleBasedStateMachine):
    """Publish, roll back, collect, and updates that die anywhere: one that does not leaves the index equal."""

    @initialize(folder=st.uuids())
    def begin(self, folder: object) -> None:
        from tempfile import TemporaryDirectory

        self.folder = TemporaryDirectory(prefix="webmill-search-")
        self.storage, self.time = MemoryStorage(), datetime.now(UTC)
        self.engine = EmbeddedEngine(Path(self.folder.name), heap=15 << 20)
        self.versions = [publish(self.storage, {"a": "0"})]
        self.is_even = False

    @rule(texts=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("012"), max_size=6))
    def publish(self, texts: dict[str, str]) -> None:
        self.versions.append(publish(self.storage, texts))
        self.is_even = False

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        every = [version.version for version in history.list_versions(self.storage)]
        history.roll_back(self.storage, data.draw(st.sampled_from(every)), at=datetime.now(UTC))
        self.is_even = False

    @rule()
    def collect_garbage(self) -> None:
        self.time += timedelta(days=30)
        collect_garbage(self.storage, keep=1, grace=NEVER, now=self.time)

    @rule(at=st.integers(0, 4))
    def die(self, at: int) -> None:
        try:
            update(self.storage, Dying(self.engine, at=at), progress=progress)
        except Died:
            pass

    @rule()
    def update(self) -> None:
        update(self.storage, self.engine, progress=progress)
        self.is_even = True

    @invariant()
    @precondition(lambda self: getattr(self, "is_even", False))
    def it_holds_what_is_live(self) -> None:
        check(self.storage, self.engine)

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()
            self.folder.cleanup()


Story.TestCase.settings = settings(deadline=None, max_examples=15, stateful_step_count=15)
TestStory = pytest.mark.slow(Story.TestCase)


# --- kills ---


def lose_what_was_to_come(storage: Storage, engine: SearchEngine, *, component: str) -> None:
    """The negative control: a feed that says what it has before it has it, and dies."""
    publish(storage, {"a": "one"})
    update(storage, engine, progress=progress)
    version = publish(storage, {"a": "two", "b": "three"})
    engine.apply([], [], cursor=version)
    update(storage, engine, progress=progress)
    numbers = weigh(storage, engine)
    record(component, "saves its cursor first", injected=1, **numbers, control=True)
    assert numbers["lost"] == 2


@pytest.mark.crash
def test_who_saves_the_cursor_first_loses_what_was_to_come(storage: Storage, engine: SearchEngine) -> None:
    lose_what_was_to_come(storage, engine, component="search (embedded)")


@pytest.mark.slow
@pytest.mark.crash
def test_killed_at_random_it_catches_up(tmp_path: Path) -> None:
    dice = random.Random(seed(4))
    storage = LocalStorage(tmp_path)
    texts = {f"d{number:05}": f"text of {number} " * 20 for number in range(150)}
    command = [sys.executable, "-m", "webmill", "-q", "search", "update", str(tmp_path)]
    publish(storage, texts)
    started = time.monotonic()
    subprocess.run(command, check=True)
    longest = time.monotonic() - started
    kills = 0
    for turn in range(10 * KILLS):
        for _ in range(40):
            texts[f"d{dice.randrange(200):05}"] = f"text of turn {turn} {dice.random()} " * 20
        publish(storage, texts)
        victim = subprocess.Popen(command, start_new_session=True)
        try:
            victim.wait(dice.uniform(0.5, 1.0) * longest)
            longest *= 0.8
        except subprocess.TimeoutExpired:
            os.killpg(victim.pid, signal.SIGKILL)
        kills += victim.wait() == -signal.SIGKILL
        if kills == KILLS:
            break
    assert kills == KILLS
    subprocess.run(command, check=True)
    with closing(EmbeddedEngine(tmp_path / "search")) as engine:
        record("search (embedded)", "kill -9 at random", injected=kills, **weigh(storage, engine))
        check(storage, engine)


# --- the command ---


def test_the_command_updates_searches_and_says_what_is_missing(tmp_path: Path) -> None:
    root = tmp_path / "c"
    publish(LocalStorage(root), {"a": "annual report", "b": "other things"})
    first = webmill("search", root, "report")
    assert first.code == 1
    assert f"webmill search update {root}" in first.err
    assert "2 documents; 2 indexed" in webmill("search", "update", root).err
    answer = webmill("search", root, "reports", "-other")
    assert answer.code == 0
    assert answer.out.decode().splitlines()[:2] == ["1. Title a", "    https://a.test/a"]
    assert "1 document found" in answer.err
    assert b'"total":2' in webmill("search", root, "--json").out
    assert webmill("search", root, "x", "--facet", "y").code == 2
    assert "no documents found; did you mean: annual" in webmill("search", root, "anual").err


@pytest.mark.parametrize("kind", ["meta.json", ".store", ".term"])
def test_a_damaged_index_is_a_sentence_and_is_made_anew(tmp_path: Path, kind: str) -> None:
    root = tmp_path / "c"
    publish(LocalStorage(root), {"a": "annual report"})
    webmill("search", "update", root)
    for file in (root / "search").glob(f"*{kind}"):
        file.write_bytes(b"rubbish" + file.read_bytes()[7:30])
    damaged = webmill("search", root, "report")
    assert damaged.code == 1
    assert "webmill search rebuild" in damaged.err
    assert webmill("search", "rebuild", root).code == 0
    assert "1 document found" in webmill("search", root, "report").err


def test_looking_makes_nothing_and_says_what_is_behind(tmp_path: Path) -> None:
    root = tmp_path / "c"
    root.mkdir()
    nothing = webmill("search", "update", root)
    assert nothing.code == 1
    assert "nothing has been published" in nothing.err
    assert list(root.iterdir()) == []
    publish(LocalStorage(root), {"a": "one\x1b]0;title\x07", "b\x1b[31m": "one"})
    webmill("search", "update", root)
    shown = webmill("search", root, "one")
    assert "\x1b" not in shown.out.decode() + shown.err
    assert "is live" not in shown.err
    publish(LocalStorage(root), {"a": "two"})
    assert f"is live: run webmill search update {root}" in webmill("search", root, "one").err
    assert webmill("search", root, "x", "--limit", "101").code == 2


def test_an_index_that_is_there_follows_what_is_published(tmp_path: Path) -> None:
    root, row = (
        tmp_path / "c",
        '{{"url":"https://a.test/{0}","date":"2026-01-01T00:00:00Z","text":"{1}","title":"T"}}\n',
    )
    (root / "documents").mkdir(parents=True)
    (root / "documents" / "part.jsonl").write_text(row.format("a", "one"))
    first = webmill("publish", "documents", root)
    assert first.code == 0, first.err
    assert not (root / "search").exists()
    webmill("search", "update", root)
    (root / "documents" / "part.jsonl").write_text(row.format("a", "one") + row.format("b", "two"))
    assert "search: 1 document indexed, 0 removed" in webmill("publish", "documents", root).err
    assert "1 document found" in webmill("search", root, "two").err

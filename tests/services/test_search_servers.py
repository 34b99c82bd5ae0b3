"""Indexes on real servers follow what is published, whatever is killed, lost or refused on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contracts.search_benches import SERVERS, Bench, bench_of, discard_search
from tests.faults.matrix import record, seed
from tests.pipeline.test_search_feed import (
    NEVER,
    Died,
    Dying,
    check,
    found,
    lose_what_was_to_come,
    progress,
    publish,
    weigh,
)
from tests.services import started
from tests.services.opensearch import wait_for
from tests.services.search_front import front
from tests.unit.cli.command import webmill
from webmill.errors import Misconfigured, NotFound, WebmillError
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.memory import MemoryStorage
from webmill.pipeline.search import feed
from webmill.pipeline.search.feed import reconcile, update
from webmill.publish import history
from webmill.publish.gc import collect_garbage
from webmill.search.backends import open_search
from webmill.search.base import IndexedDocument, SearchEngine, SearchRequest
from webmill.search.meilisearch import engine as meilisearch
from webmill.search.opensearch import engine as opensearch
from webmill.search.query import parse

MODULES = {"meilisearch": meilisearch, "opensearch": opensearch}
COMPONENTS = {"meilisearch": "search (Meilisearch)", "opensearch": "search (OpenSearch)"}
DEADLINE = 120.0


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.server(name), pytest.mark.xdist_group(name)]) for name in SERVERS],
)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with closing(bench_of(request.param, request, tmp_path_factory.mktemp("search"))) as bench:
        yield bench


@pytest.fixture
def engine(bench: Bench) -> SearchEngine:
    engine = bench.open("feed")
    engine.clear()
    return engine


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- what is published ---


def test_it_follows_what_is_published_and_mends_what_was_lost(engine: SearchEngine) -> None:
    storage = MemoryStorage()
    texts = {f"d{number:03}": f"text {number}" for number in range(60)}
    first = publish(storage, texts)
    assert update(storage, engine, progress=progress).changed == 60
    check(storage, engine)
    texts |= {"d007": "another text", "new": "a new one"}
    del texts["d030"]
    publish(storage, texts)
    fed = update(storage, engine, progress=progress)
    assert (fed.changed, fed.removed) == (2, 1)
    check(storage, engine)
    history.roll_back(storage, first, at=datetime.now(UTC))
    update(storage, engine, progress=progress)
    check(storage, engine)
    assert found(engine, "another") == []
    lost = [IndexedDocument(id="x", hash="h", version="v"), IndexedDocument(id="d001", hash="wrong", version="v")]
    engine.apply(lost, ["d002"], cursor=None)
    fed = reconcile(storage, engine, progress=progress)
    assert (fed.changed, fed.removed) == (2, 1)
    check(storage, engine)
    for number in range(3):
        publish(storage, {"b": f"two {number}"})
    collect_garbage(storage, keep=1, grace=NEVER, now=datetime.now(UTC) + timedelta(days=9))
    assert update(storage, engine, progress=progress).compared
    check(storage, engine)


def test_whoever_updates_may_die_before_any_change(engine: SearchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "BATCH", 4)
    storage = MemoryStorage()
    texts = {f"d{number}": "0" for number in range(10)}
    publish(storage, texts)
    for at in range(5):
        texts |= {f"d{number}": f"{at} words" for number in range(at, 10)}
        publish(storage, texts)
        try:
            update(storage, Dying(engine, at=at), progress=progress)
        except Died:
            pass
        if at % 2:
            publish(storage, {**texts, "d3": "changed, and back"})
            publish(storage, texts)
        update(storage, engine, progress=progress)
        check(storage, engine)


def test_batches_are_bounded_and_keys_come_in_parts(
    bench: Bench, engine: SearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = MODULES[bench.kind]
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr(module, "BATCH_BYTES", 4000)
    monkeypatch.setattr(module, "KEYS_AT_ONCE", 10)
    documents = [
        IndexedDocument(id=f"d{number}", hash="h", version="v", text="x" * 40 * number) for number in range(40)
    ]
    engine.apply(documents, [], cursor="v1")
    assert sorted(engine.keys()) == sorted((each.key, each.revision) for each in documents)
    engine.apply(documents[:20], [f"d{number}" for number in range(20, 40)], cursor="v2")
    assert engine.count() == 20
    assert engine.cursor() == "v2"


@pytest.mark.server("meilisearch")
@pytest.mark.xdist_group("meilisearch")
def test_what_a_filter_cannot_decide_is_checked(meilisearch_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When not all that have the pieces of a phrase can be looked at, the total is what they are at most."""
    url = f"{meilisearch_url}/phrases-{os.getpid()}"
    texts = ("water tower", "tower of water", "서울특별시", "서울 울특 특별 별시")
    documents = [IndexedDocument(id=f"{number}", hash="h", version="v", text=texts[number % 4]) for number in range(80)]
    monkeypatch.setattr(meilisearch, "CHECKED_AT_ONCE", 7)
    with closing(open_search(url)) as engine:
        engine.apply(documents, [], cursor="v1")
        for query, rests in (('"water tower"', {0}), ("서울특별시", {2}), ('"tower of water" OR 서울특별', {1, 2})):
            right = {f"{number}" for number in range(80) if number % 4 in rests}
            answer = engine.search(SearchRequest(query=parse(query), limit=100, facets=["language"]))
            assert ({hit.id for hit in answer.hits}, answer.total) == (right, len(right))
            pages = [found_page(engine, query, at) for at in range(0, 50, 10)]
            assert {id_ for page in pages for id_ in page} == right
        monkeypatch.setattr(meilisearch, "CHECKED", 10)
        answer = engine.search(SearchRequest(query=parse('"water tower"'), limit=3))
        assert all(int(hit.id) % 4 == 0 for hit in answer.hits)
        assert 20 <= answer.total <= 40
    discard_search(url)


def found_page(engine: SearchEngine, query: str, offset: int) -> list[str]:
    return [hit.id for hit in engine.search(SearchRequest(query=parse(query), limit=10, offset=offset)).hits]


# --- what is refused and lost ---


def test_requests_that_are_refused_broken_off_or_answered_to_nobody_change_nothing(bench: Bench) -> None:
    storage = MemoryStorage()
    with front(bench.url("front")) as (url, refused), closing(open_search(url)) as engine:
        for turn in range(3):
            publish(storage, {f"d{number}": f"turn {turn}" for number in range(turn, 10)})
            update(storage, engine, progress=progress)
            check(storage, engine)
        assert len(refused) >= 5
    with closing(bench.open("front")) as engine:
        check(storage, engine)


def test_an_index_that_is_not_ours_is_a_sentence(bench: Bench) -> None:
    url = bench.url("foreign")
    with pytest.raises(NotFound, match="no search index at"):
        open_search(url, create=False)
    bench.open("foreign")
    if bench.kind == "meilisearch":
        spoil = ("PATCH", "/indexes/{}/settings", {"filterableAttributes": ["else"]})
    else:
        spoil = ("PUT", "/{}/_mapping", {"_meta": {"somebody": "else"}})
    engine = bench.open("foreign")
    engine.apply([IndexedDocument(id="a", hash="h", version="v")], [], cursor="v1")
    server = engine._server  # type: ignore[attr-defined]
    method, path, body = spoil
    server.ask(method, path.format(engine._address.index), body, answer=dict)  # type: ignore[attr-defined]
    engine.apply([], ["b"], cursor=None)  # done after what was asked before it
    with pytest.raises(Misconfigured, match=r"other settings than webmill|did not make"):
        bench.open("foreign")


# --- kills ---


def kill_the_server_while_updating(
    kind: str, monkeypatch: pytest.MonkeyPatch, *, times: int, ready: Callable[[str], None]
) -> None:
    monkeypatch.setattr(feed, "BATCH", 10)
    storage = MemoryStorage()
    publish(storage, {"a": "first"})
    with started(kind) as server:
        ready(server.url)
        url = f"{server.url}/killed"
        with closing(open_search(url)) as engine:
            update(storage, engine, progress=progress)
        for turn in range(times):
            texts = {f"d{number}": f"turn {turn} of {number}" for number in range(200)}
            publish(storage, texts)
            thread = threading.Thread(target=update_or_fail, args=(storage, url))
            thread.start()
            with closing(open_search(url, create=False)) as engine:
                wait_until(lambda: len(found(engine, f'"turn {turn}"')) >= 20)  # noqa: B023  called at once
            server.kill()
            server.restart()
            ready(server.url)
            thread.join()
            with closing(open_search(url)) as engine:
                update(storage, engine, progress=progress)
                record(COMPONENTS[kind], "server killed", injected=1, **weigh(storage, engine))
                check(storage, engine)
                assert found(engine, '"of 199"') == ["d199"]


def update_or_fail(storage: MemoryStorage, url: str) -> None:
    try:
        with closing(open_search(url)) as engine:
            update(storage, engine, progress=progress)
    except WebmillError:  # it was not patient enough
        pass


@pytest.mark.crash
def test_who_saves_the_cursor_first_loses_what_was_to_come(bench: Bench, engine: SearchEngine) -> None:
    lose_what_was_to_come(MemoryStorage(), engine, component=COMPONENTS[bench.kind])


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.server("meilisearch")
@pytest.mark.xdist_group("meilisearch")
def test_meilisearch_is_killed_in_the_middle_of_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_the_server_while_updating("meilisearch", monkeypatch, times=1, ready=lambda _: None)


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.server("opensearch")
@pytest.mark.timeout(900)
def test_opensearch_is_killed_in_the_middle_of_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_the_server_while_updating("opensearch", monkeypatch, times=2, ready=wait_for)


@pytest.mark.soak
@pytest.mark.crash
@pytest.mark.timeout(900)
def test_updates_that_are_killed_at_random_catch_up(bench: Bench, tmp_path: Path) -> None:
    dice = random.Random(seed(5))
    storage = LocalStorage(tmp_path)
    texts = {f"d{number:05}": f"text of {number} " * 20 for number in range(400)}
    command = [sys.executable, "-m", "webmill", "-q", "search", "update", str(tmp_path), "--index", bench.url("random")]
    publish(storage, texts)
    began = time.monotonic()
    subprocess.run(command, check=True)
    longest = time.monotonic() - began
    kills = 0
    for turn in range(40):
        for _ in range(100):
            texts[f"d{dice.randrange(500):05}"] = f"text of turn {turn} {dice.random()} " * 20
        publish(storage, texts)
        victim = subprocess.Popen(command, start_new_session=True)
        try:
            victim.wait(dice.uniform(0.3, 1.0) * longest)
            longest *= 0.8
        except subprocess.TimeoutExpired:
            os.killpg(victim.pid, signal.SIGKILL)
        kills += victim.wait() == -signal.SIGKILL
        if kills == 8:
            break
    assert kills == 8
    subprocess.run(command, check=True)
    engine = bench.open("random")
    record(COMPONENTS[bench.kind], "kill -9 at random", injected=kills, **weigh(storage, engine))
    check(storage, engine)


# --- the command ---


def test_the_command_takes_the_address_of_a_server(bench: Bench, tmp_path: Path) -> None:
    root, url = tmp_path / "c", bench.url("command")
    publish(LocalStorage(root), {"a": "annual report", "b": "other things"})
    index = ("--index", url)
    first = webmill("search", root, "report", *index)
    assert first.code == 1
    assert "webmill search update" in first.err
    assert "2 documents; 2 indexed" in webmill("search", "update", root, *index).err
    assert "1 document found" in webmill("search", root, "reports", "-other", *index).err
    for text in ("two", "three"):
        publish(LocalStorage(root), {"a": text})
        assert "is live" in webmill("search", root, *index).err
        assert "1 document; 1 indexed" in webmill("search", "rebuild", root, *index).err
        assert "1 document found" in webmill("search", root, text, *index).err
    publish(LocalStorage(root), {"a": "four"})
    assert "1 indexed" in webmill("search", "update", root, *index).err
    assert "1 document; 0 indexed, 0 removed, compared" in webmill("search", "check", root, *index).err
    assert not (root / "search").exists()
    bench.open("command")  # to be deleted with the others


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("meilisearch://a-secret@127.0.0.1:1/Upper Case", "letters a-z"),
        ("meilisearch://a-secret@127.0.0.1:1/", "write meilisearch://HOST:1/INDEX"),
        ("opensearch://me:a-secret@127.0.0.1:x/name", "not the address of a search server"),
        ("elastic://me:a-secret@127.0.0.1:1/name", "unknown search engine elastic"),
        ("opensearchs://me:a-secret@127.0.0.1:1/name", "127.0.0.1:1"),
    ],
)
def test_an_address_that_is_wrong_is_a_sentence_without_its_password(tmp_path: Path, url: str, printed: str) -> None:
    publish(LocalStorage(tmp_path), {"a": "annual report"})
    answer = webmill("search", "update", tmp_path, "--index", url)
    assert answer.code != 0
    assert printed in answer.err
    assert "Traceback" not in answer.err
    assert "a-secret" not in answer.err


@pytest.mark.server("meilisearch")
def test_a_wrong_key_is_a_sentence(meilisearch_url: str) -> None:
    url = f"meilisearch://another-key@{meilisearch_url.rpartition('@')[2]}/name"
    with pytest.raises(Misconfigured, match="give a key that may do this"):
        open_search(url)

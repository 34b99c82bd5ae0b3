"""A whole crawl is killed before its Nth durable call, for many N; then it is run again, to its end.

Parent and shard are threads of one process here, so that every call of both is counted: writes, syncs and renames of
archive, frontier, gates, letter boxes and status. Whatever did not happen any more, the second run ends as if nothing
had been: the same pages, no more than may be, every file whole, nobody asked before their time.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.faults import Ended, Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.crawl_manners import allow_trigger, check_manners, keep_journal
from tests.pipeline.crawling import (
    Linked,
    Setup,
    archives,
    captures,
    check_records,
    counts,
    most_at_once,
    seen_by,
    visits,
)
from webmill.crawl.options import CrawlLimits, CrawlRules
from webmill.testing import TestWeb

DELAY, WINDOW = 0.05, 0.1
HOSTS, PAGES = ("www.d0.test", "www.d1.test", "a.d2.test", "b.d2.test"), 2
MOST = 7  # pages, where there is a limit
URLS = {f"http://{host}/{page}" for host in HOSTS for page in ("", *range(PAGES))}
KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "4"))
pytestmark = needs_killer


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


class Scene:
    """The same crawl in one new folder after the other."""

    def __init__(self, web: TestWeb, base: Path, *, pages: int | None) -> None:
        self._web, self._base, self._pages = web, base, pages
        self.setup = Setup(
            seeds=tuple(f"http://{host}/" for host in HOSTS),
            resolve=dict(web.resolve),
            delay=DELAY,
            window=WINDOW,
            limits=CrawlLimits(retry_wait=0.1, pages=pages),
            rules=CrawlRules(scope="any", sitemaps=False),
            file_bytes=4000,
        )
        self._asked = 0

    @property
    def root(self) -> Path:
        return self._base / "collection"

    def begin(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        keep_journal(self.root)
        self._asked = len(self._web.log)

    def arguments(self) -> tuple[str, ...]:
        return (str(self.root), msgspec.json.encode(self.setup).decode(), "here")

    def weigh(self) -> tuple[set[str], set[str]]:
        """What it should have by what it says, and what of it is not visited or not archived."""
        done = {url for url, visit in visits(self.root).items() if visit.status == 200}
        wanted = done if self._pages else URLS
        return wanted, wanted - (done & {url for _, url, _ in captures(self.root)})

    def judge(self, *, kills: int) -> None:
        assert self._web.log.settle()
        seen = seen_by(self._web.log.visits()[self._asked :])
        done = {url for url, visit in visits(self.root).items() if visit.status == 200}
        if kills:
            wanted, lost = self.weigh()
            again = [url for url, times in counts(seen).items() if times > 1 + kills]
            numbers = {"acknowledged": len(wanted), "lost": len(lost), "duplicated": len(again)}
            record("crawl", "kill -9 before a durable call", injected=kills, **numbers)
        assert len(done) == self._pages if self._pages else done == URLS
        check_records(self.root)
        assert {url for _, url, _ in captures(self.root)} >= done
        assert not list(self.root.rglob("*.open"))
        assert max(counts(seen).values()) <= 1 + kills
        check_manners(self.root, seen, host=DELAY, domain=DELAY)
        assert most_at_once(seen) == 1


@contextmanager
def staged(base: Path, *, pages: int | None) -> Iterator[tuple[Scene, Stage, Ended]]:
    allow_trigger()  # before the process of the stage is started
    with (
        TestWeb(hosts=0, sites={host: Linked(PAGES) for host in HOSTS}) as web,
        Stage("tests.pipeline.crawl_program", under=base / "collection") as stage,
    ):
        scene = Scene(web, base, pages=pages)
        scene.begin()
        whole = stage.warm_up(*scene.arguments())
        assert whole.code == 0, whole.output
        scene.judge(kills=0)
        yield scene, stage, whole


def killed_at(scene: Scene, stage: Stage, at: int) -> str | None:
    """Before what it died; None when it had ended before. Then it has gone on, and all is well."""
    scene.begin()
    dead = stage.run(*scene.arguments(), at=at)
    if dead.killed:
        again = stage.run(*scene.arguments())
        assert again.code == 0, again.output
    else:
        assert dead.code == 0, dead.output
    try:
        scene.judge(kills=int(dead.killed))
    except AssertionError as error:
        raise AssertionError(f"killed before call {at}, {dead.calls[-1]}") from error
    return kind_of(dead.calls[-1]) if dead.killed else None


def kind_of(call: str) -> str:
    """The call and what it was about, without what differs from run to run."""
    name, _, path = call.partition(" ")
    return f"{name} {re.sub(r'[0-9a-f]{8,}|[0-9]+', '#', path.partition('/collection/')[2])}"


def spread(total: int, count: int) -> list[int]:
    """One in each part of the run."""
    dice, part = random.Random(seed(5)), total // count
    return [1 + number * part + dice.randrange(part) for number in range(count)]


@pytest.mark.crash
@pytest.mark.parametrize("pages", [None, MOST], ids=["to its end", "to its limit"])
def test_killed_before_durable_calls_all_over_the_run_it_ends_as_if_undisturbed(base: Path, pages: int | None) -> None:
    with staged(base, pages=pages) as (scene, stage, whole):
        deaths = Counter(killed_at(scene, stage, at) for at in spread(len(whole.calls) - 5, KILLS))
    print(f"{len(whole.calls)} calls; died before {sorted(filter(None, deaths))}")
    assert deaths.total() > deaths[None]


@pytest.mark.crash
def test_an_archive_that_is_gone_is_seen(base: Path) -> None:
    """The negative control."""
    with staged(base, pages=None) as (scene, _, _):
        next(path for path in archives(scene.root) if path.parent.name == "warc").unlink()
        wanted, lost = scene.weigh()
    record("crawl", "an archive is deleted", injected=1, acknowledged=len(wanted), lost=len(lost), control=True)
    assert lost


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("pages", [None, MOST], ids=["to its end", "to its limit"])
def test_killed_before_every_durable_call_it_ends_as_if_undisturbed(base: Path, pages: int | None) -> None:
    """Runs differ a little: it is enough when one has ended before the call it was to die at."""
    deaths: Counter[str] = Counter()
    with staged(base, pages=pages) as (scene, stage, whole):
        at = 0
        while death := killed_at(scene, stage, at := at + 1):
            deaths[death] += 1
    print(f"{deaths.total()} kills before {len(deaths)} different calls, of {len(whole.calls)}")
    for place in ("frontier/shard", "frontier/gates", "frontier/mail", "payloads", "crawl-data", "status", "seeds"):
        assert any(place in death for death in deaths), f"none died at {place}: {sorted(deaths)}"

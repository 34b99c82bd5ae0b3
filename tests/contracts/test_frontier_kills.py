"""A crawl on a local frontier is killed before its durable calls, one after the other, and goes on each time.

At every death each URL is in exactly one place, as a reader finds that shares no code with the frontier; what was
acknowledged is there; no domain is asked inside its hold; and the end is the same as without a death.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from tests.contracts import frontier_program
from tests.contracts.frontier_checker import Found
from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed

pytestmark = needs_killer
ALL = {frontier_program.page(number) for number in range(frontier_program.PAGES)}


@pytest.fixture
def base() -> Iterator[Path]:
    """In memory: a kill loses nothing that was written, so a disk would only make these tests slow."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


class Weighed(NamedTuple):
    """Visits and URLs that were acknowledged, and what of them is not there; pages that were done twice."""

    acknowledged: int
    lost: int
    duplicated: int


def weigh(log: Path, found: Found) -> Weighed:
    printed = [line.split(" ") for line in log.read_text().splitlines()]
    done = [frontier_program.page(int(words[1])) for words in printed if words[0] == "done"]
    reported = {frontier_program.page(int(words[1])) for words in printed if words[0] == "found"}
    lost = [*(set(done) - found.visited.keys()), *(reported - (found.waiting + found.in_hand + found.visited).keys())]
    return Weighed(len(set(done)) + len(reported), len(lost), len(done) - len(set(done)))


def check_against(log: Path, found: Found) -> None:
    found.check()
    weighed = weigh(log, found)
    assert (weighed.lost, weighed.duplicated) == (0, 0), weighed
    printed = [line.split(" ") for line in log.read_text().splitlines()]
    last: dict[str, float] = {}
    for word, *rest in printed:
        if word == "claimed":
            domain, now = rest[0], float(rest[1])
            assert now - last.get(domain, -100.0) >= frontier_program.HOLD
            last[domain] = now


def lives(base: Path, calls: Iterator[int], *, crawls: int) -> tuple[int, set[str]]:
    """Each life dies at the next number of `calls`; how many died, and before what."""
    deaths, kinds = 0, set[str]()
    with Stage("tests.contracts.frontier_program", under=base / "crawl") as stage:  # and what else begins so
        assert stage.warm_up(base / "crawl-warm", base / "log-warm", "3").code == 0
        for crawl in range(crawls):
            folder, log = base / f"crawl{crawl}", base / f"log{crawl}"
            log.touch()
            before = deaths
            while (ended := stage.run(folder, log, "100", at=next(calls))).killed:
                deaths += 1
                kinds.add(kind_of(ended.calls[-1]))
                if (folder / "state.sqlite").exists() and log.stat().st_size:
                    check_against(log, Found(folder))
            assert ended.code == 0, ended.output
            found = Found(folder)
            if deaths > before:
                numbers = weigh(log, found)._asdict()
                record("frontier (embedded)", "kill -9 before a durable call", injected=deaths - before, **numbers)
            check_against(log, found)
            assert set(found.visited) == ALL
            assert not found.waiting
            assert not found.in_hand
            shutil.rmtree(folder)
    return deaths, kinds


def kind_of(call: str) -> str:
    name, _, path = call.partition(" ")
    for part in ("domains/", ".run", "state.sqlite", "seen/"):
        if part in path:
            return f"{name} {part}"
    return name


def growing(stride: int) -> Iterator[int]:
    """A life that dies early gets nowhere: each is a little longer than the last, and starts over when it is long."""
    first = random.Random(seed(1)).randint(1, stride)
    while True:
        yield from range(first, 420, stride)


@pytest.mark.crash
def test_killed_again_and_again_it_loses_nothing_and_ends_as_if_undisturbed(base: Path) -> None:
    deaths, kinds = lives(base, growing(5), crawls=4)
    print(f"{deaths} deaths before {sorted(kinds)}")
    assert deaths > 30
    assert any(kind.endswith("domains/") for kind in kinds)
    assert any(kind.endswith("state.sqlite") for kind in kinds)
    assert any(kind.endswith((".run", "seen/")) for kind in kinds)


@pytest.mark.slow
@pytest.mark.crash
def test_killed_before_one_durable_call_after_the_other_it_loses_nothing(base: Path) -> None:
    deaths, kinds = lives(base, growing(1), crawls=6)
    print(f"{deaths} deaths before {sorted(kinds)}")
    assert deaths > 120


@pytest.mark.crash
def test_the_checker_notices_what_was_acknowledged_too_early(base: Path) -> None:
    """The negative control of the kills."""
    deaths, weighed = 0, Weighed(0, 0, 0)
    with Stage("tests.contracts.frontier_program", under=base / "crawl") as stage:
        assert stage.warm_up(base / "crawl-warm", base / "log-warm", "3").code == 0
        for at in range(30, 330):
            folder, log = base / f"crawl{at}", base / f"log{at}"
            assert stage.run(folder, log, "100", "faulty", at=at).killed
            if not log.stat().st_size:  # it had not begun
                continue
            deaths += 1
            found = weigh(log, Found(folder))
            weighed = Weighed(*(sum(pair) for pair in zip(weighed, found, strict=True)))
            if found.lost:
                break
    record("frontier (embedded)", "acknowledges before it commits", injected=deaths, **weighed._asdict(), control=True)
    assert weighed.lost > 0


def test_the_checker_notices_what_it_should(base: Path) -> None:
    """The negative control of all that is checked."""
    with Stage("tests.contracts.frontier_program", under=base) as stage:
        assert stage.warm_up(base / "crawl", base / "log", "6").code == 0
    Found(base / "crawl").check()
    harms = [
        "DELETE FROM visit WHERE id = 1",
        "DELETE FROM retry",
        "DELETE FROM run WHERE number = (SELECT max(number) FROM run)",
        "INSERT INTO visit SELECT 999, key, domain, priority, time, again, attempts, body FROM visit WHERE id = 1",
        "UPDATE domain SET lanes = '{}' WHERE id = 1",
        "UPDATE tally SET value = value + 1 WHERE name = 'waiting'",
    ]
    for number, harm in enumerate(harms):
        harmed = base / f"harmed{number}"
        shutil.copytree(base / "crawl", harmed)
        connection = apsw.Connection(str(harmed / "state.sqlite"))
        connection.execute(harm)
        changed = connection.total_changes()
        connection.close()
        assert changed, harm
        with pytest.raises(AssertionError):
            Found(harmed).check()

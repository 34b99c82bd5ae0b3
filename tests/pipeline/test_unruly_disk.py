"""Programs on a system that does half of what it is asked for, is interrupted all the time, and takes long to sync.

Nothing of that may be seen in what they leave behind (O04, O05).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.contracts.frontier_checker import Found
from tests.contracts.test_frontier_kills import ALL
from tests.faults import built, needs_killer
from tests.faults.matrix import record
from tests.pipeline.archive_checker import account
from tests.pipeline.archiving import CAPTURES
from tests.pipeline.cc_pages import batches, write_crawl
from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import Linked, Setup, captures, check_records, counts, most_at_once, seen_by, visits
from tests.pipeline.index_samples import NAME, index_from_scratch, leftovers, published, put, warc
from tests.pipeline.test_archive_kills import Acknowledged, check_archive
from tests.pipeline.test_cc_kills import weigh
from tests.unit.publish.publications import closure, missing
from tests.unit.publish.publish_program import LIVE
from webmill.crawl.options import CrawlRules
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.infra.storage.local import LocalStorage
from webmill.testing import TestWeb

pytestmark = [needs_killer, pytest.mark.crash]
Run = Callable[..., tuple[str, int]]


@pytest.fixture
def base() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def run(base: Path, tmp_path: Path) -> Run:
    """A program on such a system; what it printed, and how often it was obstructed."""

    def run(*arguments: str | Path, code: int = 0, **unruly: str) -> tuple[str, int]:
        log = tmp_path / "obstructed"
        environment = {
            **os.environ,
            "LD_PRELOAD": str(built("unruly.c")),
            "UNRULY_UNDER": str(base),
            "UNRULY_LOG": str(log),
        }
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "WEBMILL_EXECUTOR_URL": "inline", **unruly}
        ended = subprocess.run(
            [sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, ended.stderr
        calls = Counter(log.read_text().splitlines())
        print(dict(calls))
        return ended.stdout, calls.total()

    return run


SHORT, CUT = {"UNRULY_SHORT": "1"}, "short and interrupted calls"
FAULTY = "import os, sys; os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), b'x' * 1000)"


def test_who_does_not_look_loses_bytes_here(run: Run, base: Path) -> None:
    """The negative control."""
    _, times = run("-c", FAULTY, base / "file", **SHORT)
    lost = 1000 - (base / "file").stat().st_size
    record("bytes of one write", CUT, injected=times, acknowledged=1000, lost=lost, control=True)
    assert lost > 0


def test_short_and_interrupted_calls_change_no_archive(run: Run, base: Path) -> None:
    printed, times = run("-m", "tests.pipeline.archiving", "work", base, "a", **SHORT)
    reported = Acknowledged(printed)
    lost = len(account(base, reported.places).lost)
    record("WARC writer", CUT, injected=times, acknowledged=len(reported.places), lost=lost)
    assert len(reported.places) == CAPTURES
    assert check_archive(base, reported) == 0
    assert times > 100


def test_short_and_interrupted_calls_change_no_frontier(run: Run, base: Path, tmp_path: Path) -> None:
    _, times = run("-m", "tests.contracts.frontier_program", base / "crawl", tmp_path / "printed", "300", **SHORT)
    found = Found(base / "crawl")
    known = found.check()
    record("frontier (embedded)", CUT, injected=times, acknowledged=len(ALL), lost=len(ALL - known))
    assert known == ALL
    assert set(found.visited) == ALL
    assert times > 200


def test_short_and_interrupted_calls_change_no_index(run: Run, base: Path) -> None:
    root = base / "collection"
    for number in range(3):
        put(root, f"{number}.warc.gz", warc(*range(number * 30, number * 30 + 40)))
    put(root, "torn.warc.gz", warc(1, 2, 3)[:-50])
    options = ("--shards", "3", "--lines", "5", "--name", NAME)
    _, times = run("-m", "webmill", "index", root, *options, code=3, **SHORT)
    expected = index_from_scratch(root, base / "elsewhere")
    lost = sum(published(root).get(name) != data for name, data in expected.items())
    record("index", CUT, injected=times, acknowledged=len(expected), lost=lost)
    assert published(root) == expected
    assert leftovers(root) == []
    assert times > 200


def test_short_and_interrupted_calls_change_no_version(run: Run, base: Path) -> None:
    _, times = run("-m", "tests.unit.publish.publish_program", "publish", base / "store", "live", **SHORT)
    storage = LocalStorage(base / "store")
    record("blobs and versions", CUT, injected=times, acknowledged=len(LIVE), lost=missing(storage, LIVE))
    assert closure(storage) == LIVE
    assert times > 20


def test_with_syncs_that_take_long_a_crawl_asks_once_and_stays_polite(run: Run, base: Path) -> None:
    """O04: whoever waits for the disk loses no turn, and no request is sent before its time is on the disk."""
    root, delay = base / "collection", 0.2
    hosts = [f"www.d{number}.test" for number in range(3)]
    keep_journal(root)
    with TestWeb(hosts=0, sites={host: Linked(3) for host in hosts}) as web:
        setup = Setup(
            seeds=tuple(f"http://{host}/" for host in hosts),
            resolve=dict(web.resolve),
            delay=delay,
            rules=CrawlRules(scope="any", sitemaps=False),
        )
        program = ("-m", "tests.pipeline.crawl_program", root, msgspec.json.encode(setup).decode(), "here")
        _, times = run(*program, UNRULY_SYNC="40000")
        assert web.log.settle()
        seen = seen_by(web.log)
    twice = sum(counts(seen).values()) - len(counts(seen))
    record("crawl", "slow syncs", injected=times, acknowledged=len(visits(root)), duplicated=twice)
    assert twice == 0
    assert len(seen) == 3 * (1 + 4)
    assert {visit.status for visit in visits(root).values()} == {200}
    check_records(root)
    assert len(captures(root)) == len(seen)
    check_manners(root, seen, host=delay, domain=delay)
    assert most_at_once(seen) == 1


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_with_syncs_of_five_seconds_no_batch_is_handed_out_twice(run: Run, base: Path, tmp_path: Path) -> None:
    """O04: a batch takes longer than its lease, which is extended meanwhile. Whoever had it twice would say so."""
    pages = write_crawl(tmp_path / "crawl", pages=40, files=2)
    queue, out = SqliteQueue(base / "work.sqlite"), base / "out"
    queue.publish(batches(pages))
    flags = ("--queue", f"sqlite:{base}/work.sqlite", "--out", out, "--base-url", tmp_path / "crawl", "--until-empty")
    flags = (*flags, "--no-metrics", "--format", "jsonl", "--processes", "2", "--extractor", "none")
    slow = {"UNRULY_SYNC": "5000000", "WEBMILL_QUEUE_LEASE": "25", "WEBMILL_QUEUE_ATTEMPTS": "1"}
    _, times = run("-m", "webmill", "cc", "work", *flags, **slow)
    stats = queue.stats()
    queue.close()
    lost, twice = weigh(out, [(page.url, page.timestamp, f"sha1:{page.fields['digest']}") for page in pages])
    numbers = {"acknowledged": len(pages), "lost": lost, "duplicated": twice}
    record("Common Crawl workers", "slow syncs", injected=times, **numbers)
    assert (lost, twice) == (0, 0)
    assert (stats.ready, stats.leased, stats.delayed, stats.buried) == (0, 0, 0, 0)

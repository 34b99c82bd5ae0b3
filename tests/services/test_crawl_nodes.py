"""One crawl on several nodes, each a program with its processes; by the log of a server that knows nothing of it.

Nodes are killed with -9, paused, told a wrong time; Redis is killed. What a crawl on one machine would have fetched is
fetched once, no domain before its time.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.faults import built, needs_killer
from tests.faults.matrix import record
from tests.pipeline.crawling import NAME, archives, captures, counts, most_at_once, smallest_gaps
from tests.services.crawl_nodes import PATIENCE, NodeProgram, NodeSetup, Site, nodes, read_view, visits, wait_for
from tests.services.nginx import Nginx
from tests.services.redis_kinds import private_redis
from webmill.archive.recovery import recover
from webmill.collection import Collection
from webmill.crawl.options import CrawlLimits

DELAY = 0.5
SLOW = 5.0  # a delay of crawls that must still run when a command has started, on a busy machine
BUSY = 0.6  # of a delay: what it may look like to a server on a busy machine
pytestmark = [pytest.mark.server("nginx"), pytest.mark.server("redis"), pytest.mark.timeout(900)]
Start = Callable[..., Nginx]


@pytest.fixture
def base() -> Iterator[Path]:
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="webmill-test-", dir=memory if memory.is_dir() else None))
    yield base
    shutil.rmtree(base)


@pytest.fixture
def root(base: Path) -> Path:
    return base / "collection"


def check_manners(site: Site, *, delay: float = DELAY) -> None:
    seen = site.asked()
    gaps = smallest_gaps(seen, by="domain")
    assert min(gaps.values()) >= BUSY * delay, list(gaps.items())[:5]
    assert most_at_once(seen) == 1


def check_everything_is_there(site: Site, url: str, *roots: Path, fault: str = "", times: int = 1) -> None:
    """Each page is visited, and has its record."""
    done, kept = done_and_kept(url, *roots)
    if fault:
        lost = (site.urls | done) - (done & kept)
        record("crawl on nodes", fault, injected=times, acknowledged=len(site.urls | done), lost=len(lost))
    assert done == site.urls
    assert site.urls <= kept


def done_and_kept(url: str, *roots: Path) -> tuple[set[str], set[str]]:
    """What the nodes say they have, and what is archived."""
    done = {url for url, visit in visits(url, *roots).items() if visit.status == 200}
    return done, {url for root in roots for _, url, _ in captures(root)}


def check_the_limit(url: str, root: Path, limit: int) -> None:
    """After one was killed: what the others say they have is archived, and no more than may be."""
    done, kept = done_and_kept(url, root)
    lost = done - kept
    record("crawl on nodes", "node killed", injected=1, acknowledged=len(done), lost=len(lost))
    assert not lost
    assert len(done) == limit


def asked_more_than_once(site: Site) -> dict[str, int]:
    pages = counts(one for one in site.asked() if not one.is_robots)
    return {url: count for url, count in pages.items() if count > 1}


@pytest.mark.crash
def test_nodes_share_a_crawl_and_one_that_is_killed_is_replaced(nginx: Start, base: Path, root: Path) -> None:
    site = Site(nginx, base / "site", hosts=30, pages=6)
    limit, delay = 100, 2.0
    with private_redis() as redis:
        limits = CrawlLimits(retry_wait=0.2, pages=limit)
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=delay, limits=limits), shards=2, life=5.0, begin_with=2)
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(2))) as started:
            wait_for(lambda: site.requests() > 40 and spread(redis.url, 2), what="work on two nodes", programs=started)
            started[0].kill()
            printed = started[1].ended()
        assert (printed["end"], printed["pages"]) == ("pages", limit)
        check_the_limit(redis.url, root, limit)
    check_manners(site, delay=delay)


@pytest.mark.crash
@pytest.mark.soak
def test_an_archive_that_is_gone_is_seen(nginx: Start, base: Path, root: Path) -> None:
    """The negative control."""
    site = Site(nginx, base / "site", hosts=4, pages=3)
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=0.05), shards=2)
        with nodes(lambda: NodeProgram(root, setup)) as started:
            assert started[0].ended()["end"] == "finished"
        check_everything_is_there(site, redis.url, root)
        next(path for path in archives(root) if path.parent.name == "warc").unlink()
        done, kept = done_and_kept(redis.url, root)
    lost, fault = done - kept, "an archive is deleted"
    record("crawl on nodes", fault, injected=1, acknowledged=len(done), lost=len(lost), control=True)
    assert lost


@pytest.mark.soak
def test_hundreds_of_workers_on_three_nodes_ask_each_url_once_and_no_domain_before_its_time(
    nginx: Start, base: Path, root: Path
) -> None:
    site = Site(nginx, base / "site", hosts=300, pages=6)
    with private_redis() as redis:
        setup = NodeSetup(
            url=redis.url, crawl=site.crawl(delay=DELAY, concurrency=84), shards=6, begin_with=3
        )  # 504 in all
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(3))) as started:
            printed = [one.ended() for one in started]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 3
        check_everything_is_there(site, redis.url, root)
    assert not asked_more_than_once(site)
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_what_a_killed_node_had_is_finished_by_the_others_within_the_limit(
    nginx: Start, base: Path, root: Path
) -> None:
    site = Site(nginx, base / "site", hosts=60, pages=8)
    limit = 400
    with private_redis() as redis:
        limits = CrawlLimits(retry_wait=0.2, pages=limit)
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY, limits=limits), shards=6, begin_with=3)
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(3))) as started:
            wait_for(
                lambda: site.requests() > 150 and spread(redis.url, 3), what="work on three nodes", programs=started
            )
            started[0].kill()
            printed = [one.ended() for one in started[1:]]
        assert [(one["end"], one["pages"]) for one in printed] == [("pages", limit)] * 2
        check_the_limit(redis.url, root, limit)
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_redis_may_be_killed_and_come_back(nginx: Start, base: Path, root: Path) -> None:
    site = Site(nginx, base / "site", hosts=60, pages=8)
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, begin_with=2)
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(2))) as started:
            for asked in (100, 250):
                wait_for(lambda asked=asked: site.requests() > asked, what="requests", programs=started)
                redis.kill()
                redis.start()
            printed = [one.ended() for one in started]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 2
        check_everything_is_there(site, redis.url, root, fault="Redis killed", times=2)
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_a_node_that_was_paused_for_longer_than_its_life_changes_nothing(nginx: Start, base: Path, root: Path) -> None:
    site = Site(nginx, base / "site", hosts=60, pages=10)
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, life=3.0, begin_with=2)
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(2))) as started:
            wait_for(lambda: site.requests() > 100 and spread(redis.url, 2), what="work on two nodes", programs=started)
            started[0].signal(signal.SIGSTOP)
            wait_for(lambda: lives(redis.url) == 1, what="death", programs=started)
            started[0].signal(signal.SIGCONT)
            printed = [one.ended() for one in started]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 2
        check_everything_is_there(site, redis.url, root, fault="node paused past its lease")
    check_manners(site)


@pytest.mark.soak
def test_a_node_that_is_told_to_stop_hands_its_shards_to_the_others_and_nothing_is_asked_twice(
    nginx: Start, base: Path, root: Path
) -> None:
    site = Site(nginx, base / "site", hosts=60, pages=8)
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, life=600.0, begin_with=2)
        with nodes(*(lambda n=n: NodeProgram(root, setup, name=f"{n}") for n in range(2))) as started:
            wait_for(lambda: site.requests() > 100 and spread(redis.url, 2), what="work on two nodes", programs=started)
            started[0].stop()
            assert started[0].ended()["end"] in ("stopped", "finished")
            assert started[1].ended()["end"] == "finished"
        check_everything_is_there(site, redis.url, root)
    assert not asked_more_than_once(site)
    check_manners(site)


@needs_killer
@pytest.mark.soak
@pytest.mark.crash
def test_a_node_may_join_late_with_a_clock_that_is_an_hour_off(nginx: Start, base: Path, root: Path) -> None:
    """All hosts have one address: the nodes must agree on the time to ask it in turn."""
    site = Site(nginx, base / "site", hosts=16, pages=5, address="127.1.0.1")
    pace = 0.5
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY, address_delay=pace), shards=4)
        off = {"LD_PRELOAD": str(built("wall_clock.c")), "WALL_CLOCK_SHIFT": "3600"}
        with nodes(lambda: NodeProgram(root, setup, name="0")) as started:
            wait_for(lambda: site.requests() > 20, what="requests", programs=started)
            late = msgspec.structs.replace(setup, crawl=msgspec.structs.replace(setup.crawl, seeds=()))
            with nodes(lambda: NodeProgram(root, late, name="1", environment=off)) as joined:
                wait_for(lambda: spread(redis.url, 2), what="work on two nodes", programs=started)
                printed = [one.ended() for one in (*started, *joined)]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 2
        check_everything_is_there(site, redis.url, root, fault="wall clock jumps")
    assert not asked_more_than_once(site)
    assert min(smallest_gaps(site.asked(), by="address").values()) >= BUSY * pace
    check_manners(site)


@needs_killer
@pytest.mark.soak
@pytest.mark.crash
def test_a_clock_that_jumps_under_a_node_changes_nothing(nginx: Start, base: Path, root: Path) -> None:
    """N20: by a day, to and fro, while it is at work."""
    site, clock = Site(nginx, base / "site", hosts=40, pages=8), base / "clock"
    clock.write_bytes(bytes(8))
    off = {"LD_PRELOAD": str(built("wall_clock.c")), "WALL_CLOCK_FILE": str(clock)}
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, begin_with=2)
        with nodes(
            lambda: NodeProgram(root, setup, name="0", environment=off), lambda: NodeProgram(root, setup, name="1")
        ) as started:
            for asked, days in ((60, 1), (120, -1), (180, 0)):
                wait_for(lambda asked=asked: site.requests() > asked, what="requests", programs=started)
                with clock.open("r+b") as file:  # in place: it is looked at all the time
                    file.write((days * 86400).to_bytes(8, sys.byteorder, signed=True))
            printed = [one.ended() for one in started]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 2
        check_everything_is_there(site, redis.url, root, fault="wall clock jumps", times=3)
    assert not asked_more_than_once(site)
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_shards_of_a_folder_that_is_gone_are_rebuilt_by_those_who_were_told_to(nginx: Start, base: Path) -> None:
    site = Site(nginx, base / "site", hosts=40, pages=8)
    roots = [base / "one" / "collection", base / "two" / "collection"]
    for root in roots:
        root.parent.mkdir()
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, life=3.0, rebuilds=True, begin_with=2)
        with nodes(*(lambda root=root: NodeProgram(root, setup) for root in roots)) as started:
            wait_for(lambda: site.requests() > 100 and spread(redis.url, 2), what="work on two nodes", programs=started)
            started[0].kill()
            shutil.rmtree(roots[0] / "frontier")
            printed = started[1].ended()
        assert (printed["end"], printed["pages"]) == ("finished", len(site.urls))
        recover(Collection(roots[0].resolve(), NAME))  # the WARC files that it was writing
        check_everything_is_there(site, redis.url, *roots, fault="files lost")
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_shards_of_a_folder_that_is_gone_are_rebuilt_from_a_backup_made_while_it_ran(nginx: Start, base: Path) -> None:
    site = Site(nginx, base / "site", hosts=40, pages=12)
    roots = [base / "one" / "collection", base / "two" / "collection"]
    for root in roots:
        root.parent.mkdir()
    backup = base / "backup"
    with private_redis() as redis:
        setup = NodeSetup(
            url=redis.url,
            crawl=site.crawl(delay=SLOW),
            shards=4,
            life=3.0,
            rebuilds=True,
            backup=str(backup),
            begin_with=2,
        )
        with nodes(*(lambda root=root: NodeProgram(root, setup) for root in roots)) as started:
            wait_for(lambda: site.requests() > 80 and spread(redis.url, 2), what="work on two nodes", programs=started)
            back_up_all(roots, backup, redis.url)
            started[0].kill()
            shutil.rmtree(roots[0] / "frontier")
            printed = started[1].ended()
            taken = [line for line in started[1].err.read_text().splitlines() if "frontier_taken_over" in line]
            assert taken
            assert any("kept=0" not in line for line in taken), taken  # what waited is there, from the backup
        assert (printed["end"], printed["pages"]) == ("finished", len(site.urls))
        recover(Collection(roots[0].resolve(), NAME))
        check_everything_is_there(site, redis.url, *roots, fault="files lost")
    check_manners(site)


@pytest.mark.soak
@pytest.mark.crash
def test_parts_that_running_nodes_back_up_together_become_one_crawl(nginx: Start, base: Path) -> None:
    """Killed in the middle, a node begins anew; nodes crawl on meanwhile, and send links to each other."""
    site = Site(nginx, base / "site", hosts=30, pages=8)
    roots = [base / "one" / "collection", base / "two" / "collection"]
    for root in roots:
        root.parent.mkdir()
    torn, target, again = base / "torn", base / "backup", base / "again" / "collection"
    again.parent.mkdir()
    with private_redis() as redis, private_redis() as other:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=6 * SLOW), shards=4, life=3.0, begin_with=2)
        with nodes(*(lambda root=root: NodeProgram(root, setup) for root in roots)) as started:
            wait_for(lambda: site.requests() > 30 and spread(redis.url, 2), what="work on two nodes", programs=started)
            alone = start_backup(roots[0], torn, redis.url)
            wait_for((roots[0] / "frontier" / "backup" / "hold").exists, what="a copy", programs=started)
            alone.kill()
            alone.communicate()
            before = site.requests()
            back_up_all(roots, target, redis.url)
            assert all(one.process.poll() is None for one in started), "the crawl was over before the backup was made"
            wait_for(lambda: site.requests() > before, what="more requests", programs=started)
            for one in started:
                one.kill()
        for root in roots:
            recover(Collection(root.resolve(), NAME))
        frontier = [sys.executable, "-m", "webmill", "frontier"]
        command = [*frontier, "restore", str(target), str(again), "--frontier", other.url, "--name", NAME]
        restored = subprocess.run(command, capture_output=True, text=True, check=False)
        assert restored.returncode == 0, restored.stderr
        refused = subprocess.run(
            [*frontier, "restore", str(torn), *command[6:]], capture_output=True, text=True, check=False
        )
        assert refused.returncode == 1, "the backup of one node that was killed is none"
        setup = msgspec.structs.replace(setup, url=other.url, crawl=site.crawl(delay=DELAY), begin_with=1)
        with nodes(lambda: NodeProgram(again, setup)) as started:
            assert started[0].ended()["end"] == "finished"
        done = {url for url, visit in visits(other.url, again).items() if visit.status == 200}
        kept = {url for root in (*roots, again) for _, url, _ in captures(root)}
        record(
            "crawl on nodes",
            "restored from parts made while it ran",
            injected=1,
            acknowledged=len(site.urls),
            lost=len(site.urls - (done & kept)),
        )
        assert done == site.urls
        assert site.urls <= kept
    check_manners(site)


def start_backup(root: Path, target: Path, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "webmill", "frontier", "backup", str(root), str(target), "--frontier", url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def back_up_all(roots: list[Path], target: Path, url: str) -> None:
    """Each node backs up its part, all at the same time."""
    parts = [start_backup(root, target, url) for root in roots]
    for part in parts:
        _, err = part.communicate(timeout=PATIENCE)
        assert part.returncode == 0, err
    assert len(list(target.glob("part-*/manifest.json"))) == len(roots)


@pytest.mark.soak
def test_shards_of_a_folder_that_is_gone_are_not_touched_unless_somebody_says_so(nginx: Start, base: Path) -> None:
    site = Site(nginx, base / "site", hosts=20, pages=4)
    roots = [base / "one" / "collection", base / "two" / "collection"]
    for root in roots:
        root.parent.mkdir()
    with private_redis() as redis:
        setup = NodeSetup(url=redis.url, crawl=site.crawl(delay=DELAY), shards=4, life=3.0, begin_with=2)
        with nodes(*(lambda root=root: NodeProgram(root, setup) for root in roots)) as started:
            wait_for(lambda: site.requests() > 20 and spread(redis.url, 2), what="work on two nodes", programs=started)
            started[0].kill()
            assert started[1].process.wait(PATIENCE) != 0
            assert "--lost-files rebuild" in started[1].err.read_text()
        with nodes(*(lambda root=root: NodeProgram(root, setup) for root in roots)) as started:  # both are back
            printed = [one.ended() for one in started]
        assert [(one["end"], one["pages"]) for one in printed] == [("finished", len(site.urls))] * 2
        check_everything_is_there(site, redis.url, *roots)
    check_manners(site)


def spread(url: str, count: int) -> bool:
    """So many nodes have shards."""
    view = read_view(url)
    return bool(view) and len({report.node for report in view.reports.values()}) == count


def lives(url: str) -> int:
    view = read_view(url)
    return len(view.living) if view else 0

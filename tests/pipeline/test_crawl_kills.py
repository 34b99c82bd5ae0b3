"""A crawl is killed with -9 again and again: all of it, its parent, or one of its processes; and goes on each time.

nginx, which knows nothing of it, keeps the log. WEBMILL_TEST_KILLS says how many kills (50 is a good number).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.faults import COMPILER, needs_killer
from tests.faults.matrix import record, seed
from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import (
    Setup,
    captures,
    check_records,
    children,
    counts,
    crawl,
    most_at_once,
    seen_by,
    start,
    visits,
)
from tests.services.nginx import Nginx
from webmill.crawl.options import CrawlLimits, CrawlRules

KILLS = int(os.environ.get("WEBMILL_TEST_KILLS", "2"))
SEED = seed(11)
DELAY = 0.3
HOSTS, PAGES = (24, 10) if KILLS > 10 else (8, 6)
PATIENCE = 300.0
pytestmark = [pytest.mark.server("nginx"), pytest.mark.slow, pytest.mark.timeout(120 + 30 * KILLS), needs_killer]
Start = Callable[..., Nginx]


@pytest.fixture
def root(memory_folder: Path) -> Path:
    keep_journal(memory_folder / "collection")
    return memory_folder / "collection"


@pytest.fixture(scope="session")
def wall_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("wall-clock") / "wall_clock.so"
    source = Path(__file__).parent.parent / "faults" / "wall_clock.c"
    command = [str(COMPILER), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    return library


class Site:
    """Pages that lead to each other and to the next host, which belongs to another process maybe."""

    def __init__(self, nginx: Start, folder: Path, *, hosts: int = HOSTS, pages: int = PAGES) -> None:
        names = [f"www.d{number}.test" for number in range(hosts)]
        self.urls: set[str] = set()
        for number, name in enumerate(names):
            (folder / name).mkdir()
            for page in range(pages):
                links = [f"/{(page + step) % pages}.html" for step in (1, 3)]
                links.append(f"http://{names[(number + 1) % hosts]}/{page}.html")
                text = "".join(f'<a href="{link}">{link}</a>' for link in links)
                filler = f"{name} {page} " * 40
                (folder / name / f"{page}.html").write_text(f"<html><body>{filler}{text}</body></html>")
                self.urls.add(f"http://{name}/{page}.html")
        addresses = {name: f"127.0.5.{number + 1}" for number, name in enumerate(names)}
        self.server = nginx(hosts={name: folder / name for name in names}, addresses=addresses)
        self.setup = Setup(
            seeds=(f"http://{names[0]}/0.html",),
            resolve={name: (address, self.server.port) for name, address in addresses.items()},
            processes=2,
            delay=DELAY,
            window=1.5,
            rules=CrawlRules(scope="any", sitemaps=False),
        )


class WholeSite(Site):
    """Each page has a picture, and a frame on the next host, which is no page, has one on the host behind that."""

    def __init__(self, nginx: Start, folder: Path) -> None:
        super().__init__(nginx, folder)
        names = sorted({urlsplit(url).netloc for url in self.urls})
        self._needs: dict[str, set[str]] = {}
        for number, name in enumerate(names):
            for page in range(PAGES):
                frame, far = (names[(number + step) % len(names)] for step in (1, 2))
                needed = [f"http://{name}/{page}.png", f"http://{frame}/f{page}", f"http://{far}/far{page}.png"]
                path = folder / name / f"{page}.html"
                path.write_text(f"{path.read_text()}<img src='{needed[0]}'><iframe src='{needed[1]}'></iframe>")
                (folder / frame / f"f{page}").write_text(
                    f"<html><body>{needed[1]}<img src='{needed[2]}'></body></html>"
                )
                for url in (needed[0], needed[2]):
                    (folder / urlsplit(url).netloc / urlsplit(url).path[1:]).write_text(url * 40)
                self._needs[f"http://{name}/{page}.html"] = set(needed)

    def needed_by(self, pages: Iterable[str]) -> set[str]:
        return {url for page in pages for url in self._needs[page]}


def run_killed(
    root: Path, site: Site, setup: Setup, dice: random.Random, environments: Sequence[dict[str, str]] = ({},)
) -> list[str]:
    """Until it ends by itself; what was killed."""
    log = site.server.folder / "access.log"
    killed: list[str] = []
    while True:
        process = start(root, setup, environment={**os.environ, **dice.choice(environments)})
        try:
            killed += killed_while_running(process, dice, KILLS - len(killed), lambda: log.read_bytes().count(b"\n"))
            code = process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code != -signal.SIGKILL:
            assert code == 0, (root.parent / "err").read_text()[-3000:]
            print(f"seed {SEED}, {len(killed)} kills: {killed}; {(root.parent / 'out').read_text().strip()}")
            return killed


def killed_while_running(
    process: subprocess.Popen[bytes], dice: random.Random, most: int, requests: Callable[[], int]
) -> Iterator[str]:
    """After a few requests each time."""
    for _ in range(most):
        wanted, deadline = requests() + dice.randrange(12), time.monotonic() + dice.uniform(2.0, 8.0)
        while requests() <= wanted and time.monotonic() < deadline:
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
            return
        kind = kill(process, dice)
        yield kind
        if kind != "child":
            return


def kill(process: subprocess.Popen[bytes], dice: random.Random) -> str:
    kind, shards = dice.choice(["group", "parent", "child"]), children(process.pid)
    if kind == "child" and shards:
        os.kill(dice.choice(shards), signal.SIGKILL)
        return "child"
    if kind == "group":
        os.killpg(process.pid, signal.SIGKILL)
        return "group"
    process.kill()
    return "parent"


def judge(site: Site, root: Path, killed: list[str], expected: set[str], *, fault: str = "kill -9 at random") -> None:
    seen = seen_by(site.server.log())
    done = {url for url, visit in visits(root).items() if visit.status == 200}
    asked = counts(seen)
    if killed:
        lost = (done | expected) - (done & {url for _, url, _ in captures(root)})
        again = [url for url, times in asked.items() if times > 1 + len(killed)]
        numbers = {"acknowledged": len(done | expected), "lost": len(lost), "duplicated": len(again)}
        record("crawl", fault, injected=len(killed), **numbers)
    assert done == expected
    check_records(root)
    assert {url for _, url, _ in captures(root)} >= expected
    assert not list(root.rglob("*.open"))
    assert max(asked.values()) <= 1 + len(killed)
    extra = sum(asked.values()) - len(asked)
    assert extra <= len(killed) * HOSTS
    check_manners(root, seen, host=DELAY, domain=DELAY)
    print(f"{len(seen)} requests, {extra} of them again")


def test_undisturbed_every_page_is_asked_for_once(root: Path, nginx: Start, tmp_path: Path) -> None:
    site = Site(nginx, tmp_path)
    report = crawl(root, site.setup)
    assert report.end == "finished"
    judge(site, root, [], site.urls)
    seen = seen_by(site.server.log())
    assert set(counts(seen).values()) == {1}
    assert most_at_once(seen) == 1


@pytest.mark.crash
def test_killed_again_and_again_it_gets_all_and_stays_polite(root: Path, nginx: Start, tmp_path: Path) -> None:
    site = Site(nginx, tmp_path)
    killed = run_killed(root, site, site.setup, random.Random(SEED))
    judge(site, root, killed, site.urls)


@pytest.mark.crash
def test_killed_while_the_wall_clock_jumps_it_gets_all_and_stays_polite(
    root: Path, nginx: Start, tmp_path: Path, wall_clock: Path
) -> None:
    site = Site(nginx, tmp_path)
    jumps = [{"LD_PRELOAD": str(wall_clock), "WALL_CLOCK_SHIFT": str(days * 86400)} for days in (-1, 0, 1)]
    killed = run_killed(root, site, site.setup, random.Random(SEED + 1), jumps)
    judge(site, root, killed, site.urls, fault="wall clock jumps")


@pytest.mark.crash
def test_killed_again_and_again_it_archives_exactly_as_many_pages_as_it_may(
    root: Path, nginx: Start, tmp_path: Path
) -> None:
    site = Site(nginx, tmp_path)
    setup = msgspec.structs.replace(site.setup, limits=CrawlLimits(retry_wait=0.2, pages=len(site.urls) // 2))
    killed = run_killed(root, site, setup, random.Random(SEED + 2))
    pages = {url for url, visit in visits(root).items() if visit.status == 200}
    assert len(pages) == len(site.urls) // 2
    judge(site, root, killed, pages)


@pytest.mark.crash
def test_killed_again_and_again_the_pages_that_it_may_have_are_whole(root: Path, nginx: Start, tmp_path: Path) -> None:
    site = WholeSite(nginx, tmp_path)
    setup = msgspec.structs.replace(
        site.setup,
        limits=CrawlLimits(retry_wait=0.2, pages=len(site.urls) // 2),
        rules=CrawlRules(scope="any", sitemaps=False, page_resources=True),
        page_resource_delay=0.02,
    )
    killed = run_killed(root, site, setup, random.Random(SEED + 3))
    done = {url for url, visit in visits(root).items() if visit.status == 200}
    pages = done & site.urls
    assert len(pages) == len(site.urls) // 2
    assert done >= site.needed_by(pages)
    check_records(root)
    assert {url for _, url, _ in captures(root)} >= done
    seen = seen_by(site.server.log())
    asked = counts(one for one in seen if not one.is_robots)
    assert max(asked.values()) <= 1 + len(killed)
    tried = asked.keys() & site.urls  # some were asked for when a kill came, and another page was taken instead
    assert asked.keys() <= tried | site.needed_by(tried)
    check_manners(root, [one for one in seen if one.url in site.urls], host=DELAY, domain=DELAY)
    check_manners(root, seen, soon_host=0.02, soon_domain=0.02)

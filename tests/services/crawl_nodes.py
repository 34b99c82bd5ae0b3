"""Nodes of one crawl, to be judged: `python -m tests.services.crawl_nodes ROOT JSON` is one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import redis

from tests.pipeline.crawling import NAME, Seen, Setup, seen_by
from tests.services.nginx import Nginx
from webmill.crawl.backends import crawl_backends
from webmill.crawl.cluster.cluster_state import ClusterState, ClusterView
from webmill.crawl.cluster.join import NodeTerms, crawl_as_node
from webmill.crawl.frontier.base import LastVisit
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.options import CrawlOptions, CrawlRules
from webmill.crawl.scheduler.coordinator import Coordinator
from webmill.crawl.start import RunWatcher
from webmill.errors import WebmillError

PATIENCE = 240.0


class Site:
    """Many small hosts, each with a domain of its own, and an address of its own unless one is given.

    Pages lead to each other and to the next host.
    """

    def __init__(self, nginx: Callable[..., Nginx], folder: Path, *, hosts: int, pages: int, address: str = "") -> None:
        names = [f"www.d{number}.test" for number in range(hosts)]
        self.urls: set[str] = set()
        for number, name in enumerate(names):
            (folder / name).mkdir(parents=True)
            for page in range(pages):
                links = [f"/{(page + step) % pages}.html" for step in (1, 3)]
                links.append(f"http://{names[(number + 1) % hosts]}/{page}.html")
                text = "".join(f'<a href="{link}">{link}</a>' for link in links)
                (folder / name / f"{page}.html").write_text(f"<html><body>{name} {page}{text}</body></html>")
                self.urls.add(f"http://{name}/{page}.html")
        own = (address or f"127.1.{number // 250}.{number % 250 + 1}" for number in range(hosts))
        addresses = dict(zip(names, own, strict=True))
        self.server = nginx(hosts={name: folder / name for name in names}, addresses=addresses)
        self.seeds = tuple(f"http://{name}/0.html" for name in names[:: max(1, hosts // 10)])
        self.resolve = {name: (address, self.server.port) for name, address in addresses.items()}

    def asked(self) -> list[Seen]:
        return seen_by(self.server.log())

    def requests(self) -> int:
        return (self.server.folder / "access.log").read_bytes().count(b"\n")

    def crawl(self, **changes: Any) -> Setup:
        rules = CrawlRules(scope="any", sitemaps=False)
        usual = {"seeds": self.seeds, "resolve": self.resolve, "rules": rules, "window": 3.0}
        return Setup(**{**usual, **changes})


class NodeSetup(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    crawl: Setup
    shards: int = 6
    life: float = 10.0
    rebuilds: bool = False
    backup: str | None = None
    begin_with: int = 1

    def options(self, root: Path) -> CrawlOptions:
        backends = crawl_backends(self.url, name=NAME, rebuild=self.rebuilds, backup=self.backup)
        return msgspec.structs.replace(self.crawl.options(root), backends=backends)


class NodeProgram:
    """One that was started. What it says lies in files beside its collection."""

    def __init__(
        self, root: Path, setup: NodeSetup, *, name: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        self.out, self.err = root.parent / f"out{name}", root.parent / f"err{name}"
        with self.out.open("wb") as out, self.err.open("ab") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.crawl_nodes", str(root), msgspec.json.encode(setup).decode()],
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> dict[str, Any]:
        """What it said when it ended by itself."""
        code = self.process.wait(PATIENCE)
        assert code == 0, self.err.read_text()[-5000:]
        printed: dict[str, Any] = json.loads(self.out.read_text())
        return printed


@contextmanager
def nodes(*programs: Callable[[], NodeProgram]) -> Iterator[list[NodeProgram]]:
    """Started one after the other; none is left."""
    started: list[NodeProgram] = []
    try:
        started += [program() for program in programs]
        yield started
    finally:
        for one in started:
            one.kill()


def read_view(url: str) -> ClusterView | None:
    cluster = ClusterState(url, NAME, life=10.0, timeout=30.0)
    try:
        return cluster.view()
    except WebmillError:
        return None
    finally:
        cluster.close()


def wait_for(condition: Callable[[], object], *, what: str, programs: list[NodeProgram]) -> None:
    """Or until they have ended: the machine may have stopped us for longer than they needed."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        printed = "\n".join(one.err.read_text()[-3000:] for one in programs)
        assert time.monotonic() < deadline, f"no {what}\n{printed}"
        ended = {one.process.poll() for one in programs}
        assert ended <= {None, 0, -signal.SIGKILL}, f"failed before {what}: {ended}\n{printed}"
        if None not in ended:
            return
        time.sleep(0.05)


def visits(url: str, *roots: Path) -> dict[str, LastVisit]:
    """What the shards know, each opened where its files are."""
    found: dict[str, LastVisit] = {}
    for root in roots:
        for folder in sorted(root.glob("frontier/shard-*")):
            try:
                frontier = RedisFrontier(url, folder, prefix=f"{NAME}:{folder.name}")
            except WebmillError:
                continue  # it was taken over elsewhere
            found.update((visit.url, visit) for visit in frontier.visits())
            frontier.close()
    return found


def empty(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        client.flushdb()


def main() -> None:
    coordinators: list[Coordinator] = []

    def stop(*_: object) -> None:
        for coordinator in coordinators:
            coordinator.stop()

    signal.signal(signal.SIGTERM, stop)
    setup = msgspec.json.decode(sys.argv[2], type=NodeSetup)
    cluster = ClusterState(setup.url, NAME, life=setup.life)
    report = crawl_as_node(
        setup.options(Path(sys.argv[1])),
        setup.crawl.seeds,
        cluster=cluster,
        terms=NodeTerms(shards=setup.shards, min_nodes=setup.begin_with, rebuilds=setup.rebuilds),
        watcher=RunWatcher(started=coordinators.append),
    )
    cluster.close()
    nodes = report.total.nodes
    print(json.dumps({"end": report.end, "pages": nodes.pages if nodes else 0, "errors": report.total.errors}))


if __name__ == "__main__":
    main()

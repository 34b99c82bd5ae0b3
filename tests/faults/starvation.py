"""Hostile servers beside healthy ones: what does a crawl of the healthy ones lose?

    python -m tests.faults.starvation [KIND …] --seconds 12 > FILE    what `make starvation` does

Twenty healthy hosts are crawled at four pages a second each, alone and beside two hosts of one hostile kind, whose
every page is the hostile answer. Healthy and hostile hosts are served by processes of their own, hostile ones at a low
priority: in the world they have other machines, and do not take the crawler's CPU. Counted are the pages of healthy
hosts in the server's log, the time by which the crawl outlived `--max-time`, its CPU and its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.load.measure import machine_cpu
from webmill.testing import TestWeb
from webmill.testing.exchange import Answer, ExpectedPage, HttpReply, ReceivedRequest, ScriptedReply
from webmill.testing.features.base import page
from webmill.testing.features.catalog import all_features

HEALTHY, HOSTILE, PAGES = 20, 2, 400
TEXT = "A page as there are many, with a sentence or two about mills, rivers and grain. " * 20
DELAY = 0.25  # seconds between two pages of a host
OURS = ("--allow-private", "--scope", "any", "--delay", f"{DELAY}s", "--address-delay", "0s", "--processes", "1")
ANSWER = Callable[[ReceivedRequest], Answer]
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"

# Features of the test web, at sizes that hurt.
FEATURES = {
    "slow.harvest.test": (
        *("/body", "/header", "/late", "/silent", "/stall", "/drip", "/drip-head", "/endless", "/endless-chunks"),
        *("/tiny-chunks", "/chunk-extensions", "/endless-head", "/endless-100", "/big-field", "/many-fields"),
    ),
    "packed.grain.example": (
        *("/bomb-gzip", "/bomb-deflate", "/bomb-br", "/bomb-zstd", "/bomb-twice", "/zstd-window", "/ten-codings"),
    ),
    "bombs.harvest.test": (
        *("/nested/100000", "/attributes/100000", "/formatting/20000", "/templates/20000", "/tables/20000"),
        *("/comment", "/cdata", "/script", "/attribute", "/one-line", "/entities"),
    ),
    "maps.mill.example": ("/sitemap-many.xml", "/sitemap-entities.xml", "/sitemap-bomb.xml.gz"),
    "signs.grain.example": ("/many-links", "/soft-404/1"),
    "broken.harvest.test": ("/chunk-long-line", "/junk", "/nothing", "/two-answers", "/huge-length"),
    "moved.mill.example": ("/forever/1", "/loop/a"),
    "many.rules.test": ("/robots.txt",),
    "stars.rules.test": ("/robots.txt",),
    "huge.rules.test": ("/robots.txt",),
    "slow.rules.test": ("/robots.txt",),
}


def large(body: Callable[[], bytes]) -> ANSWER:
    """Return an answer of many megabytes, made when it is asked for."""
    return lambda _: ScriptedReply(steps=[_HEAD % len(made := body()), made])


LARGE: dict[str, ANSWER] = {
    "60 MB of links": large(lambda: b'<a href="/p/1">x</a>' * 3_000_000),
    "60 MB of one link": large(lambda: b'<a href="' + b"x" * 60_000_000 + b'">x</a>'),
    "30 MB of <": large(lambda: b"<" * 30_000_000),
    "30 MB of </p>": large(lambda: b"</p>" * 7_500_000),
    "30 MB of &amp": large(lambda: b"&amp" * 7_500_000),
    "30 MB of letters": large(lambda: b"<p>" + b"z" * 30_000_000),
    "1 million new links": large(lambda: b"".join(b'<a href="/q/%d">x</a>' % n for n in range(1_000_000))),
    "1 million hosts": large(lambda: b"".join(b'<a href="http://h%d.void.test/">x</a>' % n for n in range(1_000_000))),
}


def kinds() -> dict[str, ANSWER]:
    """Return every hostile kind by its name."""
    found = dict(LARGE)
    for feature in all_features():
        for path in FEATURES.get(feature.host, ()):
            if feature.path == path or (feature.path.endswith("*") and path.startswith(feature.path[:-1])):
                found[f"{feature.host}{path}"] = at(feature.answer, feature.host, path)
    return found


def at(answer: ANSWER, host: str, path: str) -> ANSWER:
    return lambda request: answer(msgspec.structs.replace(request, host=host, path=path))


class LinkingHost:
    """A host of many pages, linked from the first. All of them, or its robots.txt, are the hostile answer of a kind."""

    def __init__(self, kind: str) -> None:
        self._answer = kinds()[kind] if kind else lambda request: page(request.path, TEXT)
        self._is_robots = kind.endswith("/robots.txt")

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path == "/":
            return page("All pages", links=[f"/p/{number}" for number in range(PAGES)])
        if (request.path == "/robots.txt") == self._is_robots:
            return self._answer(request)
        if request.path == "/robots.txt":
            return HttpReply(body=b"User-agent: *\nAllow: /\n", media_type="text/plain")
        return page(request.path, TEXT)

    def pages(self, version: int) -> Iterator[ExpectedPage]:
        return iter(())


# --- the two webs, each in its process ---


def serve(kind: str) -> None:
    """Serve the healthy hosts (no kind) or hostile ones, until standard input ends; then print the requests."""
    sites = {
        f"{'hostile' if kind else 'healthy'}{n}.test": LinkingHost(kind) for n in range(HOSTILE if kind else HEALTHY)
    }
    with TestWeb(hosts=1, sites=sites) as web:
        print(json.dumps({name: "{}:{}".format(*web.resolve[name]) for name in sites}), flush=True)
        sys.stdin.read()
        print(len(web.log), flush=True)


class ServedHosts(msgspec.Struct):
    resolve: dict[str, str]
    process: subprocess.Popen[str]

    def requests(self) -> int:
        """End the server, and return how many requests it has answered."""
        output, _ = self.process.communicate(timeout=60)
        return int(output)


@contextmanager
def served(kind: str) -> Iterator[ServedHosts]:
    command = [sys.executable, "-m", "tests.faults.starvation", "--serve", kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ServedHosts(json.loads(process.stdout.readline()), process)
        finally:
            process.kill()


# --- one crawl ---


class CrawlFigures(msgspec.Struct):
    healthy: int  # requests to healthy hosts
    overtime: float  # seconds after `--max-time`
    cpu: float  # seconds
    memory: int  # bytes, at most
    others: float = 0.0  # cores that other programs used meanwhile


def crawl(kind: str, seconds: int) -> CrawlFigures:
    """Return the figures of a crawl, and how busy the machine was with other things."""
    began, ours, all_cpu = time.monotonic(), _children_cpu(), machine_cpu()
    found = _crawl_beside(kind, seconds)
    others = machine_cpu() - all_cpu - (_children_cpu() - ours)
    return msgspec.structs.replace(found, others=max(0.0, others) / (time.monotonic() - began))


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _crawl_beside(kind: str, seconds: int) -> CrawlFigures:
    with tempfile.TemporaryDirectory() as folder, served("") as healthy:
        if not kind:
            return _crawl(Path(folder), healthy, {}, seconds)
        with served(kind) as hostile:
            return _crawl(Path(folder), healthy, hostile.resolve, seconds)


def _crawl(folder: Path, healthy: ServedHosts, hostile: dict[str, str], seconds: int) -> CrawlFigures:
    seeds = folder / "seeds.txt"
    hosts = {**hostile, **healthy.resolve}
    seeds.write_text("".join(f"http://{host}/\n" for host in hosts))
    resolve = [word for host, address in hosts.items() for word in ("--resolve", f"{host}={address}")]
    command = [sys.executable, "-m", "webmill", "-q", "crawl", str(folder / "crawl"), "--seeds", str(seeds)]
    command += [*OURS, "--contact", "a@b.example", "--max-time", f"{seconds}s", *resolve]
    began = time.monotonic()
    process = subprocess.Popen(command)
    _, _, used = os.wait4(process.pid, 0)  # with its children
    overtime = time.monotonic() - began - seconds
    return CrawlFigures(healthy.requests(), overtime, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


# --- the table ---


def table(wanted: list[str], seconds: int) -> Iterator[str]:
    alone = crawl("", seconds)
    yield "# Hostile hosts beside healthy ones\n"
    yield "Made by `make starvation`: twenty healthy hosts are crawled at four pages a second each, alone and beside"
    yield "two hosts whose every page is the hostile answer, served at a low priority. What the answers are:"
    yield "[the test web](test-web.md).\n"
    yield f"Alone: {alone.healthy} requests to healthy hosts, {alone.cpu:.1f} s of CPU, {alone.memory >> 20} MiB."
    yield f"The machine has {os.cpu_count()} cores; the last column is how many of them other programs used meanwhile"
    yield f"({alone.others:.1f} when alone): rows with more than half a core there say more about those programs.\n"
    yield "| hostile hosts | rate of the healthy | after `--max-time` | CPU | memory | other programs |"
    yield "|---|--:|--:|--:|--:|--:|"
    for kind in wanted:
        beside = crawl(kind, seconds)
        rate = f"{100 * beside.healthy / alone.healthy:.0f} %"
        cost = f"{beside.cpu:.1f} s | {beside.memory >> 20} MiB | {beside.others:.1f}"
        yield f"| `{kind}` | {rate} | {beside.overtime:.1f} s | {cost} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="only these")
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        os.nice(10 if options.serve else 0)
        serve(options.serve)
        return
    for line in table(options.kinds or sorted(kinds()), options.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()

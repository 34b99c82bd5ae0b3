"""Kill webmill, Scrapy, crawlee and wget in the middle of a crawl, resume as each one's manual says, and judge.

    python -m tests.faults.crash_rivals run --kills 10 --seed 7 --out FILE.jsonl      what `make crash-rivals` does
    python -m tests.faults.crash_rivals table FILE.jsonl > docs/reference/crash-rivals.md

nginx serves 500 pages on 20 hosts and keeps the log. A crawl is stopped twice, after a random number of requests, then
runs to its end: by SIGKILL of all its processes, or by one SIGINT, as Ctrl-C sends it. The judge reads nginx's log and
what the tool wrote, with warcio, gzip and json, and knows every page byte by byte.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tests.faults.rival_outputs import Output, json_files, json_lines, saved_files, warc_files
from tests.faults.rival_page import page, versions
from tests.services.nginx import Nginx, nginx_serving

HOSTS, PAGES = 20, 500
STOPS = 2  # in each crawl
DEADLINE = 150  # seconds, for one run
RESTARTS = 3  # of a crawl that ends with an error after its stops
RIVALS = Path(".venv-rivals/bin/python").absolute()
PROGRAMS = Path(__file__).parents[2] / "benchmarks" / "rivals"
ROBOTS = "User-agent: *\nDisallow: /private/\n"


@dataclass(frozen=True)
class Tool:
    """`command` makes the command line of a run from the seed, the folder of the crawl, and the number of the run."""

    name: str
    command: Callable[[str, Path, int], list[str]]
    read: Callable[[Path], Output]


@dataclass
class Tally:
    crawls: int = 0
    stops: int = 0
    lost: int = 0  # pages that are not in the output of a crawl that says it is finished
    unfinished: int = 0  # crawls that did not come to an end without an error
    failed: int = 0  # runs that ended with an error
    fetched_again: int = 0
    twice: int = 0  # records of a page beyond its first
    damaged: int = 0  # records that are not the page that was served
    unreadable: int = 0  # files

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


# --- the web ---


@contextmanager
def web() -> Iterator[tuple[Nginx, dict[str, bytes]]]:
    """Serve the pages; each leads to three others as in a tree, and to two at random. Yield them by URL."""
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        hosts = {f"127.0.6.{host + 1}": Path(name) / f"{host}" for host in range(HOSTS)}
        with nginx_serving(hosts=hosts, addresses={host: host for host in hosts}) as nginx:
            for folder in hosts.values():
                folder.mkdir()
                (folder / "robots.txt").write_text(ROBOTS)
            urls = [f"http://{list(hosts)[one % HOSTS]}:{nginx.port}/{one}.html" for one in range(PAGES)]
            pages = {}
            for number, url in enumerate(urls):
                linked = [*range(3 * number + 1, min(3 * number + 4, PAGES)), *chance.choices(range(PAGES), k=2)]
                links = "".join(f'<p><a href="{urls[one]}">page {one}</a></p>\n' for one in linked)
                filler = f"<p>{' '.join(chance.choices(('mill', 'river', 'grain', 'stone'), k=5000))}</p>\n"
                pages[url] = f"<!doctype html><title>Page {number}</title>\n{links}{filler}".encode()
                (hosts[urlsplit(url).hostname or ""] / f"{number}.html").write_bytes(pages[url])
            yield nginx, pages


# --- the tools ---


def webmill(seed: str, folder: Path, _: int) -> list[str]:
    (folder / "seeds.txt").write_text(f"{seed}\n")
    options = "--contact=a@b.example --allow-private --delay=0 --address-delay=0 --scope=any --no-languages"
    command = [sys.executable, "-m", "webmill", "crawl", f"{folder}/crawl"]
    return [*command, f"--seeds={folder}/seeds.txt", *options.split()]


def rival(program: str) -> Callable[[str, Path, int], list[str]]:
    return lambda seed, folder, _: [str(RIVALS), str(PROGRAMS / program), seed, str(folder)]


WGET = ["wget", "--no-verbose", "--recursive", "--level=inf", "--span-hosts", "--no-proxy"]


def wget_files(seed: str, folder: Path, _: int) -> list[str]:
    return [*WGET, "--continue", f"--directory-prefix={folder}/files", seed]


def wget_warc(seed: str, folder: Path, run: int) -> list[str]:
    """--continue is switched off by wget itself beside --warc-file; and a WARC file of the same name is overwritten."""
    archive = [f"--warc-file={folder}/run-{run}", "--no-warc-keep-log"]
    return [*WGET, "--continue", *archive, f"--directory-prefix={folder}/files", seed]


TOOLS = (
    Tool("webmill", webmill, lambda folder: warc_files(folder / "crawl")),
    Tool("Scrapy", rival("resuming_scrapy.py"), lambda folder: json_lines(folder / "pages.jsonl")),
    Tool("crawlee", rival("resuming_crawlee.py"), lambda folder: json_files(folder / "storage" / "datasets")),
    Tool("wget --continue", wget_files, lambda folder: saved_files(folder / "files")),
    Tool("wget --warc-file", wget_warc, warc_files),
)


# --- a crawl ---


def crawl(tool: Tool, nginx: Nginx, pages: dict[str, bytes], *, how: signal.Signals, chance: random.Random) -> Tally:
    """Run a crawl, stop it, resume it until it ends, and judge what is there."""
    tally, log, begin = Tally(crawls=1), nginx.folder / "access.log", len(nginx.log())
    with tempfile.TemporaryDirectory(prefix="webmill-rivals-") as name:
        folder = Path(name)
        for number in range(STOPS + RESTARTS):
            stop_after = chance.randint(10, 200) if number < STOPS else None
            command = tool.command(next(iter(pages)), folder, number)
            stopped, code = run(command, log, stop_after=stop_after, how=how, notes=folder / f"log-{number}")
            tally.stops += stopped
            if not stopped and not code:
                break
            tally.failed += not stopped
        else:
            tally.unfinished = 1
        judge(tally, tool.read(folder), pages)
    asked = [f"http://{one.host}:{nginx.port}{one.path}" for one in nginx.log()[begin:] if one.status in (200, 206)]
    fetched = [url for url in asked if url in pages]
    tally.fetched_again = len(fetched) - len(set(fetched))
    return tally


def judge(tally: Tally, output: Output, pages: dict[str, bytes]) -> None:
    right = [url for url, body in output.records if pages.get(url) == body]
    tally.lost = len(pages.keys() - set(right))
    tally.twice = len(right) - len(set(right))
    tally.damaged = sum(url in pages and pages[url] != body for url, body in output.records)
    tally.unreadable = output.unreadable


def run(command: list[str], log: Path, *, stop_after: int | None, how: signal.Signals, notes: Path) -> tuple[bool, int]:
    """Run a command and stop it after so many requests. Return whether it was stopped, and its exit code."""
    before = requests_in(log)
    with notes.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    end = time.monotonic() + DEADLINE
    stopped = False
    while process.poll() is None:
        if time.monotonic() > end:
            kill_session(process.pid)
            process.wait()
            return False, 1
        if not stopped and stop_after is not None and requests_in(log) - before >= stop_after:
            kill_session(process.pid) if how is signal.SIGKILL else process.send_signal(how)
            stopped = True
        time.sleep(0.002)
    kill_session(process.pid)  # what it left running would go on with the crawl
    return stopped, process.returncode


def requests_in(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def kill_session(leader: int) -> None:
    """Kill every process of a session at once: the tool's own and all it started."""
    for _ in range(3):  # one may have been started meanwhile
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == leader:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue  # it is gone


def run_all(out: Path, *, kills: int, seed: int, tools: list[str]) -> None:
    """Write a line for each tool and way to be stopped."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and its children do
    out.parent.mkdir(parents=True, exist_ok=True)
    about = f"KILLS={kills} SEED={seed}"
    with web() as (nginx, pages), out.open("w") as lines:
        for how in (signal.SIGKILL, signal.SIGINT):
            for tool in (one for one in TOOLS if one.name in tools):
                chance, tally = random.Random(seed), Tally()
                for _ in range(kills // STOPS):
                    tally.add(crawl(tool, nginx, pages, how=how, chance=chance))
                row = {"how": how.name, "tool": tool.name, "about": about, "versions": versions(RIVALS)} | vars(tally)
                print(json.dumps(row), file=lines, flush=True)
                print(how.name, tool.name, vars(tally), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--kills", type=int, default=10, help="of each tool, and as many clean stops")
    runs.add_argument("--seed", type=int, default=7)
    runs.add_argument("--tools", nargs="*", default=[tool.name for tool in TOOLS])
    runs.add_argument("--out", type=Path, default=Path(".cache/crash-rivals.jsonl"))
    commands.add_parser("table").add_argument("file", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        run_all(given.out, kills=given.kills, seed=given.seed, tools=given.tools)
    else:
        rows = [json.loads(line) for line in given.file.read_text().splitlines()]
        print(page(rows, when=datetime.now(UTC), pages=PAGES, hosts=HOSTS, deadline=DEADLINE), end="")


if __name__ == "__main__":
    main()

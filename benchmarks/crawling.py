"""`webmill crawl` beside Scrapy and crawlee on one nginx: many hosts, robots.txt obeyed, no delays, links followed.

Each crawler is a process of its own; the rivals live in .venv-rivals (`make bench` makes it) and are left out where it
is not there. Pages are counted in nginx's log. CPU time is that of the crawler and its children, without nginx's. What
a crawl from one seed to one page takes, which is nearly all start and end, is taken off, from all alike. The rivals
stop after STOP pages; we see the whole site, which is more to remember.

Processes are compared on a longer crawl, in its steady state: from a fifth of its pages to four fifths, by nginx's log.
nginx lives on the same cores, and one process with its threads uses more than one core. So it is also said what one
core does, when the crawler and nginx are both held to it, and what all cores could do at most, by the CPU that we and
nginx need for a page.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.services.nginx import Nginx, nginx_serving

HOSTS, PAGES, STOP = 100, 30, 500
OWN_LINKS, OTHER_LINKS, PARAGRAPHS = 40, 10, 20
LONG = 120  # pages of a host, where processes are compared
ROUNDS = 4  # the machine may be shared: the best of several
DEADLINE = 300  # seconds, for one crawl
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /cgi-bin/\n"
WORDS = (
    "mill",
    "river",
    "grain",
    "stone",
    "wheel",
    "water",
    "flour",
    "bread",
    "field",
    "wind",
    "sail",
    "gear",
    "market",
)

RIVALS = Path(".venv-rivals/bin/python").absolute()
OURS = "--contact=a@b.example --allow-private --delay=0 --address-delay=0 --scope=any --json"
PROGRAMS = Path(__file__).parent / "rivals"


@dataclass(frozen=True)
class Crawled:
    pages: int
    cpu: float
    wall: float

    def beyond(self, start: Crawled) -> Crawled:
        return Crawled(self.pages - start.pages, self.cpu - start.cpu, self.wall - start.wall)


@dataclass(frozen=True)
class Site:
    nginx: Nginx
    seeds: Path
    one_seed: Path

    def crawl(self, command: list[str]) -> Crawled:
        asked = len(self.nginx.log())
        began, before = time.perf_counter(), cpu_of_children()
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
        wall, cpu = time.perf_counter() - began, cpu_of_children() - before
        answered = [one for one in self.nginx.log()[asked:] if one.status == 200 and one.path != "/robots.txt"]
        return Crawled(len({(one.host, one.path) for one in answered}), cpu, wall)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the site ---


def address(host: int) -> str:
    return f"127.0.1.{host + 1}"


@contextmanager
def site(pages: int = PAGES) -> Iterator[Site]:
    """By address, so that nobody needs a DNS; the links carry the port, so the pages are made when nginx has one."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        hosts = {address(host): root / address(host) for host in range(HOSTS)}
        with nginx_serving(hosts=hosts, addresses={host: host for host in hosts}) as nginx:
            chance = random.Random(1)  # the same pages in every run
            for host, folder in enumerate(hosts.values()):
                folder.mkdir()
                (folder / "robots.txt").write_text(ROBOTS)
                for page in range(pages):
                    (folder / name_of(page)).write_text(html(host, page, nginx.port, chance, pages=pages))
            urls = [f"http://{host}:{nginx.port}/\n" for host in hosts]
            seeds, one_seed = root / "seeds.txt", root / "one_seed.txt"
            seeds.write_text("".join(urls))
            one_seed.write_text(urls[0])
            yield Site(nginx, seeds, one_seed)


def name_of(page: int) -> str:
    return f"page{page}.html" if page else "index.html"


def path_of(page: int) -> str:
    return f"/page{page}.html" if page else "/"


def html(host: int, page: int, port: int, chance: random.Random, *, pages: int) -> str:
    own = "".join(
        f'<li><a href="{path_of((page * 3 + link) % pages)}">{chance.choice(WORDS)} {link}</a></li>\n'
        for link in range(OWN_LINKS)
    )
    others = "".join(
        f'<a href="http://{address(chance.randrange(HOSTS))}:{port}{path_of(chance.randrange(pages))}">'
        f"{chance.choice(WORDS)}</a>\n"
        for _ in range(OTHER_LINKS)
    )
    text = "".join(f"<p>{' '.join(chance.choices(WORDS, k=80))}</p>\n" for _ in range(PARAGRAPHS))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mill {host}, page {page}</title></head>\n'
        f"<body><h1>Page {page} of mill {host}</h1>\n<ul>{own}</ul>\n{text}{others}</body></html>\n"
    )


# --- the crawlers ---


def webmill(site: Site, *options: str) -> Crawled:
    def run(seeds: Path, *more: str) -> Crawled:
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={seeds}", *OURS.split()]
            return site.crawl([*command, *options, *more])

    whole = run(site.seeds)
    assert whole.pages == HOSTS * PAGES, f"webmill made {whole.pages} pages"
    return whole.beyond(run(site.one_seed, "--max-pages=1"))


def rival(site: Site, program: str, *options: str) -> Crawled:
    def run(seeds: Path, pages: int) -> Crawled:
        with tempfile.TemporaryDirectory() as name:
            command = [str(RIVALS), str(PROGRAMS / program), str(seeds), f"--pages={pages}"]
            return site.crawl([*command, *(option.replace("FOLDER", name) for option in options)])

    whole = run(site.seeds, STOP)
    assert whole.pages >= STOP * 0.8, f"{program} made {whole.pages} pages"
    return whole.beyond(run(site.one_seed, 1))


# --- one process and two ---


@dataclass(frozen=True)
class Steady:
    """The middle of a crawl: pages in a second; the CPU of a page, ours with start and end, and nginx's, in ms."""

    rate: float
    ours: float
    servers: float

    @property
    def most(self) -> float:
        """What all cores could do at this price."""
        return (os.cpu_count() or 1) * 1000 / (self.ours + self.servers)


def steady(site: Site, *options: str, cores: set[int]) -> Steady:
    """Linux."""
    asked, nginx, before = len(site.nginx.log()), cpu_of(site.nginx), cpu_of_children()
    with tempfile.TemporaryDirectory() as name, held_to(cores, site.nginx):
        command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={site.seeds}", *OURS.split()]
        subprocess.run([*command, *options], check=True, capture_output=True, timeout=DEADLINE)
    ours, servers = cpu_of_children() - before, cpu_of(site.nginx) - nginx
    moments = sorted(one.ended for one in site.nginx.log()[asked:] if one.path != "/robots.txt")
    fifth = len(moments) // 5
    rate = 3 * fifth / (moments[4 * fifth] - moments[fifth])
    return Steady(rate, 1000 * ours / len(moments), 1000 * servers / len(moments))


@contextmanager
def held_to(cores: set[int], nginx: Nginx) -> Iterator[None]:
    """This process, hence its children, and nginx."""
    assert nginx.running.process
    all_cores = os.sched_getaffinity(0)
    for process in (0, nginx.running.process.pid):
        os.sched_setaffinity(process, cores)
    try:
        yield
    finally:
        for process in (0, nginx.running.process.pid):
            os.sched_setaffinity(process, all_cores)


def cpu_of(nginx: Nginx) -> float:
    assert nginx.running.process
    fields = Path(f"/proc/{nginx.running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scaling(site: Site) -> dict[str, Steady]:
    """Of each the fastest round, the rounds in turn."""
    cores = os.sched_getaffinity(0)
    ways = {
        "one process on one core": ("--processes=1", {min(cores)}),
        "one process": ("--processes=1", cores),
        "two processes": ("--processes=2", cores),
    }
    rounds = [
        {name: steady(site, way, "--no-languages", cores=there) for name, (way, there) in ways.items()}
        for _ in range(ROUNDS)
    ]
    return {name: max((one[name] for one in rounds), key=lambda found: found.rate) for name in ways}


def scaling_table(rows: dict[str, Steady]) -> None:
    one, two = rows["one process"], rows["two processes"]
    core = rows["one process on one core"]
    print("\n## webmill crawl, one process and two, in the steady state\n")
    print("| | pages/s | times one core | times one process | CPU ms/page | nginx's | all cores at most, pages/s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, row in rows.items():
        print(
            f"| {name} | {row.rate:,.0f} | {row.rate / core.rate:.2f} | {row.rate / one.rate:.2f} "
            f"| {row.ours:.2f} | {row.servers:.2f} | {row.most:,.0f} |"
        )
    print(f"\nTwo processes can be {two.most / one.rate:.2f} times one here.")
    sys.stdout.flush()


def best(crawls: dict[str, Callable[[], Crawled]]) -> dict[str, Crawled]:
    """Of each the round with the least CPU per page, the rounds in turn."""
    rounds = [{name: crawl() for name, crawl in crawls.items()} for _ in range(ROUNDS)]
    return {name: min((one[name] for one in rounds), key=lambda run: run.cpu / run.pages) for name in crawls}


def table(title: str, runs: dict[str, Crawled]) -> None:
    ours = next(iter(runs.values()))
    print(f"\n## {title}\n\n| | pages | pages/s of CPU | pages/s | times our CPU per page |\n|---|---:|---:|---:|---:|")
    for name, run in runs.items():
        ratio = (run.cpu / run.pages) / (ours.cpu / ours.pages)
        print(f"| {name} | {run.pages:,} | {run.pages / run.cpu:,.0f} | {run.pages / run.wall:,.0f} | {ratio:.2f} |")
    sys.stdout.flush()


def main() -> None:
    with site() as there:
        crawls = {"webmill, WARC written": partial(webmill, there, "--processes=1", "--no-languages")}
        if RIVALS.exists():
            scrapy = partial(rival, there, "with_scrapy.py")
            crawls |= {
                "Scrapy, WARC written, 8 per domain": partial(scrapy, "--warc=FOLDER/rival.warc.gz"),
                "Scrapy, 8 per domain": scrapy,
                "Scrapy, 1 per domain": partial(scrapy, "--per-domain=1"),
                "crawlee parsel": partial(rival, there, "with_crawlee.py"),
            }
        table("crawl, one process", best(crawls))
        crawls = {
            "one process": partial(webmill, there, "--processes=1", "--no-languages"),
            "one process, with languages": partial(webmill, there, "--processes=1", "--languages"),
        }
        table("webmill crawl, in other ways", best(crawls))
    with site(LONG) as there:
        scaling_table(scaling(there))


if __name__ == "__main__":
    main()

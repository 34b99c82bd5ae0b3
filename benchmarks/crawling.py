"""`webmill crawl` beside Scrapy and crawlee on one nginx: many hosts, robots.txt obeyed, no delays, links followed.

Each crawler is a process of its own; the rivals live in .venv-rivals (`make bench` makes it) and are left out where it
is not there. Pages are counted in nginx's log. CPU time is that of the crawler and its children, without nginx's. What
a rival needs before its crawl begins is not counted, what we need is; and they stop after STOP pages, we see them all.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.services.nginx import Nginx, nginx_serving

HOSTS, PAGES, STOP = 125, 40, 1000
OWN_LINKS, OTHER_LINKS, PARAGRAPHS = 40, 10, 20
ROUNDS = 2
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
PROGRAMS = Path(__file__).parent / "rivals"


@dataclass(frozen=True)
class Crawled:
    pages: int
    cpu: float
    wall: float


@dataclass(frozen=True)
class Site:
    nginx: Nginx
    seeds: Path

    def crawl(self, command: list[str], started: Path | None = None) -> Crawled:
        asked = len(self.nginx.log())
        began, before = time.perf_counter(), cpu_of_children()
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
        wall, cpu = time.perf_counter() - began, cpu_of_children() - before
        pages = {
            (one.host, one.path) for one in self.nginx.log()[asked:] if one.status == 200 and one.path != "/robots.txt"
        }
        return Crawled(len(pages), cpu - (float(started.read_text()) if started else 0.0), wall)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the site ---


def address(host: int) -> str:
    return f"127.0.1.{host + 1}"


@contextmanager
def site() -> Iterator[Site]:
    """By address, so that nobody needs a DNS; the links carry the port, so the pages are made when nginx has one."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        hosts = {address(host): root / address(host) for host in range(HOSTS)}
        with nginx_serving(hosts=hosts, addresses={host: host for host in hosts}) as nginx:
            chance = random.Random(1)  # the same pages in every run
            for host, folder in enumerate(hosts.values()):
                folder.mkdir()
                (folder / "robots.txt").write_text(ROBOTS)
                for page in range(PAGES):
                    (folder / name_of(page)).write_text(html(host, page, nginx.port, chance))
            seeds = root / "seeds.txt"
            seeds.write_text("".join(f"http://{host}:{nginx.port}/\n" for host in hosts))
            yield Site(nginx, seeds)


def name_of(page: int) -> str:
    return f"page{page}.html" if page else "index.html"


def path_of(page: int) -> str:
    return f"/page{page}.html" if page else "/"


def html(host: int, page: int, port: int, chance: random.Random) -> str:
    own = "".join(
        f'<li><a href="{path_of((page * 3 + link) % PAGES)}">{chance.choice(WORDS)} {link}</a></li>\n'
        for link in range(OWN_LINKS)
    )
    others = "".join(
        f'<a href="http://{address(chance.randrange(HOSTS))}:{port}{path_of(chance.randrange(PAGES))}">'
        f"{chance.choice(WORDS)}</a>\n"
        for _ in range(OTHER_LINKS)
    )
    text = "".join(f"<p>{' '.join(chance.choices(WORDS, k=80))}</p>\n" for _ in range(PARAGRAPHS))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Mill {host}, page {page}</title></head>\n'
        f"<body><h1>Page {page} of mill {host}</h1>\n<ul>{own}</ul>\n{text}{others}</body></html>\n"
    )


# --- the crawlers ---


def webmill(site: Site, *, processes: int = 1, languages: bool = False) -> Crawled:
    with tempfile.TemporaryDirectory() as name:
        options = (
            f"--contact a@b.example --allow-private --delay 0 --address-delay 0 --scope any --processes {processes}"
        )
        command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", "--seeds", str(site.seeds)]
        return site.crawl([*command, *options.split(), "--languages" if languages else "--no-languages", "--json"])


def rival(site: Site, program: str, *options: str) -> Crawled:
    with tempfile.TemporaryDirectory() as name:
        started = Path(name, "started")
        warc = [option.replace("WARC", f"{name}/rival.warc.gz") for option in options]
        command = [str(RIVALS), str(PROGRAMS / program), str(site.seeds), f"--started={started}", f"--pages={STOP}"]
        run = site.crawl([*command, *warc], started)
        assert run.pages >= STOP * 0.9, f"{program} made {run.pages} pages"
        return run


def best(runs: list[Crawled]) -> Crawled:
    return min(runs, key=lambda run: run.cpu / max(run.pages, 1))


def table(title: str, runs: dict[str, Crawled]) -> None:
    ours = next(iter(runs.values()))
    print(f"\n## {title}\n\n| | pages | pages/s of CPU | pages/s | times our CPU per page |\n|---|---:|---:|---:|---:|")
    for name, run in runs.items():
        ratio = (run.cpu / run.pages) / (ours.cpu / ours.pages)
        print(f"| {name} | {run.pages:,} | {run.pages / run.cpu:,.0f} | {run.pages / run.wall:,.0f} | {ratio:.2f} |")
    sys.stdout.flush()


def main() -> None:
    with site() as there:
        whole = HOSTS * PAGES
        alone = [webmill(there) for _ in range(ROUNDS)]
        assert all(run.pages == whole for run in alone), alone
        runs = {"webmill, with WARC": best(alone)}
        if RIVALS.exists():
            runs |= {
                "Scrapy, with WARC, 8 per domain": rival(there, "with_scrapy.py", "--per-domain=8", "--warc=WARC"),
                "Scrapy, no WARC, 8 per domain": rival(there, "with_scrapy.py", "--per-domain=8"),
                "Scrapy, no WARC, 1 per domain": rival(there, "with_scrapy.py", "--per-domain=1"),
                "crawlee parsel, no WARC": rival(there, "with_crawlee.py"),
            }
        table("crawl, one process", runs)
        table(
            "webmill crawl, in other ways",
            {
                "one process": best(alone),
                "with languages": webmill(there, languages=True),
                "two processes": best([webmill(there, processes=2) for _ in range(ROUNDS)]),
            },
        )


if __name__ == "__main__":
    main()

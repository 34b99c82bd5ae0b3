"""`webmill crawl` with the settings of a new user beside Scrapy and crawlee, on three webs behind one nginx.

The webs are those of `crawling_webs.py`; each has one hundred hosts with a robots.txt, links are followed, and nobody
waits between requests. Ours are the defaults of a new user but for that: WARC with metadata, languages detected,
robots.txt, traps. Scrapy has the settings that its manual gives for broad crawls and writes WARC by warcio, unless it
is said that it does not; crawlee keeps everything in memory. They detect no languages. On the web of real pages all
stay on its hosts; Scrapy and crawlee do not check certificates.

Each crawler is a process of its own, held to one core; the rivals live in .venv-rivals (`make bench` makes it) and are
left out where it is not there. Pages are counted in nginx's log. CPU time is that of the crawler and its children,
without nginx's. What a crawl from one seed to one page takes, which is nearly all start and end, is taken off, from all
alike, and printed. The rivals stop after STOP pages; we see the whole web, which is more to remember.

The real web is crawled in other ways, too: with a certificate that nobody signed (`--tls archive`), and with one page
for a connection, which is what a polite crawl has where a server does not wait as long as the delay.

Processes are compared on a longer crawl, in its steady state: from a fifth of its pages to four fifths, by nginx's log.
nginx lives on the same cores, and one process with its threads uses more than one core. So it is also said what one
core does, when the crawler and nginx are both held to it, and what all cores could do at most, by the CPU that we and
nginx need for a page.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.services.nginx import Nginx

from benchmarks.crawling_webs import ONE_PAGE, SMALL, SPARSE, Shape, Web, made_web, real_web, sample
from benchmarks.frame import as_installed

STOP = 500  # pages of a rival
LONG = Shape(pages=120)  # where processes are compared
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "4"))  # the machine may be shared: the best of several, and the median
DEADLINE = 600  # seconds, for one crawl
# What a crawl of the published figures cost: 912 pages/s on 16 virtual cores, 0.46 $ for a million pages.
CORE_HOUR = 0.46 * 912 * 3600 / 1e6 / 16

RIVALS = Path(".venv-rivals/bin/python").absolute()
OURS = "--contact=a@b.example --allow-private --delay=0 --address-delay=0 --processes=1 --json"
ANYWHERE = "--scope=any"
PROGRAMS = Path(__file__).parent / "rivals"


@dataclass(frozen=True)
class Crawled:
    pages: int
    cpu: float
    wall: float
    start: float = 0.0  # CPU that was taken off

    @property
    def per_page(self) -> float:
        """CPU of a page in ms."""
        return 1000 * self.cpu / self.pages

    def beyond(self, start: Crawled) -> Crawled:
        return Crawled(self.pages - start.pages, self.cpu - start.cpu, self.wall - start.wall, start.cpu)


def crawl(web: Web, command: list[str]) -> Crawled:
    asked = len(web.nginx.log())
    environment = as_installed() | ({"SSL_CERT_FILE": str(web.authority)} if web.authority else {})
    began, before = time.perf_counter(), cpu_of_children()
    with held_to({min(os.sched_getaffinity(0))}):
        done = subprocess.run(command, check=False, capture_output=True, timeout=DEADLINE, env=environment)
    wall, cpu = time.perf_counter() - began, cpu_of_children() - before
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    answered = [one for one in web.nginx.log()[asked:] if one.status == 200 and one.path != "/robots.txt"]
    return Crawled(len({(one.host, one.path) for one in answered}), cpu, wall)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def held_to(cores: set[int], *nginx: Nginx) -> Iterator[None]:
    """This process, hence its children, and nginx if it is given. Linux."""
    processes = [0, *(each.running.process.pid for each in nginx if each.running.process)]
    all_cores = os.sched_getaffinity(0)
    for process in processes:
        os.sched_setaffinity(process, cores)
    try:
        yield
    finally:
        for process in processes:
            os.sched_setaffinity(process, all_cores)


# --- the crawlers ---


def webmill(web: Web, *options: str) -> Crawled:
    def run(seeds: Path, *more: str) -> Crawled:
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={seeds}", *OURS.split()]
            return crawl(web, [*command, *options, *more])

    whole = run(web.seeds)
    assert whole.pages == web.pages, f"webmill made {whole.pages} pages of {web.pages}"
    return whole.beyond(run(web.one_seed, "--max-pages=1"))


def rival(web: Web, program: str, *options: str) -> Crawled:
    def run(seeds: Path, pages: int) -> Crawled:
        with tempfile.TemporaryDirectory() as name:
            command = [str(RIVALS), str(PROGRAMS / program), str(seeds), f"--pages={pages}"]
            return crawl(web, [*command, *(option.replace("FOLDER", name) for option in options)])

    whole = run(web.seeds, STOP)
    assert whole.pages >= STOP * 0.8, f"{program} made {whole.pages} pages"
    return whole.beyond(run(web.one_seed, 1))


def beside_rivals(web: Web, *options: str, stay: bool = False) -> dict[str, Callable[[], Crawled]]:
    crawls: dict[str, Callable[[], Crawled]] = {"webmill, defaults (WARC, languages)": partial(webmill, web, *options)}
    if not RIVALS.exists():
        return crawls
    where = ("--stay",) if stay else ()
    return crawls | {
        "Scrapy with WARC": partial(rival, web, "with_scrapy.py", "--warc=FOLDER/rival.warc.gz", *where),
        "crawlee parsel, no WARC": partial(rival, web, "with_crawlee.py", *where),
    }


def rounds(crawls: dict[str, Callable[[], Crawled]]) -> dict[str, list[Crawled]]:
    """Crawl in turn, several rounds. Return the crawls of each, the one with the least CPU per page first."""
    all_rounds = [{name: crawl() for name, crawl in crawls.items()} for _ in range(ROUNDS)]
    return {name: sorted((one[name] for one in all_rounds), key=lambda run: run.per_page) for name in crawls}


def table(title: str, runs: dict[str, list[Crawled]]) -> None:
    ours = next(iter(runs.values()))[0]
    print(f"\n## {title}\n")
    print("| | pages | CPU ms/page | median | pages/s of CPU | times the first | start, CPU s |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, found in runs.items():
        best, middle = found[0], statistics.median(run.per_page for run in found)
        print(
            f"| {name} | {best.pages:,} | {best.per_page:.2f} | {middle:.2f} | {1000 / best.per_page:,.0f} "
            f"| {best.per_page / ours.per_page:.2f} | {best.start:.2f} |"
        )
    sys.stdout.flush()


def cost(run: Crawled, web: Web) -> None:
    hours = run.per_page * 1e6 / 1000 / 3600
    print(
        f"\nA million pages of {web.mean / 1000:.0f} KB are {hours:.2f} hours of one core: {hours * CORE_HOUR:.2f} $ at"
        f" {CORE_HOUR:.3f} $ for a core and hour. That price is what a published crawl without WARC paid (0.46 $ for a"
        " million pages of 242 KB at 912 pages/s on 16 virtual cores, of which two share a core)."
    )
    sys.stdout.flush()


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


def steady(web: Web, *options: str, cores: set[int]) -> Steady:
    asked, nginx, before = len(web.nginx.log()), cpu_of(web.nginx), cpu_of_children()
    with tempfile.TemporaryDirectory() as name, held_to(cores, web.nginx):
        command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={web.seeds}", *OURS.split()]
        subprocess.run([*command, *options], check=True, capture_output=True, timeout=DEADLINE)
    ours, servers = cpu_of_children() - before, cpu_of(web.nginx) - nginx
    moments = sorted(one.ended for one in web.nginx.log()[asked:] if one.path != "/robots.txt")
    fifth = len(moments) // 5
    rate = 3 * fifth / (moments[4 * fifth] - moments[fifth])
    return Steady(rate, 1000 * ours / len(moments), 1000 * servers / len(moments))


def cpu_of(nginx: Nginx) -> float:
    assert nginx.running.process
    fields = Path(f"/proc/{nginx.running.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scaling(web: Web) -> dict[str, Steady]:
    """Of each the fastest round, the rounds in turn."""
    cores = os.sched_getaffinity(0)
    ways = {
        "one process on one core": ("--processes=1", {min(cores)}),
        "one process": ("--processes=1", cores),
        "two processes": ("--processes=2", cores),
    }
    rounds = [
        {name: steady(web, way, ANYWHERE, cores=there) for name, (way, there) in ways.items()} for _ in range(ROUNDS)
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


def on_real_pages(file: Path) -> None:
    with real_web(file) as web:
        print(f"\n{web.pages:,} real pages, {web.mean:,} bytes in the mean.")
        runs = rounds(
            beside_rivals(web, stay=True) | {"webmill, --no-languages": partial(webmill, web, "--no-languages")}
        )
        table("Real pages: TLS, gzip", runs)
        cost(next(iter(runs.values()))[0], web)
    with (
        real_web(file, trusted=False) as untrusted,
        real_web(file, directives=ONE_PAGE) as single,
        real_web(file, listen="http2") as modern,
        real_web(file, directives=ONE_PAGE, listen="http2") as modern_single,
    ):
        ways = {
            "one page for a connection": partial(webmill, single),
            "HTTP/2": partial(webmill, modern),
            "HTTP/2, one page for a connection": partial(webmill, modern_single),
            "certificate not trusted, --tls archive": partial(webmill, untrusted, "--tls=archive"),
        }
        table("Real pages, webmill in other ways", rounds(ways))


def main() -> None:
    with made_web(SMALL) as web:
        runs = rounds(
            beside_rivals(web, ANYWHERE)
            | {"webmill, --no-languages": partial(webmill, web, ANYWHERE, "--no-languages")}
        )
        table(f"Small pages ({web.mean:,} bytes, 50 links)", runs)
    with made_web(SPARSE) as web:
        table(f"Small pages ({web.mean:,} bytes, 14 links)", rounds(beside_rivals(web, ANYWHERE)))
    if file := sample():
        on_real_pages(file)
    with made_web(LONG) as web:
        scaling_table(scaling(web))


if __name__ == "__main__":
    main()

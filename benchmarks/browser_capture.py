"""Pages in a browser: `webmill crawl --browser always` beside crawlee's PlaywrightCrawler, with the same browser.

Two webs behind one nginx: light pages (a script that writes a line, a style sheet, two pictures), and the pages of an
application (an empty shell, a bundle of 200 KB, six chunks, a font, data by fetch). Each crawler is given all URLs, has
as many tabs as the other, and no delays. Ours archives all requests as WARC, waits until a page is quiet, scrolls,
reads its text and document and takes two pictures. crawlee is told to do that, too, by Playwright (but writes nothing),
or to wait for `load` and read the document, as in its manual.

CPU time is that of the crawler, its driver and all processes of the browser: this program is the reaper of what they
leave behind, so that a browser that is killed counts, too. What a crawl of one page takes, nearly all start and end, is
taken off, from all alike, and printed. The crawler's own part is read in /proc while it runs, as is the memory.

And what `auto` costs where no page needs a browser: the same crawl with `auto` and with `never`, and the decision alone
on real pages.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType
from tests.services.nginx import Nginx, nginx_serving

from benchmarks.crawling import OURS, PROGRAMS, RIVALS, ROUNDS, cpu_of_children
from benchmarks.crawling_webs import SMALL, made_web, sample
from benchmarks.frame import as_installed
from webmill.crawl.browser.need import needs_browser
from webmill.crawl.browser.process import find_browser
from webmill.testing.assets import png

PAGES = int(os.environ.get("BENCH_PAGES", "60"))
TABS = int(os.environ.get("BENCH_TABS", "4"))
HOST = "127.0.1.1"
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
LOOK = 0.1  # seconds between two looks at the processes
DEADLINE = 600
LIGHT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Light {number}</title>
<link rel="stylesheet" href="/style.css"></head><body><h1>Light {number}</h1><p id="out"></p>
<img src="/one.png" alt=""><img src="/two.png" alt=""><p>{text}</p><script src="/light.js"></script></body></html>"""
SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>App</title>
<link rel="stylesheet" href="/style.css"><script type="module" src="/app.js"></script></head>
<body><div id="root"></div></body></html>"""
APP = """const parts = await Promise.all([0, 1, 2, 3, 4, 5].map((n) => import(`/chunk${n}.js`)));
const items = await (await fetch("/items.json")).json();
const list = document.createElement("ul");
for (const item of items) {
  const row = document.createElement("li");
  row.textContent = item + parts[0].word;
  list.append(row);
}
document.getElementById("root").append(list);
"""


@dataclass
class Use:
    """What a crawl took. `own`: CPU of the crawler without the browser and its driver. Memory in bytes."""

    pages: int
    cpu: float
    own: float
    tab: float = 0.0  # of a process that shows a page
    memory: float = 0.0  # of all at most
    start: float = 0.0

    @property
    def per_page(self) -> float:
        return 1000 * self.cpu / self.pages

    @property
    def own_per_page(self) -> float:
        return 1000 * self.own / self.pages

    def beyond(self, start: Use) -> Use:
        left = (self.pages - start.pages, self.cpu - start.cpu, self.own - start.own)
        return Use(*left, tab=self.tab, memory=self.memory, start=start.cpu)


@dataclass
class Watch:
    """Looks at all processes below a program."""

    program: int
    own: dict[int, float] = field(default_factory=dict)  # CPU of processes that are not of the browser
    tabs: list[int] = field(default_factory=list)
    memory: int = 0

    def run(self, done: threading.Event) -> None:
        looks = 0
        while not done.wait(LOOK):
            looks += 1
            self.look(weighs=looks % 10 == 0)

    def look(self, *, weighs: bool) -> None:
        total = 0
        for pid in below(self.program):
            with suppress(OSError, ValueError, IndexError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"chromium" not in line.split(b"\0")[0] and b"/node" not in line.split(b"\0")[0]:
                    self.own[pid] = max(self.own.get(pid, 0.0), cpu_of(pid))
                if weighs:
                    size = memory_of(pid)
                    total += size
                    if b"--type=renderer" in line:
                        self.tabs.append(size)
        self.memory = max(self.memory, total)


def below(program: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(folder.name))
    found, ahead = [], [program]
    while ahead:
        found.append(ahead.pop())
        ahead += parents.get(found[-1], [])
    return found


def children() -> set[int]:
    found = (task.joinpath("children").read_text().split() for task in Path("/proc/self/task").iterdir())
    return {int(pid) for pids in found for pid in pids}


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Return the bytes of a process; what several share counts for each in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def measured(command: list[str], pages: int) -> Use:
    others = children()  # nginx
    before, done = cpu_of_children(), threading.Event()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=as_installed())
    watch = Watch(process.pid)
    watcher = threading.Thread(target=watch.run, args=(done,))
    watcher.start()
    try:
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        done.set()
        watcher.join()
    assert process.returncode == 0, said.decode()[-3000:]
    while left := children() - others:  # what it left behind
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
    tab = statistics.fmean(watch.tabs) if watch.tabs else 0.0
    return Use(pages, cpu_of_children() - before, sum(watch.own.values()), tab, watch.memory)


# --- the webs ---


@dataclass(frozen=True)
class BrowserWeb:
    nginx: Nginx
    folder: Path

    def seeds(self, kind: str, count: int) -> Path:
        path = self.folder.parent / f"{kind}-{count}.txt"
        path.write_text("".join(f"http://{HOST}:{self.nginx.port}/{kind}/{number}.html\n" for number in range(count)))
        return path


@contextmanager
def browser_web() -> Iterator[BrowserWeb]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "web"
        chance = random.Random(1)
        for kind in ("light", "app"):
            (folder / kind).mkdir(parents=True)
        text = " ".join(chance.choices(("mill", "river", "grain", "stone"), k=300))
        for number in range(PAGES):
            (folder / "light" / f"{number}.html").write_text(LIGHT.format(number=number, text=text))
            (folder / "app" / f"{number}.html").write_text(SHELL)
        (folder / "style.css").write_text(
            "@font-face { font-family: own; src: url(/own.woff2) } #root { font-family: own, serif }"
        )
        (folder / "own.woff2").write_bytes(chance.randbytes(30_000))
        (folder / "light.js").write_text("document.getElementById('out').textContent = 'written by a script';")
        filler = "".join(f"export const f{n} = (a) => a.map((b) => b * {n} + {n % 7});\n" for n in range(4000))
        (folder / "app.js").write_text(APP + filler)
        for number in range(6):
            (folder / f"chunk{number}.js").write_text(
                f"export const word = ' of {number}';\n" + filler[:20_000].rpartition("\n")[0]
            )
        (folder / "items.json").write_text(json.dumps([f"item {number}" for number in range(200)]))
        for number, colour in enumerate(("one", "two")):
            (folder / f"{colour}.png").write_bytes(png(colour=(90 * number, 40, 90)))
        with nginx_serving(hosts={HOST: folder}, addresses={HOST: HOST}) as nginx:
            yield BrowserWeb(nginx, folder)


# --- the crawlers ---


def webmill(web: BrowserWeb, kind: str, browser: str, count: int = PAGES) -> Use:
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={web.seeds(kind, count)}"]
        command += [*OURS.split(), "--page-resource-delay=0", "--depth=0", "--browser=always"]
        command += [f"--browser-path={browser}", f"--browser-tabs={TABS}"]
        used = measured(command, count)
        made = _pages_in(Path(name))
        assert made == count, f"webmill made {made} pages of {count}"
        return used


def _pages_in(root: Path) -> int:
    found = 0
    for path in root.glob("**/*.warc.gz"):
        with path.open("rb") as file:
            found += sum(
                (record.headers.get("WARC-Target-URI") or "").startswith("urn:pageinfo:")
                for record in ArchiveIterator(file, record_types=WarcRecordType.resource)
            )
    return found


def crawlee(web: BrowserWeb, kind: str, browser: str, *options: str, count: int = PAGES) -> Use:
    command = [str(RIVALS), str(PROGRAMS / "with_crawlee_browser.py"), str(web.seeds(kind, count))]
    asked = len(web.nginx.log())
    used = measured([*command, f"--browser={browser}", f"--tabs={TABS}", *options], count)
    made = {one.path for one in web.nginx.log()[asked:] if one.status == 200 and one.path.endswith(".html")}
    assert len(made) == count, f"crawlee made {len(made)} pages of {count}"
    return used


def crawls(web: BrowserWeb, kind: str, browser: str) -> dict[str, Callable[[int], Use]]:
    own = {"webmill, WARC, pictures": lambda count: webmill(web, kind, browser, count)}
    if not RIVALS.exists():
        return own
    return own | {
        "crawlee, Playwright, waiting for quiet, pictures": lambda count: crawlee(
            web, kind, browser, "--whole", count=count
        ),
        "crawlee, Playwright, waiting for load": lambda count: crawlee(web, kind, browser, count=count),
    }


def race(web: BrowserWeb, kind: str, browser: str) -> None:
    ways = crawls(web, kind, browser)
    rounds = [{name: crawl(PAGES).beyond(crawl(1)) for name, crawl in ways.items()} for _ in range(ROUNDS)]
    best = {name: min((one[name] for one in rounds), key=lambda used: used.per_page) for name in ways}
    ours = next(iter(best.values()))
    print(f"\n## Pages in a browser: {'light pages' if kind == 'light' else 'pages of an application'}, {TABS} tabs\n")
    print("| | CPU ms/page | the crawler's own | pages/s of CPU | times our CPU | MB of a tab | MB at most | start |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, used in best.items():
        print(
            f"| {name} | {used.per_page:.0f} | {used.own_per_page:.1f} | {1000 / used.per_page:.1f} "
            f"| {used.per_page / ours.per_page:.2f} | {used.tab / 1e6:.0f} "
            f"| {used.memory / 1e6:.0f} | {used.start:.2f} |"
        )
    sys.stdout.flush()


# --- auto, where no page needs a browser ---


def static_cost() -> None:
    with made_web(SMALL) as web:
        found: dict[str, list[float]] = {"never": [], "auto": []}
        for _ in range(ROUNDS + 1):
            for mode, costs in found.items():
                with tempfile.TemporaryDirectory() as name:
                    command = [sys.executable, "-m", "webmill", "crawl", f"{name}/bench", f"--seeds={web.seeds}"]
                    command += [*OURS.split(), "--scope=any", f"--browser={mode}"]
                    costs.append(measured(command, web.pages).per_page)
    never, auto = min(found["never"]), min(found["auto"])
    print("\n## Static pages: `auto` beside `never`\n\n| | CPU ms/page, best | median |\n|---|---:|---:|")
    for mode, costs in found.items():
        print(f"| {mode} | {min(costs):.3f} | {statistics.median(costs):.3f} |")
    print(
        f"\n`auto` costs {100 * (auto / never - 1):+.1f} % of CPU on {web.pages:,} pages of which none needs a browser."
    )
    if file := sample():
        decision(file)
    sys.stdout.flush()


def decision(file: Path) -> None:
    with file.open("rb") as stream:
        records = ArchiveIterator(stream, record_types=WarcRecordType.response)
        pages = [page for record in records if (page := record.reader.read())]
    pages = [page for page in pages if b"<script" in page[: 1 << 20]]
    began = time.process_time()
    chosen = sum(map(needs_browser, pages))
    took = 1e6 * (time.process_time() - began) / len(pages)
    print(f"\nThe decision takes {took:.0f} µs for each of {len(pages):,} real pages with scripts; it chose {chosen}.")


def main() -> None:
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    browser = find_browser("")
    if not browser:
        sys.exit("no browser: apt-get install chromium-headless-shell")
    with browser_web() as web:
        for kind in ("light", "app"):
            race(web, kind, str(browser))
    static_cost()


if __name__ == "__main__":
    main()

"""Traps: how many requests each of them costs, and how many pages of real sites are lost to the guards.

A crawl without a network: links are read, folded, judged by the scope and by what their patterns give, as the crawler
does it (`crawl/yields`), breadth first in one domain, until nothing is left or 20,000 requests were made. Beside each
trap lie 40 real pages, which must all be found. Sites without a trap: made ones of the shapes that look like traps,
and folders of HTML as they were published: the Rust documentation if rustup has it, and those that WEBMILL_BENCH_SITES
names, with colons between. `tests/unit/crawl/test_trapping.py` runs a short version.
"""

from __future__ import annotations

import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, permutations
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from webmill.crawl.page.links import read_links
from webmill.crawl.page.url_joining import join_urls
from webmill.crawl.scope import Scope, ScopeRules
from webmill.crawl.traps import TrapRules
from webmill.crawl.yields.domain_yield import YieldBudget
from webmill.crawl.yields.folding import fold_url
from webmill.crawl.yields.judge import SLOW_PRIORITY, YieldJudge
from webmill.crawl.yields.page_sample import sample_page
from webmill.crawl.yields.yield_store import YieldStore
from webmill.model import Link
from webmill.testing import TestWeb
from webmill.testing.articles import plain_page
from webmill.testing.seeded_random import hash_number

Site = Callable[[str], bytes | str | None]  # of a URL: a page, where it redirects to, or nothing
HOST = "http://site.example"
MOST = 20_000  # requests
REAL_PAGES = 40
FIRST = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "su", "ta", "ve")
SECOND = ("rn", "lk", "sto", "ngle", "mper", "dra", "tch", "vish", "wel", "yon", "zet", "kra")
WORDS = [first + second for first in FIRST for second in SECOND]


class Outcome(msgspec.Struct, frozen=True):
    requests: int
    real: int  # pages with a text of their own that were fetched
    parked: int
    seconds: float  # of CPU


def crawl(site: Site, start: str, *, guarded: bool, most: int = MOST, is_real: Callable[[str], bool]) -> Outcome:
    """Crawl a site breadth first. Without guards: as before there were yields, with the traps found in URLs alone."""
    rules = ScopeRules(kind="domain", traps=TrapRules())
    scope = Scope(rules, seeds=[start], year=2024)
    judge = YieldJudge(YieldStore(None, YieldBudget()), folds=True) if guarded else None
    first, last = deque([Link(start)]), deque[Link]()
    known, via = {start}, dict[str, str]()
    requests = real = parked = 0
    began = time.process_time()
    while (first or last) and requests < most:
        link = first.popleft() if first else last.popleft()
        if judge and link.depth and judge.yields.standing(link.url).standing == "parked":
            parked += 1
            continue
        requests += 1
        answer = site(link.url)
        real += isinstance(answer, bytes) and is_real(link.url)
        links, sample, status = [], None, 404
        if isinstance(answer, str):
            targets = join_urls(link.url, [answer])
            links, status = [Link(url, link.depth, redirects=link.redirects + 1) for url in targets], 301
        elif answer is not None:
            page = read_links(answer, url=link.url, content_type="text/html; charset=utf-8")
            urls = dict.fromkeys(map(fold_url, page.links) if guarded else page.links)
            links, status = [Link(url, link.depth + 1) for url in urls], 200
            sample = sample_page(answer, url=link.url, canonical=page.canonical) if guarded else None
        links = [each for each in links if each.url not in known and scope.decide(each.url, each.depth) is None]
        if judge:
            leads_on = bool(links) and status == 301
            judge.yields.observe(sample, url=link.url, status=status, via=via.get(link.url, ""), leads_on=leads_on)
            links, refused = judge.sort_links(links, now=0.0)
            parked += len(refused)
            known.update(done.url for done in refused)
        for each in links:
            if each.url not in known:
                known.add(each.url)
                via[each.url] = link.url
                (last if each.priority == SLOW_PRIORITY else first).append(each)
    return Outcome(requests, real, parked, time.process_time() - began)


# --- made pages -------------------------------------------------------------------------------------------------------


def words(*about: object, count: int = 60) -> str:
    """Return a text that is the same for the same subject, and like no other."""
    chance = random.Random(hash_number(*map(str, about)))
    return " ".join(chance.choice(WORDS) for _ in range(count))


NAVIGATION = "".join(f'<li><a href="/real/{number}">Page {number}</a></li>' for number in range(REAL_PAGES))
FRAME = (
    "<nav><ul>" + "".join(f"<li>{words('navigation', number, count=3)}</li>" for number in range(30)) + "</ul></nav>"
)


def made(title: str, text: str, links: Iterator[str] | list[str], *, head: str = "") -> bytes:
    """Return a page with the frame that all pages of its site have."""
    labels = [(href, href.rstrip("/").rpartition("/")[2].partition("?")[0]) for href in links]
    anchors = "".join(f'<li><a href="{href.replace("&", "&amp;")}">{label}</a></li>' for href, label in labels)
    return plain_page(title, f"{FRAME}<p>{text}</p><ul>{anchors}</ul>", head=head)


def with_real_pages(trap: Site, start: str) -> Site:
    """Return a site with a home page, real pages, and a trap."""

    def site(url: str) -> bytes | str | None:
        path = urlsplit(url).path
        if path == "/":
            return made("Home", "Welcome", [start, *(f"/real/{number}" for number in range(REAL_PAGES))])
        if path.startswith("/real/"):
            return made(f"Story {words(path, count=4)}", words(path), ["/", start])
        return trap(url)

    return site


def is_real_page(url: str) -> bool:
    return "/real/" in url


def parameters(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def number_in(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 1


MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip


def calendar(url: str) -> bytes:
    year, month = (number_in(part) for part in (urlsplit(url).path + "/1/1").split("/")[2:4])
    months = year * 12 + month - 1
    near = [f"/calendar/{each // 12}/{each % 12 + 1:02d}/" for each in (months - 1, months + 1)]
    days = [f"/calendar/{year}/{month:02d}/{day:02d}/" for day in range(1, 29)]
    return made(f"Events in {MONTHS[months % 12]} {year}", "There are no events in this month.", near + days)


def calendar_by_query(url: str) -> bytes:
    start = number_in(parameters(url).get("start"))
    near = [f"/events?start={start + step}&view={view}" for step in (-86400, 86400) for view in ("day", "week")]
    return made("Events", "Nothing happens on this day.", near)


FACETS = {
    "colour": ["red", "blue", "green", "black", "white"],
    "size": ["s", "m", "l", "xl"],
    "brand": words("brands", count=8).split(" "),
    "sort": ["price", "name", "new"],
    "page": ["1", "2", "3"],
}


def facets(url: str) -> bytes:
    chosen = parameters(url)
    items = [
        number for number in range(60) if all(hash_number(number, key, value) % 2 for key, value in chosen.items())
    ]
    links = [
        f"/shop?{urlencode(sorted({**chosen, key: value}.items()))}"
        for key, values in FACETS.items()
        for value in values
    ]
    products = [f"/real/{number % REAL_PAGES}" for number in items]
    return made(" ".join(chosen.values()) or "Shop", ", ".join(chosen.values()), links + products)


def facets_in_path(url: str) -> bytes:
    chosen = [part for part in urlsplit(url).path.split("/")[2:] if part]
    every = [value for values in FACETS.values() for value in values]
    links = ["/filter/" + "/".join([*chosen, value]) + "/" for value in every if value not in chosen]
    return made("Shop", "Our products", links if len(chosen) < 6 else [])


def replytocom(url: str) -> bytes | None:
    path = urlsplit(url).path
    if path == "/blog/":
        return made("Blog", "All posts", [f"/blog/{slug(number)}/" for number in range(200)])
    canonical = f'<link rel="canonical" href="{HOST}{path}">'
    replies = [f"{path}?replytocom={hash_number(path, number) % 10**6}" for number in range(20)]
    return made(words(path, count=5), words(path), [*replies, "/blog/"], head=canonical)


def slug(number: object) -> str:
    return "-".join(words("slug", number, count=4).split())


def doubled(_: str) -> bytes:
    """Relative links without a <base>, and a server that answers whatever stands in front: `/en/en/about/en/`."""
    return made("Welcome", "Our company", ["en/", "de/", "about/", "contact/"])


def pagination(url: str) -> bytes:
    page = number_in(parameters(url).get("page"))
    items = [f"/real/{(page - 1) * 10 + number}" for number in range(10)] if page <= REAL_PAGES // 10 else []
    return made(
        f"News, page {page}", "Older news" if items else "There is nothing here.", [f"/news?page={page + 1}", *items]
    )


def session(url: str) -> bytes:
    item = number_in(parameters(url).get("item"))
    links = [f"/item?item={(item * 3 + step) % 30}&token={hash_number(url, step):016x}" for step in range(5)]
    return made(words("item", item, count=4), words("item", item), links)


def known_session(url: str) -> bytes:
    item = number_in(parameters(url).get("item"))
    links = [f"/item?item={(item * 3 + step) % 30}&sid={hash_number(url, step):016x}" for step in range(5)]
    return made(words("item", item, count=4), words("item", item), links)


def campaign(url: str) -> bytes:
    item = number_in(parameters(url).get("item"))
    links = [f"/item?item={(item * 3 + step) % 30}&utm_source={hash_number(url, step):x}" for step in range(5)]
    return made(words("item", item, count=4), words("item", item), links)


def endless_search(url: str) -> bytes:
    query = parameters(url).get("q", "mill")
    links = [f"/search?q={words(query, number, count=1)}{number}" for number in range(8)]
    return made(f"Results for {query}", f"Nothing was found for {query}.", links)


def echoed(url: str) -> str:
    return f"/go?to={hash_number(url) % 10**9}"


def orders(url: str) -> bytes:
    chosen = list(parameters(url).items())[:4] or [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    return made("Table", "A table", [f"/table?{urlencode(order)}" for order in permutations(chosen)])


TRAPS: dict[str, tuple[Site, str]] = {
    "calendar": (calendar, "/calendar/2024/05/"),
    "calendar by time": (calendar_by_query, "/events?start=1717200000"),
    "facets": (facets, "/shop"),
    "facets in the path": (facets_in_path, "/filter/"),
    "replytocom": (replytocom, "/blog/"),
    "doubled paths": (doubled, "/en/"),
    "endless pagination": (pagination, "/news?page=1"),
    "tokens": (session, "/item?item=1"),
    "session ids": (known_session, "/item?item=1"),
    "campaigns": (campaign, "/item?item=1"),
    "endless search": (endless_search, "/search?q=mill"),
    "endless redirects": (echoed, "/go?to=1"),
    "orders of parameters": (orders, "/table"),
}


# --- sites without a trap ---------------------------------------------------------------------------------------------


def archive_site(count: int) -> Site:
    """A newspaper: many articles of one shape behind pages of ten, and pages of months and days."""

    def site(url: str) -> bytes | None:
        path, page = urlsplit(url).path, number_in(parameters(url).get("page"))
        if path == "/":
            pages = count // 10
            return made("News", words(path), [f"/archive?page={each}" for each in range(1, pages + 1, 50)])
        if path == "/archive":
            articles = [f"/article/{number}/{slug(number)}" for number in range(page * 10 - 10, page * 10)]
            return made(f"Page {page}", "", [*articles, *([f"/archive?page={page + 1}"] if page * 10 < count else [])])
        return made(words(path, "title", count=6), words(path, count=150), ["/"])

    return site


def gallery_site(count: int) -> Site:
    """Pictures with hardly a word, each with its page, reached through the one before."""

    def site(url: str) -> bytes | None:
        number = number_in(urlsplit(url).path.rpartition("/")[2])
        picture = f'<img src="/pictures/{hash_number(number):x}.jpg">' if number > 1 else ""
        return plain_page(f"Picture {number}", f'{FRAME}{picture}<a href="/photo/{number + 1}">next</a>') if (
            number <= count
        ) else None  # fmt: skip

    return site


def table_site(count: int) -> Site:
    """Pages of data with nothing but numbers that differ."""

    def site(url: str) -> bytes | None:
        number = number_in(urlsplit(url).path.rpartition("/")[2])
        cells = "".join(f"<td>{hash_number(number, cell) % 10**5 / 10}</td>" for cell in range(48))
        links = "".join(f'<a href="/station/{each}">s</a>' for each in range(number + 1, number + 3) if each <= count)
        return plain_page(f"Station {number}", f"{FRAME}<table><tr>{cells}</tr></table>{links}")

    return site


def forum_site(count: int) -> Site:
    """Threads of several pages, with many short ones, and links to single posts that redirect to their thread."""

    def site(url: str) -> bytes | str | None:
        path, asked = urlsplit(url).path, parameters(url)
        page = number_in(asked.get("page"))
        if path in ("/", "/board"):
            threads = [f"/thread.php?id={each}" for each in range(page * 20 - 20, min(count, page * 20))]
            return made(f"Board {page}", "", threads + ([f"/board?page={page + 1}"] if page * 20 < count else []))
        if path == "/post.php":
            return f"/thread.php?id={number_in(asked.get('p')) // 10}"
        thread = number_in(asked.get("id"))
        more = [f"/thread.php?id={thread}&page={page + 1}"] if page <= thread % 3 else []
        posts = [f"/post.php?p={thread * 10 + post}" for post in range(3)]
        return made(words(thread, count=5), words(thread, page, count=25), more + posts)

    return site


def folder_site(root: Path) -> Site:
    """A folder of HTML files, as it would be served."""

    def site(url: str) -> bytes | None:
        file = root / urlsplit(url).path.lstrip("/")
        file = file / "index.html" if file.is_dir() else file
        return file.read_bytes() if file.suffix in (".html", ".htm") and file.is_file() else None

    return site


def real_folders() -> Iterator[Path]:
    rust = sorted(Path.home().glob(".rustup/toolchains/stable*/share/doc/rust/html"))
    named = filter(None, os.environ.get("WEBMILL_BENCH_SITES", "").split(":"))
    yield from (folder for folder in [*rust, *map(Path, named)] if folder.is_dir())


# --- what is printed --------------------------------------------------------------------------------------------------


def race_trap(name: str, *, most: int = MOST) -> tuple[Outcome, Outcome]:
    """Return what a trap costs without the yields, and with them."""
    trap, start = TRAPS[name]
    site = with_real_pages(trap, start)
    before, after = (crawl(site, f"{HOST}/", guarded=each, most=most, is_real=is_real_page) for each in (False, True))
    return before, after


def made_sites(count: int) -> Iterator[tuple[str, Site, str]]:
    yield "newspaper", archive_site(count), f"{HOST}/"
    yield "gallery", gallery_site(count), f"{HOST}/photo/1"
    yield "tables of numbers", table_site(count), f"{HOST}/station/1"
    yield "forum", forum_site(count), f"{HOST}/"


def real_sites() -> Iterator[tuple[str, Site, str]]:
    with TestWeb(hosts=1, pages_per_host=200) as web:
        yield "a host of the test web", lambda url: plain_body(web, url), web.home
    for folder in real_folders():
        yield f"{folder.parent.name}/{folder.name}", folder_site(folder), f"{HOST}/index.html"


def plain_body(web: TestWeb, url: str) -> bytes | None:
    try:
        return web.body(url)
    except Exception:  # noqa: BLE001 - whatever is no plain page
        return None


def lost_pages(site: Site, start: str, *, most: int) -> tuple[Outcome, Outcome]:
    """Return a crawl of a site without a trap, without the yields and with them."""
    before, after = (crawl(site, start, guarded=each, most=most, is_real=bool) for each in (False, True))
    return before, after


def main() -> None:
    print(f"\n## Traps: requests of at most {MOST:,}\n\n| trap | by URL alone | by yield | parked | real pages |")
    print("|---|---:|---:|---:|---:|")
    for name in TRAPS:
        before, after = race_trap(name)
        print(
            f"| {name} | {before.requests:,} | {after.requests:,} | {after.parked:,} | {after.real} of {before.real} |"
        )
    print(f"\n## Sites without a trap, {MOST:,} requests at most\n")
    print(
        "| site | pages | lost | share | URLs parked | CPU a page, ms: without, with |\n|---|---:|---:|---:|---:|---:|"
    )
    for name, site, start in chain(made_sites(5000), real_sites()):
        before, after = lost_pages(site, start, most=MOST)
        lost = before.real - after.real
        cost = f"{1e3 * before.seconds / before.requests:.2f}, {1e3 * after.seconds / after.requests:.2f}"
        print(f"| {name} | {before.real:,} | {lost:,} | {lost / before.real:.2%} | {after.parked:,} | {cost} |")


if __name__ == "__main__":
    main()

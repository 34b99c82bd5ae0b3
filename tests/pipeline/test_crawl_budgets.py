"""What a crawl is told to leave: budgets, scope, patterns, domains. Judged by the log of the server."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from time import time

import msgspec
import pytest

from tests.pipeline.crawling import (
    ALLOW,
    Growing,
    Linked,
    Seen,
    Setup,
    counts,
    crawl,
    crawl_here,
    frontiers,
    moved_to,
    seen_by,
    visits,
)
from webmill.crawl.frontier.base import ClaimRequest, DomainTurn, FrontierUpdate, domain_of
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.options import CrawlLimits, CrawlOptions, CrawlRules
from webmill.crawl.page.links import MAX_LINKS
from webmill.crawl.politeness.requester import open_fetcher
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.scheduler.inbox import shard_of
from webmill.crawl.scheduler.shard_process import make_crawler, open_store
from webmill.model import Link
from webmill.testing import HttpReply, TestWeb


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def pages_of(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if not one.is_robots]


def limited(**limits: float) -> CrawlLimits:
    return CrawlLimits(retry_wait=0.2, **limits)  # type: ignore[arg-type]


def names_in(shard: int, shards: int, count: int) -> list[str]:
    names = (f"www.d{number}.test" for number in range(10_000))
    return [name for name in names if shard_of(f"http://{name}/", shards) == shard][:count]


@pytest.mark.parametrize("processes", [1, 3], ids=["one process", "three processes"])
@pytest.mark.parametrize("pages", [1, 7, 50])
def test_exactly_as_many_pages_are_asked_for_as_may_be(root: Path, processes: int, pages: int) -> None:
    sites = {f"www.d{number}.test": Linked(20) for number in range(6)}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), processes=processes, limits=limited(pages=pages))
        report = crawl_here(root, setup)
        assert web.log.settle()
        seen = pages_of(seen_by(web.log))
        assert len(seen) == len(counts(seen)) == pages == report.total.pages
        assert report.end == "pages"
        assert crawl_here(root, setup).end == "pages"
        more = msgspec.structs.replace(setup, limits=limited(pages=pages + 5))
        assert crawl_here(root, more).total.pages == pages + 5
        assert web.log.settle()
        assert set(counts(pages_of(seen_by(web.log))).values()) == {1}
        assert len(pages_of(seen_by(web.log))) == pages + 5


def test_what_one_process_cannot_use_another_gets(root: Path) -> None:
    """All but one page is of one shard: what the others were granted comes back."""
    poor, rich = names_in(0, 3, 1) + names_in(1, 3, 1), names_in(2, 3, 1)
    sites = {name: Linked(0) for name in poor} | {name: Linked(60) for name in rich}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), processes=3, limits=limited(pages=50))
        report = crawl_here(root, setup)
        assert web.log.settle()
        seen = pages_of(seen_by(web.log))
    assert report.end == "pages"
    assert report.total.revoked
    assert len(seen) == len(counts(seen)) == 50
    assert Counter(one.host for one in seen)[rich[0]] == 48


def test_pages_that_are_taken_back_while_turns_are_claimed_are_not_given_twice(root: Path) -> None:
    sites = {f"www.d{number}.test": Linked(0) for number in range(3)}
    with TestWeb(hosts=0, sites=sites) as web:
        setup = Setup(seeds=(), resolve=dict(web.resolve), limits=limited(pages=9))
        seen = asyncio.run(visit_all_but_take_back(setup.options(root), [f"http://{name}/" for name in sites]))
    assert seen.revoked
    assert seen.pages == 3 <= seen.granted


async def visit_all_but_take_back(options: CrawlOptions, urls: list[str]) -> CrawlProgress:
    """What its parent has granted it takes back whenever turns are claimed."""
    loop = asyncio.get_running_loop()

    async def take_back() -> None:
        shard.revoke()

    class Frontier(LocalFrontier):
        def claim(self, request: ClaimRequest) -> list[DomainTurn]:
            asyncio.run_coroutine_threadsafe(take_back(), loop).result(60)
            return super().claim(request)

    with ExitStack() as parts:
        store = open_store(options, 0, 1, parts)
        store.frontier.commit(FrontierUpdate(links=[Link(url) for url in urls]), now=store.clock())
        store.frontier.__class__ = Frontier
        options.folder.seeds.write_text("\n".join(urls))
        fetcher = open_fetcher(
            options.politeness, options.limits, options.network, connections=options.settings.concurrency
        )
        shard = make_crawler(options, store, fetcher, report=lambda _: None)
        shard.grant(len(urls))
        running = asyncio.create_task(shard.run())
        async with asyncio.timeout(60):
            while shard.progress.pages < len(urls):
                await asyncio.sleep(0.05)
        shard.stop(grace=10.0)
        await running
        await fetcher.close()
        return shard.progress


def test_a_crew_of_real_processes_keeps_to_its_pages(root: Path) -> None:
    sites = {f"www.d{number}.test": Linked(20) for number in range(6)}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        crawl(root, Setup(seeds=seeds, resolve=dict(web.resolve), processes=2, limits=limited(pages=40)))
        assert web.log.settle()
        assert len(pages_of(seen_by(web.log))) == 40


def test_failures_and_sitemaps_are_no_pages_but_missing_ones_are(root: Path) -> None:
    """A page counts when its answer is archived, whatever it says."""
    missing = HttpReply(status=404, body=b"<html>no</html>")
    with TestWeb(hosts=0, sites={"www.one.test": Linked(3, gone=missing)}) as web:
        resolve = {**web.resolve, "www.dead.test": ("127.0.0.9", 1)}
        seeds = ("http://www.one.test/gone", "http://www.one.test/", "http://www.dead.test/")
        setup = Setup(seeds=seeds, resolve=resolve, limits=CrawlLimits(retry_wait=0.1, attempts=1, pages=5))
        report = crawl_here(root, setup)
    assert report.end == "pages"
    assert sum(visit.status > 0 for visit in visits(root).values()) == 5


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_no_domain_gives_more_pages_than_it_may(root: Path, processes: int) -> None:
    sites = {f"{name}.d{number}.test": Linked(20) for number in range(4) for name in "ab"}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        limits = limited(pages_per_domain=6)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), processes=processes, limits=limits)
        report = crawl_here(root, setup)
        crawl_here(root, msgspec.structs.replace(setup, seeds=("http://a.d0.test/another",)))
        assert web.log.settle()
        seen = pages_of(seen_by(web.log))
    assert report.end == "finished"
    assert Counter(domain_of(one.url) for one in seen) == dict.fromkeys((f"d{number}.test" for number in range(4)), 6)
    over = [visit for visit in visits(root).values() if visit.error == "max_pages_per_domain"]
    assert len(over) == 4 * (2 * 21 - 6) + 1


def test_what_waits_for_a_server_does_not_keep_pages_from_others(root: Path) -> None:
    """A shard whose only page may be asked for again in an hour is not idle, and has no use for pages."""
    (slow,), (rich,) = names_in(0, 2, 1), names_in(1, 2, 1)
    busy = HttpReply(status=503, headers=(("Retry-After", "3600"),))
    with TestWeb(hosts=0, sites={slow: Linked(0, later=busy), rich: Linked(60)}) as web:
        seeds = (f"http://{slow}/later", f"http://{rich}/")
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), processes=2, limits=limited(pages=10, seconds=60))
        report = crawl_here(root, setup)
        assert web.log.settle()
        seen = pages_of(seen_by(web.log))
    assert report.end == "pages"
    assert Counter(one.host for one in seen if one.status == 200) == {rich: 10}


def test_both_limits_on_pages_hold_together(root: Path) -> None:
    sites = {f"www.d{number}.test": Linked(30) for number in range(12)}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        limits = limited(pages=20, pages_per_domain=3)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), limits=limits))
        assert web.log.settle()
        seen = pages_of(seen_by(web.log))
    assert len(seen) == len(counts(seen)) == 20
    assert max(Counter(one.host for one in seen).values()) <= 3


def test_a_domain_gives_all_the_pages_it_may_also_when_some_of_its_urls_give_none(root: Path) -> None:
    robots = b"User-agent: *\nDisallow: /0\nDisallow: /1\nDisallow: /2\n"
    with TestWeb(hosts=0, sites={"www.one.test": Linked(10, robots=robots)}) as web:
        limits = limited(pages_per_domain=3)
        crawl_here(root, Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), limits=limits))
        assert web.log.settle()
        assert len(pages_of(seen_by(web.log))) == 3


def test_it_ends_when_its_time_is_over_and_goes_on_later(root: Path) -> None:
    site = Growing()
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        setup = Setup(
            seeds=("http://www.one.test/",), resolve=dict(web.resolve), delay=0.2, limits=limited(seconds=0.8)
        )
        assert crawl_here(root, setup).end == "seconds"
        site.grows = False
        last = crawl_here(root, msgspec.structs.replace(setup, limits=limited()))
        assert web.log.settle()
        asked = counts(seen_by(web.log))
    assert last.end == "finished"
    assert set(asked.values()) == {1}
    assert last.total.pages == len(asked) - 1  # and a robots.txt


def test_it_ends_when_it_has_its_bytes(root: Path) -> None:
    big = {str(number): HttpReply(body=f"<a href=/{number + 1}>on</a>".encode().ljust(50_000)) for number in range(9)}
    with TestWeb(hosts=0, sites={"www.one.test": Growing(**big)}) as web:
        setup = Setup(seeds=("http://www.one.test/0",), resolve=dict(web.resolve), delay=0.05)
        report = crawl_here(root, msgspec.structs.replace(setup, limits=limited(bytes=400_000)))
    assert report.end == "bytes"
    assert report.total.pages >= 8


def test_links_are_followed_as_deep_as_was_said(root: Path) -> None:
    chain = {
        f"c{number}": HttpReply(body=f'<html><a href="/c{number + 1}">on</a></html>'.encode()) for number in range(9)
    }
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, **chain)}) as web:
        setup = Setup(
            seeds=("http://www.one.test/c0",), resolve=dict(web.resolve), rules=CrawlRules(scope="any", depth=3)
        )
        crawl_here(root, setup)
        assert web.log.settle()
        asked = {one.path for one in seen_by(web.log)}
    assert asked == {"/robots.txt", "/c0", "/c1", "/c2", "/c3"}


LINKS = ("http://www.one.test/docs/b", "http://www.one.test/else", "http://sub.one.test/c", "http://www.two.test/d")


@pytest.mark.parametrize(
    ("scope", "followed"),
    [("path", LINKS[:1]), ("host", LINKS[:2]), ("domain", LINKS[:3]), ("any", LINKS)],
    ids=["path", "host", "domain", "any"],
)
def test_links_are_followed_within_the_scope(root: Path, scope: str, followed: tuple[str, ...]) -> None:
    page = HttpReply(body="".join(f'<a href="{link}">x</a>' for link in LINKS).encode())
    sites = {"www.one.test": Linked(0, **{"docs/a.html": page}), "sub.one.test": Linked(0), "www.two.test": Linked(0)}
    with TestWeb(hosts=0, sites=sites) as web:
        rules = CrawlRules(scope=scope)  # type: ignore[arg-type]
        crawl_here(root, Setup(seeds=("http://www.one.test/docs/a.html",), resolve=dict(web.resolve), rules=rules))
        assert web.log.settle()
        asked = {one.url for one in pages_of(seen_by(web.log))}
    assert asked == {"http://www.one.test/docs/a.html", *followed}


def test_patterns_choose_links_and_say_how_many_they_refused(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.one.test": Linked(30)}) as web:
        rules = CrawlRules(scope="any", include=("/1",), exclude=("/1[5-9]",))
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), rules=rules)
        report = crawl_here(root, setup)
        assert web.log.settle()
        asked = {one.path for one in pages_of(seen_by(web.log))}
    assert asked == {"/", "/1", "/10", "/11", "/12", "/13", "/14"}
    assert report.total.refused["excluded"] >= 5
    assert report.total.refused["not_included"] >= 19


def test_a_page_with_more_links_than_are_read_is_counted(root: Path) -> None:
    site = Linked(0)
    site.replies["/"] = HttpReply(body="".join(f"<a href={number}>" for number in range(MAX_LINKS + 5)).encode())
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        setup = Setup(
            seeds=("http://www.one.test/",), resolve=dict(web.resolve), rules=CrawlRules(scope="any", depth=0)
        )
        report = crawl_here(root, setup)
    assert report.total.refused == {"too_deep": MAX_LINKS, "too_many_links": 1}


def test_excluded_domains_are_never_asked_also_in_later_runs(root: Path) -> None:
    sites = {"www.one.test": Linked(2, out=moved_to("http://www.two.test/x")), "www.two.test": Linked(2)}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = ("http://www.one.test/", "http://www.two.test/", "http://www.one.test/out")
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), excluded=("two.test",), processes=2)
        report = crawl_here(root, setup)
        assert report.end == "finished"
        assert report.total.refused["excluded_domain"] == 2  # a seed and a redirect
        assert crawl_here(root, msgspec.structs.replace(setup, excluded=())).end == "finished"
        assert web.log.settle()
        assert {one.host for one in seen_by(web.log)} == {"www.one.test"}


def test_a_robots_txt_that_leads_to_an_excluded_domain_is_none(root: Path) -> None:
    site = Linked(1)
    site.replies["/robots.txt"] = moved_to("http://www.two.test/robots.txt")
    with TestWeb(hosts=0, sites={"www.one.test": site, "www.two.test": Linked(2)}) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), excluded=("two.test",))
        assert crawl_here(root, setup).total.pages == 2
        assert web.log.settle()
        assert {one.host for one in seen_by(web.log)} == {"www.one.test"}


TOMORROW = HttpReply(status=503, headers=(("Retry-After", "86400"),))


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_it_does_not_sleep_for_a_day_and_nothing_that_waits_is_lost(root: Path, processes: int) -> None:
    busy, free = names_in(0, 2, 1)[0], names_in(1, 2, 1)[0]
    site = Linked(2, robots=ALLOW)
    site.replies["/0"] = TOMORROW
    with TestWeb(hosts=0, sites={busy: site, free: Linked(3)}) as web:
        seeds = (f"http://{busy}/", f"http://{free}/")
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), processes=processes, limits=limited(wait=3600, pages=99))
        report = crawl_here(root, setup)
        assert report.end == "waiting"
        assert report.total.waiting_for == domain_of(seeds[0])
        assert report.total.next_due is not None
        assert 80_000 < report.total.next_due - time() <= 86_400
        asked = counts(seen_by(web.log))
        with frontiers(root) as opened:
            waiting = {link.url for one in opened for link in one.waiting()}
        assert waiting == {f"http://{busy}/0", f"http://{busy}/1"} - visits(root).keys()
        assert f"http://{busy}/0" in waiting
        again = crawl_here(root, setup)  # nobody is asked before the time
        assert (again.end, again.total.waiting, again.total.pages) == ("waiting", len(waiting), report.total.pages)
        assert web.log.settle()
        assert {url for url in counts(seen_by(web.log)) - asked if not url.endswith("/robots.txt")} == set()


def test_pages_wait_for_a_robots_txt_that_is_to_be_asked_for_tomorrow(root: Path) -> None:
    """They are not given up after some looks at what is known of it."""
    site = Linked(2)
    site.replies["/robots.txt"] = TOMORROW
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), limits=limited(wait=3600))
        for _ in range(2):
            report = crawl_here(root, setup)
            assert (report.end, report.total.waiting) == ("waiting", 1)
        assert web.log.settle()
        assert counts(seen_by(web.log)) == {"http://www.one.test/robots.txt": 1}
    assert visits(root) == {}


def test_it_waits_as_long_as_was_said(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.one.test": Linked(0, later=HttpReply(status=503))}) as web:
        limits = limited(wait=3600, attempts=2)
        setup = Setup(seeds=("http://www.one.test/later",), resolve=dict(web.resolve), limits=limits)
        assert crawl_here(root, setup).end == "finished"
        assert web.log.settle()
        assert counts(seen_by(web.log))["http://www.one.test/later"] == 2


def test_its_own_pace_does_not_end_it(root: Path) -> None:
    with TestWeb(hosts=0, sites={"www.one.test": Linked(1)}) as web:
        limits = limited(wait=0.0)
        setup = Setup(seeds=("http://www.one.test/",), resolve=dict(web.resolve), delay=0.3, limits=limits)
        report = crawl_here(root, setup)
    assert (report.end, report.total.pages) == ("finished", 2)

"""How often a crawl asks: no server is asked before its time, by the server's log and the crawl's own journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.crawl_manners import TICK, check_manners, keep_journal
from tests.pipeline.crawling import (
    Linked,
    Setup,
    captures,
    crawl,
    crawl_here,
    crawl_until,
    most_at_once,
    moved_to,
    seen_by,
)
from tests.services.nginx import Nginx
from webmill.crawl.options import CrawlLimits
from webmill.testing import Answer, HttpReply, ReceivedRequest, ScriptedReply, TestWeb, Wait

DELAY = 0.5


@pytest.fixture
def root(memory_folder: Path) -> Path:
    keep_journal(memory_folder / "collection")
    return memory_folder / "collection"


def test_domains_and_hosts_are_not_asked_before_their_delay(root: Path) -> None:
    sites = {f"{name}.{domain}.test": Linked(2) for domain in ("one", "two") for name in ("a", "b")}
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=DELAY, processes=2))
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 4 * (1 + 3)
    check_manners(root, seen, host=DELAY, domain=DELAY)
    assert most_at_once(seen) == 1


@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "two processes"])
def test_an_address_is_not_asked_before_its_delay_whoever_has_its_domains(root: Path, processes: int) -> None:
    sites = {f"www.d{number}.test": Linked(1) for number in range(4)}
    with TestWeb(hosts=0, sites=sites, addresses=("127.0.0.2",)) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), delay=DELAY, address_delay=DELAY, processes=processes)
        crawl(root, setup) if processes > 1 else crawl_here(root, setup)
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 4 * 3
    check_manners(root, seen, host=DELAY, domain=DELAY, address=DELAY)


def test_an_answer_that_was_slow_does_not_free_an_address_that_others_have_asked_meanwhile(root: Path) -> None:
    """It was asked so long ago that its time is over: the time of those who asked after it is not."""
    slow = ScriptedReply(steps=(Wait(40), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    sites = {"www.slow.test": Linked(0, late=slow)} | {f"www.d{number}.test": Linked(8) for number in range(3)}
    with TestWeb(hosts=0, sites=sites, addresses=("127.0.0.2",), pace=0.1) as web:
        seeds = ("http://www.slow.test/late", *(f"http://www.d{number}.test/" for number in range(3)))
        crawl_here(
            root,
            Setup(seeds=seeds, resolve=dict(web.resolve), delay=0.3, address_delay=0.3, window=1.0, obey_robots=False),
        )
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 1 + 3 * 9
    check_manners(root, seen, host=0.3, domain=0.3, address=0.3)


def test_a_robots_txt_elsewhere_waits_for_the_turn_of_that_host_and_its_domain(root: Path) -> None:
    moved = HttpReply(status=302, headers=(("Location", "http://b.one.test/robots.txt"),))
    sites = {
        "a.one.test": Linked(1, **{"robots.txt": moved}),
        "b.one.test": Linked(4),
        **{f"www.d{number}.test": Linked(1, **{"robots.txt": moved}) for number in range(4)},
    }
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=DELAY, processes=2))
        assert web.log.settle()
        seen = seen_by(web.log)
    check_manners(root, seen, host=DELAY, domain=DELAY)
    assert most_at_once(seen) == 1


def test_without_delays_too_a_host_is_asked_one_thing_at_a_time(root: Path) -> None:
    """Also when the robots.txt files of others lead there."""
    moved = HttpReply(status=302, headers=(("Location", "http://busy.one.test/robots.txt"),))
    slow = ScriptedReply(steps=(Wait(20), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
    sites = {
        "busy.one.test": Linked(3, slow=slow),
        **{f"www.d{number}.test": Linked(1, **{"robots.txt": moved}) for number in range(4)},
    }
    with TestWeb(hosts=0, sites=sites, pace=0.05) as web:
        seeds = ("http://busy.one.test/slow", *(f"http://{name}/" for name in sites))
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve)))
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 1 + 1 + 4 + 4 * 4
    assert most_at_once(seen) == 1


def test_a_crawl_delay_is_kept_also_where_the_operator_asks_for_none(root: Path) -> None:
    sites = {"www.wait.test": Linked(3, robots=b"User-agent: *\nCrawl-delay: 0.5\n")}
    with TestWeb(hosts=0, sites=sites) as web:
        crawl_here(root, Setup(seeds=("http://www.wait.test/",), resolve=dict(web.resolve)))
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 5
    check_manners(root, [one for one in seen if not one.is_robots], host=0.5)


def test_a_crawl_delay_lies_between_the_robots_txt_that_asks_for_it_and_the_first_page(root: Path) -> None:
    sites = {"www.wait.test": Linked(3, robots=b"User-agent: *\nCrawl-delay: 60\n")}
    with TestWeb(hosts=0, sites=sites) as web:
        limits = CrawlLimits(seconds=2.0)
        report = crawl_here(root, Setup(seeds=("http://www.wait.test/",), resolve=dict(web.resolve), limits=limits))
        assert web.log.settle()
        assert [one.path for one in web.log] in (["/robots.txt"], [])
    assert report.end == "seconds"


class Busy(Linked):
    """503 for the first request, and what it is asked for afterwards."""

    def __init__(self, *, seconds: int) -> None:
        super().__init__(3)
        self._first = [HttpReply(status=503, headers=(("Retry-After", str(seconds)),))]

    def answer(self, request: ReceivedRequest) -> Answer:
        return self._first.pop() if self._first else super().answer(request)


def test_a_retry_after_is_kept_over_a_restart(root: Path) -> None:
    """It is counted from the answer: the server has noted the request before that, and notes the next one after it."""
    with TestWeb(hosts=0, sites={"www.busy.test": Busy(seconds=4)}) as web:
        setup = Setup(seeds=("http://www.busy.test/busy",), resolve=dict(web.resolve), obey_robots=False)
        crawl_until(root, setup, lambda seen: seen.errors)
        crawl_here(root, setup)
        assert web.log.settle()
        seen = seen_by(web.log)
    assert [one.status for one in seen] == [503, 200, 200, 200, 200]
    assert seen[1].started - seen[0].started >= 4.0 - TICK


def test_a_delay_longer_than_any_retry_after_is_kept(root: Path) -> None:
    sites = {"www.one.test": Linked(0), "www.two.test": Linked(0)}
    with TestWeb(hosts=0, sites=sites, addresses=("127.0.0.2",)) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        setup = Setup(seeds=seeds, resolve=dict(web.resolve), delay=0.3, address_delay=0.3, max_retry_after=0.1)
        crawl_here(root, setup)
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 4
    check_manners(root, seen, address=0.3)


def test_an_empty_query_is_a_query_to_a_robots_txt(root: Path) -> None:
    site = Linked(0, robots=b"User-agent: *\nDisallow: /*?\nDisallow: /$\n")
    site.replies["/start"] = HttpReply(body=b"<a href=/page?><a href=/page?a><a href=/><a href=/page>")
    with TestWeb(hosts=0, sites={"www.one.test": site}) as web:
        report = crawl_here(root, Setup(seeds=("http://www.one.test/start",), resolve=dict(web.resolve)))
        assert web.log.settle()
        assert {visit.path for visit in web.log} == {"/robots.txt", "/start", "/page"}
    assert report.total.refused == {"robots": 3}


def test_nothing_is_asked_where_the_robots_txt_lies_on_a_host_that_wants_to_be_left_alone(root: Path) -> None:
    busy = HttpReply(status=503, headers=(("Retry-After", "86400"),))
    sites = {"www.busy.test": Linked(0, page=busy), "www.other.test": Linked(2)}
    sites["www.other.test"].replies["/robots.txt"] = moved_to("http://www.busy.test/robots.txt")
    with TestWeb(hosts=0, sites=sites) as web:
        for seed in ("http://www.busy.test/page", "http://www.other.test/"):
            limits = CrawlLimits(retry_wait=0.2, wait=3600.0)
            setup = Setup(seeds=(seed,), resolve=dict(web.resolve), delay=0.05, limits=limits)
            assert crawl_here(root, setup).end == "waiting"
        assert web.log.settle()
        asked = [one.url for one in seen_by(web.log)]
    assert asked == ["http://www.busy.test/robots.txt", "http://www.busy.test/page", "http://www.other.test/robots.txt"]
    assert "http://www.other.test/robots.txt" in {url for _, url, _ in captures(root)}


def test_a_robots_txt_that_asks_for_time_holds_its_whole_domain(root: Path) -> None:
    busy = Linked(0)
    busy.replies["/robots.txt"] = HttpReply(status=503, headers=(("Retry-After", "86400"),))
    with TestWeb(hosts=0, sites={"busy.one.test": busy, "www.one.test": Linked(2)}) as web:
        seeds = ("http://busy.one.test/", "http://www.one.test/")
        limits = CrawlLimits(retry_wait=0.1, wait=60.0)
        report = crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), limits=limits))
        assert web.log.settle()
        asked = [(one.host, one.path) for one in seen_by(web.log)]
    assert report.end == "waiting"
    assert asked == [("busy.one.test", "/robots.txt")]


@pytest.mark.parametrize("there", ["http://b.two.test/page", "http://b.two.test/closed"], ids=["allowed", "forbidden"])
def test_a_redirect_waits_for_its_hosts_turn_and_obeys_its_robots_txt(root: Path, there: str) -> None:
    moved = HttpReply(status=302, headers=(("Location", there),))
    sites = {
        "a.one.test": Linked(0, moved=moved),
        "b.two.test": Linked(2, robots=b"User-agent: *\nDisallow: /closed\n"),
    }
    with TestWeb(hosts=0, sites=sites) as web:
        seeds = ("http://a.one.test/moved", "http://b.two.test/")
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=DELAY, processes=2))
        assert web.log.settle()
        seen = seen_by(web.log)
    asked = {one.url for one in seen}
    assert (there in asked) == there.endswith("page")
    check_manners(root, seen, host=DELAY, domain=DELAY)
    assert most_at_once(seen) == 1


@pytest.mark.server("nginx")
def test_hundreds_of_hosts_are_asked_side_by_side_and_each_in_its_time(
    root: Path, nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    """Three names to a domain, each with an address of its own; nginx does not know us, and keeps the log."""
    hosts, addresses = {}, {}
    for number in range(240):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "0.html").write_text(f"<html>{number}</html>")
        name = f"h{number}.d{number // 3}.test"
        hosts[name], addresses[name] = folder, f"127.0.{3 + number // 100}.{1 + number % 100}"
    server = nginx(hosts=hosts, addresses=addresses)
    resolve = {name: (address, server.port) for name, address in addresses.items()}
    crawl(root, Setup(seeds=tuple(f"http://{name}/0.html" for name in hosts), resolve=resolve, delay=1.0, processes=2))
    seen = seen_by(server.log())
    assert len(seen) == 240 * 2
    assert all(one.status == (404 if one.is_robots else 200) for one in seen)
    check_manners(root, seen, host=1.0, domain=1.0)
    assert most_at_once(seen) == 1


def test_what_cannot_be_connected_is_not_hammered(root: Path) -> None:
    """Nobody listens: a try is a request to whoever is there."""
    with TestWeb(hosts=0, sites={"www.gone.test": Linked(0)}) as web:
        seeds = tuple(f"http://www.dead.test/{number}" for number in range(4))
        resolve = {"www.dead.test": ("127.0.0.9", 1)}
        limits = CrawlLimits(attempts=1, retry_wait=0.1)
        setup = Setup(seeds=seeds, resolve=resolve, delay=DELAY, obey_robots=False, limits=limits)
        report = crawl_here(root, setup)
        assert not len(web.log)
    assert report.total.errors == {"connect_refused": 4}
    assert report.seconds >= 3 * DELAY

"""A collection that is watched: each run looks again at what is due, and tells what changed, came and went."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.crawling import Setup, crawl_here
from tests.pipeline.watched_site import HOME, HOST, WatchedSite, change_settings, published, text, watch
from tests.unit.cli.command import started, webmill
from webmill.crawl.options import CrawlRules
from webmill.crawl.visit.revisit_schedule import RevisitSchedule
from webmill.testing import HttpReply, TestWeb

SITEMAP = "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{}</urlset>"
CRAWL = ("--stage", "crawl")
FEED = "<rss version='2.0'><channel>{}</channel></rss>"


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "watched"


def run(root: Path, *flags: str) -> str:
    ended = webmill("run", root, *flags)
    assert ended.code == 0, ended.err
    return ended.err


def words_found(root: Path, words: str) -> int:
    total = json.loads(webmill("search", root, f'"{words}"', "--json").out)["total"]
    assert isinstance(total, int)
    return total


def wait_for_the_next_run() -> None:
    time.sleep(1.0)


def test_every_run_looks_again_and_finds_what_changed_came_and_went(root: Path) -> None:
    site = WatchedSite("/a", "/b", "/c")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        run(root)
        assert [site.times(path) for path in ("/", "/a", "/b", "/c")] == [1, 1, 1, 1]
        assert published(root) == {"/a", "/b", "/c"}

        site.pages["/a"], site.pages["/new"] = text("second words"), text("a page that is new")
        del site.pages["/c"]
        wait_for_the_next_run()
        run(root)
        assert [site.times(path) for path in ("/", "/a", "/b", "/c", "/new")] == [2, 2, 2, 2, 1]
        assert published(root) == {"/a", "/b", "/c", "/new"}, "once may be a mistake of the server"
        assert words_found(root, "second words") == 1

        wait_for_the_next_run()
        said = run(root)
        assert "extract: done" in said
        assert [site.times(path) for path in ("/a", "/b", "/c")] == [3, 3, 3]
        assert published(root) == {"/a", "/b", "/new"}
        assert words_found(root, "first words of c") == 0


def test_a_run_right_after_another_asks_for_nothing(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, every="1d")
        run(root)
        before = list(site.requests)
        run(root, *CRAWL)
        assert site.requests == before
        change_settings(root, {"every": '"1s"'})  # whoever shortens it means the pages that are known, too
        wait_for_the_next_run()
        said = run(root)
        assert site.times("/a") == 2
    assert "publish: no documents since the live version" in said, "nothing changed: no document is made"


@pytest.mark.slow
def test_the_recipe_looks_three_times_in_three_runs(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, every="1d")
        process = started("run", root, "--every", "2s")
        try:
            deadline = time.monotonic() + 100
            while site.times("/a") < 3:
                assert time.monotonic() < deadline, process.poll()
                site.pages["/a"] = text(f"words of the version {site.times('/a')}")
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_sitemap_and_a_feed_say_what_is_to_be_looked_at_first(root: Path) -> None:
    site = WatchedSite("/a", "/b", "/c")
    site.linked = set()
    site.robots = f"User-agent: *\nAllow: /\nSitemap: {HOME}sitemap.xml\n".encode()

    def say(**modified: str) -> None:
        entries = "".join(
            f"<url><loc>{HOME}{path}</loc><lastmod>{day}</lastmod></url>" for path, day in modified.items()
        )
        site.replies["/sitemap.xml"] = HttpReply(body=SITEMAP.format(entries).encode(), media_type="application/xml")

    say(a="2020-01-01", b="2020-01-01")
    item = f"<item><link>{HOME}c</link></item>"
    site.replies["/feed"] = HttpReply(body=FEED.format(item).encode(), media_type="application/rss+xml")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        setup = Setup(
            seeds=(HOME, f"{HOME}feed"),
            resolve=dict(web.resolve),
            rules=CrawlRules(scope="host", sitemaps=True),
            revisits=RevisitSchedule.watching(8.0, longest=56.0),
        )
        paths = ("/a", "/b", "/c", "/sitemap.xml", "/feed")
        crawl_here(root, setup)
        assert [site.times(path) for path in paths] == [1, 1, 1, 1, 1]
        time.sleep(2.1)
        crawl_here(root, setup)
        assert [site.times(path) for path in paths] == [2, 2, 2, 2, 2]
        site.pages["/d"] = text("new by the sitemap")
        say(a="2020-01-01", b=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1)), d="2020-01-01")
        asked = len(site.requests)
        time.sleep(2.1)
        crawl_here(root, setup)
    assert set(site.requests[asked:]) == {"/sitemap.xml", "/feed", "/b", "/d"}, (
        "others did not change: they wait longer"
    )


def test_pages_are_looked_at_again_when_no_more_may_be_added(root: Path) -> None:
    site = WatchedSite(*(f"/{number}" for number in range(6)))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"max_pages": "3"})
        run(root, *CRAWL)
        first = set(site.requests)
        assert len(first) == 4  # with robots.txt
        wait_for_the_next_run()
        run(root, *CRAWL)
        assert set(site.requests) == first
        assert {site.times(path) for path in first - {"/robots.txt"}} == {2}


def test_new_urls_that_must_not_be_fetched_hold_up_no_page_that_is_due(root: Path) -> None:
    """The target of a redirect comes before pages that are linked to."""
    site = WatchedSite("/1", "/2", "/3")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"max_pages": "3", "delay": "0.05"})
        run(root, *CRAWL)
        seen = [path for path in ("/1", "/2", "/3") if site.times(path)]
        site.replies[seen[0]] = HttpReply(status=302, headers=(("location", "/elsewhere"),))
        for _ in range(2):
            wait_for_the_next_run()
            run(root, *CRAWL)
        assert [site.times(path) for path in seen] == [3, 3]
        assert not site.times("/elsewhere")


def test_a_run_that_takes_longer_than_its_interval_looks_once_at_every_page(root: Path) -> None:
    """The front page is due again while the others wait; as a seed it would be claimed before them."""
    site = WatchedSite("/1", "/2", "/3")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"delay": "0.5"})
        run(root, *CRAWL)
        wait_for_the_next_run()
        run(root, *CRAWL)
        assert [site.times(path) for path in ("/", "/1", "/2", "/3")] == [2, 2, 2, 2]


def test_new_pages_do_not_wait_until_all_known_ones_were_looked_at(root: Path) -> None:
    known, new = WatchedSite("/1", "/2", "/3", "/4"), WatchedSite("/a")
    known.requests = new.requests = order = []
    with TestWeb(hosts=1, sites={HOST: known, "www.new.test": new}) as web:
        watch(root, web, settings={"delay": "0.5"})
        run(root, *CRAWL)
        (root / "seeds.txt").write_text(f"{HOME}\nhttp://www.new.test/\n")
        wait_for_the_next_run()
        del order[:]
        run(root, *CRAWL)
    assert sorted(order) == sorted(["/robots.txt", "/a", "/", "/", "/1", "/2", "/3", "/4"])
    assert order.index("/a") < order.index("/4")


def test_a_site_that_had_lost_its_pages_for_days_is_watched_again_when_it_is_back(root: Path) -> None:
    site = WatchedSite("/a", "/b")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        run(root)
        site.replies = {path: HttpReply(status=404, body=b"not here") for path in ("/", "/a", "/b")}
        for _ in range(2):
            wait_for_the_next_run()
            ended = webmill("run", root, *CRAWL)
            assert (ended.code, f"{HOME}: http 404" in ended.err) == (3, True), ended.err
        site.replies = {}
        wait_for_the_next_run()
        run(root)
    assert [site.times(path) for path in ("/", "/a", "/b")] == [4, 4, 4]
    assert published(root) == {"/a", "/b"}


def test_what_robots_txt_and_rules_had_refused_is_fetched_when_they_allow_it(root: Path) -> None:
    site = WatchedSite("/a", "/secret", "/print")
    site.robots = b"User-agent: *\nDisallow: /secret\n"
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"exclude": '["/print"]'})
        run(root, *CRAWL)
        assert [site.times(path) for path in ("/", "/a", "/secret", "/print")] == [1, 1, 0, 0]
        known = explained(root, f"{HOME}secret")
        assert known["state"]["last"]["error"] == "robots"
        assert known["state"]["due"]
        change_settings(root, {"exclude": "[]", "robots": "false"})
        wait_for_the_next_run()
        run(root, *CRAWL)
        assert [site.times(path) for path in ("/", "/a", "/secret", "/print")] == [2, 2, 1, 1]
        wait_for_the_next_run()
        run(root, *CRAWL)
    assert [site.times(path) for path in ("/", "/a", "/secret", "/print")] == [3, 3, 2, 2]


def test_a_seed_whose_site_was_down_is_asked_by_the_next_run(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, settings={"resolve": json.dumps([f"{HOST}=127.0.0.1:9"])})
        ended = webmill("run", root, *CRAWL)
        assert ended.code == 3, ended.err
        assert f"{HOME}: robots unreachable" in ended.err
        address, port = web.resolve[HOST]
        change_settings(root, {"resolve": json.dumps([f"{HOST}={address}:{port}"])})
        wait_for_the_next_run()
        run(root, *CRAWL)
        assert site.times("/a") == 1


def test_a_site_that_is_down_does_not_hold_up_the_others(root: Path) -> None:
    """A server that asks for twenty minutes: the run is over long before."""
    site, down = WatchedSite("/a"), WatchedSite("/b")
    down.replies["/"] = HttpReply(status=503, headers=(("Retry-After", "1200"),))
    with TestWeb(hosts=1, sites={HOST: site, "www.down.test": down}) as web:
        watch(root, web, HOME, "http://www.down.test/", every="1d")
        said = run(root)
        assert "every remaining host must wait" in said
        assert published(root) == {"/a"}
        known = explained(root, "http://www.down.test/")
        assert known["state"]["known"] == "waiting"


def test_what_failed_is_explained_and_fetched_again_when_it_is_asked_for(root: Path) -> None:
    site = WatchedSite("/a", "/b")
    site.replies["/b"] = HttpReply(status=410, body=b"gone")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web, every="1d")
        run(root, *CRAWL)
        known = explained(root, f"{HOME}b")
        assert (known["state"]["known"], known["state"]["last"]["status"]) == ("visited", 410)
        assert (known["scope"], known["robots"]) == ("", "allowed")
        assert explained(root, f"{HOME}nobody")["state"]["known"] == "unknown"
        assert explained(root, "http://www.elsewhere.test/")["scope"] == "out_of_scope"
        del site.replies["/b"]
        site.pages["/a"], site.pages["/b"] = text("other words"), text("it is back")
        assert "0 URLs" in webmill("frontier", "retry", root, "--error", "http_404").err
        assert "1 URL " in webmill("frontier", "retry", root, "--error", "http_410").err
        assert "1 URL " in webmill("frontier", "retry", root, "--url", "/a$").err
        run(root, *CRAWL)
        assert [site.times(path) for path in ("/", "/a", "/b")] == [1, 2, 2]
    assert explained(root, f"{HOME}b")["state"]["last"]["status"] == 200
    said = webmill("frontier", "why", root, f"{HOME}a").out.decode()
    assert "status 200" in said
    assert "in scope" in said


def explained(root: Path, url: str) -> Any:
    ended = webmill("frontier", "why", root, url, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_flags_that_are_changed_apply_to_seeds_that_were_refused(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        address, port = web.resolve[HOST]
        flags = ["--contact", "me@example.org", "--delay", "0s", "--processes", "1", "--resolve"]
        flags.append(f"{HOST}={address}:{port}")
        ended = webmill("crawl", root, HOME, *flags)
        assert ended.code == 3
        assert "--allow-private allows it" in ended.err
        assert not site.requests
        ended = webmill("crawl", root, "--allow-private")
        assert ended.code == 0, ended.err
    assert site.times("/a") == 1


def test_a_setting_that_is_changed_applies_to_a_seed_that_was_refused(root: Path) -> None:
    site = WatchedSite("/a")
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        waits = {"retry_wait": '"1h"', "max_wait": '"5s"'}  # of a robots.txt that a server did not give
        watch(root, web, every="1d", settings={"allow_private": "false", **waits})
        ended = webmill("run", root, "--stage", "crawl")
        assert ended.code == 3
        assert "allow_private = true in webmill.toml" in " ".join(ended.err.split())
        assert not site.requests
        change_settings(root, {"allow_private": "true"})
        ended = webmill("run", root, "--stage", "crawl")
        assert ended.code == 0, ended.err
    assert site.times("/a") == 1


def test_a_seed_that_leads_elsewhere_says_where_and_which_flag_helps(root: Path) -> None:
    site = WatchedSite()
    site.replies["/"] = HttpReply(status=301, headers=(("Location", "http://www.elsewhere.test/home"),))
    with TestWeb(hosts=1, sites={HOST: site}) as web:
        watch(root, web)
        ended = webmill("run", root, *CRAWL)
    assert ended.code == 3, ended.err
    assert "redirect out of scope: http://www.elsewhere.test/home" in ended.err
    assert "--scope" in ended.err


def test_bad_seeds_are_refused_before_a_collection_is_made(root: Path) -> None:
    ended = webmill("init", root, "https://example.org/", "mailto:me@example.org")
    assert ended.code == 2
    assert "'mailto:me@example.org' is not an http or https URL" in ended.err
    assert not root.exists()

"""Settings of single sites, as the server sees them: pace, fields, cookies, scope, budget, page resources."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from tests.pipeline.crawling import Linked, Setup, crawl_here, visits
from tests.unit.cli.command import webmill
from webmill.crawl.options import CrawlRules
from webmill.settings import SiteSettings
from webmill.testing import Answer, HttpReply, ReceivedRequest, TestWeb

SLOW, FAST = "www.slow.test", "www.fast.test"


class NotedSite(Linked):
    """Pages that link to each other and have a picture. `fields` are those of all requests."""

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.fields: list[dict[str, str]] = []

    def answer(self, request: ReceivedRequest) -> Answer:
        self.fields.append({name.lower(): value for name, value in request.headers.pairs})
        if request.path.endswith(".png"):
            return HttpReply(body=b"\x89PNG\r\n", media_type="image/png")
        found = super().answer(request)
        if request.path == "/robots.txt" or not isinstance(found, HttpReply):
            return found
        picture = f'<img src="/p{request.path[1:] or "x"}.png">'.encode()
        return HttpReply(body=found.body + picture, headers=(("Set-Cookie", "a=1"),))


def site_crawl(tmp_path: Path, *sites: SiteSettings, pages: int = 4, **changes: object) -> dict[str, NotedSite]:
    hosts = {SLOW: NotedSite(pages), FAST: NotedSite(pages)}
    with TestWeb(hosts=0, sites=hosts) as web:
        seeds = tuple(f"http://{host}/" for host in hosts)
        rules = CrawlRules(scope="host", page_resources=any(one.page_resources for one in sites))
        setup = {"seeds": seeds, "resolve": dict(web.resolve), "rules": rules, "sites": sites, **changes}
        crawl_here(tmp_path / "root", Setup(**setup))  # type: ignore[arg-type]
    return hosts


def pages_of(root: Path) -> Counter[str]:
    return Counter(url.split("/")[2] for url, one in visits(root).items() if one.status and ".png" not in url)


def test_a_site_has_its_own_delay(tmp_path: Path) -> None:
    site_crawl(tmp_path, SiteSettings(match=("*.slow.test",), delay=0.6))
    sent = sorted((url.split("/")[2], visit.time) for url, visit in visits(tmp_path / "root").items())
    gaps = [(host, later - time) for (host, time), (other, later) in pairwise(sent) if host == other]
    assert min(gap for host, gap in gaps if host == SLOW) >= 0.599
    assert min(gap for host, gap in gaps if host == FAST) < 0.599
    assert pages_of(tmp_path / "root") == {SLOW: 5, FAST: 5}


def test_a_site_has_its_own_fields_and_cookies(tmp_path: Path) -> None:
    site = SiteSettings(
        match=(SLOW,), user_agent="agreed-bot/1.0", headers={"Accept-Language": "ko"}, cookies="off", auth="a:b"
    )
    hosts = site_crawl(tmp_path, site)
    assert {one["user-agent"] for one in hosts[SLOW].fields} == {"agreed-bot/1.0"}
    assert {one["accept-language"] for one in hosts[SLOW].fields} == {"ko"}
    assert not any("cookie" in one or "authorization" in one for one in hosts[SLOW].fields)
    assert {one["accept-language"] for one in hosts[FAST].fields} == {"en-US,en;q=0.5"}
    assert sum("cookie" in one for one in hosts[FAST].fields) >= 4


@pytest.mark.parametrize("processes", [1, 2])
def test_a_site_has_its_own_budget_and_scope(tmp_path: Path, processes: int) -> None:
    tables = (
        SiteSettings(match=("slow.test",), max_pages=3),
        SiteSettings(match=("fast.test",), exclude=("/[12]$",)),
    )
    site_crawl(tmp_path, *tables, pages=9, processes=processes)
    found = visits(tmp_path / "root")
    assert pages_of(tmp_path / "root") == {SLOW: 3, FAST: 8}
    assert sum(one.error == "max_pages_per_domain" for one in found.values()) == 7
    assert f"http://{FAST}/1" not in found


def test_page_resources_are_fetched_for_one_site(tmp_path: Path) -> None:
    rules = CrawlRules(scope="host", page_resources=True, resources_everywhere=False)
    site_crawl(tmp_path, SiteSettings(match=(SLOW,), page_resources=True), rules=rules, page_resource_delay=0.0)
    pictures = Counter(url.split("/")[2] for url in visits(tmp_path / "root") if url.endswith(".png"))
    assert pictures == {SLOW: 5}


def test_tables_of_a_settings_file_are_used_and_explained(tmp_path: Path) -> None:
    root = tmp_path / "news"
    with TestWeb(hosts=0, sites={SLOW: (site := NotedSite(3))}) as web:
        webmill("init", root, f"http://{SLOW}/", "--contact", "me@example.org")
        settings = root / "webmill.toml"
        address = "{}:{}".format(*web.resolve[SLOW])
        table = '\n[[site]]\nmatch = "*.slow.test"\ndelay = "0s"\nauth = "alice:hidden-word"\nmax_pages = 2\n'
        text = settings.read_text().replace(
            "[crawl]", f'[crawl]\nallow_private = true\nresolve = ["{SLOW}={address}"]', 1
        )
        settings.write_text(text + table + 'user_agent = "agreed-bot"\nagreement = "Ann, 2026-10-01"\n')
        ran = webmill("crawl", root, f"http://{SLOW}/", "--address-delay", "0s")
        assert ran.code == 0, ran.err
        assert {one["user-agent"] for one in site.fields} == {"agreed-bot"}
        assert pages_of(root) == {SLOW: 2}
        why = webmill("frontier", "why", root, f"http://{SLOW}/1")
        assert "[[site]] number 1 (*.slow.test): delay 0s, max_pages 2, auth (set)" in why.out.decode()
        assert "0 s between two requests" in why.out.decode()
        assert "hidden-word" not in ran.out.decode() + ran.err + why.out.decode() + why.err
    stored = [path for path in root.rglob("*") if path.is_file() and path != settings]
    assert not [path for path in stored if b"hidden-word" in path.read_bytes()]

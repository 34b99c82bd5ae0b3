"""[[site]] tables: which one applies, what is refused and where, and what needs trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from webmill.crawl.frontier_admin.explain import describe_site
from webmill.crawl.options import CrawlRules, Politeness
from webmill.crawl.politeness.pace import HostPace
from webmill.crawl.scope import Scope, ScopeRules
from webmill.crawl.sites import CrawlSites
from webmill.errors import Misconfigured
from webmill.settings import CrawlSettings, SiteSettings, read_sources
from webmill.settings.sites_section import parse_sites


def settings_of(folder: Path, text: str, *, trusted: bool = True) -> CrawlSettings:
    (folder / "webmill.toml").write_text(text)
    sources = read_sources(None, collection=folder, environment={}, is_trusted=lambda _: trusted)
    return sources.settings().crawl


def test_the_table_that_says_most_applies() -> None:
    names = ("*.example.org", "example.org/news/*", "news.example.org", "*.news.example.org", "example.org/a.html")
    sites = CrawlSites(SiteSettings(match=(name,)) for name in (*names, "*.example.org"))
    found = {
        url: rule.match[0] if (rule := sites.find(url)) else ""
        for url in (
            "https://example.org/",
            "https://www.example.org/news/1",
            "https://news.example.org/news/1",
            "https://a.news.example.org/",
            "http://example.org/a.html",
            "http://example.org/a.html?b",
            "https://notexample.org/",
            "https://example.com/",
        )
    }
    assert list(found.values()) == [
        "*.example.org",
        "example.org/news/*",
        "news.example.org",
        "*.news.example.org",
        "example.org/a.html",
        "*.example.org",
        "",
        "",
    ]


def test_an_update_counts_at_once() -> None:
    sites = CrawlSites()
    pace = HostPace(Politeness(user_agent="x", delay=10.0), sites)
    assert pace.delay_of("https://example.org/") == 10.0
    sites.update([SiteSettings(match=("example.org",), delay=40.0)])
    assert pace.delay_of("https://example.org/") == 40.0
    assert pace.delay_of("https://example.com/") == 10.0
    sites.update([SiteSettings(match=("example.org",), delay="auto")])
    assert pace.delay_of("https://example.org/") == 30.0


def test_only_who_agreed_makes_a_crawl_delay_void() -> None:
    sites = CrawlSites([SiteSettings(match=("example.org",), delay=1.0)])
    pace = HostPace(Politeness(user_agent="x", delay=10.0), sites)
    assert pace.crawl_delay("https://example.org/", 20.0) == 20.0
    sites.update([SiteSettings(match=("example.org",), delay=1.0, agreement="Ann, by mail, 2026-10-01")])
    assert pace.crawl_delay("https://example.org/", 20.0) == 0.0
    assert pace.crawl_delay("https://example.com/", 20.0) == 20.0


def test_a_table_replaces_what_it_says_of_the_scope() -> None:
    sites = CrawlSites([
        SiteSettings(match=("blog.example.org",), scope="domain", exclude=("/tag/",), depth=1),
        SiteSettings(match=("www.example.org/shop/*",), include=("/shop/new",)),
    ])  # fmt: skip
    rules = ScopeRules(kind="host", exclude=("/private",))
    scope = Scope(rules, seeds=["https://www.example.org/"], year=2026, sites=sites)
    decided = {
        "https://www.example.org/a": None,
        "https://www.example.org/private": "excluded",
        "https://blog.example.org/a": None,
        "https://blog.example.org/private": None,
        "https://blog.example.org/tag/": "excluded",
        "https://other.example.org/a": "out_of_scope",
        "https://www.example.org/shop/old": "not_included",
        "https://www.example.org/shop/new/1": None,
        "https://www.example.org/shop/private": "excluded",
    }
    assert {url: scope.decide(url, 1) for url in decided} == decided
    assert scope.decide("https://blog.example.org/a", 2) == "too_deep"
    assert scope.decide("https://www.example.org/a", 2) is None
    assert scope.why_excluded("https://blog.example.org/tag/1") == "excluded"
    assert scope.decide_resource("https://blog.example.org/tag/x.png") == "excluded"


def test_page_resources_of_one_site_turn_the_rest_off() -> None:
    some = CrawlRules.from_settings(CrawlSettings(sites=(SiteSettings(match=("a.example",), page_resources=True),)))
    assert some.page_resources
    assert not some.resources_everywhere


WRONG = {
    "delay = 5": "needs match",
    'match = "a.example"\ndelay = "soon"': "delay: 'soon' is not a duration",
    'match = "a.example"\ncolour = "red"': "unknown key 'colour'",
    'match = "a.example"\nexcludes = "x"': "did you mean exclude",
    'match = "a.example"\nmax_pages = 0': "max_pages",
    'match = "a.example"\nscope = "all"': "scope",
    'match = "*"': "names no site",
    'match = "a.example"\nauth = "secret-word"': "USER:PASSWORD",
    'match = "a.example"\nheaders = { Host = "secret-word" }': "set by webmill itself",
    'match = "a.example"\nheaders = { X = "secret-word\\r\\nY: 1" }': "no field of HTTP",
    'match = "a.example"\nauth = "a:secret-word"\nheaders = { Authorization = "secret-word" }': "leave one of them out",
    'match = "a.example"\nuser_agent = "a\\nb"': "one line",
}


@pytest.mark.parametrize(("table", "message"), WRONG.items())
def test_what_is_wrong_is_named_with_its_line_and_without_its_secrets(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(Misconfigured) as error:
        settings_of(tmp_path, f'[[site]]\nmatch = "right.example"\n\n[[site]]\n{table}\n')
    assert "webmill.toml:4: `crawl.sites`: " in str(error.value)
    assert message in str(error.value)
    assert "secret-word" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "needs_trust"),
    [
        ('scope = "domain"\ndelay = "30s"\nmax_pages = 5\npage_resources = true\ncookies = "off"', False),
        ('delay = "auto"\ncookies = "session"', False),
        ('cookies = "cookies.txt"', False),
        ('cookies = "../cookies.txt"', True),
        ('delay = "29s"', True),
        ('auth = "alice:hidden-word"', True),
        ('headers = { X-Key = "hidden-word" }', True),
        ('user_agent = "somebody"', True),
        ('agreement = "me"', True),
    ],
)
def test_of_a_folder_that_is_not_trusted_some_tables_do_not_count(
    tmp_path: Path, table: str, needs_trust: bool
) -> None:
    text = f'[[site]]\nmatch = "a.example"\n{table}\n'
    assert len(settings_of(tmp_path, text).sites) == 1
    if needs_trust:
        with pytest.raises(Misconfigured, match="webmill trust") as error:
            settings_of(tmp_path, text, trusted=False)
        assert "hidden-word" not in str(error.value)
    else:
        assert len(settings_of(tmp_path, text, trusted=False).sites) == 1


def test_cookies_of_a_folder_that_is_not_trusted_lie_in_it(tmp_path: Path) -> None:
    assert settings_of(tmp_path, '[crawl]\ncookies = "cookies.txt"\n', trusted=False).cookies == "cookies.txt"
    with pytest.raises(Misconfigured, match="leads out"):
        settings_of(tmp_path, '[crawl]\ncookies = "/etc/cookies.txt"\n', trusted=False)


def test_what_is_shown_of_a_table_has_no_secret() -> None:
    site = SiteSettings(
        match=("a.example", "*.b.example"), delay=5.0, auth="alice:word", headers={"X-Key": "word"}, agreement="Ann"
    )
    shown = describe_site(CrawlSettings(sites=(SiteSettings(match=("c.example",)), site)), site)
    assert shown == (
        "[[site]] number 2 (a.example, *.b.example): delay 5s, headers X-Key (set), auth (set), agreement Ann"
    )


def test_what_is_written_is_read_again() -> None:
    tables = [
        {"match": "a.example", "delay": "90s", "include": "x", "headers": {"X-Key": "1"}},
        {"match": ["b.example"], "delay": "auto", "max_pages": 5, "page_resources": False, "plain_http": True},
    ]
    sites = parse_sites(tables)
    from webmill.settings import all_settings

    setting = next(one for one in all_settings() if one.key == "sites")
    assert setting.parse(setting.write(sites)) == sites
    assert setting.shown(sites) == "(set)"

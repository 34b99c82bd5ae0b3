"""`webmill crawl` from the outside: what it is told, what it keeps, what it says when it cannot begin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.command import Ended, webmill
from webmill.archive.recovery import Repair
from webmill.cli.crawl import describe_repair
from webmill.cli.init import make_settings_file
from webmill.crawl.options import CrawlLimits, Politeness
from webmill.crawl.stored_settings import SETTINGS, resolve_settings
from webmill.settings import CrawlSettings, Sources, load_settings, read_sources
from webmill.settings.reading import read_flags
from webmill.testing import TestWeb


def crawl(web: TestWeb, folder: Path, *arguments: str) -> Ended:
    return webmill("crawl", folder, "--json", *arguments)


def reaching(web: TestWeb) -> list[str]:
    """Flags that lead the crawl to the test web instead of the Internet."""
    fixed = (f"{name}={address}:{port}" for name, (address, port) in web.resolve.items())
    flags = [
        "--contact",
        "crawler@mill.example",
        "--allow-private",
        "--delay",
        "0",
        "--processes",
        "1",
        "--no-languages",
    ]
    return [*flags, *(part for each in fixed for part in ("--resolve", each))]


def test_servers_must_be_told_whom_to_ask(tmp_path: Path) -> None:
    ended = webmill("crawl", tmp_path / "c", "https://mill.example/")
    assert ended.code == 1
    assert "--contact me@example.org" in ended.err
    assert not (tmp_path / "c").exists()


def test_a_crawl_needs_a_seed_to_begin(tmp_path: Path) -> None:
    ended = webmill("crawl", tmp_path / "c", "--contact", "me@mill.example")
    assert ended.code == 2
    assert "name a URL to begin with" in ended.err


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--delay", "soon", "is not a duration; write 90s, 20m, 8h or 7d"),
        ("--delay", "1e9", "is not a duration"),
        ("--max-body", "0", "is not a size; write 500K, 64M or 20G"),
        ("--resolve", "mill.example", "is not HOST=ADDRESS:PORT"),
        ("--resolve", "mill.example=other.example:80", "is not HOST=ADDRESS:PORT"),
        ("--max-wait", "tomorrow", "is not a duration"),
        ("--max-pages", "0", "is too small"),
    ],
)
def test_a_flag_that_cannot_be_read_is_named_with_what_would_be_right(
    tmp_path: Path, flag: str, value: str, says: str
) -> None:
    ended = webmill("crawl", tmp_path / "c", "https://mill.example/", flag, value)
    assert ended.code == 2
    assert says in ended.err


def settings_of_flags(tmp_path: Path, text: str) -> CrawlSettings:
    flags = read_flags(text, SETTINGS, where="here")
    sources = Sources(is_trusted=True, flags={(one.section, one.key): value for one, value in flags})
    return resolve_settings(sources, tmp_path)[0].crawl


@pytest.mark.parametrize(
    ("given", "wait"),
    [("", 3600.0), ("--refresh", None), ("--max-wait 2d", 172_800.0), ("--refresh --max-wait 0s", 0.0)],
    ids=["nothing", "again and again", "as said", "what is due"],
)
def test_a_crawl_waits_for_an_hour_unless_it_is_told_otherwise(tmp_path: Path, given: str, wait: float | None) -> None:
    assert CrawlLimits.from_settings(settings_of_flags(tmp_path, given)).wait == wait


def test_a_setting_that_was_declared_is_a_flag_a_key_a_variable_a_line_of_help_and_kept(tmp_path: Path) -> None:
    """`max_crawl_delay` touched two files: `settings/sections.py`, where it is declared, and the one that uses it."""
    assert settings_of_flags(tmp_path, "--max-crawl-delay 5s").max_crawl_delay == 5.0
    (tmp_path / "webmill.toml").write_text('[crawl]\nmax_crawl_delay = "2m"\n')
    sources = read_sources(None, collection=tmp_path, environment={}, is_trusted=lambda _: True)
    assert Politeness.from_settings(sources.settings().crawl, user_agent="x").max_crawl_delay == 120.0
    variable = {"WEBMILL_CRAWL_MAX_CRAWL_DELAY": "3s"}
    assert (
        load_settings(None, collection=tmp_path, environment=variable, is_trusted=lambda _: True).crawl.max_crawl_delay
        == 3.0
    )
    reported = Sources(is_trusted=True, flags={("crawl", "max_crawl_delay"): 7.0})
    assert resolve_settings(reported, tmp_path)[1] == {"max_crawl_delay": 7.0}
    assert "--max-crawl-delay TIME" in webmill("crawl", "--help").out.decode()
    assert '# max_crawl_delay = "60s"' in make_settings_file("")


@pytest.mark.parametrize("written", ["Mill.EXAMPLE=127.0.0.1:80", "mill.example=[127.0.0.1]:80"])
def test_hosts_and_addresses_are_taken_as_people_write_them(tmp_path: Path, written: str) -> None:
    assert settings_of_flags(tmp_path, f"--resolve {written}").resolve == {"mill.example": ("127.0.0.1", 80)}


def test_a_pattern_that_is_none_ends_the_crawl_with_the_pattern(tmp_path: Path) -> None:
    ended = webmill(
        "crawl", tmp_path / "c", "http://127.0.0.1:1/", "--contact", "me", "--exclude", "(", "--processes", "1"
    )
    assert ended.code == 1
    assert "the pattern '(' is not one of RE2 (missing ): ()" in ended.err
    assert not (tmp_path / "c" / "frontier").exists()  # the flag is not kept for the next time


def test_a_url_where_the_folder_should_be_is_told(tmp_path: Path) -> None:
    ended = webmill("crawl", "http://www.mill.example/", "--contact", "me")
    assert ended.code == 2
    assert "DIR comes first" in ended.err


def test_an_exclusion_that_is_no_domain_is_an_error_and_no_reject(tmp_path: Path) -> None:
    (tmp_path / "not").write_text("mill.example\nblog.mill.example\n")
    ended = webmill("crawl", tmp_path / "c", "mill.example", "--contact", "me", "--exclude-domains", tmp_path / "not")
    assert ended.code == 1
    assert "not:2: 'blog.mill.example' [not_a_domain]" in ended.err


def test_a_crawl_goes_on_with_the_flags_it_began_with(tmp_path: Path) -> None:
    with TestWeb(hosts=2, pages_per_host=6) as web:
        first = crawl(web, tmp_path / "c", web.home, *reaching(web), "--exclude", "/stories/", "--max-pages", "3")
        assert json.loads(first.out)["end"] == "pages"
        second = webmill("crawl", tmp_path / "c", "--json")
        web.log.settle()
    assert json.loads(second.out)["end"] == "finished"
    assert not [visit for visit in web.log.visits() if "/stories/" in visit.path]


def test_a_flag_given_later_replaces_the_one_before(tmp_path: Path) -> None:
    with TestWeb(hosts=1, pages_per_host=3) as web:
        crawl(web, tmp_path / "c", web.home, *reaching(web), "--depth", "0")
        assert json.loads((tmp_path / "c/frontier/flags.json").read_text())["depth"] == 0
        crawl(web, tmp_path / "c", "--depth", "1")
    assert json.loads((tmp_path / "c/frontier/flags.json").read_text())["depth"] == 1


def test_what_was_kept_counts_before_the_settings_file_and_after_a_variable(tmp_path: Path) -> None:
    (tmp_path / "flags.json").write_text(
        '{"depth": 1, "requisites": true, "max_depth": 9, "resolve": {"a": ["::1", 1]}}'
    )
    sources = Sources(
        is_trusted=True,
        file={("crawl", "depth"): 2, ("crawl", "delay"): 3.0},
        environment={("crawl", "scope"): "any"},
        flags={("crawl", "max_pages"): 7, ("crawl", "tls"): "archive"},
    )
    settings, kept = resolve_settings(sources, tmp_path)
    crawl = settings.crawl
    assert (crawl.depth, crawl.delay, crawl.scope, crawl.max_pages) == (1, 3.0, "any", 7)
    assert (crawl.page_resources, crawl.resolve) == (True, {"a": ("::1", 1)})
    assert kept == {"depth": 1, "page_resources": True, "resolve": {"a": ["::1", 1]}, "tls": "archive"}
    assert resolve_settings(sources, tmp_path, forget=sources.file)[0].crawl.depth == 2


def test_the_number_of_processes_cannot_change(tmp_path: Path) -> None:
    with TestWeb(hosts=1, pages_per_host=3) as web:
        crawl(web, tmp_path / "c", web.home, *reaching(web), "--depth", "0")
    ended = webmill("crawl", tmp_path / "c", "--processes", "3")
    assert ended.code == 1
    assert "leave --processes out, or give --processes 1" in ended.err


def test_seeds_that_are_none_are_rejects_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text("# the mill\nnot a url\n")
    with TestWeb(hosts=1, pages_per_host=3) as web:
        ended = crawl(web, tmp_path / "c", web.home, *reaching(web), "--depth", "0", "--seeds", str(tmp_path / "seeds"))
    assert ended.code == 3
    assert "seeds line 2: 'not a url' has no host that can be looked up" in ended.err


def test_status_tells_how_a_crawl_stands(tmp_path: Path) -> None:
    with TestWeb(hosts=2, pages_per_host=6) as web:
        ended = crawl(web, tmp_path / "c", web.home, *reaching(web))
    pages = json.loads(ended.out)["total"]["pages"]
    reported = webmill("status", tmp_path / "c")
    assert reported.code == 0
    assert f"{pages} pages in all, ".encode() in reported.out
    assert b"not running: the last run finished" in reported.out
    [status] = json.loads(webmill("status", tmp_path / "c", "--json").out)["crawls"]
    assert status["is_running"] is False
    assert status["total"]["pages"] == pages


def test_what_was_repaired_is_said_in_words() -> None:
    torn = Repair(file="a.warc.gz", captures=1, end=100, cut=2000, reason="torn_capture", saved="a.warc.gz.torn")
    moved = "2,000 bytes of an incomplete record moved to a.warc.gz.torn"
    assert describe_repair(torn) == f"a.warc.gz has 1 complete capture; {moved}"
    assert describe_repair(Repair(file="b.warc.gz", captures=2, end=100)) == "b.warc.gz has 2 complete captures"

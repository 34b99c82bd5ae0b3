"""The design of a crawler that coordinates in Redis and keeps URLs in one file per domain."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import redis

from tests.contracts.frontier_redis_bench import forget, new_prefix
from tests.contracts.test_frontier import HOLD, LEASE, NOW, add, claim, finish, settle, take, urls_of
from tests.pipeline.crawl_manners import check_manners, keep_journal
from tests.pipeline.crawling import Linked, Setup, crawl_here, frontiers, moved_to, seen_by, visits
from tests.references.claim import differs, works
from tests.references.pipeline_crawl import DEPLOY
from tests.services.crawler_database import TABLES
from tests.unit.cli.command import Ended, webmill
from webmill.crawl.fetch.address_rules import AddressRules
from webmill.crawl.fetch.types import FetchError, SocketAddress
from webmill.crawl.frontier.base import FrontierUpdate, LastVisit, RobotsEntry, TurnOutcomes, VisitDone
from webmill.crawl.frontier.file_frontier import FrontierLimits
from webmill.crawl.frontier.local import LocalFrontier, restore
from webmill.crawl.frontier.redis.frontier import RedisFrontier
from webmill.crawl.metrics import CrawlMetrics
from webmill.crawl.options import Politeness
from webmill.crawl.politeness.pace import MANY_DOMAINS, HostPace
from webmill.crawl.politeness.retries import GiveUp, Retry, decide_answer
from webmill.crawl.politeness.robots import decide
from webmill.crawl.scope import Scope, ScopeRules
from webmill.crawl.seeds import Seeds
from webmill.settings import CrawlSettings
from webmill.testing import HttpReply, TestWeb


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[LocalFrontier]:
    with closing(LocalFrontier(tmp_path / "frontier")) as opened:
        yield opened


# --- the frontier -----------------------------------------------------------------------------------------------------


@works("`add_urls_batch`: groups URLs by domain, filters out those that were seen, returns how many were added")
@differs(
    "`BF.RESERVE seen:bloom 0.001 160000000`: one of a thousand new URLs is taken for known, and lost",
    now="an exact set on disk behind Bloom filters",
    why="no URL is lost to a false positive; it needs no RedisBloom",
)
def test_a_url_is_added_once(frontier: LocalFrontier) -> None:
    urls = [f"http://d{number % 50}.test/{number}" for number in range(5000)]
    assert add(frontier, *urls).added == 5000
    again = add(frontier, *urls, "http://new.test/")
    assert (again.added, again.known) == (1, 5000)


@works("`domains:ready`: `current_time + 70`, the next fetch of a domain")
@works("`next_fetch_time: When domain can be fetched next`")
def test_a_domain_is_offered_again_after_seventy_seconds(frontier: LocalFrontier) -> None:
    pace = HostPace(Politeness.from_settings(CrawlSettings(), user_agent="x"))
    pace.domains_waiting = MANY_DOMAINS  # as in the document's crawls; with fewer the default is shorter
    assert pace.delay("one.test") == HOLD == 70
    add(frontier, "http://a.example.com/1", "http://b.example.com/2")
    finish(frontier, take(frontier), next_=NOW + 70)
    assert claim(frontier, now=NOW + 69.9) == []
    assert urls_of(take(frontier, now=NOW + 70)) == ["http://b.example.com/2"]


@works("`domains:active`: a domain is processed by one worker at a time")
def test_a_domain_is_in_one_hand(frontier: LocalFrontier) -> None:
    add(frontier, *(f"http://d{number}.test/{page}" for number in range(100) for page in range(2)))
    first, second = claim(frontier, 60), claim(frontier, 60)
    domains = [turn.domain for turn in (*first, *second)]
    assert (len(first), len(second)) == (60, 40)
    assert len(set(domains)) == 100


@works("`get_next_url`: reads the next URL from the current offset of the domain's file; new URLs are appended")
@differs(
    "`frontier_offset` counts bytes, `frontier_size` URLs: after the first lines a domain seems to be read",
    now="all URLs of a domain come, first in, first out",
)
@differs("`url|depth|priority|added_timestamp`: a URL with `|` breaks its line", now="binary lines with a checksum")
def test_all_urls_of_a_domain_come_in_their_order(frontier: LocalFrontier) -> None:
    urls = [f"http://example.com/a|b/{number}" for number in range(40)]
    add(frontier, *urls[:25])
    add(frontier, *urls[25:])
    found = []
    for step in range(40):
        turn = take(frontier, now=NOW + step)
        found += urls_of(turn)
        finish(frontier, turn, now=NOW + step)
    assert found == urls


@works("Files: store actual URL lists per domain; memory does not hold them")
@differs(
    "Redis (later version) holds the URLs of a hot domain in memory", now="they are in files, compacted by themselves"
)
def test_urls_are_in_files_and_consumed_ones_are_dropped(tmp_path: Path) -> None:
    def size() -> int:
        return sum(file.stat().st_size for file in (tmp_path / "frontier" / "domains").rglob("*") if file.is_file())

    with closing(LocalFrontier(tmp_path / "frontier")) as frontier:
        add(frontier, *(f"http://example.com/{'x' * 200}/{number}" for number in range(2000)))
    full = size()
    assert full > 2000 * 200 / 10
    with closing(LocalFrontier(tmp_path / "frontier")) as frontier:
        finish(frontier, take(frontier, urls=2000))
        frontier.compact()
    assert size() < full / 10


@differs(
    "a URL that was read from its file but not yet fetched is lost if the crawler is killed",
    now="it is leased, and is handed out again",
)
def test_what_was_in_hand_comes_back(tmp_path: Path) -> None:
    with closing(LocalFrontier(tmp_path / "f")) as frontier:
        add(frontier, "http://example.com/")
        take(frontier)
    with closing(LocalFrontier(tmp_path / "f")) as frontier:
        assert urls_of(take(frontier, now=NOW + max(LEASE, HOLD) + 1)) == ["http://example.com/"]


@works(
    "`mark_visited`, `is_visited`: `url`, `status_code`, `fetched_at`, `error`; `visited:by_time` for queries by time"
)
@differs(
    "`content_path`: a text file",
    now="`filename`, `offset`, `length` of the WARC record: `webmill frontier export --visited`",
)
def test_visits_are_exact_and_in_the_order_of_time(frontier: LocalFrontier) -> None:
    add(frontier, *(f"http://d{number}.test/" for number in range(3)))
    for turn, time in zip(claim(frontier), (NOW + 5, NOW + 1, NOW + 3), strict=True):
        (item,) = turn.items
        place = {"filename": "crawl-data/a.warc.gz", "offset": 7, "length": 9}
        visit = LastVisit(url=item.url, time=time, status=200, **place)
        settle(frontier, TurnOutcomes(turn.token, [VisitDone(visit)], next=NOW), now=NOW + 5)
    assert [visit.time - NOW for visit in frontier.visits()] == [1, 3, 5]
    assert [visit.time - NOW for visit in frontier.visits(since=NOW + 2, until=NOW + 5)] == [3]
    found = frontier.visit("http://d0.test/")
    assert found
    assert (found.status, found.filename, found.offset) == (200, "crawl-data/a.warc.gz", 7)
    assert frontier.visit("http://d9.test/") is None


@works("`robots_txt`, `robots_expires`: cached until it is to be fetched again")
@works("`is_excluded`: manual exclusion flag")
def test_robots_and_exclusions_are_kept(tmp_path: Path) -> None:
    entry = RobotsEntry(
        origin="http://example.com", fetched=NOW, expires=NOW + 3600, status=200, body=b"User-agent: *\n"
    )
    with closing(LocalFrontier(tmp_path / "f")) as frontier:
        add(frontier, "http://gone.test/1")
        frontier.commit(FrontierUpdate(robots=[entry]), now=NOW)
        assert frontier.exclude(["gone.test"]) == 1
    with closing(LocalFrontier(tmp_path / "f")) as frontier:
        assert frontier.robots("http://example.com") == entry
        assert claim(frontier) == []
        assert add(frontier, "http://gone.test/2").excluded == 1


@differs(
    "Simple backup - Just copy frontier directory; Add S3 backup for frontier files",
    now="`webmill frontier backup DIR TARGET`, a folder or `s3://…`, while the crawl runs",
    why="a copy of files that change is none",
)
def test_a_backup_is_the_frontier_of_one_moment(frontier: LocalFrontier, tmp_path: Path) -> None:
    add(frontier, "http://a.test/", "http://b.test/")
    frontier.back_up(tmp_path / "backup")
    add(frontier, "http://c.test/")
    restore(tmp_path / "backup", tmp_path / "restored")
    with closing(LocalFrontier(tmp_path / "restored")) as restored:
        assert sorted(link.url for link in restored.waiting()) == ["http://a.test/", "http://b.test/"]


# --- a crawl ----------------------------------------------------------------------------------------------------------


@works("Seed file: one URL or domain per line; blank lines and `# comments` are nothing")
@differs("`example.com` in a seed file is asked by http", now="by https, as the address bar of a browser does")
def test_the_seed_file(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# sites\n\nexample.com\nhttp://example.org/a  # the old one\n")
    seeds = Seeds(files=[tmp_path / "seeds.txt"])
    assert [*seeds] == ["https://example.com/", "http://example.org/a"]
    assert seeds.rejected == []


@works("`frontiers/a5/example.com.frontier` with `https://example.com/page1|0|1.0|1699564800`: imported as what waits")
def test_lines_of_its_files_are_imported(tmp_path: Path) -> None:
    file = tmp_path / "crawler_data" / "frontiers" / "a5" / "example.com.frontier"
    file.parent.mkdir(parents=True)
    file.write_text("https://example.com/page1|0|1.0|1699564800\nhttps://example.com/page2|1|0.9|1699564900\n" * 2)
    news = tmp_path / "news"
    imported = webmill("frontier", "import-redis", news, "--files", tmp_path / "crawler_data" / "frontiers")
    assert imported.code == 0, imported.err
    waiting = webmill("frontier", "export", news, "--format", "txt").out.decode().split()
    assert waiting == ["https://example.com/page1", "https://example.com/page2"]


def crawl(web: TestWeb, root: Path, *flags: str | Path) -> Ended:
    names = ("www.one.test", "www.two.test", "www.gone.test")
    fixed = [f"--resolve={name}={':'.join(map(str, web.resolve[name]))}" for name in names]
    place = ("--contact", "me@example.org", "--allow-private", "--delay", "0", "--address-delay", "0", "--no-languages")
    return webmill("crawl", root, "--json", *place, *fixed, *flags)


@works("`--seed-file`, `--exclude-file`, `--max-pages`, `--resume` (see the flags above)")
@differs(
    "`--max-pages` never fires; `--exclude-file` has no effect on a new crawl",
    now="both hold, and nothing is fetched twice",
)
@pytest.mark.slow
def test_a_crawl_of_a_seed_file_keeps_its_limits_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("http://www.one.test/\nhttp://www.two.test/\nhttp://www.gone.test/\n")
    (tmp_path / "excluded.txt").write_text("# not these\ngone.test\n")
    sites = {f"www.{name}.test": Linked(6) for name in ("one", "two", "gone")}
    with TestWeb(hosts=0, sites=sites) as web:
        flags = ("--seeds", tmp_path / "seeds.txt", "--scope", "any", "--exclude-domains", tmp_path / "excluded.txt")
        begun = crawl(web, tmp_path / "c", *flags, "--max-pages", "5", "--processes", "1")
        assert json.loads(begun.out)["end"] == "pages", begun.err
        ended = crawl(web, tmp_path / "c", "--max-pages", "100")
        assert json.loads(ended.out)["end"] == "finished", ended.err
        assert web.log.settle()
        asked = Counter(one.url for one in seen_by(web.log) if not one.is_robots)
    pages = {f"http://www.{name}.test/{page}" for name in ("one", "two") for page in ("", *range(6))}
    assert asked == Counter(pages)
    exported = webmill("frontier", "export", tmp_path / "c", "--visited")
    assert {json.loads(line)["url"] for line in exported.lines} == pages


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """A crawl, and the URLs that were asked for: robots.txt files that differ by host, redirects, files of data."""
    links = (
        "http://a.rules.test/no http://b.rules.test/no http://b.rules.test/to http://data.test/x.json http://data.test/"
    )
    start = HttpReply(body="".join(f'<a href="{url}">x</a>' for url in links.split()).encode())
    sites = {
        "www.start.test": Linked(0, page=start),
        "a.rules.test": Linked(0, robots=b"User-agent: *\nDisallow: /no\nDisallow: /wild*card\n"),
        "b.rules.test": Linked(0, to=moved_to("http://a.rules.test/no")),
        "data.test": Linked(0, robots=b"Sitemap: http://data.test/map.xml\n", **{"map.xml": SITEMAP}),
    }
    root = tmp_path_factory.mktemp("crawled") / "c"
    with TestWeb(hosts=0, sites=sites) as web:
        crawl_here(root, Setup(seeds=("http://www.start.test/page",), resolve=dict(web.resolve)))
        assert web.log.settle()
        return root, {one.url for one in seen_by(web.log)}


SITEMAP = HttpReply(
    body=b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://data.test/listed</loc></url>'
    b"</urlset>",
    media_type="application/xml",
)


@differs(
    "robots.txt of the registered domain for all below it; a 5xx allows all",
    now="of each origin, by RFC 9309; a 5xx forbids everything for the time being",
    why="[robots.txt](../reference/robots.md)",
)
def test_each_host_has_its_own_robots_txt(crawled: tuple[Path, set[str]]) -> None:
    _, asked = crawled
    assert "http://b.rules.test/no" in asked
    assert "http://a.rules.test/no" not in asked
    assert {"http://a.rules.test/robots.txt", "http://b.rules.test/robots.txt"} <= asked
    failed = RobotsEntry(origin="http://example.com", fetched=NOW, expires=NOW + 60, status=503)
    assert not decide(failed, now=NOW).allows("/")


@differs("redirects are followed at once, to anywhere", now="each target waits for its own robots.txt and its own turn")
def test_a_redirect_is_a_link_like_any_other(crawled: tuple[Path, set[str]]) -> None:
    root, asked = crawled
    found = visits(root)
    assert found["http://b.rules.test/to"].status == 302
    assert "http://a.rules.test/no" not in asked
    assert found["http://a.rules.test/no"].error.startswith("robots")


@differs(
    "follows only `<a href>`, and only in text", now="the same, and sitemaps; `.json`, `.xml` and `.csv` count as text"
)
def test_sitemaps_and_data_are_fetched(crawled: tuple[Path, set[str]]) -> None:
    _, asked = crawled
    assert {"http://data.test/x.json", "http://data.test/listed"} <= asked
    scope = Scope(ScopeRules(kind="any"), seeds=["http://data.test/"], year=2026)
    decided = [scope.decide(f"http://data.test/x.{name}", 1) for name in ("csv", "xml", "json", "png")]
    assert decided[:3] == [None] * 3
    assert decided[3]


@differs(
    "fetches from private addresses",
    now="refuses them, also behind a name or a redirect",
    why="`--allow-private` for your own network",
)
@pytest.mark.parametrize("address", ["10.0.0.8", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.8"])
def test_private_addresses_are_refused(address: str) -> None:
    with pytest.raises(FetchError, match="not an address of the public Internet"):
        AddressRules().check(SocketAddress(address, 80))


@differs("no retries", now="up to four attempts, with growing waits")
def test_a_failure_is_retried() -> None:
    decided = [decide_answer(503, attempts, random=1.0) for attempts in (1, 2, 3, 4)]
    assert [type(one) for one in decided] == [Retry, Retry, Retry, GiveUp]
    waits = [one.delay for one in decided if isinstance(one, Retry)]
    assert waits == sorted(waits)


@differs(
    "politeness by registered domain",
    now="by domain, by host and by address",
    why="thousands of small sites share an address",
)
def test_an_address_is_one_server_whatever_its_domains(memory_folder: Path) -> None:
    root = memory_folder / "c"
    keep_journal(root)
    sites = {f"www.d{number}.test": Linked(0) for number in range(3)}
    with TestWeb(hosts=0, sites=sites, addresses=("127.0.0.2",)) as web:
        seeds = tuple(f"http://{name}/" for name in sites)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=0.2, address_delay=0.2))
        assert web.log.settle()
        seen = seen_by(web.log)
    assert len(seen) == 6
    check_manners(root, seen, host=0.2, domain=0.2, address=0.2)


@differs(
    "TLS certificates are not checked",
    now="they are checked; `--tls archive` fetches the page anyway and records the problem",
)
@works("500 concurrent workers: `--concurrency`")
def test_what_is_so_by_default() -> None:
    settings = CrawlSettings()
    assert (settings.tls, settings.concurrency) == ("verify", 500)


@works(
    "Add monitoring/metrics for new system: `crawler_pages_crawled_total`, `crawler_urls_added_total`, "
    "`crawler_fetches_total{fetch_type}`, `crawler_errors_total{error_type}`, `crawler_frontier_size`, "
    "`crawler_active_workers`"
)
def test_the_metrics_have_their_names() -> None:
    report = CrawlMetrics().metrics.render().decode()
    for name in (
        "crawler_pages_crawled_total",
        "crawler_urls_added_total",
        'crawler_fetches_total{fetch_type="page"}',
        'crawler_errors_total{error_type="timeout"}',
        "crawler_frontier_size",
        "crawler_active_workers",
    ):
        assert f"\n{name} 0.0\n" in report


# --- servers ----------------------------------------------------------------------------------------------------------


@differs(
    "Install Redis with RedisBloom module; Configure Redis persistence (AOF + RDB)",
    now="no Redis on one machine; on many a plain one, with an AOF that is synced at every write",
    why="an AOF of every second and snapshots lose what was acknowledged",
)
def test_the_redis_that_we_ship_keeps_what_it_acknowledges() -> None:
    lines = (DEPLOY / "redis" / "redis.conf").read_text().splitlines()
    assert {"appendonly yes", "appendfsync always", "maxmemory-policy noeviction"} <= set(lines)
    assert not any(line.startswith("loadmodule") for line in lines)


def everything_in(server: redis.Redis, prefix: str) -> str:
    read = {b"string": "GET {}", b"hash": "HGETALL {}", b"zset": "ZRANGE {} 0 -1", b"set": "SMEMBERS {}"}
    read |= {b"list": "LRANGE {} 0 -1"}
    keys = [key.decode() for key in server.scan_iter(f"*{prefix}*")]
    assert keys
    return "".join(repr(server.execute_command(*read[server.type(key)].format(key).split())) for key in keys)


@works("Redis handles coordination, scheduling and metadata; files hold the URLs: `webmill crawl --frontier redis://…`")
@works("Update PolitenessEnforcer for Redis")
@pytest.mark.server("redis")
def test_redis_coordinates_and_files_hold_the_urls(redis_url: str, tmp_path: Path) -> None:
    prefix = new_prefix()
    with closing(redis.Redis.from_url(redis_url)) as server:
        # Redis has the newest lines, too, until they are synced: a short journal, so that this is soon.
        limits = FrontierLimits(journal=2000)
        with RedisFrontier(redis_url, tmp_path / "f", prefix=prefix, limits=limits) as frontier:
            add(frontier, *(f"http://hot.example.com/page-{number}" for number in range(500)))
            finish(frontier, take(frontier), next_=NOW + 70)
            in_redis = everything_in(server, prefix)
            assert claim(frontier, now=NOW + 69) == []
            assert urls_of(take(frontier, now=NOW + 70)) == ["http://hot.example.com/page-1"]
        forget(redis_url, prefix)
    assert "example.com" in in_redis
    assert "page-499" not in in_redis
    files = b"".join(file.read_bytes() for file in (tmp_path / "f").rglob("*") if file.is_file())
    assert b"page-499" in files


ROWS = """
INSERT INTO visited_urls (url_sha256, url, crawled_timestamp, http_status_code)
VALUES ('a', 'https://example.com/seen', 1699564800, 200);
INSERT INTO frontier (url, domain, depth, added_timestamp)
VALUES ('https://example.com/page1', 'example.com', 0, 1699564800),
    ('https://site.org/page2', 'site.org', 1, 1699564900);
INSERT INTO domain_metadata (domain, robots_txt_content, robots_txt_expires_timestamp, is_manually_excluded)
VALUES ('example.com', E'User-agent: *\\nDisallow: /x', 4000000000, 0), ('bad.net', '', 0, 1);
"""


@works("`PostgreSQLToHybridMigrator`: visited URLs, frontier, domain metadata: `webmill frontier import-postgres`")
@differs(
    "it marks all frontier URLs as seen, then adds those that were not seen: none",
    now="all are imported, each row once, also if it is killed",
)
@pytest.mark.server("postgres")
def test_its_tables_are_imported(postgres_url: str, tmp_path: Path) -> None:
    name = f"webmill_reference_{tmp_path.name}".lower().replace("-", "_")
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
        url = f"{postgres_url.rpartition('/')[0]}/{name}"
        try:
            with psycopg.connect(url, autocommit=True) as database:
                database.execute(TABLES + ROWS)  # type: ignore[arg-type]
            ended = webmill("frontier", "import-postgres", tmp_path / "c", "--url", url, "--processes", "1")
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')  # type: ignore[arg-type]
    assert ended.code == 0, ended.err
    with frontiers(tmp_path / "c") as (shard,):
        assert sorted((link.url, link.depth) for link in shard.waiting()) == [
            ("https://example.com/page1", 0),
            ("https://site.org/page2", 1),
        ]
        assert [(visit.url, visit.status) for visit in shard.visits()] == [("https://example.com/seen", 200)]
        assert [*shard.excluded()] == ["bad.net"]
        robots = shard.robots("https://example.com")
        assert robots
        assert b"Disallow: /x" in robots.body

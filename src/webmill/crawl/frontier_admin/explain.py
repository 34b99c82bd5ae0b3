"""Why a URL was fetched, or was not: what its frontier, the scope, robots.txt and the pace of its host say."""

from __future__ import annotations

import msgspec

from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.url_state import UrlState
from webmill.crawl.layout import read_seeds
from webmill.crawl.options import AUTO_DELAY, ROBOTS_NAME, CrawlRules
from webmill.crawl.politeness.pace import FACTOR, SHORTEST
from webmill.crawl.politeness.robots import ParsedFiles, RobotsPolicy, decide, robots_path
from webmill.crawl.scheduler.inbox import shard_of
from webmill.crawl.scheduler.shard_process import make_scope
from webmill.crawl.sites import CrawlSites
from webmill.forgotten import never_asked
from webmill.settings import CrawlSettings, SiteSettings


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    state: UrlState
    is_seed: bool
    scope: str  # why it is out of scope: a code; empty when it is in scope
    robots: str  # allowed, forbidden, unreachable, unknown (not asked yet), ignored
    crawl_delay: float | None  # that its robots.txt asks for
    delay: str  # between two requests to its domain, as the settings say
    site: str = ""  # which [[site]] table applies, and what it says, without its secrets


def explain_url(crawl: CrawlFrontier, url: str, settings: CrawlSettings, *, now: float) -> UrlExplanation:
    """Return what is known of a normalised URL, and what the rules say of it as they are now."""
    state = crawl.backend.find_url(crawl.paths.shard(shard_of(url, crawl.shards())), url)
    is_seed = url in read_seeds(crawl.paths.seeds) if crawl.paths.seeds.exists() else False
    depth = state.last.depth if state.last else 0 if is_seed else 1
    sites = CrawlSites(settings.sites)
    scope = make_scope(
        CrawlRules.from_settings(settings), crawl.paths.seeds, sites=sites, forgotten=never_asked(crawl.root)
    )
    reason = scope.decide(url, depth) or ("excluded_domain" if state.is_excluded else "")
    robots, crawl_delay = judge_robots(state.robots, url, settings, now=now)
    return UrlExplanation(
        url=url,
        state=state,
        is_seed=is_seed,
        scope=reason,
        robots=robots,
        crawl_delay=crawl_delay,
        delay=describe_delay(settings, sites.find(url)),
        site=describe_site(settings, sites.find(url)),
    )


def judge_robots(
    entry: RobotsEntry | None, url: str, settings: CrawlSettings, *, now: float
) -> tuple[str, float | None]:
    """Return whether the robots.txt that is known allows a URL, and the delay that it asks for."""
    if not settings.robots:
        return "ignored", None
    if entry is None:
        return "unknown", None
    policy = RobotsPolicy(agent=ROBOTS_NAME, max_delay=settings.max_crawl_delay)
    verdict = decide(entry, now=now, policy=policy, files=ParsedFiles())
    if verdict.state == "unreachable":
        return "unreachable", None
    return ("allowed" if verdict.allows(robots_path(url)) else "forbidden"), verdict.crawl_delay


def describe_delay(settings: CrawlSettings, site: SiteSettings | None = None) -> str:
    delay = settings.delay if site is None or site.delay is None else site.delay
    if isinstance(delay, float | int):
        return f"{delay:g} s"
    return f"auto: {FACTOR:g} times its response time, {SHORTEST:g} to {AUTO_DELAY:g} s"


def describe_site(settings: CrawlSettings, site: SiteSettings | None) -> str:
    """Return the number of a table, its patterns and what it sets; of secrets only that they are there."""
    if site is None:
        return ""
    number = next(number for number, one in enumerate(settings.sites, 1) if one is site)
    said = [f"{key} {value}" for key, value in site.shown().items()]
    return f"[[site]] number {number} ({site.name})" + (f": {', '.join(said)}" if said else "")

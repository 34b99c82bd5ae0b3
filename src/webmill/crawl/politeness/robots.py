"""What a crawler does about the robots.txt of an origin: an answer becomes an entry to keep, an entry a verdict.

    entry = make_entry("https://example.com", answer, now=now, before=entry)   # ask for it again at entry.expires
    verdict = decide(entry, now=now, policy=policy)
    verdict.allows("/path?query"), verdict.crawl_delay, verdict.sitemaps

| last answer (RFC 9309, 2.3.1) | state | pages |
|---|---|---|
| 2xx | `rules` | as the rules say |
| 3xx: the redirects did not end within MAX_REDIRECTS; 4xx but 429 | `unavailable` | all are allowed |
| 429, 5xx, no answer, an answer that broke off | `unreachable` | none, until it answers otherwise |
| the same for 30 days | `unavailable` | all are allowed |

No input or output, no clock: `robots_fetcher.py` fetches and keeps.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Literal, TypeAlias

import msgspec

from webmill.crawl.fetch.types import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import RobotsEntry
from webmill.crawl.politeness.retries import retry_after
from webmill.formats.preferences.directives import words_of_fields, words_of_meta
from webmill.formats.preferences.robots_usage import NO_ROBOTS_USAGE, RobotsUsage, read_robots_usage
from webmill.formats.site.robots import MAX_BODY, RobotsRules, RobotsTxt, parse_robots
from webmill.model import Headers

MAX_REDIRECTS = 5
DAY = 86400.0

State: TypeAlias = Literal["rules", "unavailable", "unreachable"]

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,12})", re.IGNORECASE)
_NO_CACHE = re.compile(r"(?:^|[\s,])no-(?:cache|store)(?:$|[\s,=])", re.IGNORECASE)
INCOMPLETE_FLAWS = frozenset(
    {"truncated", "corrupt", "decode_limit", "bad_chunk", "too_many_chunks"}
)  # of a payload that is not whole


class RobotsPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How robots.txt files are kept and obeyed. Times are in seconds."""

    agent: str = "webmill"
    max_delay: float = 60.0  # the longest Crawl-delay that is kept
    max_age: float = DAY  # no copy is used for longer
    min_age: float = 600.0  # whatever Cache-Control says: not before every page
    first_retry: float = 60.0  # of an unreachable one; the waits double
    longest_retry: float = 6 * 3600.0
    patience: float = 30 * DAY  # then an unreachable robots.txt counts as none


DEFAULT_POLICY = RobotsPolicy()
_NO_RULES = RobotsRules()


class RobotsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    state: State = "unavailable"
    rules: RobotsRules = _NO_RULES
    crawl_delay: float | None = None  # at most the policy's
    too_slow: bool = False  # the file asked for a longer delay than that
    cut: bool = False  # the file was longer than we read
    sitemaps: tuple[str, ...] = ()  # as written
    usage: RobotsUsage = NO_ROBOTS_USAGE

    def allows(self, path_and_query: str) -> bool:
        return self.state != "unreachable" and self.rules.allows(path_and_query)


class Parsed(msgspec.Struct, frozen=True):
    """What one agent needs of a robots.txt."""

    rules: RobotsRules
    sitemaps: tuple[str, ...]
    cut: bool
    usage: RobotsUsage = NO_ROBOTS_USAGE


class ParsedFiles:
    """The robots.txt files that were used last, parsed; one for each origin, and a new body replaces the old.

    Bounded by the bytes of their bodies, 1 KiB more for each. Parsed they take once to six times as much; 30 times if
    they were made to. Not for several threads.
    """

    def __init__(self, *, most_bytes: int = 16 << 20) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._files: OrderedDict[tuple[str, str], tuple[bytes, int, Parsed]] = OrderedDict()

    def get(self, entry: RobotsEntry, agent: str) -> Parsed:
        key = (entry.origin, agent)
        kept = self._files.pop(key, None)
        if kept and kept[0] == entry.body:  # mostly the same object
            self._files[key] = kept
            return kept[2]
        self._bytes -= kept[1] if kept else 0
        made = (entry.body, len(entry.body) + 1024, _parse(entry.body, agent))
        self._files[key] = made
        self._bytes += made[1]
        while self._bytes > self._most:
            self._bytes -= self._files.popitem(last=False)[1][1]
        return made[2]

    def __len__(self) -> int:
        return len(self._files)


def robots_path(url: str) -> str:
    """Return what robots.txt rules are about: exactly what is requested. `/x?` is not `/x`."""
    at = url.find("/", 8)  # behind `https://`
    return url[at:] if at >= 0 else "/"


def make_entry(
    origin: str,
    answer: FetchedResponse | FetchFailure,
    *,
    now: float,
    before: RobotsEntry | None = None,
    policy: RobotsPolicy = DEFAULT_POLICY,
) -> RobotsEntry:
    """Return the entry to keep. `answer` is the last one, after redirects; `before` what was known until now."""
    status = _status(answer)
    failing_since = (_failing_since(before) or now) if _is_failure(status) else 0.0
    headers = answer.head.headers if isinstance(answer, FetchedResponse) else Headers()
    wait = expires_after(status, headers, failing_for=now - failing_since, policy=policy)
    if status in (429, 503):
        wait = max(wait, retry_after(headers.get("Retry-After"), now) or 0.0)
    # One byte more than is read: it tells that there was more.
    body = answer.payload[: MAX_BODY + 1] if isinstance(answer, FetchedResponse) and 200 <= status < 300 else b""
    return RobotsEntry(
        origin=origin, fetched=now, expires=now + wait, status=status, body=body, failing_since=failing_since
    )


def expires_after(
    status: int, headers: Headers, *, failing_for: float = 0.0, policy: RobotsPolicy = DEFAULT_POLICY
) -> float:
    """Return for how many seconds an answer is valid. Cache-Control may shorten that, and never lengthens it."""
    if _is_failure(status):  # wait as long as it has failed already: the waits double
        return min(max(failing_for, policy.first_retry), policy.longest_retry)
    control = ",".join(headers.get_all("Cache-Control"))
    if _NO_CACHE.search(control):
        return policy.min_age
    found = _MAX_AGE.search(control)
    return min(max(float(found[1]), policy.min_age), policy.max_age) if found else policy.max_age


def left_alone_until(entry: RobotsEntry, *, policy: RobotsPolicy = DEFAULT_POLICY) -> float:
    """Return when a server's Retry-After is over; 0 when it did not ask for more than we would wait by ourselves."""
    if not _is_failure(entry.status):  # nearly all
        return 0.0
    ours = expires_after(entry.status, Headers(), failing_for=entry.fetched - entry.failing_since, policy=policy)
    return entry.expires if entry.expires > entry.fetched + ours else 0.0


def decide(
    entry: RobotsEntry, *, now: float, policy: RobotsPolicy = DEFAULT_POLICY, files: ParsedFiles | None = None
) -> RobotsVerdict:
    """Return what an entry allows, until `entry.expires`. `files` saves parsing the same body again."""
    if _is_failure(entry.status):
        is_given_up = now - _failing_since(entry) >= policy.patience
        return RobotsVerdict(state="unavailable" if is_given_up else "unreachable")
    if entry.status >= 300:
        return RobotsVerdict()
    parsed = _parse(entry.body, policy.agent) if files is None else files.get(entry, policy.agent)
    delay = parsed.rules.crawl_delay
    return RobotsVerdict(
        state="rules",
        rules=parsed.rules,
        crawl_delay=None if delay is None else min(delay, policy.max_delay),
        too_slow=delay is not None and delay > policy.max_delay,
        cut=parsed.cut,
        sitemaps=parsed.sitemaps,
        usage=parsed.usage,
    )


class Directives(msgspec.Struct, frozen=True):
    """What a page says about robots: the directives of its header and its `<meta>`."""

    nofollow: bool = False
    noindex: bool = False


def robots_directives(headers: Headers, html_meta: str = "", *, agent: str = DEFAULT_POLICY.agent) -> Directives:
    """Of X-Robots-Tag fields and of `<meta name=robots>`: what any of them forbids to all or to us is forbidden.

    In a field `googlebot: noindex, nofollow` is for one agent, up to the next name. `none` is both.
    """
    words = {*words_of_meta(html_meta.lower(), agent.lower()), *words_of_fields(headers.get_all("X-Robots-Tag"), agent)}
    return Directives(
        nofollow=not words.isdisjoint(("nofollow", "none")), noindex=not words.isdisjoint(("noindex", "none"))
    )


def _parse(body: bytes, agent: str) -> Parsed:
    robots: RobotsTxt = parse_robots(body)
    return Parsed(robots.for_agent(agent), robots.sitemaps, robots.cut, read_robots_usage(body, agent=agent))


def _status(answer: FetchedResponse | FetchFailure) -> int:
    """Return the status; 0 for no answer. Half a file forbids half of what it should, so it counts as none, unless we
    read no more anyway."""
    if isinstance(answer, FetchFailure):
        return 0
    is_half = answer.exchange.truncated is not None or not INCOMPLETE_FLAWS.isdisjoint(answer.flaws)
    is_success = 200 <= answer.head.status < 300
    return 0 if is_success and is_half and len(answer.payload) <= MAX_BODY else answer.head.status


def _is_failure(status: int) -> bool:
    return status == 429 or not 200 <= status < 500


def _failing_since(entry: RobotsEntry | None) -> float:
    """Return since when a robots.txt is failing; 0 when it is not."""
    if entry is None or not _is_failure(entry.status):
        return 0.0
    return entry.failing_since or entry.fetched

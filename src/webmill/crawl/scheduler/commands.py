"""What a shard is told through its inbox beside links: durable, done by the shard's owner, harmless when repeated."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import Frontier, FrontierUpdate, LastVisit, RobotsEntry, VisitDone
from webmill.crawl.yields.yield_store import PARKED
from webmill.formats.patterns import compile_pattern

RETRIED_AT_ONCE = 1000
PAUSED = "paused"  # the note of a frontier whose crawl is paused; empty: it is not


class ExcludeDomains(msgspec.Struct, frozen=True, tag="exclude"):
    domains: tuple[str, ...]


class IncludeDomains(msgspec.Struct, frozen=True, tag="include"):
    domains: tuple[str, ...]


class CompactFrontier(msgspec.Struct, frozen=True, tag="compact"):
    """Drop what was consumed."""


class BackUpFrontier(msgspec.Struct, frozen=True, tag="back_up"):
    """Copy the shard's frontier into `folder`, which must be absent. The copy appears whole, or not at all."""

    folder: str


class RetryUrls(msgspec.Struct, frozen=True, tag="retry"):
    """Ask again for URLs that were visited: by the kind of their error, and by a pattern (RE2) that is found in them.
    Without either, for all that failed; what was parked is released instead (`ReleasePattern`)."""

    errors: tuple[str, ...] = ()
    pattern: str = ""

    def wants(self, visit: LastVisit) -> bool:
        kind = error_of(visit)
        if self.errors:
            return any(part in self.errors for part in kind.split(": "))
        return bool((kind and kind != PARKED) or self.pattern)


class ReleasePattern(msgspec.Struct, frozen=True, tag="release"):
    """Ask for the URLs of a pattern that was parked, and never park it again."""

    pattern: str

    def wants(self, visit: LastVisit) -> bool:
        return visit.error == f"{PARKED}: {self.pattern}"


class RecordVisits(msgspec.Struct, frozen=True, tag="record"):
    """Take these visits, made by `webmill save`, and robots.txt files as the crawl's own."""

    visits: tuple[VisitDone, ...]
    robots: tuple[RobotsEntry, ...] = ()


class PauseCrawl(msgspec.Struct, frozen=True, tag="pause"):
    """Claim nothing more until `ResumeCrawl`. Requests under way end; the run does not, and waits."""


class ResumeCrawl(msgspec.Struct, frozen=True, tag="resume"):
    """Go on after `PauseCrawl`. Each run begins with it."""


ShardCommand = (
    ExcludeDomains
    | IncludeDomains
    | CompactFrontier
    | BackUpFrontier
    | RetryUrls
    | ReleasePattern
    | RecordVisits
    | PauseCrawl
    | ResumeCrawl
)


def apply_command(command: ShardCommand, frontier: Frontier) -> None:
    match command:
        case ExcludeDomains(domains):
            frontier.exclude(domains)
        case IncludeDomains(domains):
            frontier.include(domains)
        case CompactFrontier():
            frontier.compact()
        case BackUpFrontier(folder):
            copy = Path(folder)
            if copy.parent.is_dir() and not copy.exists():  # still wanted, and not done before a kill
                frontier.back_up(copy)
        case RetryUrls() | ReleasePattern():
            retry_urls(command, frontier)
        case PauseCrawl() | ResumeCrawl():  # a process that dies and comes back is as it was
            frontier.commit(FrontierUpdate(notes={PAUSED: "1" if isinstance(command, PauseCrawl) else ""}), now=0.0)
        case RecordVisits(visits, robots):
            now = max((done.visit.time for done in visits), default=0.0)
            frontier.commit(FrontierUpdate(robots=robots), now=now)
            frontier.record(visits, now=now)


def retry_urls(command: RetryUrls | ReleasePattern, frontier: Frontier) -> int:
    """Let the URLs be asked for again that `command` wants; return how many there are."""
    by_url = command.pattern if isinstance(command, RetryUrls) else ""
    pattern = compile_pattern(by_url) if by_url else None
    count, some = 0, list[str]()
    for visit in frontier.visits():
        if command.wants(visit) and (pattern is None or pattern.search(visit.url)):
            some.append(visit.url)
        if len(some) == RETRIED_AT_ONCE:
            count += frontier.retry(some)
            some = []
    return count + (frontier.retry(some) if some else 0)


def error_of(visit: LastVisit) -> str:
    """Return the kind of error that a visit ended with, such as `connect_refused`, `robots_unreachable: dns_failed` or
    `http_404`; empty when it went well."""
    if visit.error:
        return ": ".join(part for part in visit.error.split(": ")[:2] if re.fullmatch("[a-z0-9_]+", part))
    return f"http_{visit.status}" if visit.status >= 400 else ""

"""One URL of a turn: may it be asked, when, and what came of it. What follows from that is the desk's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from email.utils import formatdate
from random import Random
from typing import Any

import msgspec

from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import (
    MOST_HOPS,
    PAGE_RESOURCE,
    SITEMAP,
    ClaimedUrl,
    DomainTurn,
    LastVisit,
    NotTried,
    RetryLater,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.hops import reached_by
from webmill.crawl.options import Options
from webmill.crawl.politeness.retries import Decision, Patience, Retry, decide_answer, decide_failure, retry_after
from webmill.crawl.politeness.robots import Verdict
from webmill.crawl.politeness.robots_fetcher import Learned, RobotsAsking
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.shard_store import Answered, Result, was_there
from webmill.crawl.visit.page_reader import Page, Reader, capture_of, conditions, validators_of
from webmill.crawl.visit.requester import Asked, Asker, Busy, Pace
from webmill.crawl.visit.revisit_interval import Bounds, interval_after_error, interval_after_gone, next_interval
from webmill.formats.http.head import end_of_head
from webmill.formats.url.normalise import origin_of
from webmill.formats.warc import digest
from webmill.infra.clock import SteadyClock
from webmill.model import Link

OF_RECORD = ("record_id", "record_url", "record_time", "digest", "etag", "modified")


class Visitor:
    def __init__(
        self, asker: Asker, robots: RobotsAsking, reader: Reader, options: Options, *, clock: SteadyClock
    ) -> None:
        self._asker, self._robots, self._reader, self._options, self._clock = asker, robots, reader, options, clock
        self._patience = Patience(
            attempts=options.limits.attempts,
            first_wait=options.limits.retry_wait,
            longest_retry_after=options.manners.max_retry_after,
        )
        # A picture of a host that is gone does not hold up the end of a crawl.
        self._less_patience = msgspec.structs.replace(self._patience, attempts=min(2, self._patience.attempts))
        refresh = options.refresh
        self._bounds = Bounds(first=refresh.first, least=refresh.least, most=refresh.most)
        self._random = Random().random  # noqa: S311 - it spreads waits
        self.errors: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.statuses: Counter[str] = Counter()
        self.requisites = 0

    async def visit(self, turn: DomainTurn, item: ClaimedUrl) -> Result:
        if self._reader.is_excluded(item.url):  # by a pattern that came later than the URL
            return self._excluded(turn, item)
        learned = await self._learned(item)
        if learned.verdict is None or (learned.until is not None and self._may(learned.verdict, item)):
            until = learned.until or self._clock()
            return self._after(learned, token=turn.token, outcome=NotTried(item.url, until), next=until)
        if not self._may(learned.verdict, item):
            return self._refused(turn, item, learned)
        pace = self._pace(item, learned.verdict)
        asked = await self._asker.ask(item.url, headers=conditions(item.last), pace=pace)
        if isinstance(asked, Busy):
            return self._after(learned, token=turn.token, outcome=NotTried(item.url, asked.until), next=asked.until)
        self._robots.use(origin_of(item.url))
        if isinstance(asked.answer, FetchFailure):
            return self._failed(turn, item, asked, asked.answer, learned)
        return self._answered(turn, item, asked, asked.answer, learned)

    # --- robots ---

    async def _learned(self, item: ClaimedUrl) -> Learned:
        if not self._options.manners.obey_robots:
            return Learned(verdict=Verdict())
        return await self._robots.learn(origin_of(item.url), pace=self._pace(item, Verdict()))

    def _may(self, verdict: Verdict, item: ClaimedUrl) -> bool:
        return verdict.allows(path_of(item.url))

    def _patience_with(self, item: ClaimedUrl) -> Patience:
        return self._less_patience if item.priority == PAGE_RESOURCE else self._patience

    def _refused(self, turn: DomainTurn, item: ClaimedUrl, learned: Learned) -> Result:
        """Not to be asked: for good, or until its robots.txt can be had."""
        assert learned.verdict
        now, reason = self._clock(), "robots"
        if learned.verdict.state == "unreachable":
            reason = "robots_unreachable" + (f": {learned.failed.reason}" if learned.failed else "")
            self.errors[learned.failed.reason if learned.failed else reason] += 1
            if wait := self._wait_for_robots(item, learned):
                later = RetryLater(item.url, max(now + wait, learned.left_alone_until), reason)
                return self._after(learned, token=turn.token, outcome=later, next=learned.until)
        self.refused[reason.partition(":")[0]] += 1
        return self._after(learned, token=turn.token, outcome=self._in_vain(item, now, reason), next=learned.until)

    def _excluded(self, turn: DomainTurn, item: ClaimedUrl) -> Result:
        self.refused["excluded"] += 1
        now = self._clock()
        return Result(token=turn.token, outcome=self._in_vain(item, now, "excluded"), next=now)

    def _in_vain(self, item: ClaimedUrl, time: float, error: str) -> VisitDone:
        """No answer. That says nothing of the page: it is visited again, and what is known of it stays known. But what
        was never asked, and is not to be, is left for good."""
        visit = LastVisit(url=item.url, time=time, error=error, depth=item.depth, **reached_by(item))
        if item.last is None and error in ("robots", "excluded"):
            return VisitDone(visit, is_page=False)
        interval = interval_after_error(item.last.interval if item.last else 0.0, bounds=self._bounds)
        known = last_record(item.last) if item.last else {}
        visit = msgspec.structs.replace(visit, interval=interval, **known)
        return VisitDone(visit, revisit_due=time + interval, is_page=False)

    def _wait_for_robots(self, item: ClaimedUrl, learned: Learned) -> float | None:
        """Until it is asked for once more; None when that has no sense, as with a name that does not exist."""
        if learned.failed:
            choice = decide_failure(
                learned.failed.reason, item.attempts, random=self._random(), patience=self._patience_with(item)
            )
            return choice.delay if isinstance(choice, Retry) else None
        patience = self._patience_with(item)
        if item.attempts < patience.attempts:
            return patience.wait(item.attempts, random=self._random())
        return None

    # --- no answer ---

    def _failed(
        self, turn: DomainTurn, item: ClaimedUrl, asked: Asked, failed: FetchFailure, learned: Learned
    ) -> Result:
        self.errors[failed.reason] += 1
        error = f"{failed.reason}: {failed.message}"[:500]
        free = self._free(item, asked, learned) if failed.sent else None
        choice = decide_failure(failed.reason, item.attempts, random=self._random(), patience=self._patience_with(item))
        if isinstance(choice, Retry):
            later = RetryLater(item.url, self._clock() + choice.delay, error)
            return self._after(learned, token=turn.token, outcome=later, next=free)
        return self._after(learned, token=turn.token, outcome=self._in_vain(item, asked.sent, error), next=free)

    # --- an answer ---

    def _answered(
        self, turn: DomainTurn, item: ClaimedUrl, asked: Asked, fetched: FetchedResponse, learned: Learned
    ) -> Result:
        status, free = fetched.head.status, self._free(item, asked, learned)
        self.statuses[f"{status // 100}xx"] += 1
        self.requisites += is_requisite(item)
        choice, wait = self._judge(item, fetched)
        if wait:
            free = max(free or 0.0, self._clock() + wait)
            self._asker.hold(item.url, free)
        if choice is not None:
            self.errors[f"http_{status}" if status >= 400 else f"truncated_{fetched.exchange.truncated}"] += 1
        if isinstance(choice, Retry):
            later = RetryLater(item.url, self._clock() + choice.delay, f"status_{status}")
            return self._after(learned, token=turn.token, outcome=later, next=free)
        page = self._reader.read(fetched, item)
        self.refused.update(page.refused)
        visit, again = self._visit_record(item, asked, fetched, page)
        links = self._links(item, page)
        if not wait and any(link.priority == PAGE_RESOURCE and domain_of(link.url) == turn.domain for link in links):
            free = self._free(item, asked, learned, is_followed_by_requisite=True)
        result = self._after(
            learned,
            token=turn.token,
            outcome=VisitDone(visit, revisit_due=again, is_page=page.kind != "sitemap" and not is_requisite(item)),
            answers=(*learned.answers, Answered(capture=capture_of(fetched, item, page.kind), sent=asked.sent)),
            links=links,
            next=free,
            is_revisit=was_there(item),
        )
        self._reader.hand_on(result.links)
        return result

    def _judge(self, item: ClaimedUrl, fetched: FetchedResponse) -> tuple[Decision | None, float]:
        """What to do about it, and for how long the server does not want to be asked."""
        status = fetched.head.status
        wait = retry_after(
            fetched.head.headers.get("Retry-After"), now=self._clock(), longest=self._options.manners.max_retry_after
        )
        choice = decide_answer(
            status,
            item.attempts,
            random=self._random(),
            truncated=fetched.exchange.truncated,
            retry_after=wait,
            patience=self._patience_with(item),
        )
        if status not in (429, 503):
            return choice, 0.0
        return choice, choice.delay if isinstance(choice, Retry) else wait or 0.0

    def _free(
        self, item: ClaimedUrl, asked: Asked, learned: Learned, *, is_followed_by_requisite: bool = False
    ) -> float | None:
        """When the domain may be asked again; None: at once. After a requisite the next may be one, too: if it is not,
        it is told to wait when it books its time."""
        assert learned.verdict
        pace = self._pace(item, learned.verdict)
        if is_followed_by_requisite:
            pace = msgspec.structs.replace(pace, is_requisite=True)
        delay = pace.delay(self._options.manners)
        return asked.sent + delay if delay else None

    def _pace(self, item: ClaimedUrl, verdict: Verdict) -> Pace:
        """What is left of a crawl that no longer asks for requisites is asked as pages are."""
        return Pace(self._options.rules.requisites and is_requisite(item), verdict.crawl_delay or 0.0)

    def _links(self, item: ClaimedUrl, page: Page) -> list[Link]:
        if page.kind == "redirect" and item.redirects >= min(self._options.limits.redirects, MOST_HOPS):
            self.refused["too_many_redirects"] += 1
            return []
        return page.links

    def _visit_record(
        self, item: ClaimedUrl, asked: Asked, fetched: FetchedResponse, page: Page
    ) -> tuple[LastVisit, float | None]:
        status, interval = fetched.head.status, self._interval(fetched, item.last)
        visit = LastVisit(
            url=item.url,
            time=asked.sent,
            status=status,
            depth=item.depth,
            interval=interval or 0.0,
            **reached_by(item),
        )
        if item.last and (page.kind == "not_modified" or tells_nothing(status)):
            visit = msgspec.structs.replace(visit, **last_record(item.last))
        if page.kind == "not_modified" or is_whole(fetched):
            visit = msgspec.structs.replace(visit, **validators(fetched, visit))
        return visit, None if interval is None else asked.sent + interval

    def _interval(self, fetched: FetchedResponse, last: LastVisit | None) -> float | None:
        status, previous = fetched.head.status, last.interval if last else 0.0
        if status in (404, 410):
            return interval_after_gone(was_gone=bool(last and last.status in (404, 410)), bounds=self._bounds)
        if tells_nothing(status):
            return interval_after_error(previous, bounds=self._bounds)
        return next_interval(previous, changed=_is_changed(fetched, last), bounds=self._bounds)

    def broken(self, turn: DomainTurn, item: ClaimedUrl, error: Exception) -> Result:
        """We failed, not the web: it is tried again as if the server had."""
        self.errors["internal"] += 1
        reason, now = f"internal: {error!r}"[:500], self._clock()
        patience = self._patience_with(item)
        until = now + max(self._options.manners.delay, patience.wait(item.attempts, random=self._random()))
        if item.attempts < patience.attempts:
            return Result(token=turn.token, outcome=RetryLater(item.url, until, reason), next=until)
        return Result(token=turn.token, outcome=self._in_vain(item, now, reason), next=until)

    def _after(self, learned: Learned, *, links: Sequence[Link] = (), **fields: Any) -> Result:
        """With what was learned on the way; a robots.txt that is new to us may name sitemaps."""
        if learned.entry and learned.verdict and self._options.rules.sitemaps:
            maps = self._reader.sitemaps(learned.verdict.sitemaps, learned.entry.origin)
            links = [*(Link(url, 0, SITEMAP) for url in maps), *links]
        return Result(**{"answers": learned.answers, "robots": learned.entry, "links": links, **fields})

    # --- numbers ---

    def fill(self, snapshot: Snapshot) -> None:
        self._asker.fill(snapshot)
        snapshot.robots, snapshot.requisites = self._robots.asked, self.requisites
        snapshot.errors, snapshot.refused = dict(self.errors), dict(self.refused)
        snapshot.statuses, snapshot.endings = dict(self.statuses), dict(self._reader.endings)


def is_requisite(item: ClaimedUrl) -> bool:
    return item.priority == PAGE_RESOURCE


def tells_nothing(status: int) -> bool:
    """Of the page: the server could not, or would not, answer."""
    return status >= 400 and status not in (404, 410)


def is_whole(fetched: FetchedResponse) -> bool:
    """A page that a later visit may be compared with."""
    return fetched.head.status == 200 and fetched.exchange.truncated is None


def validators(fetched: FetchedResponse, before: LastVisit) -> dict[str, str]:
    """What the next visit names when it asks whether the page has changed: without anything of the server's, or where
    that is too long to be kept, the time of this visit."""
    headers = fetched.head.headers
    etag, modified = validators_of(headers)
    etag = etag if headers.get("ETag") else before.etag
    modified = modified if headers.get("Last-Modified") else before.modified
    if not etag and not modified:
        modified = formatdate(fetched.exchange.date.timestamp(), usegmt=True)
    return {"etag": etag, "modified": modified}


def last_record(last: LastVisit) -> dict[str, Any]:
    """Of the page as it was archived, for visits that bring nothing newer."""
    return {name: getattr(last, name) for name in OF_RECORD}


def _is_changed(fetched: FetchedResponse, last: LastVisit | None) -> bool:
    """By the payload. What was never seen counts as changed."""
    if last is None or not last.digest:
        return True
    if fetched.head.status == 304:
        return False
    response = fetched.exchange.response
    return digest.compute(memoryview(response)[end_of_head(response) or len(response) :]) != last.digest


def path_of(url: str) -> str:
    """What robots.txt rules are about: exactly what is asked for. `/x?` is not `/x`."""
    at = url.find("/", 8)  # behind `https://`
    return url[at:] if at >= 0 else "/"

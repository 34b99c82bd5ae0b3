"""Visit one URL of a turn: may it be requested, when, and what came of it. Others write down what follows from that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import msgspec

from webmill.crawl.browser.renderer import RenderedPage, RenderFailed
from webmill.crawl.browser.visits import BrowserVisits
from webmill.crawl.fetch import FetchedResponse, FetchFailure
from webmill.crawl.frontier.base import (
    MOST_HOPS,
    PAGE_RESOURCE,
    SITEMAP,
    SITEMAPS,
    ClaimedUrl,
    DomainTurn,
    LastVisit,
    NotTried,
    RetryLater,
    VisitDone,
    domain_of,
)
from webmill.crawl.frontier.hops import reached_by
from webmill.crawl.options import CrawlOptions
from webmill.crawl.page.url_joining import redirect_target
from webmill.crawl.politeness.requester import HostBusy, Requester, RequestPacing, RequestResult
from webmill.crawl.politeness.retries import (
    Retry,
    RetryDecision,
    RetryPolicy,
    decide_answer,
    decide_failure,
    retry_after,
)
from webmill.crawl.politeness.robots import RobotsVerdict, robots_path
from webmill.crawl.politeness.robots_fetcher import RobotsCheck, RobotsFetcher
from webmill.crawl.progress import CrawlProgress
from webmill.crawl.visit.answer_reading import AnswerReader
from webmill.crawl.visit.captures import make_capture
from webmill.crawl.visit.cookie_redirects import CookieRedirects
from webmill.crawl.visit.last_visit import archived_fields, conditions
from webmill.crawl.visit.link_order import LinkOrder
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.page_reader import (
    PageReader,
    PageReading,
    content_type_of,
    is_html,
)
from webmill.crawl.visit.revisit_schedule import (
    GONE,
    interval_after_error,
    interval_left_alone,
)
from webmill.crawl.visit.site_files import SiteFiles
from webmill.crawl.visit.sitemap_links import with_sitemap_priorities
from webmill.crawl.visit.usage import UsageReader, UsageReading
from webmill.crawl.visit.visit_record import describe_visit
from webmill.formats.http.cookies import Cookie
from webmill.formats.preferences.payment import PAYMENT_REQUIRED
from webmill.formats.url.normalise import origin_of
from webmill.infra.clock import SteadyClock
from webmill.model import Link


class UrlVisitor:
    """Visits the URLs of one shard, any number at a time."""

    def __init__(
        self,
        requester: Requester,
        robots: RobotsFetcher,
        reader: PageReader,
        options: CrawlOptions,
        *,
        clock: SteadyClock,
        browser: BrowserVisits | None = None,
        site_files: Iterable[tuple[str, SiteFiles]] = (),
    ) -> None:
        self._requester, self._robots, self._reader, self._browser = requester, robots, reader, browser
        self._answers = AnswerReader(reader, requester)
        self._options, self._clock, self._began = options, clock, clock()
        self._page_retries = RetryPolicy(
            attempts=options.limits.attempts,
            first_wait=options.limits.retry_wait,
            longest_retry_after=options.politeness.max_retry_after,
        )
        # An image of a host that is gone does not hold up the end of a crawl.
        attempts = min(2, self._page_retries.attempts)
        self._resource_retries = msgspec.structs.replace(self._page_retries, attempts=attempts)
        self._usage = UsageReader(options.usage, known=site_files)
        self._cookie_redirects = CookieRedirects(requester.session)
        self._random = Random().random  # noqa: S311 - it spreads waits
        self._errors: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._order = LinkOrder() if options.rules.order == "best" else None
        self._statuses: Counter[str] = Counter()
        self._resources = 0

    async def visit(self, turn: DomainTurn, item: ClaimedUrl) -> VisitResult:
        """Request the URL if and when it may be requested, and return what came of it."""
        if reason := self._reader.why_excluded(item.url):
            return self._skip_excluded(turn, item, reason)
        robots = await self._check_robots(item)
        if robots.verdict is None or (robots.free is not None and robots.verdict.allows(robots_path(item.url))):
            free = robots.free or self._clock()
            return self._result(turn, robots, outcome=NotTried(item.url, free), next=free)
        if not robots.verdict.allows(robots_path(item.url)):
            return self._refuse(turn, item, robots)
        if (usage := self._usage.before(item.url, robots.verdict)).is_denied:
            return self._refuse_usage(turn, item, robots, usage)
        pacing = self._pacing(item, robots.verdict)
        headers = conditions(item.last, since=self._reader.since)
        request = await self._requester.request(item.url, headers=headers, pacing=pacing)
        if isinstance(request, HostBusy):
            return self._result(turn, robots, outcome=NotTried(item.url, request.until), next=request.until)
        self._robots.mark_used(origin_of(item.url))
        if isinstance(request.answer, FetchFailure):
            return self._handle_failure(turn, item, request, request.answer, robots)
        rendered = await self._browser.show(turn, item, request.answer) if self._browser else None
        if isinstance(rendered, RenderFailed):
            return self.handle_crash(turn, item, rendered)
        return await self._handle_answer(turn, item, request, request.answer, robots, rendered)

    # --- robots ---

    async def _check_robots(self, item: ClaimedUrl) -> RobotsCheck:
        if not self._options.politeness.obey_robots:
            return RobotsCheck(verdict=RobotsVerdict())
        return await self._robots.check(origin_of(item.url), pacing=self._pacing(item, RobotsVerdict()))

    def _retry_policy(self, item: ClaimedUrl) -> RetryPolicy:
        return self._resource_retries if is_resource(item) else self._page_retries

    def _refuse(self, turn: DomainTurn, item: ClaimedUrl, robots: RobotsCheck) -> VisitResult:
        """The URL may not be requested: for good, or until its robots.txt can be fetched."""
        assert robots.verdict
        now, reason = self._clock(), "robots"
        if robots.verdict.state == "unreachable":
            reason = "robots_unreachable" + (f": {robots.failed.reason}" if robots.failed else "")
            self._errors[robots.failed.reason if robots.failed else reason] += 1
            if wait := self._wait_for_robots(item, robots):
                later = RetryLater(item.url, max(now + wait, robots.not_before), reason)
                return self._result(turn, robots, outcome=later, next=robots.free)
        self.refused[reason.partition(":")[0]] += 1
        return self._result(turn, robots, outcome=self._give_up(item, now, reason), next=robots.free)

    def _refuse_usage(
        self, turn: DomainTurn, item: ClaimedUrl, robots: RobotsCheck, usage: UsageReading
    ) -> VisitResult:
        """The site does not want its page to be used for what the crawl is for."""
        self.refused["usage"] += 1
        return self._result(turn, robots, outcome=self._give_up(item, self._clock(), usage.error), next=robots.free)

    def _skip_excluded(self, turn: DomainTurn, item: ClaimedUrl, reason: str) -> VisitResult:
        self.refused[reason] += 1
        now = self._clock()
        return VisitResult(token=turn.token, outcome=self._give_up(item, now, reason), next=now)

    def _give_up(self, item: ClaimedUrl, time: float, error: str) -> VisitDone:
        """Return the outcome of a visit without a response. That says nothing of the page: it is visited again, and
        what is known of it stays known. But what was never requested, and may not be, is left alone."""
        visit = LastVisit(url=item.url, time=time, error=error, depth=item.depth, **reached_by(item))
        previous, schedule = item.last.interval if item.last else 0.0, self._options.revisits
        interval: float | None = interval_after_error(previous, schedule=schedule)
        if visit.is_left_alone and not (item.last and item.last.record_id):
            interval = interval_left_alone(previous, schedule=schedule)
        if interval is None:
            return VisitDone(visit, is_page=False)
        known = archived_fields(item.last) if item.last else {}
        visit = msgspec.structs.replace(visit, interval=interval, **known)
        return VisitDone(visit, revisit_due=time + interval, is_page=False)

    def _wait_for_robots(self, item: ClaimedUrl, robots: RobotsCheck) -> float | None:
        """Return the wait before robots.txt is fetched again; None when that is hopeless (a name that does not
        exist)."""
        retries = self._retry_policy(item)
        if robots.failed:
            decision = decide_failure(robots.failed.reason, item.attempts, random=self._random(), policy=retries)
            return decision.delay if isinstance(decision, Retry) else None
        if item.attempts < retries.attempts:
            return retries.wait(item.attempts, random=self._random())
        return None

    # --- no response ---

    def _handle_failure(
        self, turn: DomainTurn, item: ClaimedUrl, request: RequestResult, failed: FetchFailure, robots: RobotsCheck
    ) -> VisitResult:
        self._errors[failed.reason] += 1
        error = f"{failed.reason}: {failed.message}"[:500]
        free = self._domain_free_at(item, request, robots) if failed.sent else None
        retries = self._retry_policy(item)
        decision = decide_failure(failed.reason, item.attempts, random=self._random(), policy=retries)
        if isinstance(decision, Retry):
            later = RetryLater(item.url, self._clock() + decision.delay, error)
            return self._result(turn, robots, outcome=later, next=free)
        return self._result(turn, robots, outcome=self._give_up(item, request.sent, error), next=free)

    # --- a response ---

    async def _handle_answer(
        self,
        turn: DomainTurn,
        item: ClaimedUrl,
        request: RequestResult,
        fetched: FetchedResponse,
        robots: RobotsCheck,
        rendered: RenderedPage | None = None,
    ) -> VisitResult:
        status, free = fetched.head.status, self._domain_free_at(item, request, robots)
        self._statuses["304" if status == 304 else f"{status // 100}xx"] += 1
        self._resources += is_resource(item)
        decision, wait = self._decide(item, fetched)
        if wait:
            free = max(free or 0.0, self._clock() + wait)
            self._requester.hold_host(item.url, free)
        if decision is not None:
            self._errors[f"http_{status}" if status >= 400 else f"truncated_{fetched.exchange.truncated}"] += 1
        if isinstance(decision, Retry):
            later = RetryLater(item.url, self._clock() + decision.delay, f"status_{status}")
            return self._result(turn, robots, outcome=later, next=free)
        target = redirect_target(item.url, fetched.head)
        if target == item.url and self._may_ask_again(item, request):
            later = RetryLater(item.url, free or self._clock(), "cookie_redirect")
            captures = (*robots.captures, make_capture(fetched, item, "redirect"))
            return self._result(turn, robots, outcome=later, captures=captures, next=free)
        page, rest = await self._answers.read(fetched, item, rendered)
        usage = self._read_usage(fetched, item, robots)
        if page.refused:
            self.refused.update(page.refused)
        visit, again = describe_visit(item, request.sent, fetched, page, schedule=self._options.revisits)
        if rendered:  # that its document is the same says nothing of what its scripts would show
            visit = msgspec.structs.replace(visit, etag="", modified="")
        captures = (*robots.captures, make_capture(fetched, item, page.kind, rendered=rendered, notes=usage.fields))
        if usage.is_denied:
            self.refused[usage.error.partition(":")[0]] += 1
            visit = msgspec.structs.replace(visit, error=usage.error)
            captures = captures if status == PAYMENT_REQUIRED else robots.captures  # the price is no content
        links = self._links(turn, item, page)
        if rest:
            wait = max(wait, rest)
            free = max(free or 0.0, self._clock() + wait)
        if not wait and any(link.priority == PAGE_RESOURCE and domain_of(link.url) == turn.domain for link in links):
            free = self._domain_free_at(item, request, robots, is_resource_next=True)
        result = self._result(
            turn,
            robots,
            outcome=VisitDone(visit, revisit_due=again, is_page=is_new_page(item, page) and not usage.is_denied),
            captures=captures,
            records=rendered.records if rendered and not usage.is_denied else (),
            links=links,
            next=free,
            is_revisit=item.was_archived,
            again=self._cookie_redirects.find_again(item.url, target, request.fields) if target else (),
            sample=page.sample,
        )
        self._reader.mark_queued(result.links, via=item.url)
        return result

    def _may_ask_again(self, item: ClaimedUrl, request: RequestResult) -> bool:
        """Tell whether a URL that redirects to itself is asked again: it would get other cookies."""
        is_other = self._cookie_redirects.is_other_session(item.url, request.fields)
        return is_other and item.attempts < self._retry_policy(item).attempts

    def _read_usage(self, fetched: FetchedResponse, item: ClaimedUrl, robots: RobotsCheck) -> UsageReading:
        """Return what the site says of the use of an answer; a file of the site is remembered."""
        assert robots.verdict
        if item.priority in SITEMAPS:
            self._usage.learn(item.url, fetched)
        is_page = fetched.head.status == 200 and is_html(content_type_of(fetched), fetched.payload)
        return self._usage.read(item.url, fetched, robots.verdict, is_page=is_page)

    def _decide(self, item: ClaimedUrl, fetched: FetchedResponse) -> tuple[RetryDecision | None, float]:
        """Return what to do about a response, and how long the server wants to be left alone."""
        status, longest = fetched.head.status, self._options.politeness.max_retry_after
        wait = retry_after(fetched.head.headers.get("Retry-After"), now=self._clock(), longest=longest)
        decision = decide_answer(
            status,
            item.attempts,
            random=self._random(),
            truncated=fetched.exchange.truncated,
            retry_after=wait,
            policy=self._retry_policy(item),
        )
        if status not in (429, 503):
            return decision, 0.0
        return decision, decision.delay if isinstance(decision, Retry) else wait or 0.0

    def _domain_free_at(
        self, item: ClaimedUrl, request: RequestResult, robots: RobotsCheck, *, is_resource_next: bool = False
    ) -> float | None:
        """Return when the domain may be asked again; None: at once. After a page resource the next may be one, too: if
        it is not, it is told to wait when it reserves its time."""
        assert robots.verdict
        pacing = self._pacing(item, robots.verdict)
        if is_resource_next:
            pacing = msgspec.structs.replace(pacing, is_resource=True)
        delay = self._requester.delay(item.url, pacing)
        return request.sent + delay if delay else None

    def _pacing(self, item: ClaimedUrl, verdict: RobotsVerdict) -> RequestPacing:
        """Resources that are left of a crawl that no longer fetches them are requested as pages are."""
        return RequestPacing(self._options.rules.page_resources and is_resource(item), verdict.crawl_delay or 0.0)

    def _links(self, turn: DomainTurn, item: ClaimedUrl, page: PageReading) -> list[Link]:
        if page.kind == "redirect" and item.redirects >= min(self._options.limits.redirects, MOST_HOPS):
            self.refused["too_many_redirects"] += 1
            return []
        links = page.links
        if page.kind == "page" and item.last and (item.last.gone or item.last.status in GONE):
            links = [msgspec.structs.replace(link, modified=link.modified or self._began) for link in links]
        if self._order is None:
            return links
        return self._order.arrange(links, page.known, domain=turn.domain, rank=turn.rank, depth=item.depth + 1)

    def handle_crash(self, turn: DomainTurn, item: ClaimedUrl, error: Exception) -> VisitResult:
        """Return the outcome of a visit that failed by our own fault: it is tried again as if the server had failed."""
        self._errors["internal"] += 1
        reason, now = f"internal: {error!r}"[:500], self._clock()
        retries = self._retry_policy(item)
        until = now + max(self._options.politeness.delay, retries.wait(item.attempts, random=self._random()))
        if item.attempts < retries.attempts:
            return VisitResult(token=turn.token, outcome=RetryLater(item.url, until, reason), next=until)
        return VisitResult(token=turn.token, outcome=self._give_up(item, now, reason), next=until)

    def _result(
        self, turn: DomainTurn, robots: RobotsCheck, *, links: Sequence[Link] = (), **fields: Any
    ) -> VisitResult:
        """Return a result with what was fetched on the way; a new robots.txt may name sitemaps."""
        if robots.fetched and robots.verdict and self._options.rules.sitemaps:
            sitemaps = self._reader.allowed_sitemaps(robots.verdict.sitemaps, robots.fetched.origin)
            links = [*(Link(url, 0, priority) for url, priority in with_sitemap_priorities(sitemaps)), *links]
        if robots.fetched and robots.verdict:
            files = self._reader.allowed_sitemaps(
                self._usage.files_of(robots.fetched.origin, robots.verdict), robots.fetched.origin
            )
            links = [*(Link(url, 0, SITEMAP) for url in files), *links]
        fields = {"captures": robots.captures, "robots": robots.fetched, **fields}
        return VisitResult(token=turn.token, links=links, **fields)

    def adapt(self, *, domains_waiting: int) -> None:
        """Note how many domains wait in the whole crawl: the pace may follow it."""
        self._requester.pace.domains_waiting = domains_waiting

    def take_cookies(self) -> dict[str, tuple[Cookie, ...]]:
        """Return the cookies that changed since the last time, by site."""
        session = self._requester.session
        return session.jar.take_changes() if session else {}

    def take_site_files(self) -> dict[str, SiteFiles]:
        """Return what files of sites say of the use of their pages, as far as it changed since the last time."""
        return self._usage.take_changes()

    def report(self, progress: CrawlProgress) -> None:
        """Fill in what was visited."""
        self._requester.report(progress)
        progress.robots, progress.page_resources = self._robots.requests, self._resources
        progress.errors, progress.refused = dict(self._errors), dict(self.refused)
        progress.statuses, progress.endings = dict(self._statuses), dict(self._reader.skipped_endings)


def is_new_page(item: ClaimedUrl, page: PageReading) -> bool:
    """Tell whether a response counts as a page: once for each URL, however often it is visited."""
    return page.kind != "sitemap" and not is_resource(item) and not item.was_archived


def is_resource(item: ClaimedUrl) -> bool:
    return item.priority == PAGE_RESOURCE

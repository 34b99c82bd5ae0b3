"""What a tenth of a web is worth that a crawl fetches: the share of all PageRank, by `--order best` and `breadth`.

Three webs of different shape whose PageRank is known (`ordering_webs.py`) are crawled with `--max-pages` at a tenth of
them, under a delay of 30 s for each domain, by the frontier, the scores, the order of links and the pace of a crawl
itself; servers and clock are simulated. A server refuses no request, but this program stops when a domain is asked
before its delay is over. *Ideal* is the tenth with the highest PageRank: no crawler can know it.

What others measured, on other webs and with other budgets: Cho, Garcia-Molina and Page (1998) crawled 179,000 pages of
Stanford in the order of PageRank, of in-links, breadth-first and at random; PageRank was best. Najork and Wiener (2001)
found that breadth-first meets pages of high PageRank early, in 328 million pages. Abiteboul, Preda and Cobena (2003)
compute importance while they crawl, without a graph in memory (OPIC). `BENCH_PAGES=100000` for larger webs.
"""

from __future__ import annotations

import heapq
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.ordering_webs import WEBS, SyntheticWeb
from webmill.crawl.frontier.base import (
    PINNED_RANK,
    ClaimRequest,
    DomainTurn,
    FrontierUpdate,
    LastVisit,
    TurnOutcomes,
    VisitDone,
)
from webmill.crawl.frontier.local import LocalFrontier
from webmill.crawl.scheduler.budget_pace import BudgetPace
from webmill.crawl.scheduler.budgets import PageBudget
from webmill.crawl.scheduler.domain_scores import DomainScores
from webmill.crawl.visit.link_order import LINKED, LinkOrder
from webmill.crawl.visit.outcome import VisitResult
from webmill.crawl.visit.page_reader import SEED
from webmill.crawl.visit.recent_links import RecentLinks
from webmill.model import Link

PAGES = int(os.environ.get("BENCH_PAGES", "20000"))
DELAY, HOLD, LEASE = 30.0, 60.0, 1e6
STEP = 0.25  # seconds of simulated time between two batches
Order = Literal["breadth", "best"]


class CrawlOutcome(msgspec.Struct, frozen=True):
    mass: float  # of PageRank
    seconds: float  # of simulated time
    pages: int


class SimulatedCrawl:
    """One shard: what `ShardCrawler` and `ShardStore` do with these parts, without network, archive and threads."""

    def __init__(self, web: SyntheticWeb, order: Order, folder: Path, *, budget: int, concurrency: int) -> None:
        self.web, self.order, self.concurrency, self.now = web, order, concurrency, 0.0
        self.frontier = LocalFrontier(folder / "frontier")
        self.scores = DomainScores(folder / "scores.sqlite") if order == "best" else None
        self.links, self.recent = LinkOrder(), RecentLinks()
        self.pace = BudgetPace() if order == "best" else None
        self.budget = PageBudget(0)
        self.budget.grant(budget)
        self.page_of: dict[str, int] = {}
        self.fetched: list[int] = []
        self.asked_at: dict[str, float] = {}
        self.in_hand: list[tuple[float, int, float, DomainTurn]] = []  # ends, number, began, turn
        self.dice = random.Random(7)

    def run(self) -> None:
        self.commit([Link(self.url(page), 0, SEED) for page in self.web.seeds], [])
        while self.budget.pages < self.budget.granted:
            self.claim()
            if not self.in_hand and (due := self.frontier.next_turn()) is None:
                break
            self.now = max(self.now + STEP, 0.0 if self.in_hand else due or 0.0)
            self.finish()
        self.frontier.close()
        if self.scores:
            self.scores.close()

    def url(self, page: int) -> str:
        url = self.web.url(page)
        self.page_of[url] = page
        return url

    def claim(self) -> None:
        free = self.concurrency - len(self.in_hand)
        if self.pace:
            stats = self.frontier.stats()
            domains = stats.domains_waiting + len(self.in_hand)
            free = self.pace.limit(free, domains=domains, turns=len(self.in_hand), now=self.now)
        claim = self.budget.limit_claim(free_turns=free, urls_per_turn=1, fetches_resources=False)
        if not claim.turns:
            return
        ranks_from = 1 if self.scores else PINNED_RANK
        turns = self.frontier.claim(
            ClaimRequest(
                turns=claim.turns, urls_per_turn=1, now=self.now, lease=LEASE, hold=HOLD, ranks_from=ranks_from
            )
        )
        if self.pace:
            self.pace.spend(len(turns))
        for turn in turns:
            if self.now < self.asked_at.get(turn.domain, -DELAY) + DELAY:
                raise SystemExit(f"{turn.domain} was asked before its delay was over")
            self.asked_at[turn.domain] = self.now
            self.budget.begin_turn(turn.token, 1)
            heapq.heappush(self.in_hand, (self.now + self.dice.uniform(0.2, 1.5), turn.token, self.now, turn))

    def finish(self) -> None:
        """Settle the turns whose responses are there."""
        links: list[Link] = []
        results: list[VisitResult] = []
        while self.in_hand and self.in_hand[0][0] <= self.now:
            _, token, began, turn = heapq.heappop(self.in_hand)
            (item,) = turn.items
            page = self.page_of[item.url]
            self.fetched.append(page)
            visit = VisitDone(LastVisit(url=item.url, time=began, status=200))
            results.append(VisitResult(token=token, outcome=visit, next=began + DELAY))
            links += self.links_of(page, turn, depth=item.depth + 1)
            self.budget.end_turn(token)
        self.budget.pages += len(results)
        if results:
            self.commit(links, results)

    def links_of(self, page: int, turn: DomainTurn, *, depth: int) -> list[Link]:
        urls = [self.url(target) for target in self.web.links[page]]
        links = [Link(url, depth, LINKED) for url in self.recent.drop_known(urls)]
        if self.order == "best":
            known = [url for url in urls if url in self.recent]
            links = self.links.arrange(links, known, domain=turn.domain, rank=turn.rank, depth=depth)
        for link in links:
            self.recent.add(link.url)
        return links

    def commit(self, links: list[Link], results: list[VisitResult]) -> None:
        settled = [TurnOutcomes(result.token, [result.outcome], result.next) for result in results if result.outcome]
        ranks = self.scores.ranks if self.scores else {}
        self.frontier.commit(FrontierUpdate(links=links, settled=settled, ranks=ranks), now=self.now)
        if self.pace:
            self.pace.observe(results)
        if self.scores:
            hosts = (self.web.hosts[self.page_of[one.outcome.url]] for one in results if one.outcome)
            self.scores.note(links, Counter(f"h{host}.example" for host in hosts))


def crawl(web: SyntheticWeb, order: Order, *, concurrency: int) -> CrawlOutcome:
    """Crawl a tenth of a web; return what it is worth."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        one = SimulatedCrawl(web, order, Path(folder), budget=len(web.links) // 10, concurrency=concurrency)
        one.run()
    if len(set(one.fetched)) != len(one.fetched):
        raise SystemExit("a page was fetched twice")
    mass = float(sum(web.rank[page] for page in one.fetched))
    return CrawlOutcome(mass, one.now, len(one.fetched))


def ideal_mass(web: SyntheticWeb) -> float:
    return float(sum(sorted(web.rank)[-(len(web.links) // 10) :]))


def print_web(web: SyntheticWeb, *, concurrency: int) -> None:
    breadth, best = (crawl(web, order, concurrency=concurrency) for order in ("breadth", "best"))
    print(
        f"| {web.name} | {breadth.mass:.3f} | {best.mass:.3f} | {best.mass / breadth.mass:.2f} | {ideal_mass(web):.3f} "
        f"| {breadth.seconds:,.0f} | {best.seconds:,.0f} |",
        flush=True,
    )


def print_cost() -> None:
    """Print what the order of the links of a page costs: fifty, of which twenty lead to other domains."""
    order, count = LinkOrder(), 2000
    pages = [
        [Link(f"https://www.site{page if at < 30 else at * page % 997}.example/{page}/{at}", 1) for at in range(50)]
        for page in range(count)
    ]
    before = time.process_time()
    for page, links in enumerate(pages):
        order.arrange(links, (), domain=f"site{page}.example", rank=5, depth=1)
    print(f"\nOrder of the 50 links of a page: {1e6 * (time.process_time() - before) / count:.0f} µs of CPU")


def print_memory() -> None:
    """Print what the order keeps, for a million URLs on a million domains: the worst case."""
    from benchmarks.frontier import disk_bytes, resident

    with tempfile.TemporaryDirectory() as folder:
        scores, before, started = DomainScores(Path(folder) / "scores.sqlite"), resident(), time.process_time()
        print("\n| domains with a score | memory, MiB | file, MiB | µs of CPU for each link |\n|---:|---:|---:|---:|")
        for part in range(1, 11):
            for start in range(0, 100_000, 100):
                names = range((part - 1) * 100_000 + start, (part - 1) * 100_000 + start + 100)
                scores.note([Link(f"https://www.site{number}.example/", 1, weight=0.01) for number in names], {})
            if part in (1, 2, 5, 10):
                memory, disk = resident() - before, disk_bytes(Path(folder))
                cpu = 1e6 * (time.process_time() - started) / (part * 100_000)
                print(
                    f"| {part * 100_000:,} | {memory / (1 << 20):.0f} | {disk / (1 << 20):.0f} | {cpu:.1f} |",
                    flush=True,
                )
        scores.close()


def main() -> None:
    webs = [make(PAGES) for make in WEBS]
    for concurrency in (500, 10):
        print(f"\n## A tenth of {PAGES:,} pages, up to {concurrency} domains at a time, {DELAY:.0f} s of delay\n")
        print("| web | breadth | best | ratio | ideal | s, breadth | s, best |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        for web in webs:
            print_web(web, concurrency=concurrency)
    print_cost()
    print_memory()


if __name__ == "__main__":
    main()

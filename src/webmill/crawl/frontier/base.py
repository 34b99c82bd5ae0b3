"""The interface of every frontier: which URLs are known, which domain is next, and what came of each visit.

    commit(links) ─▶ waiting ─▶ claim ─▶ in hand ─▶ commit: VisitDone  ─▶ visited (─▶ waiting again at `revisit_due`)
                        ▲  ▲               ├──────▶         RetryLater ─▶ waiting, not before a time
                        │  └───────────────┤                NotTried   ─▶ waiting, at its old place
                        └── lease over ────┘

A turn is the right to ask one domain (`domain_of`) for a few of its URLs, one after the other. Domains take turns: a
claim hands out turns of different domains, and while a turn lasts nobody else gets that domain.

What every backend promises (`tests/contracts/test_frontier.py`)
- One update, one transaction: all that a `FrontierUpdate` holds is durable when `commit` returns, or nothing of it is
  there. A link is never known but nowhere: waiting, in hand or visited, exactly one of them, at every kill point.
- Exact: a URL that was never added is never called known (a Bloom filter only answers a quick no).
- Leased: a turn ends with its last URL, when `next` is given, or when its lease is over; then its URLs are offered
  again, at no cost in attempts. An outcome under a lease that is over changes nothing, and `CommitResult.lost` names
  its token; one for a URL that is not in hand changes nothing. A backend that knows the holder of a lease to be dead
  may end it.
- Polite across restarts: from the moment a turn is claimed its domain is not offered before `now + hold`, whoever dies;
  once it is settled with `next`, not before that.
- Order: within a domain the lower priority number first, page resources before all; among equals those that came back
  and may be asked now (at their old places), then revisits whose time has come, then new ones, first in, first out.
  Domains: those of a higher rank first, where ranks from `ClaimRequest.ranks_from` on count; among equals the one that
  may be asked for longest. One turn in `OLDEST_ONE_IN` goes to the latter, whatever its rank.
- News of a known URL (`Link.modified`) that is younger than its last visit makes its revisit due at once.
- A revisit that came to nothing (`RetryLater`, `NotTried`, lease over) stays a revisit: it is visited, and due again.
- Bounded: memory does not grow with URLs nor with domains, nor does what is read when it is opened.

`now` is in seconds since 1970 and never goes backwards for one frontier, over restarts too (`infra.clock`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from webmill.formats.url.domains import registered_domain
from webmill.formats.url.normalise import host_of
from webmill.model import Link

PRIORITIES = 10  # 0 is asked first, 9 last
SITEMAP, LATER_SITEMAP = 2, 6  # priorities of sitemaps, and of nothing else: before the pages of a domain, and after
SITEMAPS = frozenset((SITEMAP, LATER_SITEMAP))
PAGE_RESOURCE = (
    -1
)  # before all of them: images, styles and scripts that a page needs. No caller may give it to another link
MOST_RANK = 15  # of a domain: the domains of higher ranks come first; 0 is that of all that nobody has ranked
PINNED_RANK = 14  # ranks from here on are given by people (`Frontier.prioritise`), and count in every order
OLDEST_ONE_IN = 16  # turns: goes to the domain that may be asked for longest, whatever its rank, so that none starves
MOST_DEPTH, MOST_HOPS = (1 << 24) - 1, (1 << 8) - 1  # they share 32 bits of a line


class LastVisit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a URL the last time it was visited. `filename`, `offset` and `length` are those of its `CaptureRef`,
    kept flat: a frontier has millions of visits, and each has its URL and digest already.
    """

    url: str
    time: float
    status: int = 0  # 0: there was no answer
    error: str = ""  # why not, or why it was refused: a code of a fixed set, then a colon and words
    depth: int = 0
    filename: str = ""  # of its capture; empty: there is none
    offset: int = 0
    length: int = 0
    record_id: str = ""  # of the record that has the payload: an earlier one, of another URL maybe
    record_url: str = ""
    record_time: float = 0.0  # its WARC-Date
    digest: str = ""  # of the payload
    etag: str = ""
    modified: str = ""  # Last-Modified, as the server wrote it
    interval: float = 0.0  # seconds until it was to be visited again
    redirects: int = msgspec.field(default=0, name="hops")  # in a row that led to it
    sitemap_depth: int = 0  # indexes of sitemaps in a row that led to it
    resource_steps: int = 0  # of a page resource: imports, frames and redirects from its page
    resource_share: int = 0  # of a page resource: how many more it may bring
    lists_pages: bool = False  # it is a sitemap or a feed
    gone: bool = False  # it was not found for the second time, or has moved for good

    @property
    def has_page(self) -> bool:
        """Tell whether a response is archived that later ones are compared with. A redirect is none."""
        return bool(self.record_id) and self.status not in (301, 302, 303, 307, 308)

    @property
    def is_left_alone(self) -> bool:
        """Tell whether the page is gone, or was not requested because of robots.txt, the crawl's own rules or what its
        site says of its use."""
        return (
            self.gone
            or self.error in ("robots", "excluded", "forgotten")
            or self.error.startswith(("usage:", "payment:"))
        )


class RevisitRule(msgspec.Struct, frozen=True):
    """When a run looks at visited pages: not before `shortest` seconds since the last visit nor after `longest`,
    whatever was planned; and `slack` earlier than planned, since runs do not come to the second. A page that is
    left alone is looked at after its own interval, however long or short.
    """

    shortest: float
    longest: float
    slack: float

    def due(self, last: LastVisit, planned: float) -> float:
        """Return when a page is due whose next visit was planned for `planned`."""
        if last.is_left_alone:
            return last.time + last.interval - self.slack
        return last.time + max(self.shortest, min(planned - last.time, self.longest)) - self.slack


def is_due(last: LastVisit, planned: float | None, rule: RevisitRule, *, now: float) -> bool:
    """Tell whether a visit is to be repeated: as it was planned, or by the rule."""
    return planned is not None and (planned <= now or rule.due(last, planned) <= now)


class ClaimedUrl(msgspec.Struct, frozen=True):
    """A URL in hand. `attempts` counts this one; `last` is there when it is visited again."""

    url: str
    depth: int
    priority: int
    attempts: int
    last: LastVisit | None = None
    redirects: int = 0  # these as in `Link`
    sitemap_depth: int = 0
    resource_steps: int = 0
    resource_share: int = 0

    @property
    def was_archived(self) -> bool:
        """Tell whether the URL is a page that its domain has given already."""
        return self.last is not None and self.last.status > 0


class DomainTurn(msgspec.Struct, frozen=True):
    domain: str
    token: int
    until: float  # when the lease ends
    items: tuple[ClaimedUrl, ...]
    rank: int = 0  # of the domain


class VisitDone(msgspec.Struct, frozen=True):
    """The URL was fetched, or never will be: `visit` says which. `revisit_due`: when to visit it again; None: never."""

    visit: LastVisit
    revisit_due: float | None = None
    is_page: bool = True  # counts in `FrontierStats.pages`

    @property
    def url(self) -> str:
        return self.visit.url


class RetryLater(msgspec.Struct, frozen=True):
    """The fetch failed in a way that may pass: offer the URL again, with one more attempt counted."""

    url: str
    not_before: float
    error: str


class NotTried(msgspec.Struct, frozen=True):
    """The URL was not fetched: offer it again at its old place, not before a time. Costs no attempt."""

    url: str
    not_before: float = 0.0


Outcome: TypeAlias = VisitDone | RetryLater | NotTried


class TurnOutcomes(msgspec.Struct, frozen=True):
    """The outcomes of URLs of one turn. `next` ends the turn (URLs without an outcome were not tried): the domain may
    be asked again from then on. Without it the turn goes on, under the same lease."""

    token: int
    outcomes: Sequence[Outcome]
    next: float | None = None


class RobotsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The robots.txt of one origin (`https://example.com`) as it was last asked for."""

    origin: str
    fetched: float
    expires: float
    status: int = 0  # 0: unreachable
    body: bytes = b""
    failing_since: float = 0.0


class FrontierUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """All that one commit changes.

    `visited`: URLs that were visited elsewhere, as an import knows them; never claimed here. They become visited before
    the links of the update are looked at, those of excluded domains too; one that is known already stays as it is.
    `notes`: small values of the crawl, kept under their names.
    `ranks`: ranks that the crawl has found for domains. Domains that nothing is known of, and those that people have
    given a rank, stay as they are.
    """

    links: Sequence[Link] = ()
    settled: Sequence[TurnOutcomes] = ()
    visited: Sequence[VisitDone] = ()
    robots: Sequence[RobotsEntry] = ()
    notes: Mapping[str, str] = {}
    ranks: Mapping[str, int] = {}


class CommitResult(msgspec.Struct, frozen=True):
    added: int = 0  # new links
    known: int = 0  # links, and visits from elsewhere, of URLs that were known
    excluded: int = 0  # links of excluded domains: not added
    lost: frozenset[int] = frozenset()  # tokens whose lease was over
    imported: int = 0  # visits from elsewhere that were new
    brought_forward: int = 0  # visited URLs that are due now, since they have changed (`Link.modified`)


class FrontierStats(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int  # URLs, those for a retry included
    in_hand: int
    visited: int
    pages: int  # Done with `is_page`
    revisits: int  # visited URLs that wait for their next visit
    domains: int
    domains_waiting: int  # with something to ask
    domains_in_hand: int
    expired: int  # leases that ran out since the frontier was made


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim asks for: up to `turns` turns of up to `urls_per_turn` URLs each."""

    turns: int
    urls_per_turn: int
    now: float
    lease: float  # seconds until the turns are over, unless they are extended
    hold: float  # seconds for which their domains are not offered again, whatever becomes of the turns
    revisits: bool = False  # offer visited URLs whose revisit is due, too
    revisits_first: bool = False  # offer them before all else, whatever their priority
    resources_only: bool = False  # offer only page resources that were never visited; ranks do not count
    ranks_from: int = PINNED_RANK  # ranks below this are all alike


class Frontier(Protocol):
    def claim(self, request: ClaimRequest) -> list[DomainTurn]: ...

    def commit(self, update: FrontierUpdate, *, now: float) -> CommitResult: ...

    def extend(self, tokens: Iterable[int], *, now: float, lease: float) -> frozenset[int]:
        """Start the leases anew; return the tokens that are lost."""
        ...

    def next_turn(self, *, revisits: bool = False, resources_only: bool = False) -> float | None:
        """Return when the next domain with something to claim is due, maybe long ago; the end of a lease counts, for
        what is in hand may come back. None when nothing waits and nothing is in hand. Flags: as in `ClaimRequest`."""
        ...

    def bring_forward(self, rule: RevisitRule, *, now: float) -> int:
        """Make the revisits due that are due by `rule`, and return how many are due now. For the start of a run."""
        ...

    def retry(self, urls: Sequence[str]) -> int:
        """Ask for visited URLs again: those without a capture wait again, of others the revisit is due. Return how many
        are; URLs that wait, are in hand or are not known stay as they are."""
        ...

    def record(self, visits: Sequence[VisitDone], *, now: float) -> None:
        """Note visits that were made without a claim. Each has a `revisit_due`. A URL that is not known becomes
        visited, one that was visited before has this visit from now on; what waits or is in hand stays as it is."""
        ...

    def visit(self, url: str) -> LastVisit | None: ...

    def visits(self, *, since: float = 0.0, until: float | None = None) -> Iterator[LastVisit]:
        """Yield visits in the order of their time, `until` not included; bounded memory."""
        ...

    def waiting(self) -> Iterator[Link]:
        """Yield all URLs that wait or are in hand, but revisits, each once: domain by domain, excluded ones too.
        Bounded memory. What a step changes while this is read may be missed or come twice."""
        ...

    def robots(self, origin: str) -> RobotsEntry | None: ...

    def exclude(self, domains: Iterable[str]) -> int:
        """Neither add nor offer URLs of these domains from now on, over restarts; return how many are new."""
        ...

    def include(self, domains: Iterable[str]) -> int: ...

    def excluded(self) -> Iterator[str]: ...

    def prioritise(self, domains: Iterable[str], rank: int) -> int:
        """Give domains this rank, over restarts; return how many had another one. From `PINNED_RANK` on it stays until
        this is called again. BadInput for a rank that there is not."""
        ...

    def notes(self) -> dict[str, str]: ...

    def stats(self) -> FrontierStats: ...

    def compact(self) -> None:
        """Drop what was consumed."""
        ...

    def back_up(self, folder: Path) -> None:
        """Copy the frontier, as it is between two updates, to a folder that was not there before: it appears whole, or
        not at all. What the crawl does later does not change it. Each backend has a `restore` for it."""
        ...

    def close(self) -> None: ...


def domain_of(url: str) -> str:
    """Return the domain that takes turns for a normalised URL: the registered one, or the host where there is none."""
    end = url.find("/", len("https://"))
    return _domain_at(url[:end] if end >= 0 else url)


@lru_cache(maxsize=1 << 15)  # every link is asked for its domain
def _domain_at(origin: str) -> str:
    host = host_of(origin)
    return registered_domain(host) or host

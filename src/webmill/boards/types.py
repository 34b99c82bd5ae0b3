"""The input and output of a reader of boards."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from webmill.crawl.options import CrawlLimits, NetworkAccess, Politeness
from webmill.infra.child import ChildLimits
from webmill.publish.types import PublishProblem, Scalar

MIB = 1 << 20


class BoardLimits(Struct, frozen=True, kw_only=True):
    pages: int = 1  # of a listing
    bodies: int = 200  # fetched in one reading
    seconds: float = 300.0  # for one board, after those of its host before it
    body_age: float = 86400.0  # after so many seconds a body is fetched again, though its row is the same;
    # and a listing unconditionally: some servers never report a change
    child: ChildLimits = ChildLimits(cpu=5, wall=30, memory=512 * MIB, output=16 * MIB, written=MIB, may_fork=False)


class ReaderOptions(Struct, frozen=True, kw_only=True):
    politeness: Politeness
    gates: Path  # the host schedule, shared with all readers and crawls of this folder
    cache: Path | None = None  # of validators, parsed pages, robots.txt, for all readers of a machine. None: in memory
    limits: BoardLimits = BoardLimits()
    requests: CrawlLimits = CrawlLimits(body=4 * MIB, deadline=30.0, attempts=2, retry_wait=2.0, redirects=5)
    network: NetworkAccess = NetworkAccess()
    zone: str = "Asia/Seoul"  # of dates without one
    parsers: int = 2  # processes that parse
    connections: int = 64


def board_manners(user_agent: str, *, delay: float = 1.0, address_delay: float = 0.2) -> Politeness:
    """Return the politeness for boards: departments of a university are hosts of one domain, and many share an IP."""
    return Politeness(
        user_agent=user_agent,
        delay=delay,
        domain_delay=0.0,
        address_delay=address_delay,
        max_retry_after=60.0,  # a server that asks for more has failed for this time
    )


class KnownNotice(Struct, frozen=True, kw_only=True):
    """What the last version knows of a notice."""

    hash: str = ""
    row: str = ""  # its Notice.row: lets a machine without the cache skip the body
    checked: float = 0.0  # its Notice.checked
    date: str = ""


class Notice(Struct, frozen=True, kw_only=True):
    """A notice. `content` is what is hashed and stored. None: it was not fetched, since `known[id]` has its `hash`."""

    id: str  # source + "/" + the row's id
    url: str
    content: dict[str, object] | None
    facets: dict[str, str]
    metadata: dict[str, Scalar]  # title, date, url, author, category, pinned: what a list shows
    hash: str = ""  # of known, when there is no content
    row: str = ""  # digest of the row of the listing
    checked: float = 0.0  # when the body was fetched, in seconds since 1970


class BoardResult(Struct, frozen=True, kw_only=True):
    """The result of reading a board. `failed`: it could not be read, and keeps its notices."""

    source: str
    items: tuple[Notice, ...] = ()
    problems: tuple[PublishProblem, ...] = ()
    failed: bool = False
    retryable: bool = False  # of a failure: it may work later
    not_modified: bool = False  # no page of the listing was modified, and no body was fetched
    kept: tuple[str, ...] = ()  # known ids that could not be read: they stay, stale
    beyond: tuple[str, ...] = ()  # known ids older than the last page that was read: they stay as they are
    counts: dict[str, int] = msgspec.field(default_factory=dict)  # requests, not_modified, parsed, bad_date…

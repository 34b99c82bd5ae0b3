"""What the overview opens with: what changed lately; during a first crawl, the crawl."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from webmill.crawl.progress import estimate_left
from webmill.crawl.status_file import CrawlStatus
from webmill.publish.changes import CHANGE_KINDS, PageChange
from webmill.serve.api import links
from webmill.serve.api.published import PublishedVersions
from webmill.serve.api.recorded_changes import VersionChanges, latest_changes
from webmill.serve.pages.filters import format_count
from webmill.serve.pages.versions_diff import NAMES, DiffAddress

VERSIONS, CHANGES = 5, 8  # shown at most
LINES = 2  # of an excerpt


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    title: str
    url: str
    moved_to: str
    address: str  # of what shows it best
    removed: list[str]
    added: list[str]


class ChangeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one version; `more` are not shown here."""

    counts: str
    at: datetime
    age: float
    address: str
    rows: list[ChangeRow]
    more: int


class CrawlLine(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl that runs: `left` seconds until it ends, where that can be estimated."""

    pages: int
    waiting: int
    left: float | None


class OverviewChanges(msgspec.Struct, frozen=True, kw_only=True):
    """`crawl` runs at this moment. `first`: there is one version only, or none. `due` is the number of seconds until
    the next look at a page, where that is known; below 0 it should have been already. `since`: when the oldest version
    was published that was looked at for changes."""

    groups: list[ChangeGroup]
    crawl: CrawlLine | None
    is_first: bool
    has_version: bool
    due: float | None
    since: datetime | None


def read_overview_changes(
    published: PublishedVersions, crawls: Sequence[CrawlStatus], *, now: float | None = None
) -> OverviewChanges:
    """Return what changed in the last versions, and what is going on."""
    now = time.time() if now is None else now
    found = latest_changes(published, versions=VERSIONS, limit=CHANGES)
    compared = [one for one in found if one.summary.parent]
    due = [one.total.revisit_due for one in crawls if one.total.revisit_due is not None]
    return OverviewChanges(
        groups=[_group(one, now) for one in compared if one.summary.total],
        crawl=_crawl_line([one for one in crawls if one.is_running]),
        is_first=not compared,
        has_version=bool(found) or bool(published.versions()),
        due=min(due) - now if due else None,
        since=compared[-1].version.published_at if compared else None,
    )


def _crawl_line(running: Sequence[CrawlStatus]) -> CrawlLine | None:
    if not running:
        return None
    left = [seconds for one in running if (seconds := estimate_left(one.total)) is not None]
    return CrawlLine(
        pages=max(one.total.pages for one in running),
        waiting=sum(one.total.waiting for one in running),
        left=max(left) if left else None,
    )


def _group(one: VersionChanges, now: float) -> ChangeGroup:
    summary, version = one.summary, one.version
    where = DiffAddress(old=summary.parent or "", new=summary.version)
    counts = [f"{format_count(count)} {kind}" for kind in CHANGE_KINDS if (count := getattr(summary, kind))]
    return ChangeGroup(
        counts=", ".join(counts),
        at=version.published_at,
        age=max(0.0, now - version.published_at.astimezone(UTC).timestamp()),
        address=where.but(),
        rows=[_row(change, where) for change in one.changes],
        more=summary.total - len(one.changes),
    )


def _row(change: PageChange, where: DiffAddress) -> ChangeRow:
    has_both = change.old and change.new
    has_text = change.kind in ("changed", "moved")
    return ChangeRow(
        kind=change.kind,
        name=NAMES[change.kind],
        title=change.title or links.readable_url(change.url),
        url=links.readable_url(change.url),
        moved_to=links.readable_url(change.moved_to or ""),
        address=where.but(id=change.id, moved_to=change.moved_to_id or "")
        if has_both
        else links.document(change.id, version=where.new if change.new else where.old),
        removed=change.removed.splitlines()[:LINES] if has_text else [],
        added=change.added.splitlines()[:LINES] if has_text else [],
    )

"""A publication, from its lease to its commit.

    with Publication.begin(storage, options=Options(facets=("campus",))) as publication:
        hash_ = publication.put({"title": …, "body": …})
        publication.add(Item("board/17", "board", hash_, facets={"campus": "Seoul"}, metadata={"title": …}))
        publication.report(Problem(stage="fetch", source="other", message="timed out", retryable=True))
        publication.keep_source("other")                  # what it had before stays, marked stale
        published = publication.commit()

The order of writes: blobs, shards, index, meta, aux, manifest; then the commit record, created only if absent (the
point of no return); then `latest.json`. `Conflict` from `commit` means that another publisher was first: call it again,
and it builds on what is live by then.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import msgspec

from webmill.errors import BadInput, Conflict, NotFound, WebmillError
from webmill.forgotten import forgotten_in
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Storage
from webmill.publish import guard, history, leases
from webmill.publish.blob_uploader import BlobUploader
from webmill.publish.blobs import SAMPLE, BlobCounts, BlobStore, Json
from webmill.publish.change_rules import ChangeRules
from webmill.publish.facets import check_facets
from webmill.publish.holder import this_process
from webmill.publish.inherited_metadata import InheritedMetadata
from webmill.publish.keys import check_hash
from webmill.publish.manifest import read_file, read_version_index
from webmill.publish.moves import FindRedirects, no_redirects
from webmill.publish.patched_items import PatchedItems
from webmill.publish.rows import SortedRows
from webmill.publish.shards import MAX_INLINE, is_forgotten, read_items, read_items_ahead, shown_items
from webmill.publish.types import Layout, PublishedItem, PublishProblem, Version, decode, encode
from webmill.publish.version import STATS, VersionDraft, VersionStats, write_version
from webmill.publish.version_items import CarryOver, NewItems, VersionItems

LONGEST_ITEM = 1 << 20  # bytes of one line of an index
_MAX_CHECKS = 10


class PublishOptions(msgspec.Struct, frozen=True, kw_only=True):
    facets: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()  # metadata that an item inherits as long as its content is the same
    force: bool = False  # publish even if the guard would refuse
    even_if_same: bool = True  # publish even if the live version holds the same
    most_lost: float = guard.MAX_LOSS
    inline: int = MAX_INLINE  # items that an index file holds itself
    facet_inline: int = MAX_INLINE  # the same of the file of a facet's value
    layout: Layout = "webmill"  # of the index files
    writers: int = 1  # shards written at once
    readers: int = 1  # shards read at once: more than one where the storage is far away
    sample: float = SAMPLE  # share of the known blobs that is read and checked
    policy: BackoffPolicy = BackoffPolicy()  # for blobs that the storage does not take at once
    ttl: timedelta = leases.TTL
    patience: float = leases.PATIENCE  # seconds to wait for gc
    rules: ChangeRules = ChangeRules()  # which changes are unimportant
    find_redirects: FindRedirects = no_redirects  # where removed pages are now

    def __post_init__(self) -> None:
        check_facets(self.facets)


class ContentGone(Conflict):
    """gc has removed content of this run: put it again, then commit again."""


class BaseReplaced(WebmillError):
    """Another version is live than the one that this publication differs from: add all items instead."""


class PublishResult(msgspec.Struct, frozen=True):
    """`is_new`: False when the live version held the same, and no version was made."""

    version: Version
    counts: VersionStats
    blobs: BlobCounts
    is_new: bool = True


def utc_now() -> datetime:
    return datetime.now(UTC)


class Publication:
    """A version being published. Threads may share `put` and `find`; the rest is for one thread."""

    def __init__(
        self, storage: Storage, lease: leases.RunLease, *, options: PublishOptions, now: Callable[[], datetime]
    ) -> None:
        self.run = lease.run
        self.blobs = BlobStore(storage, sample=options.sample, policy=options.policy)
        self.counts: Counter[str] = Counter()  # for `stats.json`
        self._storage, self._lease, self._options, self._now = storage, lease, options, now
        self._started = now()
        self._renewed = time.monotonic()
        self._temporary = tempfile.TemporaryDirectory(prefix="webmill-publish-")
        self._folder = Path(self._temporary.name)
        self._items = SortedRows(self._folder, "items")
        self._inheritable = frozenset(options.carried)
        self._may_inherit = False  # whether any item has metadata that may be inherited
        self._problems: list[PublishProblem] = []
        self._carry_over = CarryOver(set(), set())
        self._expected: set[str] = set()
        self._attached: dict[str, bytes | Path] = {}
        self._base = ""  # the version that this one differs from
        self._changes: dict[str, PublishedItem | None] = {}  # from `_base`; None: removed

    @classmethod
    def begin(
        cls,
        storage: Storage,
        *,
        options: PublishOptions | None = None,
        now: Callable[[], datetime] = utc_now,
        run: str | None = None,
        started: datetime | None = None,
    ) -> Publication:
        """Begin a publication by one process. `run`: a name that no other publication has. `started`: when
        the publisher first looked for what to publish; now if not given.

        `Misconfigured` where there are blobs but no history, unless forced.
        """
        options = options or PublishOptions()
        run = run or secrets.token_hex(8)
        lease = leases.acquire(storage, run, holder=this_process(), ttl=options.ttl, patience=options.patience)
        try:
            history.begin_history(storage, force=options.force)
        except WebmillError:
            leases.try_release(storage, run)
            raise
        begun = cls(storage, lease, options=options, now=now)
        begun._started = started or begun._started
        return begun

    @classmethod
    def join(
        cls,
        storage: Storage,
        run: str,
        *,
        options: PublishOptions | None = None,
        now: Callable[[], datetime] = utc_now,
        started: datetime | None = None,
    ) -> Publication:
        """Join a run whose lease another process has taken (`leases.acquire`), and whose blobs were put by many.

        When the lease is lost, or gc has run since, `commit` checks every blob first.
        """
        lease = leases.find_lease(storage, run) or leases.RunLease(run=run)
        joined = cls(storage, lease, options=options or PublishOptions(), now=now)
        joined._started = started or joined._started
        return joined

    def put(self, content: Json) -> str:
        self._renew()
        return self.blobs.put(content)

    def find(self, content: Json) -> str | None:
        """Return the hash of content that is stored already; None: put it."""
        self._renew()
        return self.blobs.find(content)

    def add(self, item: PublishedItem) -> None:
        """Add an item whose content was put by this process or another one of the run. One that was taken down is
        counted, and not in the version."""
        check_hash(item.hash)
        line = encode(item)
        if not item.id or len(line) > LONGEST_ITEM:
            raise BadInput(
                f"an item without an id, or of {len(line)} bytes; at most {LONGEST_ITEM} are allowed",
                reason="bad_item",
                source=item.source,
            )
        self._renew()
        if is_forgotten(forgotten_in(self._storage), item):
            self.counts["forgotten"] += 1
            return
        self._may_inherit = self._may_inherit or not self._inheritable.isdisjoint(item.metadata)
        self._items.add(item.id.encode(), line)
        if self._base:
            self._changes[item.id] = item

    def build_on(self, version: str) -> None:
        """Keep all items of the live version, except those that are added or removed from here on.

        Only what changes is held, in memory. `commit` raises `BaseReplaced` when another version is live.
        """
        self._base = version

    def remove(self, id_: str) -> None:
        """Remove an item of the version that this one is built on."""
        self._changes[id_] = None

    def expect(self, source: str) -> None:
        """List the source even if nothing is found there."""
        self._expected.add(source)

    def report(self, problem: PublishProblem) -> None:
        self._problems.append(problem)

    def keep_source(self, source: str) -> None:
        """Keep the items of a source that failed: those of the previous version that this one lacks, marked stale."""
        self._carry_over.sources.add(source)

    def keep_item(self, id_: str) -> None:
        """The same for a single item."""
        self._carry_over.items.add(id_)

    def attach(self, key: str, data: bytes | Path) -> None:
        """Add a file to the version's folder, such as `meta/…`. It is read when the version is written."""
        self._attached[key] = data

    def commit(self) -> PublishResult:
        """Write the version and make it live.

        `Conflict`: another publisher was first; call again. `guard.VersionShrunk`: implausibly few items.
        `ContentGone`: gc took this run for dead; put the content again, then call again. A run commits once: if it has
        already (another aggregator did, or the answer was lost), return what was committed.
        """
        done = self._committed()
        if done:
            return done
        last = self._secured_head()
        try:
            version, counts = self._build(last)
        except (NotFound, BadInput) as error:
            now = history.read_head(self._storage)
            if last and now and now.commit.sequence > last.commit.sequence:
                # Not damage: we were paused, and gc removed what we were reading or had just written.
                raise Conflict("another publisher has committed meanwhile") from error
            raise
        self.blobs.sync_known()
        if last and version == last.commit.live:
            if history.read_head(self._storage) != last:  # writing a record would have noticed it
                raise Conflict("another publisher has committed meanwhile")
            return PublishResult(version, counts, self.blobs.tally, is_new=False)
        history.append_record(self._storage, last, kind="publish", at=version.published_at, live=version)
        return PublishResult(version, counts, self.blobs.tally)

    def _build(self, last: history.HistoryRecord | None) -> tuple[Version, VersionStats]:
        previous = last.commit.live if last else None
        items = self._gather(previous)
        if not self._options.force:
            before = previous.count if previous else 0
            guard.check_size(before=before, now=items.count, fresh=items.fresh, max_loss=self._options.most_lost)
        draft = VersionDraft(
            items=items,
            previous=previous,
            problems=[*self._problems, *items.problems],
            attached=self._attached,
            counts=self.counts,
            failed=self._carry_over.sources,
            expected=self._expected,
            inline=self._options.inline,
            facet_inline=self._options.facet_inline,
            layout=self._options.layout,
            even_if_same=self._options.even_if_same,
            run=self.run,
            sequence=last.commit.sequence + 1 if last else 1,
            started_at=self._started,
            at=self._now(),
            rules=self._options.rules,
            find_redirects=self._options.find_redirects,
        )
        with BlobUploader(self._put_shard, writers=self._options.writers) as shards:
            return write_version(
                self._storage,
                draft,
                shards=shards,
                blobs=self.blobs.tally,
                folder=self._folder,
                between=self._renew,
            )

    def close(self) -> None:
        """Release the lease. Without a commit, gc removes what was put."""
        self._temporary.cleanup()
        leases.release(self._storage, self.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _committed(self) -> PublishResult | None:
        for commit in history.commits_since(self._storage, history.read_head(self._storage), floor=self._lease.floor):
            for version in (commit.live, *(commit.kept or ())):
                if version.run == self.run:
                    stats = read_file(self._storage, version, STATS)
                    return PublishResult(version, decode(stats, VersionStats, source=STATS), self.blobs.tally)
        return None

    def _secured_head(self) -> history.HistoryRecord | None:
        """Return the head to build on, once every blob of ours is certain to stay until our commit."""
        for _ in range(_MAX_CHECKS):
            last = history.read_head(self._storage)
            commits = history.commits_since(self._storage, last, floor=self._lease.floor)
            if not any(commit.kind == "retire" for commit in commits):
                return last
            self._lease = leases.acquire(
                self._storage,
                self.run,
                holder=self._lease.holder,
                ttl=self._options.ttl,
                patience=self._options.patience,
            )
            self._check_blobs()
        raise Conflict(f"gc has run {_MAX_CHECKS} times while this run was checking its blobs: try again")

    def _check_blobs(self) -> None:
        gone = 0
        for _, line in self._items:
            self._renew()
            gone += not self.blobs.exists(msgspec.json.decode(line, type=PublishedItem).hash)
        if gone:
            raise ContentGone(f"gc has removed the content of {gone} items while this run was paused: put it again")

    def _gather(self, previous: Version | None) -> NewItems:
        if self._base:
            return self._patched(previous)
        items = VersionItems(self._folder / "gathered", facets=self._options.facets)
        items.fill(self._items, self._stale_items(previous), inherited=self._inherited(previous, items))
        return items

    def _patched(self, previous: Version | None) -> PatchedItems:
        if previous is None or previous.version != self._base:
            raise BaseReplaced(f"version {self._base} is not live any more")
        options = self._options
        return PatchedItems(self._storage, previous, self._changes, facets=options.facets, carried=options.carried)

    def _inherited(self, previous: Version | None, items: VersionItems) -> InheritedMetadata | None:
        if not previous or not self._may_inherit:
            return None
        before = read_items_ahead(
            self._storage,
            read_version_index(self._storage, previous),
            readers=self._options.readers,
            on_damage=items.report_damage,
        )
        return InheritedMetadata(self._options.carried, before)

    def _stale_items(self, previous: Version | None) -> Iterator[PublishedItem]:
        if not previous or not (self._carry_over.sources or self._carry_over.items):
            return iter(())
        items = read_items(self._storage, read_version_index(self._storage, previous))
        return self._carry_over.stale(shown_items(self._storage, items), at=previous.published_at)

    def _put_shard(self, data: bytes) -> str:
        self._renew()
        return self.blobs.put_bytes(data)

    def _renew(self) -> None:
        """Renew the lease in time: gc on another machine or in another container cannot see this process."""
        if time.monotonic() - self._renewed > self._options.ttl.total_seconds() / 3:
            self._renewed = time.monotonic()
            leases.renew(self._storage, self.run)

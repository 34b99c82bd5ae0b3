"""A publication, from its lease to its commit.

    with Publication.begin(storage, options=Options(facets=("campus",))) as publication:
        hash_ = publication.put({"title": …, "body": …})
        publication.add(Item("board/17", "board", hash_, facets={"campus": "Seoul"}, metadata={"title": …}))
        publication.report(Problem(stage="fetch", source="other", message="timed out", retryable=True))
        publication.keep_source("other")                  # what it had before stays, marked stale
        published = publication.commit()

The order of writes: blobs, shards, index, meta, aux, manifest; then the commit record, created only if absent (the
point of no return); then `latest.json`. `Conflict` from `commit` means that somebody else came first: call it again,
and it is built anew upon what is live by then.
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
from webmill.infra.retry import BackoffPolicy
from webmill.infra.storage.base import Storage
from webmill.publish import guard, history, leases
from webmill.publish.blob_uploader import BlobUploader
from webmill.publish.blobs import SAMPLE, BlobCounts, BlobStore, Json
from webmill.publish.facets import check_facets
from webmill.publish.holder import this_process
from webmill.publish.inherited_metadata import InheritedMetadata
from webmill.publish.keys import check_hash
from webmill.publish.manifest import read_file, read_version_index
from webmill.publish.rows import SortedRows
from webmill.publish.shards import MAX_INLINE, read_items, read_items_ahead
from webmill.publish.types import PublishedItem, PublishProblem, Version, decode, encode
from webmill.publish.version import STATS, VersionStats, write_version
from webmill.publish.version_items import CarryOver, VersionItems

LONGEST_ITEM = 1 << 20  # bytes of one line of an index
_LOOKS = 10


class PublishOptions(msgspec.Struct, frozen=True, kw_only=True):
    facets: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()  # metadata that an item keeps as long as its content is the same
    force: bool = False  # publish also what the guard would refuse
    even_if_same: bool = True  # publish also what the live version holds already
    most_lost: float = guard.MAX_LOSS
    inline: int = MAX_INLINE  # items that an index file holds itself
    writers: int = 1  # shards on their way at once
    readers: int = 1  # questions on their way at once: more than one where the storage is far away
    sample: float = SAMPLE  # part of the known blobs that is read and checked
    policy: BackoffPolicy = BackoffPolicy()  # of blobs that the store does not take at once
    ttl: timedelta = leases.TTL
    patience: float = leases.PATIENCE  # seconds to wait for gc

    def __post_init__(self) -> None:
        check_facets(self.facets)


class ContentGone(Conflict):
    """gc has removed what was put: put it again, then commit again."""


class PublishResult(msgspec.Struct, frozen=True):
    """`is_new`: False when the live version holds the same, and no other was made."""

    version: Version
    counts: VersionStats
    blobs: BlobCounts
    is_new: bool = True


def utc_now() -> datetime:
    return datetime.now(UTC)


class Publication:
    """`put` and `find` may be called by many threads; all else by one."""

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
        self._may_carry = frozenset(options.carried)
        self._has_carried = False  # whether any item says something that it may have said before
        self._problems: list[PublishProblem] = []
        self._keep = CarryOver(set(), set())
        self._expected: set[str] = set()
        self._attached: dict[str, bytes | Path] = {}

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
        """For one process that puts, adds and commits. `run`: a name that no other publication has. `started`: when it
        was first looked at what there is to publish; now, if nothing else is said.

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
        """For a run whose lease another process has taken (`leases.take`), and whose blobs were put by many.

        When the lease is lost, or gc has been there since, `commit` looks at every blob before it trusts it.
        """
        lease = leases.find_lease(storage, run) or leases.RunLease(run=run)
        joined = cls(storage, lease, options=options or PublishOptions(), now=now)
        joined._started = started or joined._started
        return joined

    def put(self, content: Json) -> str:
        self._renew()
        return self.blobs.put(content)

    def find(self, content: Json) -> str | None:
        """The hash of content that is there already; None: put it."""
        self._renew()
        return self.blobs.find(content)

    def add(self, item: PublishedItem) -> None:
        """The content of the item has been put, by this process or another one of the run."""
        check_hash(item.hash)
        line = encode(item)
        if not item.id or len(line) > LONGEST_ITEM:
            raise BadInput(f"an item without an id, or of {len(line)} bytes", reason="bad_item", source=item.source)
        self._renew()
        self._has_carried = self._has_carried or not self._may_carry.isdisjoint(item.metadata)
        self._items.add(item.id.encode(), line)

    def expect(self, source: str) -> None:
        """It is listed among the sources also when nothing is found there."""
        self._expected.add(source)

    def report(self, problem: PublishProblem) -> None:
        self._problems.append(problem)

    def keep_source(self, source: str) -> None:
        """It failed: what the version before had of it and this one has not is taken over, marked stale."""
        self._keep.sources.add(source)

    def keep_item(self, id_: str) -> None:
        """The same for a single item."""
        self._keep.items.add(id_)

    def attach(self, key: str, data: bytes | Path) -> None:
        """A file more in the version's folder, such as `meta/…`. It is read when the version is written."""
        self._attached[key] = data

    def commit(self) -> PublishResult:
        """`Conflict`: somebody else came first; call again. `guard.Shrunk`: too little to be believed.

        `ContentGone` when gc took this run for dead: put it again, then call again.
        A run commits once: when it has (another aggregator did, or the answer was lost), this tells what was committed.
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
                # Not damage: we slept, and gc has taken away what we were reading or had just written.
                raise Conflict("somebody else has committed since you looked") from error
            raise
        self.blobs.settle()
        if last and version == last.commit.live:
            if history.read_head(self._storage) != last:  # no record is written, which would have told
                raise Conflict("somebody else has committed since you looked")
            return PublishResult(version, counts, self.blobs.tally, is_new=False)
        history.append_record(self._storage, last, kind="publish", at=version.published_at, live=version)
        return PublishResult(version, counts, self.blobs.tally)

    def _build(self, last: history.HistoryRecord | None) -> tuple[Version, VersionStats]:
        previous = last.commit.live if last else None
        gathered = self._gather(previous)
        if not self._options.force:
            before = previous.count if previous else 0
            most = self._options.most_lost
            guard.check_size(before=before, now=gathered.count, fresh=gathered.fresh, most_lost=most)
        with BlobUploader(self._put_shard, writers=self._options.writers) as shards:
            return write_version(
                self._storage,
                gathered,
                previous=previous,
                problems=[*self._problems, *gathered.problems],
                attached=self._attached,
                counted=self.counts,
                failed=self._keep.sources,
                expected=self._expected,
                shards=shards,
                blobs=self.blobs.tally,
                folder=self._folder,
                inline=self._options.inline,
                even_if_same=self._options.even_if_same,
                run=self.run,
                sequence=last.commit.sequence + 1 if last else 1,
                started_at=self._started,
                at=self._now(),
            )

    def close(self) -> None:
        """Without a commit, what was put is left to gc."""
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
        """The head to build upon, with every blob of ours certainly there until it is followed by our commit."""
        for _ in range(_LOOKS):
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
            self._look_at_blobs()
        raise Conflict("gc has run again and again while this run was looking for its blobs")

    def _look_at_blobs(self) -> None:
        gone = 0
        for _, line in self._items:
            self._renew()
            gone += not self.blobs.is_there(msgspec.json.decode(line, type=PublishedItem).hash)
        if gone:
            raise ContentGone(f"gc has removed the content of {gone} items while this run slept: put it again")

    def _gather(self, previous: Version | None) -> VersionItems:
        gathered = VersionItems(self._folder / "gathered", facets=self._options.facets)
        gathered.fill(self._items, self._stale_items(previous), carried=self._carried(previous, gathered))
        return gathered

    def _carried(self, previous: Version | None, gathered: VersionItems) -> InheritedMetadata | None:
        if not previous or not self._has_carried:
            return None
        items = read_items_ahead(
            self._storage,
            read_version_index(self._storage, previous),
            readers=self._options.readers,
            on_damage=gathered.note_damage,
        )
        return InheritedMetadata(self._options.carried, items)

    def _stale_items(self, previous: Version | None) -> Iterator[PublishedItem]:
        if not previous or not (self._keep.sources or self._keep.items):
            return iter(())
        items = read_items(self._storage, read_version_index(self._storage, previous))
        return self._keep.stale(items, at=previous.published_at)

    def _put_shard(self, data: bytes) -> str:
        self._renew()
        return self.blobs.put_bytes(data)

    def _renew(self) -> None:
        """A process that is seen needs none; one in a container or on another machine does."""
        if time.monotonic() - self._renewed > self._options.ttl.total_seconds() / 3:
            self._renewed = time.monotonic()
            leases.renew(self._storage, self.run)

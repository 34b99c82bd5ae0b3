"""The served collection; its parts are opened on first use. One `Site` per process, shared by all threads."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from webmill.collection import ARCHIVE_ENDINGS, Collection, PublishFolders
from webmill.errors import NotFound
from webmill.forgotten import ForgottenFiles, list_path
from webmill.index.lookup.block_cache import BlockCache
from webmill.index.lookup.indexes import CaptureIndex, MergedIndex
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra.plugins.loaded import NO_PLUGINS, Plugins
from webmill.infra.queue.base import Queue, ReadableQueue
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import Readable, Storage
from webmill.infra.storage.local import LocalStorage
from webmill.infra.storage.uploads import UploadedReads
from webmill.pipeline.trust import is_trusted
from webmill.publish.types import Version
from webmill.search.base import SearchEngine
from webmill.serve.cdx.served_index import ServedIndex
from webmill.serve.files.closed_delivery import ClosedDelivery
from webmill.serve.processes.fair_slots import HeavyShare
from webmill.serve.processes.server_load import ServerLoad
from webmill.serve.processes.shared_counters import SharedCounters
from webmill.serve.replay.labels import ReplayZone

HEAVY_THREADS = 2  # of a process, for clients that have used much: the event loop waits for each
KEPT_BYTES = 64 << 20  # of decompressed index blocks, all crawls together


@dataclass(frozen=True, kw_only=True)
class ClientLimits:
    """Limits of what clients may cost."""

    rate: float = 50.0  # requests a second per client; 0: unlimited
    burst: int = 200
    refusals: int = 20  # within a second, until a client is ignored; 0: never
    connections: int = 1000  # in total, per process
    connections_each: int = 128  # per client
    head_bytes: int = 32 << 10  # a request's line and headers
    head_seconds: float = 10.0  # until a request is complete
    idle_seconds: float = 15.0  # between requests of a connection
    send_seconds: float = 60.0  # without the client reading a byte
    body_bytes: int = 64 << 10  # of a POST
    cache_bytes: int = 64 << 20  # of published files in memory, per process


@dataclass(frozen=True, kw_only=True)
class ShownSetting:
    """A setting of this server for display, without secrets."""

    section: str
    about: str  # the section
    key: str
    value: str
    default: str
    description: str
    variable: str


@dataclass(frozen=True, kw_only=True)
class QueueOpener:
    """Opens a queue: `view` read-only, `open` for changes. Both raise `NotFound` if there is no queue yet."""

    view: Callable[[], AbstractContextManager[ReadableQueue]]
    open: Callable[[], AbstractContextManager[Queue]]


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a server serves. `address` and `replay_address` are its origins as clients see them: `http://127.0.0.1:8080`.

    Archived pages have an origin of their own, so that their scripts cannot reach ours.
    """

    root: Path
    address: str
    replay_address: str
    hosts: frozenset[str] = frozenset()  # host names to answer to, besides those of the addresses
    origins: frozenset[str] = frozenset()  # that may read by script (CORS); "*": any
    proxies: frozenset[str] = frozenset()  # trusted for X-Forwarded-For
    token: str = ""  # required for changes; empty: forms of our pages suffice
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))  # shared by all processes of a server
    limits: ClientLimits = ClientLimits()
    settings: Sequence[ShownSetting] = ()  # as shown to people
    versions: Storage
    open_engine: Callable[[], SearchEngine]  # raises `NotFound` without an index
    open_past_engine: Callable[[Version], SearchEngine] | None = None  # of a version that was live once
    finds_meaning: bool = False  # the engine has a sentence model
    queues: Mapping[str, QueueOpener] = field(default_factory=dict)  # by kind of work
    can_save: bool = False  # whoever may use our forms may have pages fetched and saved
    tells_forgotten: bool = True  # people who ask for what was taken down are told so
    closes_noarchive: bool = True  # copies that their sites forbid to be shown are not shown
    has_markdown: bool = False  # the texts of documents are Markdown
    metrics: SharedCounters
    load: ServerLoad = field(default_factory=ServerLoad)  # of this process
    heavy: HeavyShare = field(default_factory=lambda: HeavyShare(HEAVY_THREADS))  # of the threads that compute
    buckets: Path | None = None  # shared table of the rate limit (serve/guard/rate_limit.py)
    plugins: Plugins = NO_PLUGINS  # of who runs the server
    zone: ReplayZone | None = None  # origins of archived pages; without one they share `replay_address`

    @cached_property
    def files(self) -> Readable:
        """Return the storage of the collection's folder; archives in it may be links, if the user trusts it: a link of
        somebody else could hand out any file of this machine. Archives that were uploaded are read where they are."""
        local = LocalStorage(self.root, links=ARCHIVE_ENDINGS if is_trusted(self.root) else ())
        return UploadedReads(local, self.root, open_storage)

    @cached_property
    def closed(self) -> ClosedDelivery:
        """Return what is not given away, since it was taken down."""
        return ClosedDelivery(self.root, tells=self.tells_forgotten)

    @property
    def publishing(self) -> PublishFolders:
        return PublishFolders(self.root)

    @property
    def title(self) -> str:
        return self.root.name or "collection"

    def crawls(self) -> list[Collection]:
        """Return every crawl with an index or archives, by name. Listed each time: crawls may start while we serve."""
        found: set[str] = set()
        for folder in (self.root / "crawl-data", self.root / "cc-index" / "collections"):
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
                found.update(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
        return [Collection(self.root, name) for name in sorted(found)]

    def crawl(self, name: str) -> Collection:
        for crawl in self.crawls():
            if crawl.name == name:
                return crawl
        raise NotFound(f"there is no crawl {name} here")

    def index(self, name: str | None = None) -> CaptureIndex:
        """Return the index of one crawl or of all. `NotFound`: none is indexed. Open indexes are reused."""
        chosen = [self.crawl(name)] if name is not None else self.crawls()
        indexes = [self.index_of(crawl) for crawl in chosen if is_indexed(crawl)]
        if not indexes:
            raise NotFound("nothing is indexed here yet; run `webmill index`")
        return indexes[0] if len(indexes) == 1 else MergedIndex(indexes)

    def index_of(self, crawl: Collection) -> ServedIndex:
        """Return the index of a crawl; it notices by itself when its files are replaced."""
        kept: dict[str, ServedIndex] = self._indexes
        if crawl.name not in kept:
            kept.setdefault(
                crawl.name,
                ServedIndex(LocalStorage(crawl.zipnum), name=crawl.name, kept=self._blocks, forgotten=self._forgotten),
            )
        return kept[crawl.name]

    @cached_property
    def _forgotten(self) -> ForgottenFiles:
        return ForgottenFiles(list_path(self.root))

    @cached_property
    def _indexes(self) -> dict[str, ServedIndex]:
        return {}

    @cached_property
    def _blocks(self) -> BlockCache:
        return BlockCache(KEPT_BYTES)

    def sign(self, action: str) -> str:
        """Return the signature that our form for this action carries, so that no other site can send it."""
        return hmac.new(self.secret, action.encode(), hashlib.sha256).hexdigest()

    def is_signed(self, action: str, stamp: str) -> bool:
        return hmac.compare_digest(self.sign(action).encode(), stamp.encode("utf-8", "replace"))

    def hosts_of(self, address: str) -> frozenset[str]:
        """Return the host names, without ports, that one of our two origins answers to."""
        return frozenset(name.lower() for name in (*self.hosts, urlsplit(address).hostname or "") if name)


def is_indexed(crawl: Collection) -> bool:
    return (crawl.zipnum / SUMMARY).is_file()

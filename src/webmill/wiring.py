"""Settings to live parts: the only file that names backends. Each is imported when it is chosen.

storage    a path · file:PATH · memory: · http(s)://… (reading) · s3://BUCKET/PREFIX?endpoint=…
queue      sqlite:FILE · memory: · amqp(s)://… · sqs://NAME.fifo?region=…
stream     sqs://QUEUE?region=… · kinesis://STREAM?region=… (writing)
frontier   files and SQLite in the collection · redis://HOST:PORT/0 (files there, coordination in Redis)
search     a folder · meilisearch(s)://KEY@HOST:PORT/INDEX · opensearch(s)://USER:PASSWORD@HOST:PORT/INDEX
executor   pool · inline · ray:auto · ray://HOST:PORT
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from webmill import __version__
from webmill.collection import Publishing
from webmill.config import SECTIONS, Settings, every_setting
from webmill.config import CommonCrawl as CommonCrawlSettings
from webmill.config import Executor as ExecutorSettings
from webmill.config import Http as HttpSettings
from webmill.config import Queue as QueueSettings
from webmill.crawl.frontier.base import Frontier
from webmill.errors import Misconfigured, NotFound
from webmill.infra.executor.base import Executor
from webmill.infra.queue.base import Buried, Queue
from webmill.infra.retry import Policy, sleeping_until
from webmill.infra.sinks.base import Sink
from webmill.infra.storage.base import Readable, Storage
from webmill.infra.storage.retrying import Retrying, RetryingReads
from webmill.infra.swap import replacing
from webmill.pipeline.crawl.gates import GateBook
from webmill.pipeline.crawl.mail import Box
from webmill.pipeline.crawl.options import Backends
from webmill.pipeline.crawl.quota import Quota
from webmill.pipeline.frontier.tools import Tools
from webmill.search.base import Engine

if TYPE_CHECKING:  # every command imports this file, and would wait for Redis and Prometheus
    from webmill.commoncrawl.catalog import Crawl
    from webmill.pipeline.crawl.meeting import Meeting
    from webmill.pipeline.reading import OpenCollection
    from webmill.serve.numbers import Numbers
    from webmill.serve.site import Setting, Site

HURRIED = Policy(attempts=3, longest_wait=5.0, longest_retry_after=20.0, deadline=30.0)  # a person waits for a list
PATIENT = Policy(attempts=7, first_wait=1.0, deadline=900.0)  # for work of hours; servers ask for minutes


def open_storage(url: str) -> Storage:
    """A place that can be written to."""
    scheme, rest = scheme_of(url)
    if scheme == "file":
        from webmill.infra.storage.local import LocalStorage

        return LocalStorage(Path(rest))
    if scheme == "memory":
        from webmill.infra.storage.memory import MemoryStorage

        return MemoryStorage()
    if scheme == "s3":
        from webmill.infra.storage.s3 import S3Options, S3Storage

        return Retrying(S3Storage(S3Options.from_url(url)), policy=Policy())
    raise Misconfigured(f"cannot write to {url}: use a folder or s3://BUCKET/PREFIX")


def open_versions(url: str) -> Storage:
    """A place to publish to: `Misconfigured` when it is a store in which two publishers would not see each other."""
    if scheme_of(url)[0] == "s3":
        from webmill.infra.storage.s3 import S3Options, S3Storage

        S3Storage(S3Options.from_url(url)).probe_conditional_writes()
    return open_storage(url)


def search_of(settings: Settings, root: Path) -> str:
    """Where the index of a collection is."""
    url = settings.search.url
    if not url:
        return str(Publishing(root).search)
    scheme, path = scheme_of(url)
    return str(root / path) if scheme == "file" else url


def open_search(url: str, *, create: bool = True) -> Engine:
    """A folder, or an index of a server. `create`: also where there is none yet."""
    scheme, rest = scheme_of(url)
    if scheme == "file":
        from webmill.search.embedded import EmbeddedEngine

        return EmbeddedEngine(Path(rest), create=create)
    if scheme in ("meilisearch", "meilisearchs"):
        from webmill.search.meilisearch import MeilisearchEngine

        return MeilisearchEngine(url, create=create)
    if scheme in ("opensearch", "opensearchs"):
        from webmill.search.opensearch import OpenSearchEngine

        return OpenSearchEngine(url, create=create)
    raise Misconfigured(
        f"no search engine at {scheme}:…: give a folder, meilisearch://KEY@HOST:PORT/INDEX or "
        "opensearch://USER:PASSWORD@HOST:PORT/INDEX; with an s after the scheme, over TLS"
    )


@contextmanager
def replacing_search(url: str) -> Iterator[str]:
    """Where to make an index anew. It takes the place of the one at `url` when the block ends well."""
    scheme, rest = scheme_of(url)
    if scheme == "file":
        with replacing(Path(rest), beside=Path(rest).parent / ".search-aside") as fresh:
            yield str(fresh)
        return
    if scheme.startswith("meilisearch"):
        from webmill.search.meilisearch_place import aside_of, put_in_place
    else:
        from webmill.search.opensearch_place import aside_of, put_in_place
    aside = aside_of(url)
    yield aside
    put_in_place(url, aside)


def open_readable(url: str, *, http: HttpSettings) -> Readable:
    """A place that can be read: all the above and the web."""
    scheme = scheme_of(url)[0]
    if scheme in ("file", "memory", "s3"):
        return open_storage(url)
    if scheme not in ("http", "https"):
        raise Misconfigured(f"cannot read {url}: use a path, http(s)://… or s3://BUCKET/PREFIX")
    from webmill.infra.storage.http import HttpStorage, Limits

    storage = HttpStorage(url, user_agent=user_agent(http.contact), limits=Limits(total=http.timeout))
    return RetryingReads(storage, policy=Policy())


def open_crawls(
    base_url: str,
    *,
    http: HttpSettings,
    commoncrawl: CommonCrawlSettings,
    policy: Policy = PATIENT,
    stop: threading.Event | None = None,
) -> Readable:
    """Where crawls are. A server is asked no faster than the settings say, by all processes of this user.

    Once `stop` is set, nothing waits long any more.
    """
    scheme = scheme_of(base_url)[0]
    if scheme not in ("http", "https", "s3"):
        return open_readable(base_url, http=http)
    from webmill.infra.limiter import limiter_at
    from webmill.infra.storage.limited import LimitedPartReads, LimitedReads

    rate = commoncrawl.rate
    limiter = limiter_at(limiter_path(base_url), rate=rate, burst=max(1.0, rate))
    sleep = sleeping_until(stop) if stop else time.sleep
    if scheme == "s3":
        from webmill.infra.storage.s3 import S3Options, S3Storage

        bucket = S3Storage(S3Options.from_url(base_url), retries=0)
        parts = LimitedPartReads(bucket, limiter, stop=stop, patience=policy.deadline)
        return RetryingReads(parts, policy=policy, sleep=sleep)
    from webmill.infra.storage.http import HttpStorage, Limits

    storage = HttpStorage(
        base_url,
        user_agent=user_agent(http.contact),
        limits=Limits(total=http.timeout),
        connections=64,
        on_redirect=limiter.spend,
    )
    reads = LimitedReads(storage, limiter, stop=stop, patience=policy.deadline)
    return RetryingReads(reads, policy=policy, sleep=sleep)


def list_crawls(base_url: str, *, http: HttpSettings, commoncrawl: CommonCrawlSettings) -> list[Crawl]:
    """Those of `open_crawls`, newest first."""
    from webmill.commoncrawl import catalog

    scheme, rest = scheme_of(base_url)
    storage = open_crawls(base_url, http=http, commoncrawl=commoncrawl, policy=HURRIED)
    if urlsplit(base_url).hostname == urlsplit(catalog.COMMON_CRAWL).hostname:
        storage = open_crawls(catalog.COMMON_CRAWL_INDEX, http=http, commoncrawl=commoncrawl, policy=HURRIED)
    try:
        return catalog.crawls_in_collinfo(storage)
    except NotFound as error:
        if scheme not in ("file", "s3"):
            raise NotFound(f"{error}: {base_url} does not tell its crawls") from error
    if scheme == "file" and not Path(rest).is_dir():
        raise NotFound(f"no folder {base_url}")
    return catalog.crawls_in_folders(open_storage(base_url))


def open_collection(
    place: str | Path, *, crawl: str | None = None, contact: str = "", rate: float = CommonCrawlSettings().rate
) -> OpenCollection:
    """To be read: a folder, `s3://BUCKET/PREFIX` or `https://…` with the paths of Common Crawl.

    `crawl` is the newest unless it is named. A server is told the `contact`, and asked `rate` times a second at most.
    """
    from webmill.commoncrawl.catalog import cluster_key
    from webmill.index.lookup import ZipNumIndex
    from webmill.pipeline.reading import OpenCollection

    base = str(place).rstrip("/") or str(place)
    http, commoncrawl = HttpSettings(contact=contact), CommonCrawlSettings(rate=rate)
    name = crawl or next((one.id for one in list_crawls(base, http=http, commoncrawl=commoncrawl)), None)
    if name is None:
        raise NotFound("there is no crawl here: `webmill crawl` makes one")
    files = open_crawls(base, http=http, commoncrawl=commoncrawl, policy=HURRIED)
    index = ZipNumIndex(files, cluster_key(name))
    try:
        index.current()
    except NotFound as error:
        raise NotFound(f"no index of {name} here: `webmill index` makes one ({error})") from error
    return OpenCollection(index, files)


def limiter_path(url: str) -> Path:
    """One file per server and user: what all processes of a machine that ask this server share."""
    from webmill.infra.limiter import SUFFIX

    folder = Path(tempfile.gettempdir()) / f"webmill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Misconfigured(f"{folder} is not ours: remove it, or set TMPDIR to a folder of your own")
    try:
        parts = urlsplit(url)
        return folder / f"{parts.hostname or 'server'}:{parts.port or parts.scheme}{SUFFIX}"
    except ValueError as error:
        raise Misconfigured(f"no address of a server: {error}") from error


def locate_crawl_file(url: str, *, http: HttpSettings, commoncrawl: CommonCrawlSettings) -> tuple[Readable, str]:
    """As `locate`, at the pace of `open_crawls`."""
    if scheme_of(url)[0] not in ("http", "https", "s3"):
        return locate(url, http=http)
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    if not name:
        raise Misconfigured(f"{url} names a folder, not a file")
    return open_crawls(parts._replace(path=folder).geturl(), http=http, commoncrawl=commoncrawl), name


def locate(url: str, *, http: HttpSettings) -> tuple[Readable, str]:
    """The storage and the key of one file that is named by a path or an address."""
    scheme, rest = scheme_of(url)
    if scheme == "file":
        path = Path(rest)
        return open_readable(str(path.parent), http=http), path.name
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    if not name:
        raise Misconfigured(f"{url} names a folder, not a file")
    return open_readable(parts._replace(path=folder).geturl(), http=http), name


def user_agent(contact: str) -> str:
    return f"webmill/{__version__}" + (f" (+{contact})" if contact else "")


def open_queue(settings: QueueSettings, *, name: str, folder: Path) -> Queue:
    """`name` tells the queues of one broker apart; a relative SQLite file lies in `folder`."""
    scheme, rest = scheme_of(settings.url)
    if scheme == "sqlite":
        from webmill.infra.queue.sqlite import SqliteQueue

        return SqliteQueue(folder / rest, max_attempts=settings.attempts, lease=settings.lease)
    if scheme == "memory":
        from webmill.infra.queue.memory import MemoryQueue

        return MemoryQueue(max_attempts=settings.attempts, lease=settings.lease)
    if scheme in ("amqp", "amqps"):
        from webmill.infra.queue.rabbitmq import RabbitQueue

        try:
            urlsplit(settings.url).port  # noqa: B018 - reading it is the check
        except ValueError as error:
            raise Misconfigured(f"no address of a queue ({error}): write amqp://USER:PASSWORD@HOST:PORT/") from error
        return RabbitQueue(settings.url, name=name, max_attempts=settings.attempts)
    if scheme == "sqs":  # the address names the queue itself
        from webmill.infra.queue.sqs import SqsQueue

        return SqsQueue(settings.url, max_attempts=settings.attempts, lease=settings.lease)
    raise Misconfigured(f"unknown queue {scheme}: use sqlite:FILE, amqp://…, sqs://NAME.fifo or memory:")


def open_stream(url: str, id_of: Callable[[object], str]) -> Sink:
    """Where rows are only sent to. `id_of` tells a row's value from others."""
    scheme = scheme_of(url)[0]
    if scheme == "sqs":
        from webmill.infra.sinks.sqs import SqsSink

        return SqsSink(url)
    if scheme == "kinesis":
        from webmill.infra.sinks.kinesis import KinesisSink

        return KinesisSink(url, id_of=id_of)
    raise Misconfigured(f"unknown stream {scheme}: use sqs://QUEUE or kinesis://STREAM")


def open_executor(settings: ExecutorSettings) -> Executor:
    workers = settings.jobs or None
    if settings.url == "pool":
        from webmill.infra.executor.pool import PoolExecutor

        return PoolExecutor(workers=workers)
    if settings.url == "inline":
        from webmill.infra.executor.inline import InlineExecutor

        return InlineExecutor()
    if settings.url.startswith("ray:"):
        from webmill.infra.executor.ray import RayExecutor

        return RayExecutor(settings.url, workers=workers)
    raise Misconfigured(f"unknown executor {settings.url}: use pool, inline, ray:auto or ray://HOST:PORT")


def crawl_backends(
    frontier: str | None = None,
    *,
    name: str = "",
    strict: bool = False,
    rebuild: bool = False,
    backup: str | None = None,
) -> Backends:
    """What the processes of a crawl open for themselves: on one machine, or on nodes whose `frontier` is a Redis.

    `rebuild`: there, shards whose files are lost, from Redis and a `backup`.
    """
    if frontier is None:
        return Backends(frontier=open_local_frontier, box=open_letter_box, gates=open_gates, quota=open_quota)
    from webmill.pipeline.crawl.redis_parts import RedisParts
    from webmill.pipeline.frontier.held import HeldBoxes

    check_redis(frontier)
    open_backup = partial(open_storage, backup) if backup else None
    parts = RedisParts(frontier, name, strict=strict, rebuild=rebuild, open_backup=open_backup)
    return Backends(frontier=parts.frontier, box=HeldBoxes(parts.box), gates=parts.gates, quota=parts.quota)


def open_meeting(url: str, *, name: str) -> Meeting:
    """Where the nodes of the crawl `name` meet."""
    from webmill.pipeline.crawl.meeting import Meeting

    check_redis(url)
    return Meeting(url, name)


def check_redis(url: str) -> None:
    if scheme_of(url)[0] not in ("redis", "rediss", "unix"):
        raise Misconfigured(f"no frontier can be at {scheme_of(url)[0]}:…: give redis://HOST:PORT/0")


def open_local_frontier(folder: Path) -> Frontier:
    from webmill.crawl.frontier.local import LocalFrontier

    return LocalFrontier(folder)


def open_letter_box(file: Path) -> Box:
    from webmill.pipeline.crawl.sqlite_box import SqliteBox
    from webmill.pipeline.frontier.held import HeldBox

    return HeldBox(SqliteBox(file), file)


def open_gates(file: Path) -> GateBook:
    from webmill.pipeline.crawl.gates import Gates

    return Gates(file)


def open_quota(file: Path, limit: int | None) -> Quota:
    from webmill.pipeline.crawl.quota import SqliteQuota

    return SqliteQuota(file, limit=limit)


def frontier_tools(frontier: str | None = None, *, name: str = "") -> Tools:
    """What `webmill frontier` needs for a crawl: on one machine, or where `frontier` is a Redis on many nodes."""
    if frontier is None:
        from webmill.pipeline.frontier.local import LocalTools

        return LocalTools()
    from webmill.pipeline.frontier.redis import RedisTools

    return RedisTools(frontier, open_meeting(frontier, name=name))


def scheme_of(url: str) -> tuple[str, str]:
    """`("file", path)` for a plain path; a Windows drive is no scheme."""
    scheme, colon, rest = url.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme or "." in scheme:
        return "file", url
    return scheme.lower(), rest.removeprefix("//") if scheme.lower() == "file" else rest


def open_site(
    root: Path,
    settings: Settings,
    *,
    address: str,
    replay_address: str,
    secret: bytes,
    storage: str | None = None,
    numbers: Numbers | None = None,
) -> Site:
    """What `webmill serve` answers from. `secret` is the same in all processes of a server.

    `storage`: where versions are, when not in `root`. `numbers`: where the processes count together.
    """
    from webmill.serve.numbers import Numbers
    from webmill.serve.site import Limits, QueueDoor, Site

    serve = settings.serve
    place = Publishing(root.resolve())
    queues = {"publish": place.queue, "extract": place.root / "queue.sqlite"}
    return Site(
        root=place.root,
        address=address,
        replay_address=replay_address,
        hosts=listed(serve.hosts),
        origins=listed(serve.origins),
        proxies=listed(serve.proxies),
        token=serve.token,
        secret=secret,
        limits=Limits(rate=serve.rate, burst=max(1, round(4 * serve.rate))),
        settings=shown_settings(settings),
        versions=open_storage(storage or str(place.root)),
        open_engine=partial(open_search, search_of(settings, place.root), create=False),
        queues={
            name: QueueDoor(file=file, open=partial(existing_queue, settings.queue, f"sqlite:{file}"))
            for name, file in queues.items()
        },
        metrics=numbers or Numbers(),
    )


@contextmanager
def existing_queue(settings: QueueSettings, url: str) -> Iterator[Queue]:
    """`NotFound` when nobody has begun it: looking must not make one."""
    scheme, file = scheme_of(url)
    if scheme == "sqlite" and not Path(file).is_file():
        raise NotFound(f"no queue {file}")
    with closing(open_queue(msgspec.structs.replace(settings, url=url), name="", folder=Path())) as queue:
        yield queue


@contextmanager
def buried_at(url: str, opened: Callable[[], AbstractContextManager[Queue]]) -> Iterator[Iterator[Buried]]:
    """What is buried, for who only looks: a queue in a file that is opened takes back the leases that are over."""
    scheme, file = scheme_of(url)
    if scheme == "sqlite":
        from webmill.infra.queue.sqlite import peek_buried

        with closing(peek_buried(Path(file))) as letters:
            yield letters
        return
    with opened() as queue:
        yield queue.buried()


def listed(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def shown_settings(settings: Settings) -> list[Setting]:
    """As people may see them: passwords in addresses and tokens are not for pages."""
    from webmill.serve.site import Setting

    return [
        Setting(
            section=one.section,
            about=SECTIONS[one.section].__doc__ or "",
            key=one.key,
            value=_without_secrets(one.key, str(getattr(getattr(settings, one.section), one.key))),
            default=str(one.default),
            description=one.description,
            variable=one.variable,
        )
        for one in every_setting()
    ]


def _without_secrets(key: str, value: str) -> str:
    if key in ("token", "key") and value:
        return "(set)"
    return re.sub(r"(?<=://)[^/@]*@", "…@", value)

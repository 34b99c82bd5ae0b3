"""Open the storage of crawls, with a limit on the request rate of servers."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from webmill.commoncrawl import catalog
from webmill.commoncrawl.catalog import Crawl
from webmill.errors import Misconfigured, NotFound
from webmill.infra import waiting
from webmill.infra.address import scheme_of
from webmill.infra.retry import BackoffPolicy, sleeping_until
from webmill.infra.storage.backends import open_readable, open_storage, split_address
from webmill.infra.storage.base import Readable
from webmill.infra.storage.retrying import RetryingReads
from webmill.infra.user_agent import user_agent
from webmill.masking import hide_secrets
from webmill.settings import CommonCrawlSettings, HttpSettings

# A person is waiting.
INTERACTIVE_RETRIES = BackoffPolicy(attempts=3, longest_wait=5.0, longest_retry_after=20.0, deadline=30.0)
# For jobs of hours; servers may ask to wait for minutes.
BATCH_RETRIES = BackoffPolicy(attempts=7, first_wait=1.0, deadline=900.0)


def open_crawl_storage(
    base_url: str,
    *,
    http: HttpSettings,
    commoncrawl: CommonCrawlSettings,
    policy: BackoffPolicy = BATCH_RETRIES,
    stop: threading.Event | None = None,
) -> Readable:
    """Open the storage of crawls. All processes of this user together respect the request rate of the settings.

    Once `stop` is set, waits end early.
    """
    scheme = scheme_of(base_url)[0]
    if scheme not in ("http", "https", "s3"):
        return open_readable(base_url, contact=http.contact, timeout=http.timeout)
    from webmill.infra.host_schedule.limiter import limiter_at
    from webmill.infra.storage.limited import LimitedPartReads, LimitedReads

    rate = commoncrawl.rate
    limiter = limiter_at(limiter_path(base_url), rate=rate, burst=max(1.0, rate))
    sleep = sleeping_until(stop) if stop else waiting.sleep
    if scheme == "s3":
        from webmill.infra.storage.s3 import S3Options, S3Storage

        bucket = S3Storage(S3Options.from_url(base_url), retries=0)
        parts = LimitedPartReads(bucket, limiter, stop=stop, patience=policy.deadline)
        return RetryingReads(parts, policy=policy, sleep=sleep)
    from webmill.infra.storage.http import HttpReadLimits, HttpStorage

    storage = HttpStorage(
        base_url,
        user_agent=user_agent(http.contact),
        limits=HttpReadLimits(total=http.timeout),
        connections=64,
        on_redirect=limiter.spend,
    )
    reads = LimitedReads(storage, limiter, stop=stop, patience=policy.deadline)
    return RetryingReads(reads, policy=policy, sleep=sleep)


def list_crawls(base_url: str, *, http: HttpSettings, commoncrawl: CommonCrawlSettings) -> list[Crawl]:
    """Return the crawls at `base_url`, newest first."""
    scheme, rest = scheme_of(base_url)
    storage = open_crawl_storage(base_url, http=http, commoncrawl=commoncrawl, policy=INTERACTIVE_RETRIES)
    if urlsplit(base_url).hostname == urlsplit(catalog.COMMON_CRAWL).hostname:
        storage = open_crawl_storage(
            catalog.COMMON_CRAWL_INDEX, http=http, commoncrawl=commoncrawl, policy=INTERACTIVE_RETRIES
        )
    try:
        return catalog.read_collinfo(storage)
    except NotFound as error:
        if scheme not in ("file", "s3"):
            raise NotFound(f"{error}: {hide_secrets(base_url)} does not list its crawls") from error
    if scheme == "file" and not Path(rest).is_dir():
        raise NotFound(f"{rest} is not a folder")
    return catalog.list_crawl_folders(open_storage(base_url))


def limiter_path(url: str) -> Path:
    """Return the path of the limiter file, which all processes of this user share for one server."""
    from webmill.infra.host_schedule.limiter import SUFFIX

    folder = Path(tempfile.gettempdir()) / f"webmill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise Misconfigured(f"{folder} belongs to another user; remove it, or set TMPDIR to a folder of your own")
    try:
        parts = urlsplit(url)
        return folder / f"{parts.hostname or 'server'}:{parts.port or parts.scheme}{SUFFIX}"
    except ValueError as error:
        raise Misconfigured(f"not a valid server address: {error}") from error


def locate_crawl_file(url: str, *, http: HttpSettings, commoncrawl: CommonCrawlSettings) -> tuple[Readable, str]:
    """Return the storage and the key of one file, as `locate` does, with the rate limit of `open_crawl_storage`."""
    folder, name = split_address(url)
    return open_crawl_storage(folder, http=http, commoncrawl=commoncrawl), name

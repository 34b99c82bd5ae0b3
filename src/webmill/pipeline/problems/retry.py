"""Retry what failed, where a retry exists."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from webmill.crawl.frontier_admin.commands import retry_failed
from webmill.crawl.scheduler.commands import RetryUrls
from webmill.errors import NotFound
from webmill.infra.queue.backends import existing_queue
from webmill.infra.queue.base import QueueOptions
from webmill.pipeline.crawl_frontier import open_crawl
from webmill.pipeline.problems.alerts import alert_files
from webmill.pipeline.problems.crawl import URLS_OF
from webmill.pipeline.problems.tasks import queue_files

_KIND = re.compile("[a-z0-9_]{1,64}")


class RetryResult(msgspec.Struct, frozen=True):
    """How many tasks or URLs are tried again; None: the running crawl finds out."""

    what: str  # task, URL
    count: int | None


def retry_problem(root: Path, name: str) -> RetryResult:
    """Try again what failed: the tasks of a queue, or the URLs of a kind of error. `name` is a group's `retry`;
    NotFound: there is no such thing."""
    if name.startswith(URLS_OF) and _KIND.fullmatch(kind := name.removeprefix(URLS_OF)):
        with open_crawl(root) as crawl:
            return RetryResult("URL", retry_failed(crawl, RetryUrls((kind,))))
    file = {**queue_files(root), **alert_files(root)}.get(name)
    if file is None or not file.is_file():
        raise NotFound(f"nothing to retry under the name {name[:100]!r}")
    with existing_queue(f"sqlite:{file}", QueueOptions(name="")) as queue:
        return RetryResult("task", queue.requeue())

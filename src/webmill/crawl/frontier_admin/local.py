"""Administration of a frontier on this machine's disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Never

from webmill.crawl.frontier.base import domain_of
from webmill.crawl.frontier.file_frontier import QUEUES_FOLDER
from webmill.crawl.frontier.local import refuse_lost_state, restore, robots_of
from webmill.crawl.frontier.sqlite_state import SqliteState
from webmill.crawl.frontier.url_queue_files import UrlQueueFiles
from webmill.crawl.frontier_admin.backend import ShardOverview
from webmill.crawl.frontier_admin.url_state import UrlState, find_url
from webmill.crawl.layout import CrawlFolder, load_or_create_layout
from webmill.crawl.scheduler import budgets as quota
from webmill.errors import NotFound
from webmill.formats.url.normalise import origin_of
from webmill.infra.host_schedule import sqlite_schedule as gates
from webmill.infra.queue.sqlite_reader import SCHEMA as INBOX_SCHEMA
from webmill.infra.sqlite import Database, Schema
from webmill.settings import Sources

MESSAGES_AT_ONCE = 100  # read at once
QUOTA = "quota.sqlite"


class LocalFrontierBackend:
    is_shared = False

    def read_overview(self, folder: Path) -> ShardOverview:
        """Return the overview of a shard: SQLite lets others read while its owner writes."""
        refuse_lost_state(folder)
        path = folder / "state.sqlite"
        if not path.exists():
            raise NotFound(f"no frontier in {folder} yet")
        with closing(SqliteState(path)) as state:
            excluded = state.database.read("SELECT count(*) FROM domain WHERE excluded")[0][0]
            return ShardOverview(state.stats(), excluded, state.next_turn(revisits=False))

    def is_here(self, folder: Path) -> bool:  # noqa: ARG002 - where else
        return True

    def change_numbers(self, paths: CrawlFolder, shards: int) -> dict[str, str]:  # noqa: ARG002 - one folder
        return {}

    def join_copying(self, shards: list[int]) -> Never:  # noqa: ARG002 - all are here
        raise AssertionError("a crawl on one machine has one folder")

    def find_url(self, folder: Path, url: str) -> UrlState:
        path = folder / "state.sqlite"
        if not path.exists():
            return UrlState(known="unknown", domain=domain_of(url))
        queues = UrlQueueFiles(folder / QUEUES_FOLDER)
        with closing(SqliteState(path)) as state, closing(queues):
            robots = robots_of(state.database, origin_of(url))
            return find_url(state, url, queues=queues, robots=robots)

    def read_messages(self, file: Path) -> Iterator[bytes]:
        if not file.exists():
            return
        with Database(file, schema=INBOX_SCHEMA) as inbox:
            last = -1
            sql = "SELECT seq, body FROM body WHERE seq > ? ORDER BY seq LIMIT ?"
            while page := inbox.read(sql, (last, MESSAGES_AT_ONCE)):
                yield from (body for _, body in page)
                last = page[-1][0]

    def is_used_elsewhere(self) -> bool:
        return False

    def stop_run(self) -> bool:
        return False

    def change_settings(self, sources: Sources) -> str:  # noqa: ARG002 - the coordinator reads its own
        raise NotFound("no nodes share this crawl")

    def settle_layout(self, paths: CrawlFolder, shards: int | None) -> None:
        load_or_create_layout(paths, shards)

    def save_shared(self, paths: CrawlFolder, shards: int, folder: Path) -> None:
        for shard in range(shards):
            copy_database(paths.shard(shard) / QUOTA, budget_file(folder, shard), quota.SCHEMA)
        copy_database(paths.host_schedule, folder / paths.host_schedule.name, gates.SCHEMA)

    def restore_guard(self) -> AbstractContextManager[None]:  # the folder is the proof
        return nullcontext()

    def restore_shard(self, source: Path, folder: Path) -> None:
        restore(source, folder)

    def load_shared(self, paths: CrawlFolder, shards: int, *, saved: Path, draft: Path) -> None:
        pairs = [(budget_file(saved, shard), draft / paths.shard(shard).name / QUOTA) for shard in range(shards)]
        for source, target in [
            *pairs,
            (saved / paths.host_schedule.name, draft / paths.host_schedule.name),
        ]:
            if source.exists():
                shutil.copyfile(source, target)

    def close(self) -> None:
        pass


def budget_file(folder: Path, shard: int) -> Path:
    return folder / f"quota-{shard:02d}.sqlite"


def copy_database(source: Path, target: Path, schema: Schema) -> None:
    if source.exists():
        with Database(source, schema=schema) as database:
            database.copy_to(target)

"""A crawl that nobody runs, divided into another number of shards.

    frontier/.webmill-reshard/new/…      the new shards and inboxes, while they are made
    frontier/.webmill-reshard/ready/…    the same, of which each is renamed to its place
    frontier/.webmill-reshard/old/…      those of before, until they are removed

While this is at work, `crawl.json` says so, and everyone else refuses the crawl. One write of it, with the new number,
makes the new shards count: killed before it, all is made anew; after it, the rest of the renames is done. What was made
is read again and compared with what there was, before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import domain_of
from webmill.crawl.frontier.division import (
    FrontierContent,
    Owner,
    RowSum,
    complete,
    divide,
    read_counts,
    read_notes,
    rest,
    sum_content,
)
from webmill.crawl.frontier.url_queue_files import sync_tree
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.frontier_admin.frontier_copy import remove_folder
from webmill.crawl.frontier_admin.shard_files import divide_message, divide_notes, divide_tables
from webmill.crawl.layout import (
    MAX_SHARDS,
    CrawlFolder,
    CrawlLayout,
    belonging_files,
    decode_any_layout,
    is_there,
    write_layout,
)
from webmill.crawl.scheduler.inbox import shard_of_domain
from webmill.errors import BadInput, Misconfigured, NotFound, Unavailable
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors

STAGING = f"{RESERVED}reshard"
MESSAGES_AT_ONCE = 100
OWN_FILES = ("shard-*", "mail-*.sqlite*")


class ReshardResult(msgspec.Struct, frozen=True, kw_only=True):
    before: int  # shards
    shards: int
    domains: int
    waiting: int  # URLs
    visited: int
    robots: int
    messages: int  # between shards, that were divided
    finished: bool = False  # an earlier one that was killed had done all but its last renames


def reshard(crawl: CrawlFrontier, shards: int) -> ReshardResult:
    """Divide a crawl into `shards`. Conflict: it runs. Repeat it when it was killed."""
    if not 1 <= shards <= MAX_SHARDS:
        raise Misconfigured(f"{shards} shards: give 1 to {MAX_SHARDS}")
    refuse_unknown(crawl)
    with crawl.exclusively(doing="dividing its domains anew"):
        paths = crawl.paths
        layout, finished = stored_layout(paths), False
        if layout.is_switching:
            layout, finished = finish_switch(paths, layout), True
        remove_folder(staging(paths))
        refuse_lost(paths, layout)
        if layout.shards == shards:
            write_layout(paths, msgspec.structs.replace(layout, resharding=0))
            content = sum_shards(paths, shards, paths.path)
            return describe(content, before=shards, shards=shards, messages=0, finished=finished)
        write_layout(paths, msgspec.structs.replace(layout, resharding=shards))
        with taken_back(paths, layout):
            content, messages = make_shards(crawl, layout.shards, shards)
            switching = msgspec.structs.replace(layout, shards=shards, resharding=shards, is_switching=True, files=())
            write_layout(paths, switching)
        finish_switch(paths, switching)
        return describe(content, before=layout.shards, shards=shards, messages=messages, finished=finished)


def refuse_unknown(crawl: CrawlFrontier) -> None:
    if crawl.backend.is_shared:
        raise Misconfigured("the crawl keeps its frontier in Redis, and only one on disk can be divided anew")
    if not crawl.paths.layout.exists():
        raise NotFound(f"no crawl in {crawl.root}: begin one with `webmill crawl {crawl.root} URL`")
    if stored_layout(crawl.paths).on_nodes:
        raise Misconfigured("the crawl keeps its frontier in Redis, and only one on disk can be divided anew")


def refuse_lost(paths: CrawlFolder, layout: CrawlLayout) -> None:
    if lost := next((paths.path / name for name in layout.files if not is_there(paths.path / name)), None):
        raise Misconfigured(f"{lost} is missing or empty: `webmill frontier restore` brings back a backup")


def stored_layout(paths: CrawlFolder) -> CrawlLayout:
    try:
        return decode_any_layout(paths.layout.read_bytes(), source=str(paths.layout))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{paths.layout}: {error}: put the file back as it was") from error


@contextmanager
def taken_back(paths: CrawlFolder, layout: CrawlLayout) -> Iterator[None]:
    """Leave the crawl as it was when the block fails."""
    try:
        yield
    except BaseException:
        if not stored_layout(paths).is_switching:
            write_layout(paths, msgspec.structs.replace(layout, resharding=0))
            remove_folder(staging(paths))
        raise


def staging(paths: CrawlFolder) -> Path:
    return paths.path / STAGING


def owner_among(shards: int) -> Owner:
    """Return what tells the shard of a domain, or of an origin."""

    def owner(name: str) -> int:
        return shard_of_domain(domain_of(f"{name}/") if "://" in name else name, shards)

    return owner


# --- making the new shards ----------------------------------------------------------------------------------------


def make_shards(crawl: CrawlFrontier, before: int, shards: int) -> tuple[FrontierContent, int]:
    """Make the new shards aside, and compare what they hold with what there is."""
    paths = crawl.paths
    sources = [paths.shard(number) for number in range(before)]
    for folder in sources:
        rest(folder)  # one that no process has begun with yet is made
    new = staging(paths) / "new"
    atomic.make_folder(new)
    targets = [new / paths.shard(number).name for number in range(shards)]
    owner, was = owner_among(shards), owner_among(before)
    divide(sources, targets, owner=owner, was=was)
    divide_tables(sources, targets, owner=owner, was=was)
    counts = divide_counts(sources, shards)
    notes = divide_notes([read_notes(folder) for folder in sources], shards, owner=owner)
    for number, folder in enumerate(targets):
        complete(folder, counts=counts[number], notes=notes[number])
    messages = divide_messages(crawl, new, before, shards, owner=owner)
    expected, made = sum_shards(paths, before, paths.path), sum_shards(paths, shards, new)
    if made != expected:
        raise BadInput("the new shards are not what the old ones were", reason="corrupt", source=str(paths.path))
    if sum_messages(crawl, before) != messages:
        raise Unavailable("URLs were added or commands given meanwhile: run this again")
    with os_errors(str(new)):
        sync_tree(new)
    return made, messages.count


def sum_shards(paths: CrawlFolder, shards: int, folder: Path) -> FrontierContent:
    owner = owner_among(shards)

    def is_own(name: str, *, shard: int) -> bool:
        return owner(name) == shard

    contents = (
        sum_content(folder / paths.shard(shard).name, is_own=partial(is_own, shard=shard)) for shard in range(shards)
    )
    return reduce(FrontierContent.plus, contents)


def divide_counts(sources: list[Path], shards: int) -> list[dict[str, int]]:
    """Return the counts that do not follow from rows. A visit does not say whether it was a page: the first shard has
    all pages, and the sum of the crawl is what it was."""
    found = [read_counts(folder) for folder in sources]
    sums = {name: sum(each.get(name, 0) for each in found) for name in ("pages", "expired")}
    tokens = {"tokens": max(each.get("tokens", 0) for each in found)}
    return [tokens | (sums if not shard else {}) for shard in range(shards)]


def divide_messages(crawl: CrawlFrontier, folder: Path, before: int, shards: int, *, owner: Owner) -> RowSum:
    """Put the messages of the old inboxes into new ones, and return how many there were, with their sum."""
    found = RowSum()
    inboxes = [crawl.backends.open_inbox(folder / crawl.paths.inbox(shard).name) for shard in range(shards)]
    try:
        for number in range(before):
            for body in crawl.backend.read_messages(crawl.paths.inbox(number)):
                for shard, part in divide_message(body, shards, owner=owner):
                    inboxes[shard].publish([part])
                found.add((number, body))
    finally:
        for inbox in inboxes:
            inbox.close()
    return found


def sum_messages(crawl: CrawlFrontier, shards: int) -> RowSum:
    found = RowSum()
    for number in range(shards):
        found.add_rows((number, body) for body in crawl.backend.read_messages(crawl.paths.inbox(number)))
    return found


# --- the switch ---------------------------------------------------------------------------------------------------


def finish_switch(paths: CrawlFolder, layout: CrawlLayout) -> CrawlLayout:
    """Put the new shards in the place of the old ones, or the rest of them, and remove the old ones."""
    folder, aside = paths.path, staging(paths)
    new, ready, old = aside / "new", aside / "ready", aside / "old"
    with os_errors(str(folder)):
        if new.exists():
            old.mkdir(exist_ok=True)
            for path in sorted(path for pattern in OWN_FILES for path in folder.glob(pattern)):
                path.rename(old / path.name)
            sync_folders(folder, old)
            new.rename(ready)
        sync_folders(aside)
        for path in sorted(ready.iterdir()) if ready.exists() else ():
            path.rename(folder / path.name)
        sync_folders(folder)
    files = tuple(name for name in belonging_files(paths) if is_there(folder / name))
    settled = msgspec.structs.replace(layout, resharding=0, is_switching=False, files=files)
    write_layout(paths, settled)
    remove_folder(aside)
    return settled


def sync_folders(*folders: Path) -> None:
    for folder in folders:
        with atomic.open_folder(folder) as descriptor:
            atomic.sync_folder(descriptor)


def describe(content: FrontierContent, *, before: int, shards: int, messages: int, finished: bool) -> ReshardResult:
    return ReshardResult(
        before=before,
        shards=shards,
        domains=content.domains.count,
        waiting=content.queued.count + content.retries.count,
        visited=content.visits.count,
        robots=content.robots.count,
        messages=messages,
        finished=finished,
    )

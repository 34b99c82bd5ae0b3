"""Run a crawl, or go on with one: one lock, one set of shards for life, torn files repaired, seeds handed out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Annotated

import msgspec

from webmill.crawl.options import Options
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.inbox import Box, post
from webmill.crawl.scheduler.process_group import Crew, End
from webmill.crawl.scheduler.shard_store import shard_of
from webmill.crawl.status_file import StatusFile
from webmill.crawl.visit.page_reader import SEED
from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.infra.lock import exclusive
from webmill.model import Link

SHARDS = 256  # at most
AT_ONCE = 1000  # seeds in one letter


class Layout(msgspec.Struct, frozen=True):
    """What may never change in the life of a crawl: which domain belongs to which shard, and what it is called."""

    shards: Annotated[int, msgspec.Meta(ge=1, le=SHARDS)]
    name: str = ""
    version: int = 1
    on_nodes: bool = False  # its frontier is in Redis


class NoSeeds(Misconfigured):
    """There is nothing to begin with."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    end: End
    total: Snapshot
    seconds: float
    seeds: int  # handed out; those known from an earlier run included


def crawl(
    options: Options,
    seeds: Iterable[str],
    *,
    processes: int | None,
    watch: Callable[[Snapshot], None],
    hired: Callable[[Crew], None] = lambda _: None,
) -> Report:
    """`seeds` are normalised URLs. `hired` gets the crew, to stop it when the person says so."""
    started = time.monotonic()
    atomic.make_folder(options.folder)
    with exclusive(options.folder, "crawl", doing="crawling", patience=1.0):
        shards = settle_layout(options, processes)
        options.archive.recover()
        given = hand_out(options, seeds, shards)
        if not options.seeds.exists():
            raise NoSeeds("no seed is a URL that can be fetched")
        status = StatusFile(options.folder, name=options.collection.name, started=time.time(), clock=time.time)
        crew = Crew(options, shards, watch=shown_to(status, watch))
        hired(crew)
        end = conducted(crew, options, status)
        return Report(end=end, total=crew.total(), seconds=time.monotonic() - started, seeds=given)


def shown_to(status: StatusFile, watch: Callable[[Snapshot], None]) -> Callable[[Snapshot], None]:
    def show(seen: Snapshot) -> None:
        status.show(seen)
        watch(seen)

    return show


def conducted(crew: Crew, options: Options, status: StatusFile) -> End:
    """To its end; whatever that was, the files that it leaves are whole."""
    end: End = "stopped"
    try:
        end = crew.run()
    finally:
        status.write(crew.total(), end=end)
        options.archive.finish()
    return end


def settle_layout(options: Options, processes: int | None) -> int:
    path = options.folder / "crawl.json"
    if not path.exists():
        shards = processes or 1
        if shards > SHARDS:
            raise Misconfigured(f"{shards} processes: at most {SHARDS}")
        atomic.write_bytes(path, msgspec.json.encode(Layout(shards, options.collection.name)) + b"\n")
        return shards
    layout = read_layout(options)
    if layout.on_nodes:
        raise Misconfigured(
            f"the crawl in {options.collection.root} keeps its frontier in Redis: give --frontier redis://…"
        )
    if processes is not None and processes != layout.shards:
        raise Misconfigured(
            f"this crawl was begun with {layout.shards} processes, and its domains are divided so: "
            f"leave --processes out, or give --processes {layout.shards}"
        )
    return layout.shards


def read_layout(options: Options) -> Layout:
    path = options.folder / "crawl.json"
    try:
        layout = msgspec.json.decode(path.read_bytes(), type=Layout)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}: put the file back as it was, or begin in another folder") from error
    if layout.name and layout.name != options.collection.name:
        raise Misconfigured(f"this crawl is called {layout.name}: give --name {layout.name}, or crawl into another DIR")
    return layout


def hand_out(options: Options, seeds: Iterable[str], shards: int) -> int:
    """Into the shards' letter boxes, and into the list that scopes are measured by. Seeds that are known do no harm."""
    known = set(options.seeds.read_text().split()) if options.seeds.exists() else set()
    new: list[str] = []
    count = 0
    with ExitStack() as opened:
        boxes: dict[int, Box] = {}
        waiting: dict[int, list[Link]] = {}
        for url in seeds:
            count += 1
            if url not in known:
                new.append(url)
                known.add(url)
            shard = shard_of(url, shards)
            if shard not in boxes:
                boxes[shard] = options.backends.box(options.box(shard))
                opened.callback(boxes[shard].close)
            waiting.setdefault(shard, []).append(Link(url, priority=SEED))
            if len(waiting[shard]) >= AT_ONCE:
                post(boxes[shard], waiting.pop(shard))
        if new:  # before the first is fetched: what is in scope follows from them
            text = "".join(f"{url}\n" for url in sorted(known))
            atomic.write_bytes(options.seeds, text.encode())
        for shard, links in waiting.items():
            post(boxes[shard], links)
    return count

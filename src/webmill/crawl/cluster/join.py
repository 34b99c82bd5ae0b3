"""Join a crawl on many nodes, or begin one: a seat in the folder, torn files repaired, seeds handed out."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.cluster.cluster_state import Attendee, Meeting
from webmill.crawl.cluster.node import Node
from webmill.crawl.options import Options
from webmill.crawl.progress import Snapshot
from webmill.crawl.scheduler.inbox import post
from webmill.crawl.scheduler.process_group import Crew
from webmill.crawl.scheduler.shard_store import shard_of
from webmill.crawl.start import AT_ONCE, SHARDS, Layout, NoSeeds, Report, conducted, read_layout, shown_to
from webmill.crawl.status_file import StatusFile
from webmill.crawl.visit.page_reader import SEED
from webmill.errors import Conflict, Misconfigured
from webmill.infra import atomic
from webmill.infra.lock import exclusive, shared
from webmill.model import Link

log = logging.getLogger(__name__)

DEFAULT_SHARDS = 8
SEATS = 64  # nodes on one machine with one folder


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How a node takes part. `flags` and `limits` are what all must agree on."""

    flags: Mapping[str, Any] = {}
    limits: Mapping[str, Any] = {}
    shards: int | None = None  # None: as many as there are, or the usual number
    begin_with: int = 1  # nodes, before the first shard is taken
    rebuilds: bool = False


def crawl_as_node(
    options: Options,
    seeds: Iterable[str],
    *,
    meeting: Meeting,
    terms: Terms,
    watch: Callable[[Snapshot], None],
    hired: Callable[[Crew], None] = lambda _: None,
) -> Report:
    """`seeds` are normalised URLs. `hired` gets the node, to stop it when the person says so."""
    started = time.monotonic()
    atomic.make_folder(options.folder)
    with shared(options.folder, "crawl", doing="crawling", patience=1.0), sitting(options) as seat:
        place = place_of(options)
        node = Attendee(
            id=secrets.token_hex(4),
            place=place,
            seat=f"{place}/{seat}",
            host=socket.gethostname(),
            pid=os.getpid(),
            rebuilds=terms.rebuilds,
        )
        shards = settle_layout(options, meeting, terms.shards)
        options.archive.recover()
        given = hand_out(options, meeting, seeds, shards)
        count = write_seeds(options, meeting)
        run = meeting.join(node, flags=terms.flags, limits=terms.limits, is_gone=gone_from(options.folder, own=seat))
        status = StatusFile(
            options.folder, name=options.collection.name, started=time.time(), clock=time.time, seat=seat
        )
        crew = Node(
            msgspec.structs.replace(options, node=node.id),
            shards,
            meeting=meeting,
            attendee=node,
            run=run,
            watch=shown_to(status, watch),
            seeds=count,
            renew_seeds=lambda: write_seeds(options, meeting),
            begin_with=terms.begin_with,
        )
        hired(crew)
        end = conducted(crew, options, status)
        return Report(end=end, total=crew.total(), seconds=time.monotonic() - started, seeds=given)


@contextmanager
def sitting(options: Options) -> Iterator[str]:
    """A place among the nodes of this machine that have this folder. Who held it before is dead."""
    for number in range(SEATS):
        seat = f"{socket.gethostname()}-{number}"
        with ExitStack() as held:
            try:
                held.enter_context(exclusive(options.folder, f"node-{seat}", doing="crawling"))
            except Conflict:
                continue
            yield seat
            return
    raise Misconfigured(f"{SEATS} nodes crawl in {options.folder} already")


def gone_from(folder: Path, *, own: str = "") -> Callable[[Attendee], bool]:
    """Of nodes of this machine with this folder we know: who is dead has no lock any more, or we have it (`own`)."""

    def is_gone(node: Attendee) -> bool:
        place, _, seat = node.seat.partition("/")
        file = folder / "place"
        if node.host != socket.gethostname() or not file.exists() or place != file.read_text().strip():
            return False
        try:
            with exclusive(folder, f"node-{seat}", doing="crawling"):
                return True
        except Conflict:
            return seat == own

    return is_gone


def place_of(options: Options) -> str:
    """What tells this folder from one of the same path on another machine."""
    path = options.folder / "place"
    try:
        atomic.create_exclusive(path, secrets.token_hex(8).encode())
    except Conflict:
        pass
    return path.read_text().strip()


def settle_layout(options: Options, meeting: Meeting, shards: int | None) -> int:
    """As the crawl in Redis has it; a folder that has begun another crawl is refused."""
    if shards and shards > SHARDS:
        raise Misconfigured(f"{shards} shards: at most {SHARDS}")
    path = options.folder / "crawl.json"
    layout = read_layout(options) if path.exists() else None
    if layout and not layout.on_nodes:
        raise Misconfigured(f"the crawl in {options.collection.root} keeps its frontier there: leave --frontier out")
    count = meeting.layout(shards, default=DEFAULT_SHARDS)
    if layout and layout.shards != count:
        message = f"the crawl in {options.collection.root} has {layout.shards} shards, that in Redis {count}: "
        raise Misconfigured(message + "it is another one; name the right Redis, or crawl into another DIR")
    if not layout:
        atomic.write_bytes(path, msgspec.json.encode(Layout(count, options.collection.name, on_nodes=True)) + b"\n")
    return count


def hand_out(options: Options, meeting: Meeting, seeds: Iterable[str], shards: int) -> int:
    """Scopes are measured by all seeds: they are known before the first is fetched."""
    count = 0
    waiting: dict[int, list[Link]] = {}

    def send(shard: int) -> None:
        links = waiting.pop(shard)
        meeting.add_seeds(link.url for link in links)
        post(meeting.box(options.box(shard).stem), links)

    for url in seeds:
        count += 1
        shard = shard_of(url, shards)
        waiting.setdefault(shard, []).append(Link(url, priority=SEED))
        if len(waiting[shard]) >= AT_ONCE:
            send(shard)
    for shard in list(waiting):
        send(shard)
    return count


def write_seeds(options: Options, meeting: Meeting) -> int:
    urls = sorted(set(meeting.seeds()))
    if not urls:
        raise NoSeeds("no seed is a URL that can be fetched")
    atomic.write_bytes(options.seeds, "".join(f"{url}\n" for url in urls).encode())
    return len(urls)

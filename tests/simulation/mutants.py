"""Planted bugs, to see that the simulation finds each kind. A mutant breaks one promise of the product in one place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.simulation.runner import run_seed
from webmill.crawl.cluster import redis_scripts
from webmill.crawl.frontier import file_frontier, local, url_queue_files
from webmill.crawl.frontier.redis import server as redis_server
from webmill.crawl.politeness import requester
from webmill.crawl.scheduler import coordinator
from webmill.errors import NotFound
from webmill.infra import atomic, clock, sqlite
from webmill.infra.host_schedule import fixed_delays, sqlite_schedule
from webmill.infra.queue import sqlite as sqlite_queue
from webmill.infra.storage.base import Absent
from webmill.publish import blobs, gc, history, leases, pointer, publication

BUDGET = 200  # seeds in which each must be found


class Mutant(msgspec.Struct, frozen=True):
    """`found_by`: the first seed that found it, when this was written."""

    protocol: str
    found_by: int
    patches: tuple[tuple[Any, str, Any], ...]


class Finding(msgspec.Struct, frozen=True):
    protocol: str
    mutant: str
    seed: int | None  # the first that finds it
    failure: str


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, protocol: str, found_by: int, *patches: tuple[Any, str, Any]) -> None:
    MUTANTS[name] = Mutant(protocol, found_by, patches)


def plant(name: str) -> None:
    for target, attribute, value in MUTANTS[name].patches:
        setattr(target, attribute, value)


def hunt(name: str, seeds: Iterable[int]) -> Finding:
    """Play seeds with a bug until one finds it."""
    one = MUTANTS[name]
    with planted(one):
        for seed in seeds:
            result = run_seed(one.protocol, seed)
            if result.failure:
                return Finding(one.protocol, name, seed, result.failure)
    return Finding(one.protocol, name, None, "")


@contextmanager
def planted(one: Mutant) -> Iterator[None]:
    before = [(target, attribute, getattr(target, attribute)) for target, attribute, _ in one.patches]
    for target, attribute, value in one.patches:
        setattr(target, attribute, value)
    try:
        yield
    finally:
        for target, attribute, value in before:
            setattr(target, attribute, value)


def hunt_all(protocol: str | None, *, recorded: bool) -> list[Finding]:
    """Hunt for each bug from the first seed on, or with the seed before all others that found it once: a change of
    the product gives seeds other traces, so that another one may have to."""
    return [
        hunt(name, [one.found_by, *range(BUDGET)] if recorded else range(BUDGET))
        for name, one in MUTANTS.items()
        if protocol in (None, one.protocol)
    ]


def format_findings(found: list[Finding], *, as_json: bool) -> str:
    if as_json:
        return msgspec.json.encode(found).decode()
    lines = ["| protocol | planted bug | seeds | what is seen |", "|---|---|---:|---|"]
    for one in found:
        seeds = f"{one.seed + 1}" if one.seed is not None else "**not found**"
        lines.append(f"| {one.protocol} | {one.mutant} | {seeds} | {one.failure.replace('|', ' ')} |")
    return "\n".join(lines)


# --- the disk, under everything ---


def _no_sync(fd: int) -> None:
    """Say that a file is durable without syncing it."""


_PRAGMA = sqlite.Database._transaction


@contextmanager
def _relaxed(self: sqlite.Database, sync: str) -> Iterator[Any]:
    """Acknowledge a transaction before it is synced."""
    with _PRAGMA(self, "NORMAL" if sync == "FULL" else sync) as run:
        yield run


mutant("a commit is acknowledged before its sync", "queue", 0, (sqlite.Database, "_transaction", _relaxed))
mutant(
    "a claim and a commit of the frontier are not synced", "frontier", 0, (sqlite.Database, "_transaction", _relaxed)
)
mutant("a reservation is not synced", "host-schedule", 17, (sqlite.Database, "_transaction", _relaxed))
mutant("a file is renamed without a sync of the file", "publish", 0, (atomic, "sync", _no_sync))


def _no_folder_sync(fd: int) -> None:
    """Rename or create without a sync of the folder."""


def _plant_folder_sync() -> tuple[tuple[Any, str, Any], ...]:
    from webmill.infra.storage import local as local_storage

    return (atomic, "sync_folder", _no_folder_sync), (local_storage, "sync_folder", _no_folder_sync)


mutant("a file is renamed without a sync of its folder", "publish", 0, *_plant_folder_sync())

# --- queue ---


def _settle_any(self: sqlite_queue.SqliteQueue, delivery: sqlite_queue.SqliteDelivery, result: bytes) -> None:
    with self._database.write() as run:
        done = "UPDATE message SET state = 4, due = NULL, token = NULL, result = ? WHERE seq = ?"
        run(done, (result, delivery.seq)) if self._remember else run(
            "DELETE FROM message WHERE seq = ?", (delivery.seq,)
        )


def _extend_nothing(self: sqlite_queue.SqliteQueue, delivery: sqlite_queue.SqliteDelivery) -> None:
    """Say that the lease begins anew, and change nothing."""


_PUBLISH = sqlite_queue.SqliteQueue.publish


def _publish_replacing(self: sqlite_queue.SqliteQueue, messages: Any, *, mark: Any = None) -> int:
    """Forget the message of an id that is published twice, and take the second for known."""
    accepted = list(messages)
    with self._database.write() as run:
        for message in accepted:
            run("DELETE FROM message WHERE id = ? AND state IN (0, 2)", (message.id,))
            if run("SELECT 1 FROM mark WHERE name = ?", (message.id,)):
                accepted = [one for one in accepted if one.id != message.id]
            run("INSERT OR REPLACE INTO mark VALUES (?, ?)", (message.id, b""))
    return _PUBLISH(self, accepted, mark=mark)


def _never_bury(self: sqlite_queue.SqliteQueue, run: Any) -> None:
    run("UPDATE message SET state = 0, due = NULL, token = NULL WHERE state IN (1, 2) AND due <= ?", (self._clock(),))


mutant("an ack by an old token counts", "queue", 3, (sqlite_queue.SqliteQueue, "settle", _settle_any))
mutant("a lease is not renewed", "queue", 1, (sqlite_queue.SqliteQueue, "extend", _extend_nothing))
mutant(
    "a message is lost when it is published twice",
    "queue",
    5,
    (sqlite_queue.SqliteQueue, "publish", _publish_replacing),
)
mutant("an expired message has attempts without end", "queue", 0, (sqlite_queue.SqliteQueue, "_sweep", _never_bury))

# --- publish ---


def _advance_blindly(storage: Any, commit: Any) -> None:
    storage.write("latest.json", pointer.encode_sealed(pointer._pointer_to(commit)))


def _write_over(storage: Any, key: str, data: bytes, *, conflict: str = "") -> None:
    storage.write(key, data)


def _no_publishers(storage: Any, *, now: Any, ttl: Any = None) -> tuple[list[Any], list[str]]:
    return [], []


def _no_fence(self: publication.Publication) -> Any:
    """Build on the head, whatever gc has done since the lease was taken."""
    return history.read_head(self._storage)


def _put_unchecked(self: blobs.BlobStore, key: str, data: bytes) -> str:
    """Take a name that is there for the whole content, whatever its size."""
    try:
        self._storage.stat(key)
    except NotFound:
        self._storage.write(key, data, condition=Absent())
    return "present"


mutant("the pointer is written without compare-and-swap", "publish", 1, (pointer, "advance_pointer", _advance_blindly))
mutant("a record of the history is written over", "publish", 23, (history, "write_once", _write_over))
mutant(
    "gc ignores leases, and publishers ignore gc",
    "publish",
    10,
    (leases, "list_publishers", _no_publishers),
    (publication.Publication, "_secured_head", _no_fence),
)
mutant("gc marks nothing as reachable", "publish", 0, (gc, "find_reachable", lambda *_, **__: set()))

# --- host schedule ---


def _update_shorter(states: Any, key: str, update: Any) -> None:
    states.put(key, fixed_delays.ReservedTime(update.free, update.free))


def _resume_by_wall(anchor: Any, *, wall: float, since_boot: float, boot: str) -> float:
    return wall


_RESERVE = sqlite_schedule.SqliteHostSchedule.reserve


def _reserve_in_memory(self: Any, reservations: Mapping[int, Any], *, now: float, longest: float) -> dict[int, float]:
    """Keep reservations in this process alone."""
    states = self.__dict__.setdefault("_states", _MemoryStates())
    answers = {
        number: fixed_delays.reserve(states, one, now=now, longest=longest, slots=self._slots)
        for number, one in reservations.items()
    }
    return {number: again for number, again in answers.items() if again is not None}


class _MemoryStates(dict[str, Any]):
    def put(self, key: str, state: Any) -> None:
        self[key] = state


async def _reserve_late(self: requester.Requester, delays: dict[str, float]) -> Any:
    """Reserve without the time that it may take until the request is on its way."""
    reservation = fixed_delays.Reservation(now=self._clock(), window=0.0, delays=delays)
    until = await self._reservations.reserve(reservation)
    return {key: reservation.until(key) for key in delays} if until is None else requester.HostBusy(until)


mutant(
    "a host is freed too early after a restart: the clock starts anew",
    "host-schedule",
    0,
    (clock, "_resumed", _resume_by_wall),
)
mutant("an update shortens the reservation of another", "host-schedule", 39, (fixed_delays, "update", _update_shorter))
mutant(
    "reservations are not shared by processes",
    "host-schedule",
    0,
    (sqlite_schedule.SqliteHostSchedule, "reserve", _reserve_in_memory),
)
mutant(
    "a reservation ends before its request is sent",
    "host-schedule",
    15,
    (requester.Requester, "_reserve", _reserve_late),
)

# --- frontier ---


def _no_replay(*_: Any) -> Iterator[bytes]:
    return iter(())


def _clear_journal_first(self: url_queue_files.UrlQueueFiles) -> None:
    """Write lines to their files, and do not sync them, before the journal is emptied."""
    self.flush()


_CLAIM_REQUEST = file_frontier.FileFrontier.claim


def _claim_without_hold(self: Any, request: Any) -> Any:
    return _CLAIM_REQUEST(self, msgspec.structs.replace(request, hold=0.0))


mutant("the journal is not replayed", "frontier", 5, (local, "replay", _no_replay))
mutant(
    "files are not synced before the journal is emptied",
    "frontier",
    7,
    (url_queue_files.UrlQueueFiles, "sync", _clear_journal_first),
)
mutant("a claim does not hold its domain", "frontier", 0, (file_frontier.FileFrontier, "claim", _claim_without_hold))

# --- cluster ---

_SOURCE, _READ_SCRIPT = redis_scripts.source, redis_server.read_script


def _take_from_the_living(name: str) -> str:
    return _SOURCE(name).replace("and not living[owners[shard] or '']", "")


def _no_epoch(name: str) -> str:
    script = _READ_SCRIPT(name).replace("if now[1] ~= epoch then return -1 end", "")
    return script.replace("if number(last) + 1 ~= number(name) then return -2 end", "")


def _end_at_once(self: coordinator.CompletionDetector, shards: Any, *, are_idle: bool) -> bool:
    """Find the end with one look, while messages may be on their way."""
    return are_idle


def _shared_folder(*_: Any, **__: Any) -> Any:
    @contextmanager
    def unlocked() -> Iterator[None]:
        yield

    return unlocked()


def _frontier_lock() -> tuple[Any, str, Any]:
    from webmill.crawl.frontier.redis import frontier

    return frontier, "exclusive", _shared_folder


mutant(
    "a shard is owned by two nodes",
    "cluster",
    19,
    (redis_scripts, "source", _take_from_the_living),
    (redis_server, "read_script", _no_epoch),
    _frontier_lock(),
)
mutant("the end is found at the first look", "cluster", 4, (coordinator.CompletionDetector, "_is_quiet", _end_at_once))

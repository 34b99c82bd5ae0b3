"""What a shard keeps beside its frontier, divided with its domains: budgets, yields, scores, cookies, payloads, its
notes, and the messages in its inbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from webmill.crawl.cookies import store as cookies
from webmill.crawl.frontier.base import domain_of
from webmill.crawl.frontier.division import Owner
from webmill.crawl.removed_pages import NOTE as REMOVED_UNTIL
from webmill.crawl.scheduler import budgets, capture_archiver, domain_scores
from webmill.crawl.scheduler.commands import (
    PAUSED,
    BackUpFrontier,
    ExcludeDomains,
    IncludeDomains,
    RecordVisits,
    ShardCommand,
)
from webmill.crawl.scheduler.shard_store import AGAIN
from webmill.crawl.yields import yield_store
from webmill.infra.clock import Anchor
from webmill.infra.sqlite import Database, Row, Schema
from webmill.model import Link

Value = TypeVar("Value")
PAGE = 500
CLOCK, RULES = "clock", "rules"
_decode: Callable[[bytes], list[Link] | ShardCommand] = msgspec.msgpack.Decoder(list[Link] | ShardCommand).decode
_encode = msgspec.msgpack.Encoder().encode


class ShardTable(NamedTuple):
    """A table of a file that each shard has. Its first column is its key."""

    file: str
    schema: Schema
    table: str
    columns: str
    domain: Callable[[Row], str]  # that a row belongs to


def first_word(row: Row) -> str:
    return str(row[0]).partition(" ")[0]


TABLES = (
    ShardTable("quota.sqlite", budgets.SCHEMA, "domain", "name, pages", first_word),
    ShardTable(yield_store.FILE_NAME, yield_store.SCHEMA, "domain", "name, judged, body, young, old", first_word),
    ShardTable("scores.sqlite", domain_scores.SCHEMA, "score", "domain, received, pages", first_word),
    ShardTable(cookies.FILE, cookies.SCHEMA, "site", "name, cookies", first_word),
    ShardTable(
        "payloads.sqlite",
        capture_archiver.SCHEMA,
        "payload",
        "digest, record_id, url, time",
        lambda row: domain_of(str(row[2])),
    ),
)


def divide_tables(sources: Sequence[Path], targets: Sequence[Path], *, owner: Owner, was: Owner) -> None:
    """Copy the rows of each table to the shards that own their domains now; the owner's row counts before others."""
    for table in TABLES:
        files = [folder / table.file for folder in sources]
        with ExitStack() as stack:
            made = [stack.enter_context(open_table(table, folder)) for folder in targets if any_is_there(files)]
            for number, file in enumerate(files):
                if file.exists():
                    with Database(file, schema=table.schema) as source:
                        for rows in read_table(source, table):
                            divide_rows(table, rows, made, owner=owner, is_own=lambda name, at=number: was(name) == at)  # type: ignore[misc]


def any_is_there(files: Iterable[Path]) -> bool:
    return any(file.exists() for file in files)


def open_table(table: ShardTable, folder: Path) -> Database:
    if table.file == cookies.FILE:
        cookies.make_private(folder / table.file)
    return Database(folder / table.file, schema=table.schema)


def read_table(database: Database, table: ShardTable) -> Iterator[list[Row]]:
    key, after = table.columns.partition(",")[0], ""
    sql = f"SELECT {table.columns} FROM {table.table} WHERE {key} > ? ORDER BY {key} LIMIT ?"  # noqa: S608 - ours
    while page := database.read(sql, (after, PAGE)):
        yield page
        after = str(page[-1][0])


def divide_rows(
    table: ShardTable, rows: Iterable[Row], targets: Sequence[Database], *, owner: Owner, is_own: Callable[[str], bool]
) -> None:
    places = ", ".join("?" for _ in table.columns.split(","))
    found: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        domain = table.domain(row)
        found.setdefault((owner(domain), "REPLACE" if is_own(domain) else "IGNORE"), []).append(row)
    for (target, otherwise), some in found.items():
        with targets[target].write_relaxed():
            sql = f"INSERT OR {otherwise} INTO {table.table} ({table.columns}) VALUES ({places})"  # noqa: S608 - ours
            targets[target].many(sql, some)


# --- notes --------------------------------------------------------------------------------------------------------


def divide_notes(sources: Sequence[Mapping[str, str]], shards: int, *, owner: Owner) -> list[dict[str, str]]:
    """Return the notes of the new shards: for each the most careful of what the old ones say."""
    every: dict[str, str] = {}
    for notes in sources:
        every |= notes
    if clocks := [notes[CLOCK] for notes in sources if notes.get(CLOCK)]:
        every[CLOCK] = max(clocks, key=lambda note: msgspec.json.decode(note, type=Anchor).now)
    if rules := [msgspec.json.decode(notes[RULES], type=tuple[str, float]) for notes in sources if RULES in notes]:
        same = len({digest for digest, _ in rules}) == 1
        every[RULES] = msgspec.json.encode(max(rules, key=lambda rule: rule[1]) if same else ("", 0.0)).decode()
    every[PAUSED] = max(notes.get(PAUSED, "") for notes in sources)
    every[REMOVED_UNTIL] = repr(min(float(notes.get(REMOVED_UNTIL, 0.0)) for notes in sources))
    again = [url for notes in sources for url in notes.get(AGAIN, "").split("\n") if url]
    return [
        every | {AGAIN: "\n".join(url for url in again if owner(domain_of(url)) == shard)} for shard in range(shards)
    ]


# --- messages -----------------------------------------------------------------------------------------------------


def divide_message(body: bytes, shards: int, *, owner: Owner) -> Iterator[tuple[int, bytes]]:
    """Yield what the new shards are told instead of a message. Their order is that of the message's own parts."""
    message = _decode(body)
    if isinstance(message, BackUpFrontier):  # of a copy that is long over
        return
    parts: dict[int, list[Link] | ShardCommand] = {}
    match message:
        case list():
            parts = dict(_split(message, lambda link: owner(domain_of(link.url))))
        case ExcludeDomains(domains):
            parts = {at: ExcludeDomains(tuple(some)) for at, some in _split(domains, owner).items()}
        case IncludeDomains(domains):
            parts = {at: IncludeDomains(tuple(some)) for at, some in _split(domains, owner).items()}
        case RecordVisits(visits, robots):
            by_visit = _split(visits, lambda done: owner(domain_of(done.url)))
            by_robots = _split(robots, lambda entry: owner(domain_of(f"{entry.origin}/")))
            parts = {
                at: RecordVisits(tuple(by_visit.get(at, ())), tuple(by_robots.get(at, ())))
                for at in by_visit.keys() | by_robots.keys()
            }
        case _:
            parts = dict.fromkeys(range(shards), message)
    for at, part in sorted(parts.items(), key=lambda pair: pair[0]):
        yield at, _encode(part)


def _split(values: Iterable[Value], owner: Callable[[Value], int]) -> dict[int, list[Value]]:
    found: dict[int, list[Value]] = {}
    for value in values:
        found.setdefault(owner(value), []).append(value)
    return found

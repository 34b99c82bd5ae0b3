"""The lines of a frontier that are not surely in their files yet: kept with its state until a checkpoint.

A line's position is known before it is written, so that writing it again changes nothing. A URL that came as visited
has a line here, too, and none in a file: after a death the table of known URLs is filled from the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from webmill.crawl.frontier.sqlite_state import SqliteState
from webmill.crawl.frontier.state import DomainState
from webmill.crawl.frontier.url_queue_files import UrlQueue, UrlQueueFiles

JournalEntry = tuple[int, int, int, bytes]  # domain, priority, position, lines
NO_POSITION = -1  # a position: of lines that are in no file

_entries = msgspec.msgpack.Decoder(list[JournalEntry])


class Journal(Protocol):
    def append(self, entries: Sequence[JournalEntry]) -> None:
        """Add lines, as part of the transaction that makes them count."""
        ...

    def entries(self) -> Iterator[tuple[DomainState, int, int, bytes]]:
        """Yield domain, priority, position and lines, the oldest first."""
        ...

    def clear(self) -> None: ...


class SqliteJournal:
    def __init__(self, state: SqliteState) -> None:
        self._state = state

    def append(self, entries: Sequence[JournalEntry]) -> None:
        if entries:
            row = (msgspec.msgpack.encode(entries),)
            self._state.database.many("INSERT INTO journal (lines) VALUES (?)", [row])

    def entries(self) -> Iterator[tuple[DomainState, int, int, bytes]]:
        number = 0
        sql = "SELECT number, lines FROM journal WHERE number > ? ORDER BY number LIMIT 1"
        while rows := self._state.database.read(sql, (number,)):
            number, blob = rows[0]
            entries = _entries.decode(blob)
            domains = self._state.load_domains({id_ for id_, *_ in entries})
            yield from ((domains[id_], priority, at, lines) for id_, priority, at, lines in entries)

    def clear(self) -> None:
        self._state.database.many("DELETE FROM journal", [()])


def replay(journal: Journal, queues: UrlQueueFiles) -> Iterator[bytes]:
    """Write all lines to their files, but those that were read meanwhile; yield each entry's lines once they are."""
    for domain, priority, at, lines in journal.entries():
        if at != NO_POSITION and domain.queues[priority][0] < at + len(lines):
            queues.write(UrlQueue(domain.hash, priority), at, lines)
        yield lines

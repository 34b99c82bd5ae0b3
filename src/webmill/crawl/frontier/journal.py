"""The lines of a local frontier that are not surely in their files yet: kept in SQLite until a checkpoint.

A line's position is known before it is written, so that writing it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from webmill.crawl.frontier.lanes import Lane, Lanes
from webmill.crawl.frontier.state import State

Entry = tuple[int, int, int, bytes]  # domain, priority, position, lines

_entries = msgspec.msgpack.Decoder(list[Entry])


class Journal:
    def __init__(self, state: State) -> None:
        self._state = state

    def append(self, entries: Sequence[Entry]) -> None:
        if entries:
            row = (msgspec.msgpack.encode(entries),)
            self._state.database.many("INSERT INTO journal (lines) VALUES (?)", [row])

    def replay(self, lanes: Lanes) -> Iterator[bytes]:
        """Write all lines to their files, but those that were read meanwhile; each entry's lines, once they are."""
        number = 0
        sql = "SELECT number, lines FROM journal WHERE number > ? ORDER BY number LIMIT 1"
        while rows := self._state.database.read(sql, (number,)):
            number, blob = rows[0]
            entries = _entries.decode(blob)
            domains = self._state.numbered({id_ for id_, *_ in entries})
            for id_, priority, at, lines in entries:
                read, _ = domains[id_].lanes[priority]
                if read < at + len(lines):
                    lanes.write(Lane(domains[id_].hash, priority), at, lines)
                yield lines

    def clear(self) -> None:
        self._state.database.many("DELETE FROM journal", [()])

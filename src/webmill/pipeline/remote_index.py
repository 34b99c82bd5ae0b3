"""The index of a server, read through its API: what `OpenCollection` asks of an index on a disk."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from urllib.parse import parse_qsl

from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import prefix_of
from webmill.formats.cdx.query import KeyRange
from webmill.index.lines import MAX_LINE, Batch
from webmill.infra.api_server import ApiServer

PATH = "/api/index"
LINES = 10_000  # asked for at once
MOST_BYTES = 16 << 20  # of one answer
MOST_PARTS = 100_000  # of one walk: a billion lines
LEAST_LINES, LEAST_BYTES = 1_000, 1 << 20  # of a part that is not the last: one of both
MOST_SAME = 100_000  # lines with one key and timestamp


class RemoteIndex:
    """Lines of one crawl, or of all crawls of a server as one. Threads may share it.

    What a server sends is checked: the lines must be in order and within the range, and the parts must come to an end.
    """

    def __init__(self, server: ApiServer, crawl: str | None) -> None:
        self._server, self._crawl = server, crawl or ""

    def lines(self, wanted: KeyRange) -> Iterator[bytes]:
        return chain.from_iterable(self.batches(wanted))

    def batches(self, wanted: KeyRange) -> Iterator[Batch]:
        cursor, checked = "", CheckedLines(self._server.address, wanted)
        for _ in range(MOST_PARTS):
            query: list[tuple[str, str | bytes]] = [("start", wanted.start), ("end", wanted.end)]
            query += [("crawl", self._crawl), ("limit", str(LINES)), ("cursor", cursor)]
            answer = self._server.get(PATH, query, accept="text/x-cdxj", most=MOST_BYTES)
            lines = BytesIO(answer.body).readlines()
            checked.add(lines)
            if lines:
                yield lines
            if not answer.following:
                return
            following = dict(parse_qsl(answer.following.partition("?")[2])).get("cursor", "")
            is_small = len(lines) < min(LINES, LEAST_LINES) and len(answer.body) < LEAST_BYTES
            if is_small or following == cursor:
                raise checked.error("a small part that says that there are more")
            cursor = following
        raise checked.error("an index without an end")


class CheckedLines:
    """Checks what a server sends as the lines of a range."""

    def __init__(self, server: str, wanted: KeyRange) -> None:
        self._server, self._wanted = server, wanted
        self._last, self._same = b"", 0

    def add(self, lines: list[bytes]) -> None:
        """Check that lines are whole, wanted, and in order behind those that came before."""
        for line in lines:
            if len(line) > MAX_LINE or not line.endswith(b"\n"):
                raise self.error("a line that is too long, or has no end")
            key = prefix_of(line)
            if key < self._last or line < self._wanted.start or line >= self._wanted.end:
                raise self.error("lines that are not in order, or were not asked for")
            self._same = self._same + 1 if key == self._last else 1
            if self._same > MOST_SAME:
                raise self.error(f"more than {MOST_SAME:,} lines of one URL and time")
            self._last = key

    def error(self, what: str) -> BadInput:
        return BadInput(f"{self._server}: the server sends {what}", reason="bad_index")

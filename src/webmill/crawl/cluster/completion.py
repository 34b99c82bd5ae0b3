"""Whether a crawl on many nodes is over. One of them judges: who has the first shard."""

from __future__ import annotations

from webmill.crawl.cluster.cluster_state import Picture, Record
from webmill.crawl.options import Limits


class Judge:
    """`probe` and `end` are to be told to all."""

    def __init__(self, limits: Limits, shards: int, *, requisites: bool = False) -> None:
        self._limits, self._shards, self._requisites = limits, shards, requisites
        self.probe = 0
        self.end = ""
        self._quiet: tuple[object, ...] | None = None

    def look(self, picture: Picture) -> None:
        assert picture.run
        if picture.run.probe > self.probe:  # there was another judge
            self.probe, self._quiet = picture.run.probe, None
        limits = self._limits
        if limits.seconds is not None and picture.now - picture.run.started >= limits.seconds:
            self.end = "seconds"
        elif limits.bytes is not None and picture.bytes >= limits.bytes:
            self.end = "bytes"
        elif records := self._of_all(picture):
            if limits.pages is not None and sum(record.seen.pages for record in records) >= limits.pages:
                spent = all(record.seen.is_spent for record in records)
                self.end = "pages" if not self._requisites or self._is_quiet(records, are_idle=spent) else ""
            elif self._is_quiet(records, are_idle=all(record.seen.is_idle for record in records)):
                self.end = "finished" if all(record.seen.wake is None for record in records) else "waiting"

    def _of_all(self, picture: Picture) -> list[Record]:
        """Empty unless each shard has an owner that lives and has told of it."""
        found = [
            record
            for shard in range(self._shards)
            if (record := picture.records.get(shard)) and record.node == picture.owner(shard)
        ]
        return found if len(found) == self._shards else []

    def _is_quiet(self, records: list[Record], *, are_idle: bool) -> bool:
        """Idle, and nothing done since the round before, by the same processes: then no letter can be on its way."""
        if not are_idle:
            self._quiet = None
            return False
        if any(record.seen.probe < self.probe for record in records):
            return False
        work = tuple((record.node, record.start, record.seen.work) for record in records)
        is_quiet = self._quiet == work
        self._quiet = work
        self.probe += 1
        return is_quiet

"""One node of a crawl on many: the processes of the shards that it has now.

It meets the others in Redis twice a second. It takes shards that nobody has, up to its share, and gives back what is
above it; starts a process for each that it has; and ends with the others, when who has the first shard says so.
A shard has one owner at a time: its frontier sees to that, whatever a node believes.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from webmill.crawl.cluster.cluster_state import Attendee, Meeting, Picture, Record, Report, Run
from webmill.crawl.cluster.completion import Judge
from webmill.crawl.cluster.shard_assignment import shares
from webmill.crawl.options import Options
from webmill.crawl.progress import Nodes, Snapshot, added
from webmill.crawl.scheduler.process_group import GRANT, UNLIMITED, Crew, End, Member
from webmill.errors import Conflict, Misconfigured, Unavailable, WebmillError

log = logging.getLogger(__name__)

EVERY = 0.5  # seconds between two meetings
PAUSE = 2.0  # before a shard that could not be opened is tried again


class Node(Crew):
    """`begin_with`: how many nodes must be there before it takes a shard for the first time."""

    def __init__(
        self,
        options: Options,
        shards: int,
        *,
        meeting: Meeting,
        attendee: Attendee,
        run: Run,
        watch: Callable[[Snapshot], None],
        seeds: int,
        renew_seeds: Callable[[], int],
        begin_with: int = 1,
    ) -> None:
        super().__init__(options, 0, watch=watch)
        self._shards, self._meeting, self._me, self._run = shards, meeting, attendee, run
        self._seeds, self._renew_seeds, self._begin_with = seeds, renew_seeds, begin_with
        self._judge = Judge(options.limits, shards, requisites=options.rules.requisites)
        self._picture: Picture | None = None
        self._ended: End | None = None
        self._next = 0.0
        self._notice = ""
        self._stuck_since: float | None = None
        self._gone = Snapshot(shard=-1)  # what processes of shards that we no longer have had counted
        self._starts: Counter[int] = Counter()
        self._pauses: dict[int, float] = {}
        self._take: list[int] = []
        self._drop: set[int] = set()
        self._leaving: set[int] = set()  # shards whose processes end, to be given back
        self._renewing: set[int] = set()  # and those that end to begin again
        self._published: dict[int, int] = {}  # what the others know to be promised

    @contextmanager
    def _hired(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._see_all_off()
            try:
                self._meeting.leave(self._me)
            except WebmillError as error:  # the others find out
                log.warning("could not leave", extra={"why": str(error)})

    def _end(self, total: Snapshot, seconds: float) -> End | None:  # noqa: ARG002 - the run's time is all nodes'
        if self._stopping:
            return "stopped"
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            self._meet(total)
        return self._ended

    def total(self) -> Snapshot:
        total, picture = super().total(), self._picture
        if picture:
            total.nodes = Nodes(
                nodes=len(picture.living),
                shards=self._shards,
                shards_here=len(self._members),
                shards_nowhere=sum(picture.owner(shard) is None for shard in range(self._shards)),
                pages=sum(record.seen.pages for record in picture.records.values()),
                notice=self._notice,
            )
        return total

    def _past(self) -> list[Snapshot]:
        return [*super()._past(), self._gone]

    # --- meeting the others ---

    def _meet(self, total: Snapshot) -> None:
        report = self._report(total)
        try:
            picture = self._meeting.meet(self._me, report)
        except Unavailable as error:
            if not self._notice:
                log.warning("cannot meet", extra={"why": str(error)})
            self._notice = str(error)
            return
        self._picture = picture
        self._published.update({int(shard): pages for shard, pages in report.promised.items()})
        self._drop -= set(map(int, report.drop))
        self._heed(picture)

    def _report(self, total: Snapshot) -> Report:
        told = [member for member in self._members if member.promised is not None]
        return Report(
            take=[str(shard) for shard in self._take],
            drop=[str(shard) for shard in self._drop],
            records={str(member.shard): self._record(member) for member in told},
            promised=self._news_of_promises(told),
            bytes=total.bytes,
            starving=self._is_starving(),
            probe=self._judge.probe,
            end=self._judge.end,
        )

    def _record(self, member: Member) -> str:
        return msgspec.json.encode(Record(node=self._me.id, start=member.starts, seen=member.seen)).decode()

    def _heed(self, picture: Picture) -> None:
        if picture.run is None or picture.run.id != self._run.id:
            raise Conflict("this crawl was begun anew while this node was cut off: start it again")
        if picture.run.end:
            self._ended = msgspec.convert(picture.run.end, End)
            return
        self._balance(picture)
        self._listen_to_seeds(picture)
        for member in self._members:
            if member.seen.probe < picture.run.probe:
                member.tell("probe", picture.run.probe)
        if picture.starving:
            self._revoke()
        if picture.owner(0) == self._me.id:
            self._judge.look(picture)
        else:
            self._judge = Judge(self._options.limits, self._shards, requisites=self._options.rules.requisites)

    # --- shards ---

    def _balance(self, picture: Picture) -> None:
        mine = {shard for shard in range(self._shards) if picture.owners.get(shard) == self._me.id}
        plan = shares(picture, self._shards)
        if not mine and len(picture.living) < self._begin_with:
            self._notice = f"{len(picture.living)} of {self._begin_with} nodes are here: the crawl waits for the others"
            return
        self._begin_with = 1
        self._notice = self._missing(picture, plan)
        self._take = [shard for shard, node in plan.items() if node == self._me.id and shard not in mine]
        if self._take:
            self._next = 0.0
        for member in self._members:
            shard = member.shard
            if shard not in self._leaving and (shard not in mine or plan.get(shard) != self._me.id):
                log.info("a shard goes", extra={"shard": shard, "to": plan.get(shard)})
                self._leaving.add(shard)
                member.tell("stop")
        for shard in mine - {member.shard for member in self._members} - self._drop:
            if time.monotonic() >= self._pauses.get(shard, 0.0):
                self._begin(shard)

    def _begin(self, shard: int) -> None:
        log.info("a shard comes", extra={"shard": shard})
        member = Member(self._options, shard, self._shards)
        member.starts = self._starts[shard]
        self._published.pop(shard, None)
        member.start()
        self._members.append(member)

    def _replace(self, member: Member) -> None:
        shard = member.shard
        if shard in self._leaving:
            self._leaving.discard(shard)
            self._drop.add(shard)
            self._forget(member)
        elif shard in self._renewing or (member.failure and member.may_come_again):
            if shard not in self._renewing:  # another has it, Redis is away or went back: the next meeting tells
                log.warning("a shard was lost", extra={"shard": shard, "why": member.failure})
                self._pauses[shard] = time.monotonic() + PAUSE
            self._renewing.discard(shard)
            self._forget(member)
        else:
            self._published.pop(shard, None)
            super()._replace(member)

    def _forget(self, member: Member) -> None:
        self._members.remove(member)
        self._gone = added([self._gone, member.before, member.seen])
        self._starts[member.shard] = member.starts
        self._published.pop(member.shard, None)
        self._next = 0.0

    def _missing(self, picture: Picture, plan: dict[int, str]) -> str:
        """Shards whose files are with none of us. When all else is done, nothing helps but the operator."""
        lost = [shard for shard in range(self._shards) if shard not in plan]
        if not lost:
            self._stuck_since = None
            return ""
        message = (
            f"the files of shards {', '.join(map(str, lost))} are in a folder that no node has: start a node there, "
            "or one with --lost-files rebuild, which goes on with what Redis and the last backup know"
        )
        records = [record for shard, record in picture.records.items() if shard in plan]
        if len(records) < len(plan) or not all(record.seen.is_idle for record in records):
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = time.monotonic()
        elif time.monotonic() - self._stuck_since > self._meeting.life:
            raise Misconfigured(message)
        return message

    def _listen_to_seeds(self, picture: Picture) -> None:
        """What is in scope follows from them: processes begin again when there are new ones."""
        if picture.seeds == self._seeds:
            return
        self._seeds = self._renew_seeds()
        for member in self._members:
            if member.shard not in self._leaving:
                self._renewing.add(member.shard)
                member.tell("stop")

    # --- budgets ---

    def _news_of_promises(self, members: list[Member]) -> dict[str, int]:
        if self._options.limits.pages is None:
            return {}
        return {
            str(member.shard): member.promised
            for member in members
            if member.promised is not None and member.promised != self._published.get(member.shard)
        }

    def _grant(self) -> None:
        limit = self._options.limits.pages
        if limit is None:
            for member in self._members:
                if member.promised is not None and member.promised < UNLIMITED:
                    member.promised += UNLIMITED
                    member.tell("grant", member.promised)
        elif pages := self._wanted(limit):
            try:
                granted = self._meeting.grant(self._me, pages, limit=limit, shards=self._shards)
            except Unavailable:  # maybe they were granted: say again what is promised
                for shard in pages:
                    self._published.pop(shard, None)
                return
            for member in self._members:
                if promised := granted.get(member.shard):
                    member.promised = self._published[member.shard] = promised
                    member.tell("grant", promised)

    def _wanted(self, limit: int) -> dict[int, int]:
        left = self._left(limit)
        size = max(1, min(GRANT, left // (2 * self._shards)))
        if left <= 0:
            return {}
        return {
            member.shard: size
            for member in self._members
            if member.seen.is_hungry
            and member.revoked is None
            and member.promised is not None
            and member.promised == self._published.get(member.shard)
            and member.free < size / 2
        }

    def _left(self, limit: int) -> int:
        """As of the last meeting."""
        picture = self._picture
        if picture is None or len(picture.promised) < self._shards:
            return 0
        return limit - sum(picture.promised.values())

    def _is_starving(self) -> bool:
        limit = self._options.limits.pages
        if limit is None or self._picture is None or len(self._picture.promised) < self._shards:
            return False
        hungry = any(member.seen.is_hungry and member.free <= 0 for member in self._members)
        return hungry and self._left(limit) <= 0

    def _revoke(self) -> None:
        for member in self._members:
            if member.promised is not None and member.free > 0 and not member.seen.is_hungry and member.revoked is None:
                member.revoked = member.seen.revoked
                member.tell("revoke")

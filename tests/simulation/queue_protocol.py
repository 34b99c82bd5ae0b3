"""The queue in one SQLite file, with publishers, workers and an operator that are killed, paused and cut off power.

Checked, by ids: what was published and confirmed is in the queue, done, buried or dropped, at each power cut and at the
end; a message is with one worker at a time while its lease lasts; a delivery is settled once, and not after another
worker has the message; attempts are bounded, and a dead letter says why.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec

from tests.contracts.sqlite_copy import copy_of
from tests.simulation.faults import FaultInjector, FaultRates, Service, pause
from tests.simulation.world import World
from webmill.errors import Conflict, Unavailable
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteDelivery, SqliteQueue

FILE = "queue.sqlite"
BURIED, DONE = 3, 4


class Track(msgspec.Struct):
    """What is known of one message, from outside."""

    calls: int = 0  # of publish
    is_publishing: bool = False  # a call is under way, or was when its caller died
    published: bool = False
    settling: bool = False  # an ack or a drop is under way, or nobody has heard of it
    acked: bool = False
    acked_call: int = 0  # the call of publish that was acked
    dropped: bool = False
    deliveries: int = 0  # since it was published, or given fresh attempts
    delivery: int = 0  # counts all deliveries
    holder: str = ""
    lease_until: float = 0.0  # at least, by the machine's clock

    @property
    def is_over(self) -> bool:
        """Tell whether it was acked, and not published again."""
        return self.acked and self.calls == self.acked_call


class QueueModel:
    def __init__(self, world: World) -> None:
        self.world = world
        self.tracks: dict[str, Track] = {}
        self.machine = world.machine("machine")
        rng = world.rng
        self.lease = rng.choice((2.0, 10.0, 60.0))
        self.max_attempts = rng.choice((1, 2, 3, 5))
        self.remembers = world.chance(0.5)
        self.jumps = world.chance(0.2)
        self.size = rng.randint(4, 14)
        self.is_quiet = False
        self.workers = [
            Service(world, self.machine, f"worker-{number}", self._worker(f"worker-{number}"))
            for number in range(rng.randint(2, 3))
        ]
        self.publisher = Service(world, self.machine, "publisher", self._publish)
        self.operator = Service(world, self.machine, "operator", self._operate)
        mean = 20 * self.lease
        rates = FaultRates(
            kills=rng.choice((0.0, mean / 4, mean)),
            stalls=rng.choice((0.0, mean / 3)),
            cuts=rng.choice((0.0, mean / 2)),
            jumps=mean if self.jumps else 0.0,
            longest_stall=3 * self.lease,
        )
        self.faults = FaultInjector(world, [*self.workers, self.publisher, self.operator], rates)
        self.faults.on_power_cut = lambda _: self._after_power_cut()

    def open(self) -> SqliteQueue:
        path = self.machine.disk.root / FILE
        return SqliteQueue(path, max_attempts=self.max_attempts, lease=self.lease, remember=self.remembers)

    def track(self, id_: str) -> Track:
        return self.tracks.setdefault(id_, Track())

    # --- processes ---

    def _publish(self) -> None:
        """Publish all messages, some twice; one whose call did not return is published again."""
        queue = self.open()
        ids = [f"m{number}" for number in range(self.size)]
        for first in range(0, self.size, 3):
            some = [id_ for id_ in ids[first : first + 3] if not self.track(id_).published]
            if self.world.chance(0.3) and first:
                some.append(self.world.rng.choice(ids[:first]))
            while some and not self._publish_some(queue, some):
                pause(self.world, self.lease)
            pause(self.world, self.lease)
        queue.close()

    def _publish_some(self, queue: SqliteQueue, ids: list[str]) -> bool:
        for id_ in ids:
            track = self.track(id_)
            track.calls, track.is_publishing = track.calls + 1, True
        try:
            queue.publish([Message(id_, f"body of {id_}".encode()) for id_ in ids])
        except Unavailable:
            return False
        for id_ in ids:
            track = self.track(id_)
            track.is_publishing, track.published = False, True
            self.world.counts["published"] += 1
        return True

    def _worker(self, name: str) -> Callable[[], None]:
        def work() -> None:
            queue = self.open()
            consumer = queue.consume(prefetch=self.world.rng.choice((1, 1, 3)))
            while not self._is_drained(queue):
                try:
                    delivery = consumer.receive(timeout=self.lease / 2)
                except Unavailable:
                    continue
                if delivery:
                    self._process(name, queue, delivery)
            consumer.close()
            queue.close()

        return work

    def _is_drained(self, queue: SqliteQueue) -> bool:
        try:
            return self.publisher.is_done and self.operator.is_done and not queue.stats().waiting
        except Unavailable:
            return False

    def _process(self, name: str, queue: SqliteQueue, delivery: SqliteDelivery) -> None:
        track = self._received(name, delivery)
        number = track.delivery
        for _ in range(self.world.rng.choice((0, 0, 1, 3))):
            pause(self.world, self.lease * (0.3 if self.world.chance(0.9) else 1.5))
            began = self.machine.wall()
            try:
                delivery.extend()
            except Conflict:
                self._lost(track, number)
                return
            except Unavailable:
                break
            self._still_ours(name, track, number, began)
        if self.world.chance(0.2):
            pause(self.world, 2 * self.lease)  # for too long: it may have been given to another
        self._settle(name, queue, delivery, track, number)

    def _received(self, name: str, delivery: SqliteDelivery) -> Track:
        world, track = self.world, self.track(delivery.id)
        world.note(name, f"received {delivery.id}, attempt {delivery.attempts}")
        world.counts["deliveries"] += 1
        world.check(delivery.body == f"body of {delivery.id}".encode(), f"another body of {delivery.id}")
        world.check(track.calls > 0, f"{delivery.id} was never published")
        is_over = track.acked if self.remembers else track.is_over
        world.check(not is_over, f"{delivery.id} was delivered after its ack")
        is_leased = track.holder and track.lease_until > self.machine.wall() and not self.jumps
        world.check(not is_leased, f"{delivery.id} is with {track.holder} and with {name}")
        world.check(delivery.attempts <= self.max_attempts, f"{delivery.id} has attempt {delivery.attempts}")
        track.deliveries += 1
        allowed = self.max_attempts * (1 + world.counts["power cuts"])  # which undo leases that were not synced
        is_bounded = track.settling or track.deliveries <= allowed
        world.check(is_bounded, f"{delivery.id} was delivered {track.deliveries} times")
        track.delivery += 1
        track.holder, track.lease_until = name, 0.0  # what was fetched ahead may have a lease that began before
        return track

    def _still_ours(self, name: str, track: Track, number: int, began: float) -> None:
        self.world.check(track.delivery == number, f"{name} extended a lease that another worker has")
        track.lease_until = began + self.lease

    def _lost(self, track: Track, number: int) -> None:
        if track.delivery == number:
            is_early = track.lease_until > self.machine.wall() and not self.jumps
            self.world.check(not is_early, "a lease was lost before its time")

    def _settle(self, name: str, queue: SqliteQueue, delivery: SqliteDelivery, track: Track, number: int) -> None:
        how = "ack" if self.is_quiet else self.world.rng.choice(("ack", "ack", "ack", "retry", "bury", "leave"))
        if how == "leave":
            return
        is_ack = how == "ack"
        track.settling = track.settling or is_ack
        try:
            if is_ack:
                delivery.ack(b"result")
            elif how == "retry":
                delivery.retry("it failed", delay=self.world.rng.choice((0.0, self.lease)))
            else:
                delivery.bury("it never works")
        except Conflict:
            track.settling = track.settling and not is_ack
            self._lost(track, number)
            return
        except Unavailable:
            return
        self.world.note(name, f"{how} {delivery.id}")
        self.world.check(track.delivery == number, f"{name} settled {delivery.id}, which another worker has")
        track.holder = ""
        if is_ack:
            self.world.check(not track.is_over, f"{delivery.id} was acked twice")
            track.acked, track.acked_call = True, track.calls - track.is_publishing
            track.deliveries = 0
            self.world.counts["acked"] += 1

    def _operate(self) -> None:
        queue = self.open()
        for _ in range(3):
            pause(self.world, 4 * self.lease)
            try:
                self._tend_dead_letters(queue)
            except Unavailable:
                continue
        queue.close()

    def _tend_dead_letters(self, queue: SqliteQueue) -> None:
        for letter in list(queue.dead_letters()):
            self.world.check(bool(letter.reason and letter.first_error), f"a dead letter without reason: {letter.id}")
            track = self.track(letter.id)
            if self.world.chance(0.5):
                track.deliveries = 0
                self.world.check(queue.requeue([letter.id]) <= 1, "requeued twice")
                self.world.counts["requeued"] += 1
            else:
                track.settling = True
                if queue.drop([letter.id]):
                    track.dropped, track.deliveries = True, 0
                    self.world.counts["dropped"] += 1

    # --- judgement ---

    def _after_power_cut(self) -> None:
        for track in self.tracks.values():
            track.holder = ""
        self._judge(self.machine.disk.root / FILE)

    def _judge(self, path: Path) -> None:
        """Compare the file with what is known: what was confirmed is there, what was acked is not."""
        there = read_states(path)
        for id_, track in self.tracks.items():
            if not track.published:
                continue
            state = there.get(id_)
            may_be_gone = track.settling or track.acked or track.dropped
            self.world.check(state is not None or may_be_gone, f"{id_} was published, and is lost")
            if track.is_over:
                self.world.check(state in (None, DONE), f"the ack of {id_} is lost: it is in state {state}")
        for id_ in there:
            self.world.check(self.track(id_).calls > 0, f"{id_} is there, and was never published")

    def finish(self) -> None:
        self.world.run(lambda: self.publisher.is_done and self.operator.is_done, seconds=60 * self.lease)
        self.is_quiet = True
        self.faults.stop()
        done = self.world.run(lambda: all(service.is_done for service in self.faults.services), seconds=5000.0)
        if not done:
            self.world.fail("the queue was not drained")
            return
        self._judge(self.machine.disk.root / FILE)
        there = read_states(self.machine.disk.root / FILE)
        self.world.check(set(there.values()) <= {BURIED, DONE}, f"not drained: {there}")


def read_states(path: Path) -> dict[str, int]:
    """Return the state of each message, read from a copy of the file by SQLite alone."""
    if not path.exists() or not path.stat().st_size:
        return {}
    with copy_of(path) as copy:
        connection = apsw.Connection(str(copy))
        try:
            if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'message'").fetchall():
                return {}
            return dict(connection.execute("SELECT id, state FROM message").fetchall())
        finally:
            connection.close()


def simulate(world: World) -> None:
    QueueModel(world).finish()

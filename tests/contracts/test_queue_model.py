"""Random operations on a queue beside a model that shares no code with it: the sets are equal at every step."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.contracts.queue_benches import LEASE, Bench, MemoryBench, SqliteBench
from webmill.errors import Conflict
from webmill.infra.queue.base import Consumer, Delivery, Message, QueueStats

MAX_ATTEMPTS = 3
IDS = st.integers(0, 7).map(str)


@dataclass
class Known:
    """What the model knows of a message that is in the queue."""

    state: str = "ready"
    until: float = 0.0
    attempts: int = 0
    holder: Delivery | None = None
    errors: list[str] = field(default_factory=list)


class QueueMachine(RuleBasedStateMachine):
    def bench(self) -> Bench:
        return MemoryBench()

    def __init__(self) -> None:
        super().__init__()
        self.tools = self.bench()
        self.queue = self.tools.open(max_attempts=MAX_ATTEMPTS)
        self.consumers: list[Consumer] = [self.tools.open(max_attempts=MAX_ATTEMPTS).consume() for _ in range(2)]
        self.known: dict[str, Known] = {}
        self.deliveries: list[Delivery] = []

    def teardown(self) -> None:
        self.tools.close()

    @rule(ids=st.lists(IDS, max_size=4))
    def publish(self, ids: list[str]) -> None:
        new = set(ids) - self.known.keys()
        assert self.queue.publish(Message(id_, id_.encode()) for id_ in ids) == len(new)
        self.known.update({id_: Known() for id_ in new})

    @rule(which=st.integers(0, 1))
    def receive(self, which: int) -> None:
        delivery = self.consumers[which].receive(timeout=0)
        ready = {id_ for id_, known in self.known.items() if known.state == "ready"}
        if delivery is None:
            assert not ready
            return
        assert delivery.id in ready
        known = self.known[delivery.id]
        known.state, known.holder, known.until = "leased", delivery, self.tools.clock.now + LEASE
        known.attempts += 1
        assert (delivery.attempts, delivery.body) == (known.attempts, delivery.id.encode())
        self.deliveries.append(delivery)

    @precondition(lambda self: self.deliveries)
    @rule(data=st.data(), how=st.sampled_from(["ack", "retry", "delay", "bury", "extend"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        delivery = data.draw(st.sampled_from(self.deliveries))
        known = self.known.get(delivery.id)
        held = known is not None and known.holder is delivery
        try:
            call(delivery, how)
        except Conflict:
            assert not held
            return
        assert known is not None
        assert held, "a lease that was over could be settled"
        self.settled(known, delivery, how)

    def settled(self, known: Known, delivery: Delivery, how: str) -> None:
        if how == "extend":
            known.until = self.tools.clock.now + LEASE
            return
        known.holder = None
        if how == "ack":
            del self.known[delivery.id]
        elif how == "bury" or known.attempts >= MAX_ATTEMPTS:
            known.state = "buried"
            known.errors.append(how)
        else:
            known.state, known.until = ("delayed", self.tools.clock.now + 30) if how == "delay" else ("ready", 0.0)
            known.errors.append(how)

    @rule(seconds=st.sampled_from([1.0, 29.0, 31.0, LEASE + 1]))
    def time_passes(self, seconds: float) -> None:
        self.tools.clock.now += seconds
        for known in self.known.values():
            if known.state == "delayed" and known.until <= self.tools.clock.now:
                known.state = "ready"
            elif known.state == "leased" and known.until <= self.tools.clock.now:
                known.state = "buried" if known.attempts >= MAX_ATTEMPTS else "ready"
                known.holder = None
                known.errors.append("lease expired")

    @rule(ids=st.none() | st.lists(IDS, unique=True))
    def requeue(self, ids: list[str] | None) -> None:
        chosen = [id_ for id_ in self.dead_letters() if ids is None or id_ in ids]
        assert self.queue.requeue(ids) == len(chosen)
        self.known.update({id_: Known() for id_ in chosen})

    @rule(ids=st.lists(IDS, unique=True))
    def drop(self, ids: list[str]) -> None:
        chosen = self.dead_letters() & set(ids)
        assert self.queue.drop(ids) == len(chosen)
        for id_ in chosen:
            del self.known[id_]

    @invariant()
    def every_message_is_in_exactly_one_place(self) -> None:
        states = [known.state for known in self.known.values()]
        expected = QueueStats(*(states.count(state) for state in ("ready", "leased", "delayed", "buried")))
        assert self.queue.stats() == expected

    @invariant()
    def what_is_buried_tells_why(self) -> None:
        found = {buried.id: buried for buried in self.queue.dead_letters()}
        assert found.keys() == self.dead_letters()
        for id_, buried in found.items():
            errors = self.known[id_].errors
            assert buried.attempts == self.known[id_].attempts <= MAX_ATTEMPTS
            assert (buried.first_error[:13], buried.reason[:13]) == (errors[0], errors[-1])

    def dead_letters(self) -> set[str]:
        return {id_ for id_, known in self.known.items() if known.state == "buried"}


class SqliteMachine(QueueMachine):
    def bench(self) -> Bench:
        self.folder = tempfile.TemporaryDirectory()
        return SqliteBench(Path(self.folder.name))

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


def call(delivery: Delivery, how: str) -> None:
    match how:
        case "retry":
            delivery.retry(how)
        case "delay":
            delivery.retry(how, delay=30)
        case "bury":
            delivery.bury(how)
        case _:
            getattr(delivery, how)()


TestMemory = QueueMachine.TestCase
TestMemory.settings = settings(deadline=None, max_examples=100, stateful_step_count=40)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)

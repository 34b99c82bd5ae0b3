"""A limited number of slots that clients share fairly: how many are taken, how many by one client, how many wait.

Of those that wait, the client is next that has used the slots least lately (`ClientUse`), and when too many wait, the
one that has used them most is refused: who asks little does not notice who asks much. Clients that have used much share
a few slots (`HeavyShare`), whatever they ask for: what runs cannot be stopped, and would have to be waited for.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque

from starlette.types import Receive

from webmill.errors import Unavailable
from webmill.serve.processes.client_use import ClientUse

PATIENCE = 10.0  # seconds that a request waits before it is refused: its client would not wait much longer


class ClientDisconnected(Exception):
    """The client has disconnected, so there is nobody to answer."""


class Overloaded(Unavailable):
    """A request was refused because others had to be served. It is counted, not logged: there may be thousands."""


class HeavyShare:
    """What clients that have used much lately may take of several kinds of slots together: `most` at once."""

    def __init__(self, most: int) -> None:
        self.use = ClientUse()
        self._most = most
        self._taken: Counter[str] = Counter()  # by client, of all kinds
        self._kinds: list[FairSlots] = []

    def join(self, kind: FairSlots) -> None:
        self._kinds.append(kind)

    def may_take(self, client: str) -> bool:
        return not self.use.is_heavy(client) or self._heavy() < self._most

    def take(self, client: str) -> None:
        self._taken[client] += 1
        self.use.begin(client)

    def give_back(self, client: str, cost: float) -> None:
        """Charge the client, and hand out the slots that it made free, of whatever kind."""
        self.use.end(client, cost)
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
        self._kinds.append(self._kinds.pop(0))  # so that no kind is always the first
        for kind in self._kinds:
            kind.hand_out()

    def _heavy(self) -> int:
        return sum(count for client, count in self._taken.items() if self.use.is_heavy(client))


class FairSlots:
    """Slots of one kind. Used by the event loop's thread alone, so it needs no lock."""

    def __init__(
        self,
        *,
        most: int,
        per_client: int,
        max_waiting: int,
        waiting_per_client: int,
        patience: float = PATIENCE,
        share: HeavyShare | None = None,
    ) -> None:
        """`share`: with other kinds of slots; without, clients that have used much take half of these."""
        self._most, self._per_client = most, per_client
        self._share = share or HeavyShare(most - most // 2)
        self._share.join(self)
        self._use = self._share.use
        self._max_waiting, self._waiting_per_client = max_waiting, waiting_per_client
        self._patience = patience
        self._taken: Counter[str] = Counter()  # by client
        self._busy = 0
        self._new: dict[str, deque[asyncio.Future[None]]] = {}  # by client: waiting, without a started response
        self._new_count = 0
        self._more: dict[str, deque[asyncio.Future[None]]] = {}  # by client: waiting, with one

    async def acquire(self, client: str, receive: Receive) -> None:
        """Take a slot for a request. Raise `Overloaded` if too many wait, or `ClientDisconnected`."""
        if not self._try_acquire(client):
            await self._wait_in_queue(client, receive)

    async def acquire_more(self, client: str) -> None:
        """Take a slot for a response that has started: it waits as long as needed and is never refused."""
        if not self._try_acquire(client):
            await self._wait_for_slot(client)

    def release(self, client: str, cost: float) -> None:
        """Give a slot back, and charge the client `cost` seconds."""
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
        self._busy -= 1
        self._share.give_back(client, cost)

    def hand_out(self) -> None:
        """Give free slots to those who wait."""
        while self._busy < self._most and (turn := self._next_turn()):
            turn.set_result(None)

    # --- slots

    def _try_acquire(self, client: str) -> bool:
        """Take a slot if one is free. Only clients at their own limit wait then, so nobody is overtaken."""
        is_free = self._may_take(client)
        if is_free:
            self._busy += 1
            self._taken[client] += 1
            self._share.take(client)
        return is_free

    def _may_take(self, client: str) -> bool:
        is_full = self._busy >= self._most or self._taken[client] >= self._per_client
        return not is_full and self._share.may_take(client)

    def _next_turn(self) -> asyncio.Future[None] | None:
        """Take a slot for the waiting client that has used the slots least, and return its first turn."""
        waiting = {client for queue in (self._more, self._new) for client in queue}
        allowed = [client for client in waiting if self._taken[client] < self._per_client]
        client = min(allowed, key=self._use.of, default=None)
        if client is None or not self._may_take(client):  # then nobody who has used more may
            return None
        queue = self._more if client in self._more else self._new
        turn = queue[client].popleft()
        self._remove_if_empty(queue, client)
        self._new_count -= queue is self._new
        if turn.done():  # cancelled a moment ago; its client does not know yet
            return self._next_turn()
        self._try_acquire(client)
        return turn

    # --- waiting

    async def _wait_in_queue(self, client: str, receive: Receive) -> None:
        self._make_room(client)
        turn = self._enqueue(self._new, client)
        self._new_count += 1
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        try:
            await asyncio.wait((turn, gone), timeout=self._patience, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ClientDisconnected
            if not turn.done():
                raise overloaded()
            turn.result()
        except BaseException:
            self._abandon(self._new, turn, client)
            raise
        finally:
            gone.cancel()

    def _make_room(self, client: str) -> None:
        """Refuse a request if too many wait: one of the client that has used the slots most."""
        if len(self._new.get(client, ())) >= self._waiting_per_client:
            raise overloaded()
        if self._new_count < self._max_waiting:
            return
        greediest = max(self._new, key=self._expected_use, default=client)
        if self._expected_use(greediest) <= self._expected_use(client):
            raise overloaded()
        self._new[greediest].pop().set_exception(overloaded())
        self._new_count -= 1
        self._remove_if_empty(self._new, greediest)

    def _expected_use(self, client: str) -> float:
        """Return what the client will have used when all that it waits for is done."""
        return self._use.of(client, more=len(self._new.get(client, ())))

    async def _wait_for_slot(self, client: str) -> None:
        turn = self._enqueue(self._more, client)
        try:
            await turn
        except asyncio.CancelledError:
            self._abandon(self._more, turn, client)
            raise

    def _enqueue(self, queue: dict[str, deque[asyncio.Future[None]]], client: str) -> asyncio.Future[None]:
        """Join the queue at once: a slot freed before we wait would be lost otherwise."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.setdefault(client, deque()).append(turn)
        return turn

    def _abandon(self, queue: dict[str, deque[asyncio.Future[None]]], turn: asyncio.Future[None], client: str) -> None:
        if turn in queue.get(client, ()):
            queue[client].remove(turn)
            self._remove_if_empty(queue, client)
            self._new_count -= queue is self._new
        elif not turn.cancelled() and turn.exception() is None:  # a slot was assigned meanwhile
            self.release(client, 0.0)

    @staticmethod
    def _remove_if_empty(queue: dict[str, deque[asyncio.Future[None]]], client: str) -> None:
        if not queue[client]:
            del queue[client]


def overloaded() -> Overloaded:
    return Overloaded("too many requests at once; try again", retry_after=2)


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

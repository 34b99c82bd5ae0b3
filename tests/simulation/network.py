"""A network that loses, delays and repeats requests, loses answers, and cuts machines off for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

from tests.simulation import seams
from tests.simulation.world import Machine, World
from webmill.errors import Unavailable
from webmill.infra.storage.base import Condition, Data, Stat, Storage

T = TypeVar("T")


class RequestLost(Exception):
    """No answer came in time. The request may have been carried out, or will be later, or never."""


class Network:
    """Requests of processes to one server. `loss`, `late`, `repeated`: shares of the requests."""

    def __init__(self, world: World, *, loss: float, late: float, repeated: float, timeout: float) -> None:
        self.world, self.timeout = world, timeout
        self._loss, self._late, self._repeated = loss, late, repeated
        self._cut_off: dict[str, float] = {}  # machines, and until when
        self.is_calm = False

    def cut_off(self, machine: Machine, seconds: float) -> None:
        self.world.note(machine.name, f"cut off for {seconds:.1f}")
        self.world.counts["partitions"] += 1
        self._cut_off[machine.name] = self.world.now + seconds

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Have a request carried out by the server, and return its answer. `RequestLost` when none comes."""
        me = seams.current
        assert me
        me.step(what)
        if self._is_lost():
            self._give_up("request lost")
        if self._happens(self._late):
            self.world.after(self.world.rng.uniform(0.0, 3 * self.timeout), lambda: self._carry_out(action))
            self._give_up("request delayed")
        if self._happens(self._repeated):
            self.world.after(self.world.rng.uniform(0.0, self.timeout), lambda: self._carry_out(action))
            self._count("request repeated")
        try:
            return action()
        finally:
            me.sleep(self.world.latency())
            if self._is_lost():
                self._give_up("answer lost")

    def _carry_out(self, action: Callable[[], Any]) -> None:
        self.world.note("server", "a late request")
        try:
            action()
        except Exception as error:
            self.world.note("server", type(error).__name__)

    def _is_lost(self) -> bool:
        me = seams.current
        assert me
        return self._cut_off.get(me.machine.name, 0.0) > self.world.now or self._happens(self._loss)

    def _happens(self, share: float) -> bool:
        return not self.is_calm and self.world.chance(share)

    def _give_up(self, why: str) -> None:
        me = seams.current
        assert me
        self._count(why)
        me.sleep(self.timeout)
        raise RequestLost(why)

    def _count(self, what: str) -> None:
        me = seams.current
        self.world.note(me.name if me else "network", what)
        self.world.counts[what] += 1


class SteppedStorage:
    """A storage of this machine: every call is a step. `before_write` and `on_write` are called with each key."""

    def __init__(
        self, storage: Storage, on_write: Callable[[str], None], *, before_write: Callable[[str], None]
    ) -> None:
        self.storage, self._on_write, self._before_write = storage, on_write, before_write

    def _call(self, what: str, action: Callable[[], T]) -> T:
        assert seams.current
        seams.current.step(what)
        return action()

    def stat(self, key: str) -> Stat:
        return self._call(f"stat {_plain(key)}", lambda: self.storage.stat(key))

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> bytes:
        read = self.storage.read
        return self._call(f"read {_plain(key)}", lambda: read(key, start=start, length=length, etag=etag))

    def open(self, key: str, *, start: int = 0, length: int | None = None, etag: str | None = None) -> BinaryIO:
        open_ = self.storage.open
        return self._call(f"open {_plain(key)}", lambda: open_(key, start=start, length=length, etag=etag))

    def write(self, key: str, data: Data, *, condition: Condition | None = None) -> Stat:
        value = data if isinstance(data, bytes) else data.read_bytes() if hasattr(data, "read_bytes") else data.read()
        kind = type(condition).__name__ if condition else "always"
        self._before_write(key)

        def write() -> Stat:
            stat = self.storage.write(key, value, condition=condition)
            self._on_write(key)
            return stat

        return self._call(f"write {_plain(key)} {kind}", write)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[Stat]:
        return self._call(f"list {prefix}", lambda: iter(list(self.storage.list(prefix, start_after=start_after))))

    def delete(self, key: str) -> None:
        self._call(f"delete {_plain(key)}", lambda: self.storage.delete(key))


class RemoteStorage(SteppedStorage):
    """A storage behind a network. `Unavailable` when no answer comes; some clients send a request again by themselves,
    so that an answer may be that of the second one."""

    def __init__(
        self,
        storage: Storage,
        on_write: Callable[[str], None],
        network: Network,
        *,
        before_write: Callable[[str], None],
    ) -> None:
        super().__init__(storage, on_write, before_write=before_write)
        self._network = network

    def _call(self, what: str, action: Callable[[], T]) -> T:
        try:
            return self._network.call(what, action)
        except RequestLost as lost:
            if self._network.world.chance(0.5):
                raise Unavailable(str(lost)) from lost
        try:
            return self._network.call(f"{what} again", action)
        except RequestLost as lost:
            raise Unavailable(str(lost)) from lost


def _plain(key: str) -> str:
    return key if len(key) < 40 else key[:24] + "…"

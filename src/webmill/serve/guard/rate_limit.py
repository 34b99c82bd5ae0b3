"""Rate limit per client across all processes of a server, in shared memory.

For each client one number is stored: the time until which its requests are paid for at its rate (GCRA). It may be as
far ahead of now as `burst` requests take. Clients that are not ahead can be forgotten, so a hash table of fixed size
suffices: each set has a few entries, of which the one least ahead is replaced.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from struct import Struct

from webmill.serve.guard.client_address import client_network, parse_ip

SETS, WAYS = 4096, 8
_ONE = Struct("=Qd")  # hash of a client, and the time until which it has paid
_SET = Struct("=" + "Qd" * WAYS)
MOST_CLIENTS = SETS * WAYS
ROUNDING = 1e-6  # seconds, for sums of many doubles


class RateTable:
    """Paid-until times by client. `file` is shared by the processes (see `create_table`); without one, private."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file.open("r+b") if file else None
        self._memory = mmap.mmap(self._file.fileno() if self._file else -1, SETS * _SET.size)

    def spend(self, client: int, *, now: float, cost: float, ahead: float) -> float:
        """Return the seconds until this client may proceed; if 0, charge it `cost` seconds."""
        at = client % SETS * _SET.size
        wait: float = self._paid_until(client, at) - now - ahead
        if wait > ROUNDING:  # without a lock, so that a flood is refused cheaply; the worst is a refusal too many
            return wait
        with self._lock_set(client % SETS):
            found = _SET.unpack_from(self._memory, at)
            clients, paid = found[::2], found[1::2]
            is_known = client in clients
            way = clients.index(client) if is_known else paid.index(min(paid))
            until = max(paid[way], now) if is_known else now
            wait = until - now - ahead
            if wait > ROUNDING:
                return wait
            _ONE.pack_into(self._memory, at + way * _ONE.size, client, until + cost)
        return 0.0

    def _paid_until(self, client: int, at: int) -> float:
        found = _SET.unpack_from(self._memory, at)
        return float(found[2 * found[::2].index(client) + 1]) if client in found[::2] else 0.0

    @contextmanager
    def _lock_set(self, number: int) -> Iterator[None]:
        """Lock one set by a byte of the file. The kernel releases the locks of a killed process."""
        if not self._file:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, number)  # `infra.lock` has whole files only
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, number)

    def close(self) -> None:
        self._memory.close()
        if self._file:
            self._file.close()


def create_table(file: Path) -> None:
    file.write_bytes(bytes(SETS * _SET.size))


class RateLimiter:
    """Allows `rate` requests a second per client, `burst` at once, on the origin `name`. A rate of 0 is unlimited.

    `secret` keys the hash, so that nobody can choose an address that collides with another client's.
    """

    def __init__(self, rate: float, burst: int, *, buckets: RateTable, name: str, secret: bytes) -> None:
        self._cost = 1 / rate if rate else 0.0
        self._ahead = (max(1, burst) - 1) * self._cost
        self._buckets, self._name, self._secret = buckets, name.encode(), secret[:64]
        self._client = lru_cache(maxsize=4096)(self._hash)

    def seconds_to_wait(self, address: str, now: float, *, strictness: float = 1.0) -> float:
        """Return the seconds until this client may send a request; 0 if it may now. With a strictness of 2 it may send
        half as many."""
        client = self._client(address) if self._cost else 0
        return self._buckets.spend(client, now=now, cost=strictness * self._cost, ahead=self._ahead) if client else 0.0

    def _hash(self, address: str) -> int:
        """Return the hash of a client: never 0 (an empty entry) except for local sockets, which have no address."""
        if parse_ip(address) is None:
            return 0
        digest = hashlib.blake2b(client_network(address).encode(), digest_size=8, key=self._secret, person=self._name)
        return int.from_bytes(digest.digest()) or 1

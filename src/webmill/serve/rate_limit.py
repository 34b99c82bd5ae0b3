"""So many requests a second of one client, whichever process of a server it asks: buckets in memory that they share.

Of each client one number is kept: until when the requests that it has made are paid for at its rate (GCRA). It may be
so far ahead of now as `burst` requests take. Who is not ahead is as good as forgotten, so a table of fixed size does:
a few places for each hash of a client's address, of which the one that is least ahead is given away.
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

from webmill.serve.client_address import client_network, parse_ip

SETS, WAYS = 4096, 8
_ONE = Struct("=Qd")  # the hash of a client, and until when it has paid
_SET = Struct("=" + "Qd" * WAYS)
MOST_CLIENTS = SETS * WAYS
ROUNDING = 1e-6  # seconds: a sum of many doubles


class RateTable:
    """`file` is what the processes share, made by `create_table`; without one, the buckets of this process alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file.open("r+b") if file else None
        self._memory = mmap.mmap(self._file.fileno() if self._file else -1, SETS * _SET.size)

    def spend(self, client: int, *, now: float, cost: float, ahead: float) -> float:
        """Seconds until this client may; 0 when it may, and then it has paid `cost` seconds more."""
        at = client % SETS * _SET.size
        with self._held(client % SETS):
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

    @contextmanager
    def _held(self, place: int) -> Iterator[None]:
        """A byte of the file stands for a set. The kernel lets go of what a killed process held."""
        if not self._file:
            yield
            return
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, place)  # `infra.lock` has whole files only
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        self._memory.close()
        if self._file:
            self._file.close()


def create_table(file: Path) -> None:
    file.write_bytes(bytes(SETS * _SET.size))


class RateLimiter:
    """Of one origin, called `name`. `rate` requests a second, `burst` of them at once; a rate of 0 is no limit.

    `secret`: nobody can choose an address that falls on another's place.
    """

    def __init__(self, rate: float, burst: int, *, buckets: RateTable, name: str, secret: bytes) -> None:
        self._cost = 1 / rate if rate else 0.0
        self._ahead = (max(1, burst) - 1) * self._cost
        self._buckets, self._name, self._secret = buckets, name.encode(), secret[:64]
        self._client = lru_cache(maxsize=4096)(self._hash)

    def seconds_to_wait(self, address: str, now: float) -> float:
        """Seconds until this client may ask again; 0 when it may now."""
        client = self._client(address) if self._cost else 0
        return self._buckets.spend(client, now=now, cost=self._cost, ahead=self._ahead) if client else 0.0

    def _hash(self, address: str) -> int:
        """Never 0, which is an empty place, but for a socket of this machine, which has no address."""
        if parse_ip(address) is None:
            return 0
        digest = hashlib.blake2b(client_network(address).encode(), digest_size=8, key=self._secret, person=self._name)
        return int.from_bytes(digest.digest()) or 1

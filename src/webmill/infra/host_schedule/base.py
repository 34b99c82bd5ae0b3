"""When a server may be asked next: one mechanism for everything that sends requests, with two policies.

Lock the states of keys (a host, a domain, an address, a server), read them, let a policy decide, write them back. A
`StateStore` is that step. A policy is functions of values and knows no file; a store does not know why states change.

    HostSchedule   fixed_delays.py    a key is free at a known time   crawler, boards   sqlite_schedule.py (or Redis)
    Limiter        adaptive_rate.py   the server says how fast        `webmill cc`      state_file.py

docs/decisions/0018-host-schedule.md says why there are two stores.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

State = TypeVar("State", bound=msgspec.Struct)


class KeyStates(Protocol[State]):
    """The states of a store while it is locked."""

    def get(self, key: str) -> State | None:
        """Return the state of a key, None where there is none yet; `BadInput` when it is damaged."""
        ...

    def put(self, key: str, state: State) -> None: ...


class StateStore(Protocol[State]):
    """Where states are shared by the processes of a machine. The lock of a process that dies is free."""

    def locked(self) -> AbstractContextManager[KeyStates[State]]:
        """Lock the states for a block. What it put is kept when it ends well, and nothing of it when it raises.

        `Unavailable` when somebody else holds the lock for too long.
        """
        ...

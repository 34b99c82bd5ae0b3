"""The sink seam: takes a named batch of rows, durably.

Guarantees
- When `deliver` returns, all rows of the batch are where they belong, and stay there.
- The same batch under the same name may be delivered again (by a worker that was thought dead, or after a kill between
  the delivery and its record): files hold it once; a queue may hold it twice, with the same message ids.
- What `check` lets pass, `deliver` does not refuse.
- A file that another batch has left under that name is replaced, unless it is recorded as delivered: Conflict.
- Message ids begin with the name: two sinks may lead to one queue only if their batches have different names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from webmill.errors import BadInput


class SinkRow(NamedTuple):
    """A value, and its JSON without a line end."""

    value: object
    line: bytes


class Delivered(msgspec.Struct, frozen=True):
    """A delivered batch. `name` is the key of the file, or what the message ids begin with; `digest` is of the file."""

    name: str
    rows: int
    size: int = 0
    digest: str = ""


class Sink(Protocol):
    def check(self, row: SinkRow) -> None:
        """Raise BadInput (too_large, wrong_type) when the sink cannot take this row."""

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered: ...

    def close(self) -> None: ...


def check_size(size: int, limit: int, *, source: str) -> None:
    if size > limit:
        raise BadInput(f"{size:,} bytes as a message, where {limit:,} are allowed", reason="too_large", source=source)

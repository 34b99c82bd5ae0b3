"""The sink seam: takes a named batch of rows, durably.

Guarantees
- When `deliver` returns, all rows of the batch are where they belong, and stay there.
- The same batch under the same name may be delivered again (by a worker that was thought dead, or after a kill between
  the delivery and the note of it): files hold it once; a queue may hold it twice, with the same message ids.
- What `check` lets pass, `deliver` does not refuse.
- A file that another batch has left under that name is replaced, unless it is noted as delivered: Conflict.
- Message ids begin with the name: two sinks may lead to one queue only if their batches have different names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from webmill.errors import BadInput


class SinkRow(NamedTuple):
    """A value, and the same as JSON without a line end."""

    value: object
    line: bytes


class Delivered(msgspec.Struct, frozen=True):
    """`name` is the key of the file, or what the ids of the messages begin with. `digest` is of the file's bytes."""

    name: str
    rows: int
    size: int = 0
    digest: str = ""


class Sink(Protocol):
    def check(self, row: SinkRow) -> None:
        """BadInput (too_large, wrong_type): it cannot take this row."""

    def deliver(self, name: str, rows: Sequence[SinkRow]) -> Delivered: ...

    def close(self) -> None: ...


def check_size(size: int, limit: int, *, source: str) -> None:
    if size > limit:
        raise BadInput(f"{size:,} bytes as a message, and it takes {limit:,}", reason="too_large", source=source)

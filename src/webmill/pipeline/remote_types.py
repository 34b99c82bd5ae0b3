"""What the API of a server says of versions, for the server and for its client."""

from __future__ import annotations

from datetime import datetime

import msgspec


class VersionReply(msgspec.Struct, frozen=True, kw_only=True):
    """A published version. `until`: when another one took its place; None for the live one."""

    version: str
    sequence: int
    published_at: datetime
    until: datetime | None
    live: bool
    count: int


class DifferenceReply(msgspec.Struct, frozen=True, kw_only=True):
    """How a document differs between two versions: `old` and `new` are hashes of its content, None where it is not."""

    change: str  # added, changed, relabelled, removed
    id: str
    old: str | None
    new: str | None

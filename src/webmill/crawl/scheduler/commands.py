"""What a shard is told through its letter box beside links: durable, done by its owner, harmless when repeated."""

from __future__ import annotations

import msgspec


class Exclude(msgspec.Struct, frozen=True, tag="exclude"):
    domains: tuple[str, ...]


class Include(msgspec.Struct, frozen=True, tag="include"):
    domains: tuple[str, ...]


class Compact(msgspec.Struct, frozen=True, tag="compact"):
    """Drop what was consumed."""


class BackUp(msgspec.Struct, frozen=True, tag="back_up"):
    """A consistent copy of the shard's frontier into `folder`, which must be absent; it is there whole, or not."""

    folder: str


Order = Exclude | Include | Compact | BackUp

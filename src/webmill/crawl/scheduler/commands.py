"""What a shard is told through its inbox beside links: durable, done by the shard's owner, harmless when repeated."""

from __future__ import annotations

from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import Frontier


class ExcludeDomains(msgspec.Struct, frozen=True, tag="exclude"):
    domains: tuple[str, ...]


class IncludeDomains(msgspec.Struct, frozen=True, tag="include"):
    domains: tuple[str, ...]


class CompactFrontier(msgspec.Struct, frozen=True, tag="compact"):
    """Drop what was consumed."""


class BackUpFrontier(msgspec.Struct, frozen=True, tag="back_up"):
    """Copy the shard's frontier into `folder`, which must be absent. The copy appears whole, or not at all."""

    folder: str


ShardCommand = ExcludeDomains | IncludeDomains | CompactFrontier | BackUpFrontier


def apply_command(command: ShardCommand, frontier: Frontier) -> None:
    match command:
        case ExcludeDomains(domains):
            frontier.exclude(domains)
        case IncludeDomains(domains):
            frontier.include(domains)
        case CompactFrontier():
            frontier.compact()
        case BackUpFrontier(folder):
            copy = Path(folder)
            if copy.parent.is_dir() and not copy.exists():  # still wanted, and not done before a kill
                frontier.back_up(copy)

"""What care for a frontier needs beyond what a crawl opens for itself; each kind of frontier has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from webmill.crawl.backends import open_cluster
from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.options import CrawlOptions


class Look(msgspec.Struct, frozen=True):
    """What can be read of a shard while somebody else has it."""

    stats: FrontierStats
    excluded: int  # domains
    due: float | None  # when the domain that waits longest came up, or the first one will


class Tools(Protocol):
    is_shared: bool  # by nodes; then files of some shards may be elsewhere

    def look(self, folder: Path) -> Look:
        """Of a shard, by the path of its folder. NotFound when it has not begun."""
        ...

    def letters(self, file: Path) -> Iterator[bytes]:
        """All that lie in a box; none is taken."""
        ...

    def is_used_elsewhere(self) -> bool:
        """By nodes that do not hold the lock of this folder."""
        ...

    def settle(self, options: CrawlOptions, shards: int | None) -> None:
        """How many shards there are, for life, where that is not decided yet."""
        ...

    def save(self, options: CrawlOptions, shards: int, folder: Path) -> None:
        """What belongs to a copy beside the shards and their letters. After them: it may be newer, never older."""
        ...

    def restoring(self, options: CrawlOptions) -> AbstractContextManager[None]:
        """Around all of a restore. Conflict when there is such a crawl already."""
        ...

    def restore(self, source: Path, folder: Path) -> None:
        """The copy of a shard, as the shard of that folder."""
        ...

    def load(self, options: CrawlOptions, shards: int, *, saved: Path, draft: Path) -> None:
        """What was saved, where the crawl's folder is still called `draft`."""
        ...

    def close(self) -> None: ...


def frontier_tools(frontier: str | None = None, *, name: str = "") -> Tools:
    """What `webmill frontier` needs for a crawl: on one machine, or where `frontier` is a Redis on many nodes."""
    if frontier is None:
        from webmill.crawl.frontier_admin.local import LocalTools

        return LocalTools()
    from webmill.crawl.frontier_admin.redis import RedisTools

    return RedisTools(frontier, open_cluster(frontier, name=name))

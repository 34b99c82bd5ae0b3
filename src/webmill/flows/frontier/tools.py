"""What care for a frontier needs beyond what a crawl opens for itself; each backend has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from webmill.crawl.frontier.base import Stats


class Look(msgspec.Struct, frozen=True):
    """What can be read of a shard while somebody else has it."""

    stats: Stats
    excluded: int  # domains
    due: float | None  # when the domain that waits longest came up, or the first one will


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """The paths are those of `flows.crawl.options.Options`."""

    look: Callable[[Path], Look]
    restore: Callable[[Path, Path], None]  # a backup, to the folder of a shard
    letters: Callable[[Path], Iterator[bytes]]  # all that lie in a box; none is taken

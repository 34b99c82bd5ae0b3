"""What administration needs of each kind of frontier, beyond what a crawl opens for itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from webmill.crawl.backends import open_cluster
from webmill.crawl.frontier.base import FrontierStats
from webmill.crawl.frontier_admin.url_state import UrlState
from webmill.crawl.layout import CrawlFolder
from webmill.settings import Sources

if TYPE_CHECKING:
    from webmill.crawl.cluster.copying import NodesCopying


class ShardOverview(msgspec.Struct, frozen=True):
    """What can be read of a shard while another process has it."""

    stats: FrontierStats
    excluded: int  # domains
    due: float | None  # when the domain that waits longest came up, or the first one will


class FrontierBackend(Protocol):
    is_shared: bool  # by nodes; then files of some shards may be elsewhere

    def read_overview(self, folder: Path) -> ShardOverview:
        """Return the overview of a shard, by the path of its folder. NotFound when it has not begun."""
        ...

    def is_here(self, folder: Path) -> bool:
        """Tell whether the files of the shard of that folder are in it, or nowhere yet: not on another node."""
        ...

    def change_numbers(self, paths: CrawlFolder, shards: int) -> dict[str, str]:
        """Return what of each shard counts up with its changes, by the name of its folder; nothing where shards are
        never in several folders."""
        ...

    def join_copying(self, shards: list[int]) -> NodesCopying:
        """Join what the nodes of a crawl copy together while it runs. Only where shards are in several folders."""
        ...

    def find_url(self, folder: Path, url: str) -> UrlState:
        """Return what the shard of that folder knows of a URL, while another process may have it."""
        ...

    def read_messages(self, file: Path) -> Iterator[bytes]:
        """Yield the messages in an inbox; none is deleted."""
        ...

    def is_used_elsewhere(self) -> bool:
        """Tell whether nodes use the crawl that do not hold the lock of this folder."""
        ...

    def stop_run(self) -> bool:
        """End the run of all nodes, in good order. False: there is none that nodes share."""
        ...

    def change_settings(self, sources: Sources) -> str:
        """Let all nodes go on with what the file of `sources` says, and return what changes. NotFound: none runs."""
        ...

    def settle_layout(self, paths: CrawlFolder, shards: int | None) -> None:
        """Decide how many shards there are, for life, where that is not decided yet."""
        ...

    def save_shared(self, paths: CrawlFolder, shards: int, folder: Path) -> None:
        """Copy what shards share. After the shards and their messages: it may be newer, never older."""
        ...

    def restore_guard(self) -> AbstractContextManager[None]:
        """Guard all of a restore. Conflict when there is such a crawl already."""
        ...

    def restore_shard(self, source: Path, folder: Path) -> None:
        """Make the copy of a shard the shard of that folder."""
        ...

    def load_shared(self, paths: CrawlFolder, shards: int, *, saved: Path, draft: Path) -> None:
        """Restore what `save_shared` has copied, while the crawl's folder is still called `draft`."""
        ...

    def close(self) -> None: ...


def frontier_backend(frontier: str | None = None, *, name: str = "") -> FrontierBackend:
    """Return the backend of a crawl on one machine, or, where `frontier` is a Redis, on many nodes."""
    if frontier is None:
        from webmill.crawl.frontier_admin.local import LocalFrontierBackend

        return LocalFrontierBackend()
    from webmill.crawl.frontier_admin.redis import RedisFrontierBackend

    return RedisFrontierBackend(frontier, open_cluster(frontier, name=name))

"""The settings that a person has told all nodes of a running crawl, as one node takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec

from webmill.crawl.cluster.cluster_state import ClusterState, CrawlRun
from webmill.crawl.options import CrawlOptions
from webmill.crawl.reload import Name, ReloadedSettings, SettingsReloader
from webmill.crawl.stored_settings import node_values, settings_of_node
from webmill.settings import Settings, Sources, Values


class NodeReloader:
    """Returns what all nodes were told, with what this one's own file says now."""

    def __init__(
        self,
        running: Settings,
        *,
        sources: Sources,
        folder: Path,
        forget: Collection[Name],
        cluster: ClusterState,
        make_options: Callable[[Settings], CrawlOptions],
    ) -> None:
        self._sources, self._folder, self._forget, self._cluster = sources, folder, forget, cluster
        self._limits = "{}"
        self._reloader = SettingsReloader(running, read=self._read, make_options=make_options)

    def reload(self, run: CrawlRun) -> ReloadedSettings:
        self._limits = run.limits
        return self._reloader.reload()

    def _read(self) -> tuple[Settings, Values]:
        sources = self._sources.refreshed()
        node = node_values(sources, self._folder, forget=self._forget)
        running = msgspec.json.decode(self._limits, type=dict[str, Any])
        return settings_of_node(sources, node, stored=self._cluster.flags(), running=running), {}

"""The scripts of a crawl whose nodes meet in Redis. Each knows the crawl's clock (`lua/clock.lua`)."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from webmill.crawl.frontier.redis.server import RedisServer


class ClusterScripts:
    """Runs the Lua scripts of a crawl. All keys begin with `{NAME}:`, which is each script's first argument."""

    def __init__(self, server: RedisServer, name: str) -> None:
        self.server = server
        self.prefix = f"{{{name}}}:"
        self._known: dict[str, Any] = {}

    def run(self, script: str, *args: str | float) -> Any:
        if script not in self._known:
            self._known[script] = self.server.client.register_script(source("clock") + source(script))
        with self.server.errors():
            return self._known[script](args=[self.prefix, *args])


@cache
def source(name: str) -> str:
    return resources.files("webmill.crawl.cluster").joinpath("lua", f"{name}.lua").read_text()

"""TestWeb: the map, the sockets and the log, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from webmill.errors import NotFound
from webmill.testing.exchange import Answer, Page, Reply, Request, Site
from webmill.testing.features.base import Feature
from webmill.testing.features.catalog import all_features, feature_sites, foreign_names
from webmill.testing.hosts import HostMap, Resolver, ordinary_names
from webmill.testing.log import ServerLog
from webmill.testing.server import Asked, Limits, Server, listen
from webmill.testing.village import Plan, Village

ADDRESSES = tuple(f"127.0.0.{last}" for last in range(2, 18))


class TestWeb:
    """A small web of many hosts on real sockets. Use it with `with`.

    The content depends on `seed`, `hosts`, `pages_per_host` and `version` alone. `port` 0 is a free one. `pace` is the
    beat in seconds of everything slow. `sites` adds hosts of your own, by name.
    """

    __test__ = False  # not a test class, whatever its name makes pytest think

    def __init__(
        self,
        *,
        seed: int = 1,
        hosts: int = 20,
        pages_per_host: int = 15,
        addresses: Sequence[str] = ADDRESSES,
        port: int = 0,
        sites: Mapping[str, Site] | None = None,
        pace: float = 0.05,
        limits: Limits | None = None,
        log_file: Path | None = None,
        log_limit: int | None = None,
    ) -> None:
        plan = Plan(seed=seed, names=ordinary_names(hosts), pages_per_host=pages_per_host)
        self._villages = [Village(plan, index) for index in range(hosts)]
        self.features: tuple[Feature, ...] = all_features()
        self._wanted_addresses, self._wanted_port = addresses, port
        self._pace, self._limits = pace, limits or Limits()
        self._sites: dict[str, Site] = {village.name: village for village in self._villages}
        self._sites |= {**feature_sites(self.features), **(sites or {})}
        self._log_file, self._log_limit = log_file, log_limit
        self._server: Server | None = None
        self.version = 1

    def start(self) -> None:
        """Listen and serve; returns when connections are accepted."""
        sockets, self.port = listen(self._wanted_addresses, port=self._wanted_port)
        self.addresses: tuple[str, ...] = tuple(each.getsockname()[0] for each in sockets)
        self._hosts = HostMap(self._sites, addresses=self.addresses)
        self.resolve: Mapping[str, tuple[str, int]] = Resolver(self._hosts, port=self.port, elsewhere=foreign_names())
        self.log = ServerLog(path=self._log_file, limit=self._log_limit)
        self._server = Server(sockets, self._route, log=self.log, limits=self._limits, pace=self._pace)
        self._server.start()

    def close(self) -> None:
        """End every connection and the thread. Raises what a site did wrong, if one did."""
        if self._server is None:
            return
        server, self._server = self._server, None
        try:
            server.close()
        finally:
            self.log.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- the truth ---

    @property
    def names(self) -> tuple[str, ...]:
        """The well-behaved hosts; every one is reached by links from the first."""
        return tuple(village.name for village in self._villages)

    @property
    def home(self) -> str:
        """Where a walk begins."""
        return f"http://{self._villages[0].name}/"

    def advance(self) -> int:
        """Let time pass: some pages change, some vanish, some are new."""
        self.version += 1
        return self.version

    def pages(self) -> Iterator[Page]:
        """Every URL of the well-behaved hosts that links lead to, at the present version, one by one."""
        for village in self._villages:
            yield from village.pages(self.version)

    def removed(self) -> Iterator[Page]:
        """What was there in an earlier version and is now gone."""
        for village in self._villages:
            yield from village.removed(self.version)

    def body(self, url: str) -> bytes:
        """What a plain GET of the URL answers now; NotFound for unknown hosts and for answers that are scripts."""
        parts = urlsplit(url)
        name = self._hosts.name_for(parts.hostname or "", "")
        request = Request(host=parts.hostname or "", path=parts.path or "/", query=parts.query, version=self.version)
        answer = self._hosts.site(name).answer(request) if name else None
        if not isinstance(answer, Reply):
            raise NotFound(f"no plain answer at {url}")
        return answer.body

    # --- serving ---

    def _route(self, asked: Asked) -> tuple[str, Answer]:
        request = replace(asked.request, version=self.version)
        name = self._hosts.name_for(request.host, asked.address)
        if name is None:
            return request.host, Reply(status=421, media_type="")
        # Below a `*.` the name asked for is what tells the hosts apart, in the log and for the site.
        host = request.host if name.startswith("*.") else name
        return host, self._hosts.site(name).answer(replace(request, host=host))

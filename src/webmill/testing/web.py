"""TestWeb: the host map, the server and its log in one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from webmill.errors import NotFound
from webmill.testing.exchange import Answer, ExpectedPage, HttpReply, ReceivedRequest, SimulatedHost
from webmill.testing.features.base import Feature
from webmill.testing.features.catalog import all_features, feature_hosts, forbidden_addresses
from webmill.testing.hosts import HostMap, HostResolver, ordinary_names
from webmill.testing.server import AnswerLimits, RoutedRequest, WebServer, listen
from webmill.testing.server_log import ServerLog
from webmill.testing.story_host import StoryHost, WebPlan

ADDRESSES = tuple(f"127.0.0.{last}" for last in range(2, 18))


class TestWeb:
    """A small web of many hosts on real sockets. Use it as a context manager.

    The content depends on `seed`, `hosts`, `pages_per_host` and `version` alone. `port` 0 chooses a free one. `pace`
    is the length of a beat in seconds, for everything slow. `sites` adds hosts of your own, by name.
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
        sites: Mapping[str, SimulatedHost] | None = None,
        pace: float = 0.05,
        limits: AnswerLimits | None = None,
        log_file: Path | None = None,
        log_limit: int | None = None,
    ) -> None:
        plan = WebPlan(seed=seed, names=ordinary_names(hosts), pages_per_host=pages_per_host)
        self._story_hosts = [StoryHost(plan, index) for index in range(hosts)]
        self.features: tuple[Feature, ...] = all_features()
        self._wanted_addresses, self._wanted_port = addresses, port
        self._pace, self._limits = pace, limits or AnswerLimits()
        self._sites: dict[str, SimulatedHost] = {host.name: host for host in self._story_hosts}
        self._sites |= {**feature_hosts(self.features), **(sites or {})}
        self._log_file, self._log_limit = log_file, log_limit
        self._server: WebServer | None = None
        self.version = 1

    def start(self) -> None:
        """Listen and serve; return as soon as connections are accepted."""
        sockets, self.port = listen(self._wanted_addresses, port=self._wanted_port)
        self.addresses: tuple[str, ...] = tuple(each.getsockname()[0] for each in sockets)
        self._hosts = HostMap(self._sites, addresses=self.addresses)
        self.resolve: Mapping[str, tuple[str, int]] = HostResolver(
            self._hosts, port=self.port, elsewhere=forbidden_addresses()
        )
        self.log = ServerLog(path=self._log_file, limit=self._log_limit)
        self._server = WebServer(sockets, self._route, log=self.log, limits=self._limits, pace=self._pace)
        self._server.start()

    def close(self) -> None:
        """Close every connection and end the thread. Raise the error of a host, if there was one."""
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

    # --- what a crawl must find ---

    @property
    def names(self) -> tuple[str, ...]:
        """Return the well-behaved hosts; links from the first lead to each of them."""
        return tuple(host.name for host in self._story_hosts)

    @property
    def home(self) -> str:
        """Return the URL to start a crawl from."""
        return f"http://{self._story_hosts[0].name}/"

    def advance(self) -> int:
        """Move to the next version: some pages change, some are removed, some are new."""
        self.version += 1
        return self.version

    def pages(self) -> Iterator[ExpectedPage]:
        """Yield every URL of the well-behaved hosts that links lead to, at the current version."""
        for host in self._story_hosts:
            yield from host.pages(self.version)

    def removed(self) -> Iterator[ExpectedPage]:
        """Yield the pages of earlier versions that are gone now."""
        for host in self._story_hosts:
            yield from host.removed(self.version)

    def body(self, url: str) -> bytes:
        """Return the body of a plain GET of the URL; NotFound for unknown hosts and for scripted replies."""
        parts = urlsplit(url)
        name = self._hosts.name_for(parts.hostname or "", "")
        request = ReceivedRequest(
            host=parts.hostname or "", path=parts.path or "/", query=parts.query, version=self.version
        )
        answer = self._hosts.site(name).answer(request) if name else None
        if not isinstance(answer, HttpReply):
            raise NotFound(f"no plain answer at {url}")
        return answer.body

    # --- serving ---

    def _route(self, routed: RoutedRequest) -> tuple[str, Answer]:
        request = replace(routed.request, version=self.version)
        name = self._hosts.name_for(request.host, routed.address)
        if name is None:
            return request.host, HttpReply(status=421, media_type="")
        # Below a `*.` hosts differ by the requested name, in the log and for the host itself.
        host = request.host if name.startswith("*.") else name
        return host, self._hosts.site(name).answer(replace(request, host=host))

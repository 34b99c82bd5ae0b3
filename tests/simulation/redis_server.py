"""A Redis inside the simulation: fakeredis behind a network, with its own machine's clock.

The client is the real redis-py with the product's settings: it waits, gives up, and sends again by itself. What
fakeredis lacks of Redis's Lua (`cmsgpack`, `struct`) is added here. All that it has acknowledged is durable, as with
`appendfsync always`; a Redis that forgets is tested with the real one (`tests/services`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import fakeredis
import msgpack
import redis

from tests.simulation import seams
from tests.simulation.network import Network, RequestLost
from tests.simulation.world import World
from webmill.crawl.frontier.redis import server as product_server

URL = "redis://simulated:6379/0"


class SimulatedConnection(fakeredis.FakeRedisConnection):
    """A connection whose requests go through the network of its server."""

    def __init__(self, *, simulated: SimulatedRedis, **options: Any) -> None:
        self._simulated = simulated
        self._answers: list[Any] = []
        super().__init__(server=simulated.server, **options)

    def on_connect(self) -> None:
        """Send no greeting: it is no part of any protocol of ours."""

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if not self._sock:
            self.connect()
        data = b"".join(command) if isinstance(command, list) else command
        self._answers.clear()
        try:
            self._answers += self._simulated.network.call("redis", lambda: self._simulated.execute(data))
        except RequestLost as lost:
            self.disconnect()
            raise redis.TimeoutError(str(lost)) from lost

    def read_response(self, *_: Any, **options: Any) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if options.get("disable_decoding") else self._decode(answer)


class SimulatedRedis:
    def __init__(self, world: World, network: Network) -> None:
        self.network = network
        self.server = fakeredis.FakeServer(version=7)
        self._here = SimpleNamespace(machine=world.machine("redis"), world=world, is_killed=False)
        self._socket: Any = None

    def client(self, url: str = URL, **options: Any) -> redis.Redis:
        options.pop("socket_connect_timeout", None)
        pool = redis.ConnectionPool(connection_class=SimulatedConnection, simulated=self, **options)
        return redis.Redis(connection_pool=pool)

    def execute(self, data: bytes) -> list[Any]:
        """Carry out packed commands, and return their answers, errors among them."""
        return self._as_server(lambda: self._execute(data))

    def ask(self, *command: Any) -> Any:
        """Carry out one command at once, for the course of a simulation."""
        return self.execute(b"".join(redis.connection.PythonRespSerializer(6000, _encode).pack(*command)))[0]

    def _as_server(self, action: Callable[[], Any]) -> Any:
        before, seams.current = seams.current, self._here  # type: ignore[assignment]
        try:
            return action()
        finally:
            seams.current = before

    def _execute(self, data: bytes) -> list[Any]:
        if self._socket is None:
            information = fakeredis.model.ClientInfo()
            self._socket = fakeredis._socket.FakeSocket(
                self.server, client_class=redis.Redis, db=0, lua_modules=None, client_info=information
            )
            add_lua_modules(self._socket)
        self._socket.sendall(data)
        answers = []
        while not self._socket.responses.empty():
            answers.append(self._socket.responses.get())
        return answers


class CompiledScripts:
    """A Lua runtime that compiles each script once, and collects its garbage now and then instead of each time."""

    def __init__(self, runtime: Any) -> None:
        self._runtime, self._compiled = runtime, dict[Any, Any]()
        self._calls = 0

    def execute(self, script: Any) -> Any:
        self._calls += 1
        if script == "collectgarbage()" and self._calls % 1000:
            return None
        if script not in self._compiled:
            self._compiled[script] = self._runtime.compile(script)
        return self._compiled[script]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)


def _encode(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def add_lua_modules(socket: Any) -> None:
    """Give the server's Lua what Redis's has, and fakeredis's has not."""
    socket.sendall(b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n")
    socket.responses.get()
    holder = next(one for one in (socket._server, socket) if getattr(one, "_lua_runtime", None))
    runtime = holder._lua_runtime

    def unpack_message(blob: bytes) -> Any:
        return _as_table(runtime, msgpack.unpackb(blob, raw=True))

    def unpack_struct(form: bytes, blob: bytes, at: int) -> int:
        assert form == b"<I4"
        number: int = struct.unpack_from("<I", blob, int(at) - 1)[0]
        return number

    names = {b"cmsgpack": {b"unpack": unpack_message}, b"struct": {b"unpack": unpack_struct}}
    for name, functions in names.items():
        runtime.globals()[name] = runtime.table_from(functions)
        holder._lua_expected_globals.add(name)
    holder._lua_runtime = CompiledScripts(runtime)


def _as_table(runtime: Any, value: Any) -> Any:
    if isinstance(value, list):
        return runtime.table_from([_as_table(runtime, one) for one in value])
    return value


def install(simulated: SimulatedRedis) -> None:
    """Have the product's clients talk to this server."""

    class Client(redis.Redis):
        @classmethod
        def from_url(cls, url: str, **options: Any) -> Any:
            return simulated.client(url, **options)

    names = {name: getattr(redis, name) for name in dir(redis)}
    product_server.import_redis = lambda: SimpleNamespace(**{**names, "Redis": Client})
    product_server.RedisServer.promise = lambda _: product_server.RedisDurability.DURABLE  # type: ignore[method-assign]
    product_server.RedisServer.has_bloom = lambda _: False  # type: ignore[method-assign]

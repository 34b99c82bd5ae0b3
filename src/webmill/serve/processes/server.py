"""One worker process of a server: both origins, on sockets that the parent has opened."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from webmill.errors import Misconfigured
from webmill.serve.http.connection import ClientConnection
from webmill.serve.http.connection_limiter import ConnectionLimiter
from webmill.serve.processes.listener import Listener
from webmill.serve.processes.server_load import ServerLoad
from webmill.serve.site import ClientLimits

GRACE = 30  # seconds for running responses when the server is stopped
SWEEP_INTERVAL = 0.5  # seconds between two checks for slow clients
TICKS = 5  # in which the lag of the event loop is measured
SWITCH_INTERVAL = 0.0005  # seconds that a thread computes before the event loop may run; Python's is 0.005


class OriginRouter:
    """Routes a request to the application of the port that received it."""

    def __init__(self, by_port: dict[int, ASGIApp]) -> None:
        self._by_port = by_port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._by_port[scope["server"][1]](scope, receive, send)


class WorkerServer(uvicorn.Server):
    """uvicorn with our connections. It stops when `parent` closes the pipe or sends anything."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ClientLimits,
        limiter: ConnectionLimiter,
        load: ServerLoad,
        tls: ssl.SSLContext | None,
        parent: Pipe,
        on_tick: Callable[[], None],
        around: AbstractAsyncContextManager[None],
    ) -> None:
        config = uvicorn.Config(
            app,
            http=ClientConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # RequestGuard does this
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
        super().__init__(config)
        self._limits, self._limiter, self._load = limits, limiter, load
        self._tls, self._parent, self._on_tick, self._around = tls, parent, on_tick, around

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM as on a message of the parent."""
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self._around:
            await super().serve(sockets)

    def stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, with a timeout for TLS handshakes, which are not yet counted as connections."""
        await self.lifespan.startup()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._parent.fileno(), self.stop)
        timeout = self._limits.head_seconds if self._tls else None
        listeners = [
            Listener(one, self._connection, ignores=self._limiter.ignores, tls=self._tls, handshake_timeout=timeout)
            for one in sockets or []
        ]
        self.servers = cast("list[asyncio.Server]", listeners)  # uvicorn closes them and waits for their end
        self._sweeping = loop.create_task(self._sweep())
        self.started = True
        with contextlib.suppress(OSError):  # the reader notices that the parent is gone
            self._parent.send("ready")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self._sweeping.cancel()

    def _connection(self) -> ClientConnection:
        return ClientConnection(config=self.config, server_state=self.server_state, app_state={}, limiter=self._limiter)

    async def _sweep(self) -> None:
        """Measure how late the event loop is, ten times a second, and check all connections twice a second."""
        loop = asyncio.get_running_loop()
        while True:
            for _ in range(TICKS):
                due = loop.time() + SWEEP_INTERVAL / TICKS
                await asyncio.sleep(SWEEP_INTERVAL / TICKS)
                self._load.observe(loop.time() - due)
            self._limiter.close_slow()
            self._on_tick()


def serve(
    sockets: dict[socket.socket, ASGIApp],
    *,
    limits: ClientLimits,
    limiter: ConnectionLimiter,
    load: ServerLoad,
    tls: ssl.SSLContext | None,
    parent: Pipe,
    on_tick: Callable[[], None],
    around: AbstractAsyncContextManager[None] | None = None,
) -> None:
    """Serve until the parent closes the pipe, then finish running responses within `GRACE`. `on_tick` is called twice a
    second; `around` is entered in the event loop meanwhile.
    """
    _allow_files(limits.connections)
    sys.setswitchinterval(SWITCH_INTERVAL)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # it logs every client error
    app = OriginRouter({one.getsockname()[1]: app for one, app in sockets.items()})
    server = WorkerServer(
        app,
        limits=limits,
        limiter=limiter,
        load=load,
        tls=tls,
        parent=parent,
        on_tick=on_tick,
        around=around or contextlib.nullcontext(),
    )
    server.run(sockets=list(sockets))


def _allow_files(connections: int) -> None:
    """Raise the limit of open files: a connection is one, and may open another."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def tls_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """Return the context for https, TLS 1.2 or newer, or None without a certificate."""
    if not certificate:
        if key:
            raise Misconfigured("--key needs --certificate as well")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path in filter(None, (certificate, key)):
        if not Path(path).is_file():
            raise Misconfigured(f"{path} does not exist: --certificate and --key must name PEM files")
    try:
        context.load_cert_chain(certificate, key or None)
    except (ssl.SSLError, OSError) as error:
        raise Misconfigured(
            f"{certificate} and {key or 'its key'} are not a matching certificate and key in PEM format ({error})"
        ) from error
    return context

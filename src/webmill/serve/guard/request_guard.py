"""Middleware around both origins: checks the Host header, the rate limit, the method and the origin of every request,
and counts and logs every response."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.serve.guard.access_log import AccessLog
from webmill.serve.guard.authorization import CHALLENGES, has_token
from webmill.serve.guard.client_address import CLIENT_KEY, TrustedProxies, client_network, parse_ip
from webmill.serve.guard.rate_limit import RateLimiter, RateTable
from webmill.serve.http.pause import pause_client
from webmill.serve.http.responses import HEADERS_KEY, READ_ONLY_REFUSAL, Header, send_refusal
from webmill.serve.processes.fair_slots import ClientDisconnected
from webmill.serve.processes.metrics import BYTES, KINDS, REFUSED, REQUESTS, SECONDS, STATUSES, status_class
from webmill.serve.processes.shared_counters import SharedCounters
from webmill.serve.site import Site

log = logging.getLogger(__name__)

KIND_OF: dict[str, str] = {
    **dict.fromkeys(("latest.json", "snapshots", "blobs"), "delivery"),
    **dict.fromkeys(("crawl-data", "cc-index"), "files"),
    **dict.fromkeys(("collinfo.json", "cdx", "timemap", "timegate"), "cdx"),
    **dict.fromkeys(("healthz", "readyz", "metrics", "version"), "operations"),
    "raw": "capture",
    "picture": "capture",
    "web": "replay",
    "search": "search",
    "api": "search",
}
CRAWL_PATHS = (["cdx"], ["timemap"], ["timegate"])  # behind the name of a crawl
MOST_HOSTS = 1024
PAGE_RESOURCES = 10  # requests of an archived page for one of ours
LEAST_PAUSE = 1.0  # seconds without reading after a request too many
_HOST = re.compile(
    rb"(?:([A-Za-z0-9._-]+)|\[([0-9A-Fa-f:.]+)\])(?::[0-9]{0,5})?"
)  # no character that would end a host in a URL
LOCAL = frozenset({"localhost"})
EXPOSED_HEADERS = (
    "Accept-Ranges, Content-Encoding, Content-Length, Content-Range, ETag, Link, Memento-Datetime, Retry-After"
)
ALLOWED_HEADERS = "Accept, Accept-Datetime, If-Match, If-Modified-Since, If-None-Match, If-Range, Range"


class RequestGuard:
    """Guards the application of one origin."""

    def __init__(self, app: ASGIApp, site: Site, *, is_replay: bool = False, access: AccessLog | None = None) -> None:
        self._app, self._site, self._is_replay, self._access = app, site, is_replay, access
        share = PAGE_RESOURCES if is_replay and site.zone else 1
        self._rate_limiter = RateLimiter(
            share * site.limits.rate,
            share * site.limits.burst,
            buckets=RateTable(site.buckets),
            name="replay" if is_replay else "own",
            secret=site.secret,
        )
        address = site.replay_address if is_replay else site.address
        self._names = LOCAL | site.hosts_of(address)
        if site.zone and not is_replay:
            self._names |= {urlsplit(site.zone.view).hostname or ""}
        self._zone = site.zone if is_replay else None
        self._scheme = urlsplit(address).scheme  # as clients see it: a proxy may terminate TLS
        self._passed: set[tuple[bytes, str]] = set()  # host headers that were checked and are ours
        self._proxies = TrustedProxies(site.proxies)
        self._counts = RequestCounters(site.metrics)
        self._cors = CorsPolicy(site.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        kind = self._kind(scope)
        headers: dict[bytes, bytes] = {}
        hosts = 0
        for name, value in scope["headers"]:
            headers[name] = value
            hosts += name == b"host"
        scope[HEADERS_KEY], scope["scheme"] = headers, self._scheme
        address = self._client(scope, headers)
        scope[CLIENT_KEY] = client_network(address)
        cors = () if self._is_replay else self._cors.headers(headers.get(b"origin"))
        status = size = 0
        is_complete = False

        async def answer(message: Message) -> None:
            nonlocal status, size, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                if cors:
                    message = {**message, "headers": [*message["headers"], *cors]}
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
            await send_unless_closed(send, message)

        try:
            with suppress(ClientDisconnected):
                if not await self._refuse_invalid(scope, headers, hosts, address, answer):
                    await self._app(scope, receive, answer)
        except Exception:
            log.exception("response failed", extra={"path": scope["path"][:1000]})
            if status and not is_complete:
                raise  # partly sent: break the connection, so that it is not taken for complete
            if not status:
                message = "internal error; see the log of the server"
                await send_refusal(answer, headers, 500, message, path=scope["path"])
        finally:
            seconds = time.perf_counter() - began
            size = 0 if scope["method"] == "HEAD" else size
            self._counts.add(kind, status, size, seconds)
            if self._access:
                self._access.add(scope, address=address, status=status, kind=kind, size=size, seconds=seconds)

    def _kind(self, scope: Scope) -> str:
        if self._is_replay:
            return "replay"
        if scope["method"] == "POST":
            return "control"
        path: str = scope["path"]
        kind = KIND_OF.get(path[1:].partition("/")[0])
        if kind is None:
            return "cdx" if path.endswith("-index") or path.split("/", 3)[2:3] in CRAWL_PATHS else "page"
        return kind

    async def _refuse_invalid(
        self, scope: Scope, headers: dict[bytes, bytes], hosts: int, address: str, answer: Send
    ) -> bool:
        """Send the first refusal that applies; return whether there was one."""
        host, method = headers.get(b"host", b""), scope["method"]
        local = scope.get("server") or ("", 0)
        if hosts != 1:
            return await self._refuse(scope, answer, 400, "host", "a request must have exactly one Host header")
        if (host, local[0]) not in self._passed and not self._is_ours(host, local[0]):
            name = host[:200].decode("utf-8", "replace")
            message = f"this server does not answer to the host name {name}: allow it with --allow-host or serve.hosts"
            return await self._refuse(scope, answer, 421, "host", message)
        wait = self._rate_limiter.seconds_to_wait(address, time.monotonic(), strictness=self._site.load.strictness)
        if wait:
            pause_client(scope, max(wait, LEAST_PAUSE))
            more = [(b"retry-after", str(int(wait) + 1).encode())]
            return await self._refuse(scope, answer, 429, "rate", "too many requests; slow down", more)
        if method in ("GET", "HEAD") or self._is_of_zone(host):
            return False
        if method == "OPTIONS" and not self._is_replay and self._cors.is_preflight(headers):
            await self._cors.preflight(answer)
            return True
        if method != "POST" or self._is_replay:
            return await self._refuse(scope, answer, 405, "method", *READ_ONLY_REFUSAL)
        if not is_same_origin(headers, host):
            return await self._refuse(scope, answer, 403, "origin", "refused: this request was sent by another site")
        if self._site.token and not has_token(self._site.token, headers.get(b"authorization", b"")):
            message = "this action needs the token of this server"
            return await self._refuse(scope, answer, 401, "token", message, CHALLENGES)
        return False

    async def _refuse(
        self,
        scope: Scope,
        answer: Send,
        status: int,
        reason: str,
        message: str,
        more: Iterable[Header] = (),
    ) -> bool:
        self._counts.refuse(reason)
        await send_refusal(answer, scope[HEADERS_KEY], status, message, more, path=scope["path"])
        return True

    def _is_ours(self, host: bytes, local: str) -> bool:
        """Return whether the Host header is a configured name or the local address, and not a foreign name that
        resolves to us (DNS rebinding)."""
        found = _HOST.fullmatch(host)
        name = (found[1] or found[2]).decode().lower() if found else ""
        if name not in self._names and not _same_address(name, local) and not self._is_of_zone(host):
            return False
        if len(self._passed) >= MOST_HOSTS:
            self._passed.clear()
        self._passed.add((host, local))
        return True

    def _is_of_zone(self, host: bytes) -> bool:
        """Return whether this is an origin of the replay zone, whose own policy says what may be asked there."""
        return self._zone is not None and self._zone.is_zone_host(host.partition(b":")[0].decode("latin-1").lower())

    def _client(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        address: str = scope["client"][0] if scope.get("client") else ""
        if not self._site.proxies:
            return address
        return self._proxies.client(address, headers.get(b"x-forwarded-for", b"").decode("latin-1"))


async def send_unless_closed(send: Send, message: Message) -> None:
    """Send it, or nothing if the client has closed the connection and uvicorn does not know it yet."""
    try:
        await send(message)
    except RuntimeError as error:
        if "the handler is closed" not in str(error):  # uvloop's words
            raise


class RequestCounters:
    """The counters of requests; their cells are looked up once."""

    def __init__(self, counters: SharedCounters) -> None:
        self._counters = counters
        self._requests = {
            (kind, status): counters.offset(REQUESTS, kind=kind, status=status) for kind in KINDS for status in STATUSES
        }
        self._bytes = {kind: counters.offset(BYTES, kind=kind) for kind in KINDS}
        self._seconds = {kind: counters.offset(SECONDS, kind=kind) for kind in KINDS}

    def add(self, kind: str, status: int, size: int, seconds: float) -> None:
        """Count a response; status 0: the client disconnected before there was one."""
        counters = self._counters
        if status:
            counters.add(self._requests[kind, status_class(status)])
        counters.add(self._bytes[kind], size)
        counters.observe_at(self._seconds[kind], SECONDS.buckets, seconds)

    def refuse(self, reason: str) -> None:
        self._counters.count(REFUSED, reason=reason)


class CorsPolicy:
    """Which origins may read by script. Credentials are never allowed."""

    def __init__(self, origins: frozenset[str]) -> None:
        self._origins = frozenset(origin.rstrip("/").lower().encode() for origin in origins)
        self._is_open = "*" in origins

    def is_preflight(self, request_headers: dict[bytes, bytes]) -> bool:
        """Return whether this is a preflight request of an allowed origin."""
        is_allowed = self._is_open or request_headers.get(b"origin") in self._origins
        return is_allowed and b"access-control-request-method" in request_headers

    def headers(self, origin: bytes | None) -> tuple[Header, ...]:
        exposed = (b"access-control-expose-headers", EXPOSED_HEADERS.encode())
        if not self._origins:
            return ()
        if self._is_open:
            return (b"access-control-allow-origin", b"*"), exposed
        if origin not in self._origins:
            return ((b"vary", b"Origin"),)
        return (b"access-control-allow-origin", origin), exposed, (b"vary", b"Origin")

    async def preflight(self, answer: Send) -> None:
        headers = [
            (b"access-control-allow-methods", b"GET, HEAD"),
            (b"access-control-allow-headers", ALLOWED_HEADERS.encode()),
            (b"access-control-max-age", b"86400"),
        ]
        await answer({"type": "http.response.start", "status": 204, "headers": headers})
        await answer({"type": "http.response.body"})


def is_same_origin(headers: dict[bytes, bytes], host: bytes) -> bool:
    """Return whether our own page or a program sent this; browsers say so in headers that scripts cannot change."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
        return False
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2].lower() == host.lower()


def _same_address(name: str, local: str) -> bool:
    found = parse_ip(name)
    return found is not None and found == parse_ip(local)

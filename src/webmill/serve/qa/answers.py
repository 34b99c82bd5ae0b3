"""Who answers the browser of a quality check: the archive itself, or the replay server. Neither has a network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec
from starlette.types import ASGIApp, Message

from webmill.errors import BadInput, NotFound, WebmillError
from webmill.formats.url.normalise import normalise
from webmill.serve.captures.response import clean_header, read_up_to
from webmill.serve.replay.content import status_of
from webmill.serve.replay.fuzzy_match import ReplayRequest, find_capture, rename_callback
from webmill.serve.replay.labels import ReplayZone
from webmill.serve.replay.nearest_capture import location_header, redirect_target
from webmill.serve.site import Site

MOST_BODY = 32 << 20
# About bytes that the browser does not see, and what would open connections or ask for passwords.
_LEFT_OUT = frozenset(
    {
        *("content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive", "trailer", "upgrade"),
        *("strict-transport-security", "alt-svc", "report-to", "nel", "reporting-endpoints", "www-authenticate"),
        *("proxy-authenticate", "te", "content-security-policy-report-only", "set-cookie2"),
    }
)


class AskedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the browser makes it. `destination` is its Sec-Fetch-Dest."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    destination: str = ""
    mode: str = ""

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`missing`: the URL is not in the archive. `leak`: the request would have left it."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    missing: str = ""
    leak: str = ""


Answerer = Callable[[AskedRequest], Awaitable[GivenAnswer]]


def archive_answers(site: Site, timestamp: str) -> Answerer:
    """Return what answers from the archive alone, without any rewriting."""

    async def answer(asked: AskedRequest) -> GivenAnswer:
        return await asyncio.to_thread(_from_archive, site, timestamp, asked)

    return answer


def _from_archive(site: Site, timestamp: str, asked: AskedRequest) -> GivenAnswer:
    allowed = _cors_headers(asked)
    if asked.method == "OPTIONS":
        return GivenAnswer(status=204, headers=allowed)
    try:
        found = find_capture(
            site,
            ReplayRequest(
                url=normalise(asked.url),
                timestamp=timestamp,
                method=asked.method,
                content_type=asked.header("content-type"),
                body=asked.body,
                destination=asked.destination,
            ),
        )
    except NotFound:
        return GivenAnswer(status=404, headers=allowed, missing=asked.url)
    except WebmillError:
        return GivenAnswer(status=502, headers=allowed)
    archived = found.archived
    try:
        body, rest = read_up_to(archived.content(), MOST_BODY)
        if rest is not None:
            return GivenAnswer(status=502, headers=allowed)
        if found.callback:
            body = rename_callback(body.decode("latin-1"), found.callback).encode("latin-1", "replace")
        kept = tuple(
            (name, clean_header(value)) for name, value in archived.headers.pairs if name.lower() not in _LEFT_OUT
        )
        if not archived.head and archived.content_type:
            kept = (*kept, ("Content-Type", clean_header(archived.content_type)))
        is_redirect = redirect_target(archived) is not None and location_header(archived)
        return GivenAnswer(
            status=archived.status if is_redirect else status_of(archived), headers=(*kept, *allowed), body=body
        )
    except NotFound:
        return GivenAnswer(status=502, headers=allowed)
    finally:
        archived.close()


def _cors_headers(asked: AskedRequest) -> tuple[tuple[str, str], ...]:
    if asked.method != "OPTIONS":
        return ()
    return (
        ("Access-Control-Allow-Origin", asked.header("origin") or "*"),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("Access-Control-Allow-Headers", asked.header("access-control-request-headers")),
    )


def server_answers(app: ASGIApp, zone: ReplayZone) -> Answerer:
    """Return what answers as the replay server does: its application, without a socket."""

    async def answer(asked: AskedRequest) -> GivenAnswer:
        parts = urlsplit(asked.url)
        if not zone.is_zone_host(parts.hostname or ""):
            return GivenAnswer(status=0, leak=asked.url)
        given = await call_application(app, asked)
        is_missing = any(name == "server-timing" and "webmill-missing" in value for name, value in given.headers)
        if not is_missing:
            return given
        return msgspec.structs.replace(given, missing=zone.original_of(asked.url) or asked.url)

    return answer


async def call_application(app: ASGIApp, asked: AskedRequest) -> GivenAnswer:
    """Return the application's answer to a request."""
    parts = urlsplit(asked.url)
    fields = [
        (name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in asked.headers
    ]
    fields = [(b"host", parts.netloc.encode()), *((name, value) for name, value in fields if name != b"host")]
    fields += [(b"sec-fetch-dest", asked.destination.encode()), (b"sec-fetch-mode", asked.mode.encode())]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": parts.scheme,
        "path": parts.path or "/",
        "raw_path": (parts.path or "/").encode("ascii", "replace"),
        "query_string": parts.query.encode("ascii", "replace"),
        "root_path": "",
        "headers": fields,
        "client": ("127.0.0.1", 1),
        "server": (parts.hostname or "", parts.port or 80),
    }
    sent = [{"type": "http.request", "body": asked.body, "more_body": False}]
    status, headers, body = 500, list[tuple[str, str]](), bytearray()

    async def receive() -> Message:
        if sent:
            return sent.pop()
        await asyncio.Event().wait()  # it never disconnects
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.extend(
                (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message["headers"]
            )
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))
            if len(body) > MOST_BODY:
                raise BadInput("the answer is too large for a check", reason="too_large")

    try:
        await app(scope, receive, send)
    except BadInput:
        return GivenAnswer(status=502)
    kept = tuple(pair for pair in headers if pair[0] not in ("content-length", "transfer-encoding", "connection"))
    return GivenAnswer(status=status, headers=kept, body=bytes(body))

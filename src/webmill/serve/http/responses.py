"""Error responses for programs and people, and the headers that every response carries."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.forgotten import TakenDown
from webmill.serve.http.error_bodies import error_body, title_of
from webmill.serve.processes.fair_slots import ClientDisconnected, Overloaded
from webmill.serve.site import Site

log = logging.getLogger(__name__)

Header = tuple[bytes, bytes]
HEADERS_KEY = "webmill.headers"  # scope key of the headers by name, set by RequestGuard

STATUS: dict[type[WebmillError], int] = {
    BadInput: 400,
    TakenDown: 451,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    Misconfigured: 503,
}
READ_ONLY_REFUSAL = "method not allowed: use GET or HEAD", ((b"allow", b"GET, HEAD"),)
NO_STORE = {"Cache-Control": "no-store"}
INERT_POLICY = b"default-src 'none'; frame-ancestors 'none'; sandbox"
COMMON: dict[bytes, bytes] = {b"x-content-type-options": b"nosniff"}
PERMISSIONS = b"camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()"
_BEGINNING = r"""(?<![^\s'"`(\[=:<])"""  # of a word: a path within a URL is not a local path
_PART = r"""[^\s/'"`:;,()]"""
SMALL_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
</head><body><main><h1>{title}</h1><p>{message}</p></main></body></html>
"""
# /web/… and the like are our own URLs.
_PATH = re.compile(rf"{_BEGINNING}/(?!web/|raw/|static/)(?:(?:{_PART}+/)+({_PART}*)|({_PART}+))")
_SERVER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"`(),;]+[^\s'\"`(),;:.]")
_HOST = re.compile(r"://(?:[^\s/@]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:'\"`(),;]+)")
_CONNECTION = re.compile(r"\b\w*Connection\w*\(host=[^)]*\)(?:: )?")  # how messages of urllib3 start


def data_headers(site: Site) -> dict[bytes, bytes]:
    """Return the headers of data: it loads nothing and cannot be embedded by other sites."""
    shared = b"cross-origin" if site.origins else b"same-origin"
    return (
        COMMON
        | transport_security(site)
        | {b"cross-origin-resource-policy": shared, b"content-security-policy": INERT_POLICY}
    )


def security_headers(site: Site) -> dict[bytes, bytes]:
    """Return the default headers of every response of our own origin."""
    return data_headers(site) | {b"permissions-policy": PERMISSIONS, b"referrer-policy": b"no-referrer"}


def transport_security(site: Site) -> dict[bytes, bytes]:
    is_secure = site.address.startswith("https:")
    return {b"strict-transport-security": b"max-age=31536000"} if is_secure else {}


class DefaultHeaders:
    """Middleware that adds headers which the response does not set itself."""

    def __init__(self, app: ASGIApp, headers: Mapping[bytes, bytes]) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                more = [header for header in self._headers.items() if header[0] not in present]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, complete)


class NoResponse(Response):
    """A response to a client that has disconnected: sends nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pass


def status_of(error: WebmillError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def message_of(error: WebmillError, root: Path) -> str:
    """Return the message for clients: without folders outside the collection and without names of backend servers.
    The log has them.
    """
    message = error.message if isinstance(error, BadInput) else str(error)
    if isinstance(error, Conflict | Unavailable | Misconfigured):  # others are about URLs that were requested
        message = _without_servers(message)
    if root.name:  # a root of `/` needs no special case
        here = re.compile(rf"{_BEGINNING}{re.escape(str(root))}(?:(/)(?={_PART})|/?(?!{_PART}))")
        message = here.sub(lambda found: "" if found[1] else "the collection", message)
    return _PATH.sub(lambda found: found[1] or found[2] or "a folder", message)


def _without_servers(message: str) -> str:
    """Return the message without URLs and host names of servers ("cannot resolve 'search.internal'")."""
    hosts = "|".join(re.escape(host.strip("[]")) for host in dict.fromkeys(_HOST.findall(message)))
    message = _SERVER.sub("its server", _CONNECTION.sub("", message))
    return re.sub(rf"(?<![\w.-])(?:{hosts})(?![\w-])", "its server", message) if hosts else message


def json_message(status: int, message: str, headers: Mapping[str, str] = NO_STORE, *, path: str = "") -> Response:
    """Return an error for programs, in the form that those expect which ask for this path."""
    body, media_type = error_body(path, status, message)
    return Response(body, status_code=status, media_type=media_type, headers=dict(headers))


def headers_of(error: WebmillError) -> dict[str, str]:
    if isinstance(error, Unavailable):
        return NO_STORE | {"Retry-After": str(max(1, round(error.retry_after or 5)))}
    return NO_STORE


def exception_handlers(site: Site) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    """Return exception handlers for Starlette: error pages for browsers, JSON for programs."""
    from webmill.serve.pages.errors import error_page, wants_page

    async def webmill_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, WebmillError)
        log_server_error(error)
        if not wants_page(request):
            message = message_of(error, site.root)
            return json_message(status_of(error), message, headers_of(error), path=request.url.path)
        answer = error_page(site, request, status=status_of(error), message=message_of(error, site.root))
        answer.headers.update(headers_of(error))
        return answer

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if wants_page(request) and error.status_code >= 400:
            answer = error_page(site, request, status=error.status_code, message=error.detail)
            answer.headers.update(error.headers or {})
            return answer
        headers = NO_STORE | dict(error.headers or {})
        return json_message(error.status_code, error.detail, headers, path=request.url.path)

    async def disconnected(_: Request, __: Exception) -> Response:
        return NoResponse()

    return {WebmillError: webmill_error, HTTPException: http_error, ClientDisconnected: disconnected}


def log_server_error(error: WebmillError) -> None:
    """Log an error that is not the client's fault, with the details that clients do not get."""
    if status_of(error) >= 500 and not isinstance(error, Overloaded):
        log.warning("request failed", extra={"why": str(error)})


async def send_error(send: Send, request_headers: Mapping[bytes, bytes], error: WebmillError, root: Path) -> None:
    log_server_error(error)
    headers = [(name.lower().encode(), value.encode()) for name, value in headers_of(error).items()]
    more = [header for header in headers if header[0] != b"cache-control"]
    await send_refusal(send, request_headers, status_of(error), message_of(error, root), more)


def minimal_page(title: str, message: str) -> str:
    """Return a page without style sheet, for early refusals and for the replay origin."""
    return SMALL_PAGE.format(title=html.escape(title), message=html.escape(message))


async def send_refusal(
    send: Send,
    request_headers: Mapping[bytes, bytes],
    status: int,
    message: str,
    more: Iterable[Header] = (),
    *,
    path: str = "",
) -> None:
    """Send an error without Starlette: refusals should cost little."""
    if b"text/html" in request_headers.get(b"accept", b""):
        body, kind = minimal_page(title_of(status), message).encode("utf-8", "replace"), "text/html; charset=utf-8"
    else:
        body, kind = error_body(path, status, message)
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", INERT_POLICY),
        *COMMON.items(),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

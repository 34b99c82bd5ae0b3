"""Errors of ours as answers, for programs and for people alike."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError
from webmill.serve.site import Site

Header = tuple[bytes, bytes]
HEADERS = "webmill.headers"  # in a scope: by name, as the gate has read them

STATUS: dict[type[WebmillError], int] = {
    BadInput: 400,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    Misconfigured: 503,
}
NO_STORE = {"Cache-Control": "no-store"}
INERT = b"default-src 'none'; frame-ancestors 'none'; sandbox"
COMMON: dict[bytes, bytes] = {b"x-content-type-options": b"nosniff"}
PERMISSIONS = b"camera=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()"


def inert(site: Site) -> dict[bytes, bytes]:
    """For data, which is no document: it opens nothing, and no other site may show it as a part of its own."""
    shared = b"cross-origin" if site.origins else b"same-origin"
    return COMMON | _strict(site) | {b"cross-origin-resource-policy": shared, b"content-security-policy": INERT}


def security(site: Site, *, is_replay: bool = False) -> dict[bytes, bytes]:
    """What every answer carries that does not say otherwise itself."""
    headers = COMMON | _strict(site) | {b"permissions-policy": PERMISSIONS}
    if is_replay:  # archived pages have an origin of nobody: to them, all that they are made of is of another origin
        return headers | {b"cross-origin-resource-policy": b"cross-origin", b"content-security-policy": b"sandbox"}
    return headers | inert(site) | {b"referrer-policy": b"no-referrer"}


def _strict(site: Site) -> dict[bytes, bytes]:
    is_secure = site.address.startswith("https:")
    return {b"strict-transport-security": b"max-age=31536000"} if is_secure else {}


class Sealed:
    """An application whose answers carry `security`, where they do not say otherwise."""

    def __init__(self, app: ASGIApp, headers: Mapping[bytes, bytes]) -> None:
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                said = {name.lower() for name, _ in message["headers"]}
                more = [header for header in self._headers.items() if header[0] not in said]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        await self._app(scope, receive, sealed)


def status_of(error: WebmillError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def message_of(error: WebmillError) -> str:
    """Without places on our disk: what is damaged here is told in our log."""
    return error.message if isinstance(error, BadInput) else str(error)


def as_json(_: Request, error: Exception) -> Response:
    assert isinstance(error, WebmillError)
    return JSONResponse({"message": message_of(error)}, status_code=status_of(error), headers=headers_of(error))


def headers_of(error: WebmillError) -> dict[str, str]:
    if isinstance(error, Unavailable):
        return NO_STORE | {"Retry-After": str(max(1, round(error.retry_after or 5)))}
    return NO_STORE


def error_answers(site: Site) -> dict[type[Exception], Callable[[Request, Exception], Response]]:
    """For Starlette: pages for browsers, JSON for programs."""
    from webmill.serve.pages.errors import error_page, wants_page

    def of_ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, WebmillError)
        if not wants_page(request):
            return as_json(request, error)
        answer = error_page(site, request, status=status_of(error), message=message_of(error))
        answer.headers.update(headers_of(error))
        return answer

    def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if wants_page(request) and error.status_code >= 400:
            answer = error_page(site, request, status=error.status_code, message=error.detail)
            answer.headers.update(error.headers or {})
            return answer
        headers = NO_STORE | dict(error.headers or {})
        return JSONResponse({"message": error.detail}, status_code=error.status_code, headers=headers)

    return {WebmillError: of_ours, HTTPException: of_http}


async def refuse_error(send: Send, asked: Mapping[bytes, bytes], error: WebmillError) -> None:
    headers = [(name.lower().encode(), value.encode()) for name, value in headers_of(error).items()]
    more = [header for header in headers if header[0] != b"cache-control"]
    await refusal(send, asked, status_of(error), message_of(error), more)


async def refusal(
    send: Send, asked: Mapping[bytes, bytes], status: int, message: str, more: Iterable[Header] = ()
) -> None:
    """Without Starlette: what is refused should cost little."""
    if b"text/html" in asked.get(b"accept", b""):
        phrase, kind = HTTPStatus(status).phrase, b"text/html; charset=utf-8"
        text = f"<!doctype html><html lang=en><title>{phrase}</title><h1>{phrase}</h1><p>{html.escape(message)}</p>\n"
    else:
        text, kind = json.dumps({"message": message}), b"application/json"
    body = text.encode("utf-8", "replace")
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"content-security-policy", INERT),
        *COMMON.items(),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

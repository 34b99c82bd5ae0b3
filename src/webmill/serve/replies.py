"""Errors of ours as answers, for programs and for people alike."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound, Unavailable, WebmillError

STATUS: dict[type[WebmillError], int] = {
    BadInput: 400,
    NotFound: 404,
    Conflict: 409,
    Unavailable: 503,
    Misconfigured: 503,
}
NO_STORE = {"Cache-Control": "no-store"}


def status_of(error: WebmillError) -> int:
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def message_of(error: WebmillError) -> str:
    """Without places on our disk: what is damaged here is told in our log."""
    return error.message if isinstance(error, BadInput) else str(error)


def as_json(_: Request, error: Exception) -> Response:
    assert isinstance(error, WebmillError)
    headers = dict(NO_STORE)
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(max(1, round(error.retry_after or 5)))
    return JSONResponse({"message": message_of(error)}, status_code=status_of(error), headers=headers)

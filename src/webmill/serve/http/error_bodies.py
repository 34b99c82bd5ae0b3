"""The bodies of errors for programs: problem details (RFC 9457) from the API, `{"message": …}` from the routes whose
clients know nothing else (CDX API, Memento, files)."""

from __future__ import annotations

from http import HTTPStatus

import msgspec

JSON = "application/json"
PROBLEM = "application/problem+json"
API_PATHS = ("/api", "/openapi.json", "/llms.txt", "/documents/item.md", "/collections.json")


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong (RFC 9457). `detail` and `message` are the same sentence for people; `message` came first."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    message: str


class ErrorMessage(msgspec.Struct, frozen=True):
    """What went wrong, as clients of CDX servers expect it."""

    message: str


def is_of_api(path: str) -> bool:
    """Return whether programs are answered by problem details there."""
    return any(path == one or path.startswith(f"{one}/") for one in API_PATHS)


def error_body(path: str, status: int, message: str) -> tuple[bytes, str]:
    """Return the body of an error and its media type."""
    message = message.encode("utf-8", "replace").decode()  # a path may have been no UTF-8
    if not is_of_api(path):
        return msgspec.json.encode(ErrorMessage(message)), JSON
    found = ProblemDetails(title=title_of(status), status=status, detail=message, message=message)
    return msgspec.json.encode(found), PROBLEM


def title_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

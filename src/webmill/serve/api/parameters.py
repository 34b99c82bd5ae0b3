"""Reads and checks values of a query string."""

from __future__ import annotations

from starlette.requests import Request

from webmill.errors import BadInput


def read_text(request: Request, name: str, *, longest: int = 4_000) -> str:
    value = request.query_params.get(name, "")
    if len(value) > longest:
        raise BadInput(f"{name} has {len(value):,} characters; at most {longest:,} are allowed", reason="bad_query")
    return value


def read_number(request: Request, name: str, *, default: int, low: int, high: int) -> int:
    value = request.query_params.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdigit()) or len(value) > 12 or not low <= int(value) <= high:
        raise BadInput(f"{name} must be a number from {low:,} to {high:,}", reason="bad_query")
    return int(value)


def read_choice(request: Request, name: str, known: tuple[str, ...]) -> str:
    """Return the value if it is one of `known`, or nothing if it is not given."""
    value = request.query_params.get(name, "")
    if value and value not in known:
        raise BadInput(f"{name} must be one of {', '.join(known)}", reason="bad_query")
    return value

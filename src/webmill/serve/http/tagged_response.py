"""Answers that clients may keep and ask for again: with an ETag of the body, and 304 to those that have it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from webmill.serve.http.conditional_requests import is_not_modified

REVALIDATED = {"Cache-Control": "no-cache"}


def tagged_response(
    request: Request, body: bytes, *, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the body, or 304 if the client has it already."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    named = {**REVALIDATED, **(headers or {}), "ETag": etag}
    if is_not_modified(dict(request.headers.raw), etag.encode()):
        return Response(status_code=304, headers=named)
    return Response(body, media_type=media_type, headers=named)

"""Requests that change something. RequestGuard has checked their origin and, where one is set, the token.

A browser asks for the token (Basic: any name, the token as password); a program sends `Authorization: Bearer TOKEN`.
Since a browser would also send its password for requests of other sites, our forms carry a signature as well.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import b64decode

from starlette.requests import Request

from webmill.serve.site import Site

CHALLENGES = [
    (b"www-authenticate", b'Basic realm="webmill: any name, and the token as password", charset="UTF-8"'),
    (b"www-authenticate", b'Bearer realm="webmill"'),
]


def is_authorized(request: Request, site: Site, *, action: str, stamp: str) -> bool:
    """Return whether this came from our form for this action, or from a program with the token."""
    return _token_matches(
        site.token, request.headers.get("authorization", "").encode("latin-1"), b"bearer"
    ) or site.is_signed(action, stamp)


def has_token(token: str, authorization: bytes) -> bool:
    return _token_matches(token, authorization, b"bearer") or _token_matches(token, authorization, b"basic")


def _token_matches(token: str, authorization: bytes, wanted: bytes) -> bool:
    scheme, _, credentials = authorization.partition(b" ")
    if not token or scheme.lower() != wanted:
        return False
    return hmac.compare_digest(token.encode(), _password(credentials) if wanted == b"basic" else credentials.strip())


def _password(credentials: bytes) -> bytes:
    try:
        return b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""

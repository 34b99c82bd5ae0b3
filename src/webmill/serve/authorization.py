"""Requests that change something. The gate has looked where each comes from, and whether it bears the token of the
server, where the operator has set one: then others than the operator can open our pages.

A person's browser asks for the token (Basic: any name, the token as password); a program sends
`Authorization: Bearer TOKEN`. A browser would send what it knows for other sites, too: its forms carry a stamp besides.
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
    """Whether this was sent by a form of ours for this action, or by a program that bears the token."""
    return _token_matches(
        site.token, request.headers.get("authorization", "").encode("latin-1"), b"bearer"
    ) or site.is_signed(action, stamp)


def has_token(token: str, authorization: bytes) -> bool:
    return _token_matches(token, authorization, b"bearer") or _token_matches(token, authorization, b"basic")


def _token_matches(token: str, authorization: bytes, wanted: bytes) -> bool:
    scheme, _, said = authorization.partition(b" ")
    if not token or scheme.lower() != wanted:
        return False
    return hmac.compare_digest(token.encode(), _password(said) if wanted == b"basic" else said.strip())


def _password(said: bytes) -> bytes:
    try:
        return b64decode(said.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""

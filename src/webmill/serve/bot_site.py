"""The pages of a crawler over HTTP: as `pipeline/bot.py` makes them, with the keys of the moment.

The directory of keys is signed by each of them, for the host that was asked, as the drafts want it: whoever reads it
knows that the holder of the keys speaks for this host.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from webmill.formats.http.message_signature import DIRECTORY_TAG, SignatureFields, sign_fields
from webmill.infra.bot_keys import load_signer, read_identity
from webmill.pipeline.bot import DIRECTORY, TYPES, page_of

MAX_AGE = 3600  # seconds that a page may be kept
MAX_HOST = 255


def make_bot_site(folder: Path, *, clock: Callable[[], float]) -> Starlette:
    """Return the application that serves the identity in a folder."""

    def page(request: Request) -> Response:
        identity, now = read_identity(folder), clock()
        headers = {"Cache-Control": f"max-age={MAX_AGE}", "X-Content-Type-Options": "nosniff"}
        path = request.url.path
        if path == DIRECTORY:
            headers |= directory_signature(folder, request.headers.get("host", ""), now=now)
        else:
            headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'"
        return Response(page_of(identity, path, now=now), media_type=TYPES[path], headers=headers)

    return Starlette(routes=[Route(path, page) for path in TYPES])


def directory_signature(folder: Path, authority: str, *, now: float) -> dict[str, str]:
    """Return the fields that prove that this host has the key that signs now."""
    identity = read_identity(folder)
    key = identity.signing_key(now)
    if key is None or not authority.isascii() or len(authority) > MAX_HOST or not authority.isprintable():
        return {}
    fields = SignatureFields(
        authority=authority.lower(),
        keyid=key.keyid,
        created=int(now),
        expires=int(now) + identity.lifetime,
        tag=DIRECTORY_TAG,
        is_response=True,
    )
    return dict(sign_fields(fields, load_signer(folder, key.keyid)))

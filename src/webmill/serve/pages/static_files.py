"""/static/NAME-HASH.EXT: our style sheets and scripts. The URL changes with the content, so they are cached forever."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from webmill.errors import NotFound
from webmill.serve.http.conditional_requests import is_not_modified

TYPES = {  # no other files are served
    "webmill.css": "text/css; charset=utf-8",
    "pages-search.css": "text/css; charset=utf-8",
    "webmill.js": "text/javascript; charset=utf-8",
    "pictures.js": "text/javascript; charset=utf-8",
    "replay.css": "text/css; charset=utf-8",
    "replay.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


class StaticFile(Struct, frozen=True):
    name: str
    type: str
    body: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:16]

    @property
    def address(self) -> str:
        stem, _, ending = self.name.rpartition(".")
        return f"/static/{stem}-{self.digest}.{ending}"


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the static files by URL path."""
    folder = files("webmill.serve.pages") / "static"
    found = (StaticFile(name, kind, (folder / name).read_bytes()) for name, kind in TYPES.items())
    return {file.address: file for file in found}


@cache
def asset(name: str) -> str:
    """Return the URL path of a static file, for templates."""
    return next(file.address for file in static_files().values() if file.name == name)


async def static_file(request: Request) -> Response:
    file = static_files().get(request.url.path)
    if file is None:
        raise NotFound(f"there is no file {request.url.path}")
    headers = {**FOREVER, "ETag": f'"{file.digest}"'}
    if is_not_modified(dict(request.scope["headers"]), headers["ETag"].encode()):
        return Response(status_code=304, headers=headers)
    return Response(file.body, media_type=file.type, headers=headers)


def routes() -> list[BaseRoute]:
    return [Route("/static/{name}", static_file)]

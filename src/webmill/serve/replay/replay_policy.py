"""The policy of the replay origin, on every answer of it (V07-V09).

What is archived runs in an origin of nobody (`sandbox` without `allow-same-origin`): no storage, no cookies, no service
worker, no windows, no way to steer the page around it. It may load from the replay origin, and from nowhere else.

Addresses in our frame, and those that archived pages have of each other, carry a pass. Origins of nobody cannot be told
apart otherwise: a page with the pass may frame and read other archived pages, as it could on its own site; a page of
another site, which does not know it, may not. And an archived page has no way to tell it.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.serve.responses import COMMON, PERMISSIONS, transport_security
from webmill.serve.site import Site

POLICY = (
    "sandbox allow-scripts allow-forms; default-src {replay} data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src {replay}; form-action {replay}; base-uri {replay}"
)
ALWAYS = COMMON | {
    b"permissions-policy": PERMISSIONS,
    b"cross-origin-resource-policy": b"cross-origin",  # an origin of nobody: all that a page is made of is of another
    # `same-origin` would be none at all; and there is nobody else whom a page could tell.
    b"referrer-policy": b"no-referrer-when-downgrade",
    b"x-dns-prefetch-control": b"off",
    b"cache-control": b"no-store",
    b"vary": b"Origin, Referer, Sec-Fetch-Dest",
}
FORBIDDEN = ("set-cookie", "strict-transport-security", "service-worker-allowed", "clear-site-data")


def replay_pass(site: Site) -> str:
    """What stands behind the timestamp in addresses of ours."""
    return f"~{site.sign('replay')[:16]}"


class ReplayPolicy:
    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._passed = re.compile(f"(?:{re.escape(site.replay_address)})?/web/[0-9]+{replay_pass(site)}/")
        self._policy = POLICY.format(replay=site.replay_address)
        self._framed = f"{self._policy}; frame-ancestors {site.address}"
        self._always = {name.decode(): value.decode() for name, value in (ALWAYS | transport_security(site)).items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Headers(scope=scope)
        # A module that asks for `/other.js` asks without a pass, but says where it stands.
        path = (scope.get("raw_path") or b"").decode("latin-1")
        has_pass = any(self._passed.match(place) for place in (path, request.get("referer", "")))

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._seal(MutableHeaders(scope=message), request, has_pass=has_pass)
            await send(message)

        if "service-worker" in request:
            refusal = PlainTextResponse("an archived service worker stays archived", status_code=403)
            await refusal(scope, receive, sealed)
        else:
            await self._app(scope, receive, sealed)

    def _seal(self, headers: MutableHeaders, request: Headers, *, has_pass: bool) -> None:
        for name in FORBIDDEN:
            del headers[name]
        headers.update(self._always)
        headers["Content-Security-Policy"] = self._policy if has_pass else self._framed
        if has_pass and request.get("origin") == "null":
            headers["Access-Control-Allow-Origin"] = "null"

"""The security policy of the replay origin, on every response (V07-V09).

Archived content runs in an opaque origin (`sandbox` without `allow-same-origin`): no storage, no cookies, no service
worker, no windows, no access to the page around it. It may load from the replay origin and from nowhere else.

URLs in our frame, and links between archived pages, carry a pass, since opaque origins cannot be told apart: a page
with the pass may frame and read other archived pages, as it could on its own site; a page of another site, which
does not know the pass, may not. And an archived page has no way to reveal it.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.serve.http.responses import COMMON, PERMISSIONS, transport_security
from webmill.serve.site import Site

POLICY = (
    "sandbox allow-scripts allow-forms; default-src {replay} data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src {replay}; form-action {replay}; base-uri {replay}"
)
ALWAYS = COMMON | {
    b"permissions-policy": PERMISSIONS,
    b"cross-origin-resource-policy": b"cross-origin",  # with an opaque origin every resource is cross-origin
    # `same-origin` would send none at all; and a page can reach nobody else.
    b"referrer-policy": b"no-referrer-when-downgrade",
    b"x-dns-prefetch-control": b"off",
    b"cache-control": b"no-store",
    b"vary": b"Origin, Referer, Sec-Fetch-Dest",
}
FORBIDDEN = ("set-cookie", "strict-transport-security", "service-worker-allowed", "clear-site-data")


def replay_pass(site: Site) -> str:
    """Return the pass, which follows the timestamp in replay URLs."""
    return f"~{site.sign('replay')[:16]}"


class ReplayPolicy:
    """Middleware that applies the policy to every response."""

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
        # A module that imports `/other.js` has no pass in the URL, but in its Referer.
        path = (scope.get("raw_path") or b"").decode("latin-1")
        has_pass = any(self._passed.match(place) for place in (path, request.get("referer", "")))

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._apply(MutableHeaders(scope=message), request, has_pass=has_pass)
            await send(message)

        if "service-worker" in request:
            refusal = PlainTextResponse("archived service workers are not run", status_code=403)
            await refusal(scope, receive, send_with_policy)
        else:
            await self._app(scope, receive, send_with_policy)

    def _apply(self, headers: MutableHeaders, request: Headers, *, has_pass: bool) -> None:
        for name in FORBIDDEN:
            del headers[name]
        headers.update(self._always)
        headers["Content-Security-Policy"] = self._policy if has_pass else self._framed
        if has_pass and request.get("origin") == "null":
            headers["Access-Control-Allow-Origin"] = "null"

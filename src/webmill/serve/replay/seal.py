"""The policy of the replay origin, on every answer of it (V07-V09).

What is archived runs in an origin of nobody (`sandbox` without `allow-same-origin`): no storage, no cookies, no service
worker, no windows, no way to steer the page around it. It may load from the replay origin, and from nowhere else.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.serve.site import Site

POLICY = (
    "sandbox allow-scripts allow-forms; default-src {replay} data: blob: 'unsafe-inline' 'unsafe-eval'; "
    "connect-src {replay}; form-action {replay}; base-uri {replay}"
)
FORBIDDEN = ("set-cookie", "strict-transport-security", "service-worker-allowed", "clear-site-data")


class Seal:
    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app = app
        self._replay = site.replay_address
        self._policy = POLICY.format(replay=site.replay_address)
        self._framed = f"{self._policy}; frame-ancestors {site.address}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Headers(scope=scope)

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._seal(MutableHeaders(scope=message), request)
            await send(message)

        if "service-worker" in request:
            refusal = PlainTextResponse("an archived service worker stays archived", status_code=403)
            await refusal(scope, receive, sealed)
        else:
            await self._app(scope, receive, sealed)

    def _seal(self, headers: MutableHeaders, request: Headers) -> None:
        for name in FORBIDDEN:
            del headers[name]
        # A frame in an archived page has that page above it, whose origin is nobody's: no policy could name it.
        # Who comes from one of our pages is in our frame already.
        ours = is_ours(request, self._replay)
        headers["Content-Security-Policy"] = self._policy if ours else self._framed
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"
        headers["X-DNS-Prefetch-Control"] = "off"
        headers["Cache-Control"] = "no-store"
        headers["Vary"] = "Origin, Referer, Sec-Fetch-Dest"
        if ours and request.get("origin") == "null":  # fonts and modules; a stranger's page has another Referer
            headers["Access-Control-Allow-Origin"] = "null"


def is_ours(request: Headers, replay: str) -> bool:
    """Whether an archived page asks, and not a page of somewhere else: no script can say so falsely."""
    return request.get("referer", "").startswith(f"{replay}/web/")

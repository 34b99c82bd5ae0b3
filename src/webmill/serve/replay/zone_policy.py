"""The policy of the replay zone, on every response: an archived page reaches the zone and nothing else.

Every archived origin has an origin of its own at each time, so that the browser itself keeps their scripts and storage
apart. What the headers forbid holds whatever a page does; the shim only makes it work within.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webmill.errors import NotFound
from webmill.serve.http.responses import COMMON, PERMISSIONS
from webmill.serve.replay.labels import OriginAtTime, ReplayZone

POLICY = (
    "sandbox allow-scripts allow-forms allow-same-origin; "
    "default-src {zone} data: blob: 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; connect-src {zone} data: blob:; "
    "form-action {zone}; base-uri {zone}; object-src 'none'; frame-ancestors {view} {zone}"
)
ALWAYS = COMMON | {
    b"permissions-policy": PERMISSIONS,
    b"cross-origin-resource-policy": b"same-site",
    b"origin-agent-cluster": b"?1",
    b"referrer-policy": b"strict-origin-when-cross-origin",
    b"x-dns-prefetch-control": b"off",
    b"cache-control": b"no-store",
    b"timing-allow-origin": b"*",  # the shim sees what is missing, of other archived origins too
    b"vary": b"Origin, Sec-Fetch-Dest, Sec-Fetch-Mode",
}
FORBIDDEN = ("set-cookie", "strict-transport-security", "service-worker-allowed", "clear-site-data")
HERE = "webmill.origin"  # scope key: the origin that the label names
METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
MOST_HEADERS = 2000  # characters of what a preflight may ask for


class ZonePolicy:
    """Middleware: reads the label, refuses what no archived page may ask, and applies the policy to every response."""

    def __init__(self, app: ASGIApp, zone: ReplayZone) -> None:
        self._app, self._zone = app, zone
        self._policy = POLICY.format(zone=zone.sources, view=zone.view)
        self._always = {name.decode(): value.decode() for name, value in ALWAYS.items()}
        if zone.scheme == "https":
            self._always["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Headers(scope=scope)

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._apply(MutableHeaders(scope=message), request)
            await send(message)

        try:
            here = self._zone.read_host(host_of(request))
        except NotFound as error:
            await PlainTextResponse(str(error), status_code=404)(scope, receive, send_with_policy)
            return
        refusal = self._refusal(scope["method"], request)
        if refusal is None:
            scope[HERE] = here
            await self._app(scope, receive, send_with_policy)
        else:
            await refusal(scope, receive, send_with_policy)

    def _refusal(self, method: str, request: Headers) -> Response | None:
        if "service-worker" in request:
            return PlainTextResponse("archived service workers are not run", status_code=403)
        if request.get("sec-fetch-site") == "cross-site" and request.get("sec-fetch-dest") != "document":
            return PlainTextResponse("archived pages are shown by the archive alone", status_code=403)
        if method == "OPTIONS":
            return self._preflight(request)
        return None

    def _preflight(self, request: Headers) -> Response:
        if not self._zone.is_zone_origin(request.get("origin", "")):
            return PlainTextResponse("only archived pages may ask", status_code=403)
        wanted = request.get("access-control-request-headers", "")[:MOST_HEADERS]
        headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Allow-Headers": wanted}
        return Response(status_code=204, headers=headers)

    def _apply(self, headers: MutableHeaders, request: Headers) -> None:
        for name in FORBIDDEN:
            del headers[name]
        headers.update(self._always)
        headers["Content-Security-Policy"] = self._policy
        origin = request.get("origin", "")
        if self._zone.is_zone_origin(origin) or origin == "null":  # only who knows the pass gets here
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Credentials"] = "true"
            headers["Access-Control-Expose-Headers"] = ", ".join(dict.fromkeys(headers.keys()))


def host_of(request: Headers) -> str:
    return request.get("host", "").partition(":")[0].lower()


def here_of(scope: Scope) -> OriginAtTime:
    found = scope[HERE]
    assert isinstance(found, OriginAtTime)
    return found

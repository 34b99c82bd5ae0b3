"""The error page: what happened and what to do about it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from webmill.serve.http.error_bodies import title_of
from webmill.serve.pages.render import render
from webmill.serve.site import Site

ADVICE = {
    400: "Part of the address or the form is not valid. Go back and check what you entered.",
    403: "Reload the page with the button and press it again. Buttons stop working when the server restarts.",
    404: "Try the search, or look up the captures of its address.",
    405: "This address does not accept this kind of request. Go back to the previous page.",
    409: "The data changed in the meantime. Reload the page and check before you try again.",
    413: "The request is larger than the server accepts.",
    451: "The operator of this archive has taken it down; ask them if you think that it is a mistake.",
    429: "Too many requests came from your address. Wait a moment, then reload the page.",
    503: "Wait a moment, then reload the page. If it does not help, check the log of the server.",
}
NOTHING = "There is nothing at this address."


def wants_page(request: Request) -> bool:
    """Return whether a browser sent this: browsers accept text/html, programs do not."""
    return "text/html" in request.headers.get("accept", "")


def error_page(site: Site, request: Request, *, status: int, message: str) -> Response:
    return render(
        site,
        request,
        "error.html",
        status=status,
        code=status,
        phrase=title_of(status),
        message=message if message != title_of(status) else NOTHING if status == 404 else "",
        advice=ADVICE.get(status, "Reload the page, or check the log of the server."),
    )

"""What went wrong, as a page: what happened, and what can be done."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from webmill.serve.pages.render import render
from webmill.serve.site import Site

ADVICE = {
    400: "Something in the address or the form was not understood. Go back, and look at what was entered.",
    403: "Open the page with the button again, and press it there: a button is good for one run of the server.",
    404: "Look for it in the search, or in the captures of its address.",
    405: "This address takes another kind of request. Go back to the page that led here.",
    409: "Something changed while this was done. Load the page again and look before you repeat it.",
    413: "What was sent is larger than the server takes.",
    429: "Too many requests came from your address. Wait a little, then load the page again.",
    503: "Wait a little, then load the page again. If it stays so, the server's log says more.",
}
NOTHING = "There is nothing at this address."


def wants_page(request: Request) -> bool:
    """Whether a person asks: browsers name text/html, programs do not."""
    return "text/html" in request.headers.get("accept", "")


def error_page(site: Site, request: Request, *, status: int, message: str) -> Response:
    return render(
        site,
        request,
        "error.html",
        status=status,
        code=status,
        phrase=phrase_of(status),
        message=message if message != phrase_of(status) else NOTHING if status == 404 else "",
        advice=ADVICE.get(status, "The server's log says more. Load the page again, or go back to the overview."),
    )


def phrase_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"

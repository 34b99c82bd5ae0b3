"""Templates to answers. Everything is escaped; no page has a script or a style of its own in it (CSP)."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from webmill.serve.replies import NO_STORE
from webmill.serve.site import Site

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; frame-src {replay}"
)
NAVIGATION = (
    ("/", "Overview"),
    ("/search", "Search"),
    ("/documents", "Documents"),
    ("/versions", "Versions"),
    ("/history", "Captures"),
    ("/crawl", "Crawl"),
    ("/tasks", "Tasks"),
    ("/settings", "Settings"),
)

environment = Environment(
    loader=PackageLoader("webmill.serve.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(site: Site, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """`template` is a file of templates/ that extends base.html."""
    text = environment.get_template(template).render(site=site, path=request.url.path, navigation=NAVIGATION, **values)
    headers = {**NO_STORE, "Content-Security-Policy": POLICY.format(replay=site.replay_address)}
    return HTMLResponse(text, status_code=status, headers=headers)

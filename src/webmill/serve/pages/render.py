"""Renders templates. Everything is escaped; pages have no inline script or style (CSP)."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from webmill import __version__
from webmill.formats.language_names import language_name
from webmill.serve.pages.filters import FILTERS
from webmill.serve.pages.language import facet_label
from webmill.serve.pages.static_files import asset
from webmill.serve.site import Site

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; frame-src {replay}"
)
# Not `no-referrer`: with it browsers send our own forms with `Origin: null`.
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
NAVIGATION = (
    ("/", "Overview"),
    ("/search", "Search"),
    ("/documents", "Documents"),
    ("/versions", "Versions"),
    ("/corpus", "Corpus"),
    ("/history", "Captures"),
    ("/crawl", "Crawl"),
    ("/tasks", "Tasks"),
    ("/problems", "Problems"),
    ("/settings", "Settings"),
)
PLUGINS = ("/plugins", "Plugins")  # where there are any

environment = Environment(
    loader=PackageLoader("webmill.serve.pages"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.filters.update(FILTERS, facet=facet_label, language=language_name)
environment.globals.update(asset=asset, webmill_version=__version__)


def render(site: Site, request: Request, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
    """Return the page of a template in templates/ that extends base.html."""
    path = request.url.path
    navigation = (*NAVIGATION, PLUGINS) if site.plugins.calls("register_pages") else NAVIGATION
    text = environment.get_template(template).render(
        site=site, path=path, section=section_of(path), navigation=navigation, **values
    )
    framed = site.zone.sources if site.zone else site.replay_address
    headers = {**HEADERS, "Content-Security-Policy": POLICY.format(replay=framed)}
    return HTMLResponse(text, status_code=status, headers=headers)


def section_of(path: str) -> str:
    """Return the navigation entry that a page belongs to."""
    first = "/" + path.split("/")[1]
    return first if any(first == address for address, _ in (*NAVIGATION, PLUGINS)) else ""

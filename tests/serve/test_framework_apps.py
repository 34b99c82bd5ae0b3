"""Framework apps built from npm, archived, replayed in a real browser without their servers: every route, both ways."""

from __future__ import annotations

import mimetypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.serve.browser import DEADLINE, Origins, Trap, needs_browser, serving, tab_of
from tests.serve.living_web import OPEN, WHEN, request_of
from tests.serve.test_zone_browser import open_framed
from tests.serve.warc_fixtures import collection, response

pytestmark = [
    *needs_browser,
    pytest.mark.soak,
    pytest.mark.skipif(not shutil.which("npm"), reason="needs npm, which fetches the frameworks"),
]
expect.set_options(timeout=DEADLINE)

APPS = Path(__file__).parent / "apps"
API = "http://api.example"
ITEMS = b'[{"id": 1, "name": "First"}, {"id": 2, "name": "Second"}]'
# By app and path: the element that a route shows, and its text.
ROUTES = {
    "react": {
        "/": ("h1", "Home of React"), "/items": ("li >> nth=1", "Second"),
        "/item/1": ("#item", "First at react.example"),
        "/about": ("#about", "About"), "/stored": ("#stored", "stored"),
    },
    "vue": {
        "/": ("h1", "Home of Vue"), "/items": ("li >> nth=1", "Second"),
        "/item/1": ("#item", "First at vue.example"),
        "/worker": ("#worker", "42 First"), "/form": ("#form", "posted"),
    },
    "svelte": {
        "/": ("h1", "Home of Svelte"), "/items": ("li >> nth=1", "Second"),
        "/item/1": ("#item", "First at svelte.example"),
        "/stored": ("#stored", "stored"),
    },
}  # fmt: skip
CASES = [(app, path) for app, paths in ROUTES.items() for path in paths]


def build(app: str, folder: Path) -> Path:
    shutil.copytree(APPS / app, folder)
    for command in (["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], ["npm", "run", "build"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    return folder / "dist"


def records(built: dict[str, Path]) -> Iterator[bytes]:
    json = (("Content-Type", "application/json"), *OPEN)
    yield response(f"{API}/items.json?_=1700000000000", WHEN, ITEMS, head=json)
    yield response(f"{API}/ask", WHEN, b'{"answer": "posted"}', head=json)
    yield request_of(f"{API}/ask", WHEN, "application/json", b'{"q":"deep"}')
    for app, folder in built.items():
        host = f"http://{app}.example"
        yield response(f"{host}/api/item/1", WHEN, b'{"id": 1, "name": "First"}', head=json)
        for path in ROUTES[app]:
            yield response(host + path, WHEN, (folder / "index.html").read_bytes())
        for file in (one for one in folder.rglob("*") if one.is_file() and one.name != "index.html"):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            yield response(
                f"{host}/{file.relative_to(folder)}", WHEN, file.read_bytes(), head=(("Content-Type", kind),)
            )


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    folder = tmp_path_factory.mktemp("apps")
    built = {app: build(app, folder / app) for app in ROUTES}
    with serving(collection(folder / "archive", records(built), "--post-append"), in_zone=True) as origins:
        yield origins


@pytest.mark.parametrize(("app", "path"), CASES)
def test_a_route_is_shown_when_it_is_opened(chromium: Browser, trap: Trap, apps: Origins, app: str, path: str) -> None:
    trap.callers()
    tab = tab_of(chromium.new_context())
    frame = open_framed(tab, apps, f"http://{app}.example{path}")
    selector, text = ROUTES[app][path]
    expect(frame.locator(selector)).to_contain_text(text)
    if path == "/":
        expect(frame.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
    tab.page.context.close()
    assert tab.errors == []
    assert not [said for said in trap.callers() if said]


@pytest.mark.parametrize("app", ROUTES)
def test_an_app_is_walked_through(chromium: Browser, trap: Trap, apps: Origins, app: str) -> None:
    """Its router leads from page to page without the server; the banner follows."""
    trap.callers()
    tab = tab_of(chromium.new_context())
    frame = open_framed(tab, apps, f"http://{app}.example/")
    frame.get_by_text("Items").click()
    frame.get_by_text("First").click()
    expect(frame.locator("#item")).to_have_text(f"First at {app}.example")
    expect(tab.page.locator("#shown-url")).to_have_value(f"http://{app}.example/item/1")
    frame.evaluate("history.back()")
    expect(frame.locator("li >> nth=0")).to_have_text("First")
    tab.page.context.close()
    assert tab.errors == []
    assert not [said for said in trap.callers() if said]

"""Framework apps built from npm, archived, replayed in a real browser without their servers: every route, both ways."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.serve.browser import DEADLINE, Origins, Trap, needs_browser, serving, tab_of
from tests.serve.framework_apps import ROUTES, build, records
from tests.serve.test_zone_browser import open_framed
from tests.serve.warc_fixtures import collection

pytestmark = [
    *needs_browser,
    pytest.mark.soak,
    pytest.mark.skipif(not shutil.which("npm"), reason="needs npm, which fetches the frameworks"),
]
expect.set_options(timeout=DEADLINE)

CASES = [(app, path) for app, paths in ROUTES.items() for path in paths]


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
    frame.get_by_role("link", name="Items").click()
    frame.get_by_role("link", name="First", exact=True).click()
    expect(frame.locator("#item")).to_have_text(f"First at {app}.example")
    expect(tab.page.locator("#shown-url")).to_have_value(f"http://{app}.example/item/1")
    frame.evaluate("history.back()")
    expect(frame.get_by_role("link", name="First", exact=True)).to_be_visible()
    tab.page.context.close()
    assert tab.errors == []
    assert not [said for said in trap.callers() if said]

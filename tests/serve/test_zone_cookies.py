"""A hostile page fills the cookies of the whole zone: its next requests are too large, and it still comes out.

No header forbids a page to set cookies for its site, and a browser that has enough of them asks in vain from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Frame, expect

from tests.serve.browser import NewTab, Tab, needs_browser
from tests.serve.server_process import RunningServer, read_all, serving
from tests.serve.warc_fixtures import HTML, collection, response

pytestmark = needs_browser

WHEN = "20230401120000"
# In a window that no shim has seen, since what a script of ours does there, a hostile one undoes.
FLOOD = """<!doctype html><title>Flood</title><h1>Flood</h1><iframe></iframe><script>
const bare = window[0];
window.flood = (zone) => {
  for (let number = 0; number < 180; number++)
    bare.document.cookie = `n${number}=${'x'.repeat(4000)}; domain=${zone}; path=/; max-age=86400`;
  return bare.document.cookie.length;
};
</script>"""


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server as people start it: the limits of heads are its own."""
    folder = tmp_path_factory.mktemp("cookies")
    pages = (("https://flood.example/", FLOOD), ("https://bank.example/", "<title>Bank</title><h1>Bank</h1>"))
    root = collection(folder / "archive", (response(url, WHEN, page.encode(), head=HTML) for url, page in pages))
    with serving(root, folder / "errors", "--rate", "0", "--no-feed") as running:
        yield running


def open_flood(tab: Tab, view: str) -> Frame:
    """Return the frame of the hostile page, once the browser has asked for all that it wants of it."""
    tab.page.goto(f"{view}/web/{WHEN}/https://flood.example/", wait_until="networkidle")
    frame = tab.page.locator("#page").element_handle().content_frame()
    assert frame
    assert frame.evaluate("flood('replay.localhost')") > 500_000
    return frame


def test_a_page_that_fills_the_cookies_of_the_zone_does_not_lock_its_reader_out(
    new_tab: NewTab, flooded: RunningServer
) -> None:
    tab = new_tab()
    view = f"http://view.replay.localhost:{flooded.port}"
    open_flood(tab, view)
    refused = tab.page.goto(f"{view}/web/{WHEN}/https://bank.example/")
    assert refused
    assert refused.status == 431
    expect(tab.page.locator("body")).to_contain_text("load the page again")
    tab.page.reload()
    expect(tab.page.locator("#banner h1")).to_have_text("Bank")
    expect(tab.page.frame_locator("#page").locator("h1")).to_have_text("Bank")
    assert tab.page.context.cookies() == []


def test_a_page_whose_requests_are_refused_is_rid_of_the_cookies_too(new_tab: NewTab, flooded: RunningServer) -> None:
    tab = new_tab()
    frame = open_flood(tab, f"http://view.replay.localhost:{flooded.port}")
    assert frame.evaluate("fetch('/').then(answer => answer.status, () => 'refused')") in (431, "refused")
    assert tab.page.context.cookies() == []
    assert frame.evaluate("fetch('/').then(answer => answer.status)") == 200


def test_the_refusal_of_a_large_head_is_read_to_its_end(flooded: RunningServer, chromium: Browser) -> None:
    """A client that sends all of its head before it reads gets the answer, and no reset connection."""
    del chromium
    cookies = b"Cookie: " + b"; ".join(b"n%d=%s" % (number, b"x" * 4000) for number in range(180)) + b"\r\n"
    with flooded.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + cookies + b"\r\n")
        said = read_all(connection).decode()
    assert said.startswith("HTTP/1.1 431 ")
    assert re.search(r'\nClear-Site-Data: "cookies"\r\n', said)
    assert said.endswith("load the page again\n")

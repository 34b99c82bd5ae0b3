"""Living pages replayed in the zone, in a real browser: server and internet are gone, only the archive answers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, Error, Frame, expect

from tests.serve.browser import ARGUMENTS, DEADLINE, NewTab, Origins, Tab, Trap, needs_browser, serving, tab_of
from tests.serve.living_web import CASES, CDN, WHEN, File, all_files, records
from tests.serve.warc_fixtures import collection, response

pytestmark = needs_browser
expect.set_options(timeout=DEADLINE)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    with serving(collection(tmp_path_factory.mktemp("living"), records(), "--post-append"), in_zone=True) as origins:
        yield origins


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[Tab]:
    with closing(chromium.new_context()) as context:
        yield tab_of(context)


def open_framed(tab: Tab, origins: Origins, url: str, *, when: str = WHEN) -> Frame:
    tab.page.goto(f"{origins.address}/web/{when}/{url}")
    frame = tab.page.locator("#page").element_handle().content_frame()
    assert frame
    return frame


@pytest.mark.parametrize("name", CASES)
def test_a_living_page_does_what_it_did(tab: Tab, trap: Trap, living: Origins, name: str) -> None:
    one = CASES[name]
    trap.callers()
    frame = open_framed(tab, living, one.url)
    frame.wait_for_selector("body[data-done]", timeout=8000)
    assert frame.locator("#out").text_content() == one.expected
    assert not [said for said in trap.callers() if said]


MARKET = f"""<title>The market</title><h1>The market</h1><img src=/none.png><img src="{CDN}/gone.png">
<script>fetch('/api/none?page=2'); history.pushState(null, '', '/stalls')</script>"""
MARKET_URL = "http://market.example/"


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    pages = (response(MARKET_URL, f"{year}0301120000", MARKET.encode()) for year in range(2015, 2025))
    with serving(collection(tmp_path_factory.mktemp("market"), pages), in_zone=True) as origins:
        yield origins


def test_the_banner_lists_what_is_missing_on_the_page(new_tab: NewTab, market: Origins) -> None:
    tab = new_tab(width=360, height=640, color_scheme="dark")
    open_framed(tab, market, MARKET_URL, when="20180301120000")
    expect(tab.page.locator("#missing-count")).to_have_text("3")
    tab.page.locator("#missing summary").click()
    lines = tab.page.locator("#missing-list bdi")
    listed = {line.inner_text() for line in lines.all()}
    assert listed == {f"{MARKET_URL}none.png", f"{CDN}/gone.png", f"{MARKET_URL}api/none?page=2"}
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_slider_goes_through_time(new_tab: NewTab, market: Origins) -> None:
    tab = new_tab()
    open_framed(tab, market, MARKET_URL, when="20180301120000")
    slider = tab.page.locator(".shown-slider input")
    slider.focus()
    tab.page.keyboard.press("End")
    expect(tab.page.locator("#shown-time")).to_contain_text("2024-03-01")
    expect(tab.page).to_have_url(re.compile(r"/web/20240301120000/http://market\.example/$"))
    expect(tab.page.frame_locator("#page").locator("h1")).to_have_text("The market")


class LiveHandler(BaseHTTPRequestHandler):
    """The web that the archive is of."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = f"http://{self.headers['Host']}{self.path}"
        found = live_file(url, body)
        data = found.body if found else b""
        self.send_response(int(found.status[:3]) if found else 404)
        for name, value in found.fields if found else ():
            self.send_header(name, value)
        if self.command == "OPTIONS":
            self.send_header("Access-Control-Allow-Headers", self.headers.get("Access-Control-Request-Headers", ""))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_OPTIONS = answer  # noqa: N815  names of the library

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def live_file(url: str, body: bytes) -> File | None:
    files = all_files()
    path, _, query = url.partition("?")
    if url not in files and "cb" in query:  # a name of a callback, or a number against caches
        name = parse_qs(query)["callback"][0]
        return File("text/javascript", f'{name}({{"value": "padded"}})'.encode())
    if url not in files and "_=" in query:
        return next(found[0] for known, found in files.items() if known.startswith(path + "?"))
    answers = files.get(url, [])
    return next((one for one in answers if not one.sent or one.sent[1] == body), None)


@pytest.mark.soak
def test_a_plain_browser_sees_the_same_on_the_living_web(chromium: Browser) -> None:
    """The pages themselves are right, or their replay proves nothing."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), LiveHandler)
    Thread(target=server.serve_forever, daemon=True).start()
    rules = f"--host-resolver-rules=MAP *.example:80 127.0.0.1:{server.server_address[1]},MAP * ~NOTFOUND"
    seen, wanted = {}, {name: one.expected for name, one in CASES.items() if one.live}
    browser = chromium.browser_type.launch(
        executable_path=shutil.which("chromium"), args=[*ARGUMENTS, rules], chromium_sandbox=False
    )
    with closing(browser), server:
        page = browser.new_page()
        for name in wanted:
            page.goto(CASES[name].url)
            with suppress(Error):
                page.wait_for_selector("body[data-done]", timeout=8000)
            seen[name] = page.locator("#out").text_content()
        server.shutdown()
    assert seen == wanted

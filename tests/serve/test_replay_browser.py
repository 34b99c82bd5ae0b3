"""Archived pages in a real browser: they can be read and walked through, and can reach nobody (V07, V09)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from playwright.sync_api import Browser, Error, Frame, expect

from tests.serve.browser import DEADLINE, NewTab, Origins, Tab, Trap, needs_browser, serving
from tests.serve.sample_collection import PIXEL, SCRIPT
from tests.serve.warc_fixtures import HTML, collection, response

pytestmark = needs_browser

WHEN = "20230401120000"
JS = (("Content-Type", "text/javascript"),)
expect.set_options(timeout=DEADLINE)

# What an archived script tries. `app` is the origin of the page around it.
ATTEMPTS = {
    "parent_page": "parent.document.title",
    "parent_storage": "parent.localStorage.length",
    "own_storage": "localStorage.length",
    "own_database": "indexedDB.open('x') && indexedDB.databases()",
    "cookie": "document.cookie = 'a=1'",
    "fetch_page": "fetch(app + '/attempt/tasks').then(answer => answer.text())",
    "fetch_blindly": "fetch(app + '/attempt/tasks/retry', {method: 'POST', mode: 'no-cors', body: 'x'})",
    "ajax": "new Promise((yes, no) => {const r = new XMLHttpRequest(); r.onload = yes; r.onerror = no;"
    " r.open('POST', app + '/attempt/ajax'); r.send()})",
    "socket": "new Promise((yes, no) => {const s = new WebSocket(app.replace('http', 'ws') + '/attempt/socket');"
    " s.onopen = yes; s.onerror = no})",
    "events": "new Promise((yes, no) => {const s = new EventSource(app + '/attempt/events');"
    " s.onopen = yes; s.onerror = no})",
    "image": "new Promise((yes, no) => {const i = new Image(); i.onload = yes; i.onerror = no;"
    " i.src = app + '/attempt/i'})",
    "script": "import(app + '/attempt/script.js')",
    "worker": "new Worker('worker.js')",
    "service_worker": "navigator.serviceWorker.register('worker.js')",
    "top": "top.location = app + '/attempt/top'",
    "top_replace": "top.location.replace(app + '/attempt/top')",
    "live": "fetch('http://live.example/attempt')",
    "live_image": "new Promise((yes, no) => {const i = new Image(); i.onload = yes; i.onerror = no;"
    " i.src = 'http://live.example/i'})",
    "calls": "new RTCPeerConnection()",
}
# What gives no answer: done blindly, and looked for on the other side.
BLIND = """
navigator.sendBeacon(app + '/attempt/beacon', 'x');
window.open(app + '/attempt/window');
top.postMessage({webmill: ['20230401120000', 'https://other.example/page', '0'.repeat(64)]}, '*');
for (const [name, more] of [['link', {rel: 'preconnect', href: 'http://live.example/'}],
    ['link', {rel: 'dns-prefetch', href: 'http://live.example/'}],
    ['link', {rel: 'prefetch', href: 'http://live.example/'}],
    ['link', {rel: 'stylesheet', href: 'http://live.example/x.css'}],
    ['script', {src: 'http://live.example/x.js'}],
    ['iframe', {src: app + '/attempt/frame'}],
    ['iframe', {src: 'http://live.example/frame'}],
    ['video', {src: 'http://live.example/video'}],
    ['a', {href: app + '/attempt/link', target: '_top'}]]) {
  const made = document.body.appendChild(Object.assign(document.createElement(name), more));
  if (name == 'a') made.click();
}
const rules = document.createElement('script');
rules.type = 'speculationrules';
rules.textContent = JSON.stringify({prefetch: [{urls: ['http://live.example/p'], eagerness: 'immediate'}]});
document.head.append(rules);
"""
EVIL = f"""<!doctype html><title>{SCRIPT}</title><body><h1>Evil</h1>
<img src="http://live.example/static.png"><link rel=preconnect href="http://live.example">
<script>
var app = location.ancestorOrigins[0];
const attempts = {json.dumps(ATTEMPTS)};
window.results = {{}};
(async () => {{
  for (const [name, code] of Object.entries(attempts)) {{
    try {{ await (0, eval)(code); results[name] = 'reached'; }} catch (error) {{ results[name] = 'refused'; }}
  }}
  {BLIND}
  window.done = true;
}})();
</script>"""
FORM = "const form = document.querySelector('p').appendChild(document.createElement('form')); form.method = 'post';"
LEAVING = {  # each would replace the page
    "form": f"{FORM} form.action = app + '/attempt/form'; form.submit()",
    "form-top": f"{FORM} form.action = app + '/attempt/form'; form.target = '_top'; form.submit()",
    "away": "location = 'http://live.example/away'",
    "home": "location = app + '/attempt/home'",
}
REFUSED = ("Content Security Policy", "Unsafe attempt")
READING = """<!doctype html><title>Reading</title><link rel=stylesheet href="/look/style.css">
<script type=module>import {word} from "./look/module.js"; document.body.dataset.module = word;</script>
<h1>Reading</h1><iframe id=inner src="/inner" title=inner></iframe>
<p><a id=out target=_blank href="https://other.example/page">other</a></p>
<p><a id=picture href="/pixel.png">picture</a></p>"""


def records() -> Iterator[bytes]:
    yield response("https://evil.example/", WHEN, EVIL.encode())
    yield response("https://evil.example/worker.js", WHEN, b"1", head=JS)
    for name, page in LEAVING.items():
        script = f"<title>{name}</title><p><script>var app = location.ancestorOrigins[0];{page}</script>"
        yield response(f"https://evil.example/{name}", WHEN, script.encode())
    yield response("https://good.example/", WHEN, READING.encode())
    yield response("https://good.example/inner", WHEN, b"<p id=there>an inner page</p>")
    yield response("https://good.example/pixel.png", WHEN, PIXEL, head=(("Content-Type", "image/png"),))
    sheet = b"@import 'more.css'; h1 {background: rgb(1, 2, 3) url(../pixel.png)}"
    yield response("https://good.example/look/style.css", WHEN, sheet, head=(("Content-Type", "text/css"),))
    yield response(
        "https://good.example/look/more.css", WHEN, b"h1{color:rgb(4, 5, 6)}", head=(("Content-Type", "text/css"),)
    )
    yield response("https://good.example/look/module.js", WHEN, b"export {word} from '/look/deep.js'", head=JS)
    yield response("https://good.example/look/deep.js", WHEN, b"export const word = 'read'", head=JS)
    yield response("https://other.example/page", WHEN, b"<title>The other page</title><h1>Other</h1>", head=HTML)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    with serving(collection(tmp_path_factory.mktemp("made"), records())) as origins:
        yield origins


def shown(tab: Tab, origins: Origins, url: str, *, when: str = WHEN) -> Frame:
    """The frame of the archived page, below the banner."""
    origins.asked.clear()
    tab.page.goto(f"{origins.address}/web/{when}/{url}")
    frame = tab.page.locator("#page").element_handle().content_frame()
    assert frame
    return frame


# --- reading ---


def test_a_town_is_walked_through_below_the_banner(new_tab: NewTab, origins: Origins) -> None:
    tab = new_tab()
    page = tab.page
    shown(tab, origins, "https://town.example/", when="2023")
    inner, banner = page.frame_locator("#page"), page.locator("#banner")
    expect(banner).to_contain_text("2023-04-01 12:00:00 UTC")
    expect(inner.locator("h1")).to_have_css("color", "rgb(0, 128, 128)")  # the style sheet
    assert inner.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    inner.get_by_role("link", name="News").click()
    expect(inner.locator("p").first).to_have_text("The bridge over the harbour is open again.")
    expect(banner.locator("h1")).to_have_text("News")
    expect(banner).to_contain_text("2024-04-02 10:00:00 UTC")
    expect(page).to_have_url(f"{origins.address}/web/20240402100000/https://town.example/news")
    inner.get_by_role("link", name="Wien").click()
    expect(banner.locator("h1")).to_have_text("Öffnungszeiten")
    page.goto(f"{origins.address}/web/20230401120000/https://town.example/")
    page.get_by_role("link", name="Earlier capture").click()
    expect(inner.locator("p").first).to_contain_text("The ferry leaves at nine.")
    assert tab.errors == []


@pytest.mark.parametrize(
    ("url", "word"), [("https://서울.example/공지", "공지사항"), ("https://tokyo.example/", "東京のお知らせ")]
)
def test_a_page_in_another_script_is_read(new_tab: NewTab, origins: Origins, url: str, word: str) -> None:
    tab = new_tab()
    shown(tab, origins, url, when="2024")
    expect(tab.page.frame_locator("#page").locator("h1")).to_have_text(word)
    expect(tab.page.locator("#banner h1")).to_have_text(word)


def test_a_page_is_read_without_javascript(new_tab: NewTab, origins: Origins) -> None:
    tab = new_tab(java_script_enabled=False)
    shown(tab, origins, "https://town.example/", when="2023")
    inner = tab.page.frame_locator("#page")
    expect(inner.locator("h1")).to_have_css("color", "rgb(0, 128, 128)")
    expect(tab.page.locator("#banner")).to_contain_text("2023-04-01 12:00:00 UTC")
    inner.get_by_role("link", name="News").click()
    expect(inner.locator("p").first).to_have_text("The bridge over the harbour is open again.")


def test_frames_sheets_and_modules_of_a_page_are_found(new_tab: NewTab, made: Origins) -> None:
    tab = new_tab()
    shown(tab, made, "https://good.example/")
    inner = tab.page.frame_locator("#page")
    expect(inner.frame_locator("#inner").locator("#there")).to_have_text("an inner page")
    expect(inner.locator("h1")).to_have_css("color", "rgb(4, 5, 6)")
    expect(inner.locator("h1")).to_have_css("background-color", "rgb(1, 2, 3)")
    expect(inner.locator("body")).to_have_attribute("data-module", "read")
    expect(tab.page.locator("#banner h1")).to_have_text("Reading")  # and not the inner page


def test_a_link_to_a_new_window_stays_in_the_frame_and_a_picture_is_no_page(new_tab: NewTab, made: Origins) -> None:
    tab = new_tab()
    shown(tab, made, "https://good.example/")
    inner, banner = tab.page.frame_locator("#page"), tab.page.locator("#banner")
    inner.locator("#out").click()
    expect(banner.locator("h1")).to_have_text("The other page")
    shown(tab, made, "https://good.example/")
    expect(inner.locator("body")).to_have_attribute("data-module", "read")
    inner.locator("#picture").click()
    expect(banner).to_have_text("You followed a link to an archived file.")


def test_a_title_of_markup_stays_text(new_tab: NewTab, origins: Origins) -> None:
    tab = new_tab()
    shown(tab, origins, "https://town.example/hostile", when="2024")
    expect(tab.page.locator("#banner h1")).to_have_text(SCRIPT)
    assert tab.page.title().startswith(SCRIPT)


def test_an_archived_page_opened_alone_is_led_below_the_banner(new_tab: NewTab, origins: Origins) -> None:
    tab = new_tab()
    tab.page.goto(f"{origins.replay}/web/2023/https://town.example/")
    expect(tab.page).to_have_url(f"{origins.address}/web/20230401120000/https://town.example/")
    expect(tab.page.frame_locator("#page").locator("h1")).to_have_text("The town")


# --- attacks ---


def test_the_trap_sees_who_asks_another_host(chromium: Browser, trap: Trap) -> None:
    """What all browser tests rely on."""
    with closing(chromium.new_context()) as context:
        with suppress(Error):  # it is never answered
            context.new_page().goto("http://elsewhere.example/there", timeout=100)
        deadline = time.monotonic() + DEADLINE / 1000
        while not any(printed.startswith("GET /there") for printed in trap.callers()):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_an_archived_script_reaches_neither_us_nor_the_world(new_tab: NewTab, made: Origins) -> None:
    tab = new_tab()
    frame = shown(tab, made, "https://evil.example/")
    tab.wait_until(lambda: frame.evaluate("window.done"), "all attempts")
    tab.page.wait_for_timeout(1000)  # what gives no answer has gone wherever it goes
    assert frame.evaluate("results") == dict.fromkeys(ATTEMPTS, "refused")
    assert frame.evaluate("[self.origin, window.opener, document.referrer]") == ["null", None, ""]
    assert not [asked for asked in made.asked if "/attempt" in asked]
    assert tab.page.context.cookies() == []
    assert tab.page.context.pages == [tab.page]
    assert tab.page.url == f"{made.address}/web/{WHEN}/https://evil.example/"
    expect(tab.page.locator("#banner h1")).to_have_text(SCRIPT)  # and not the other page


@pytest.mark.parametrize("name", LEAVING)
def test_an_archived_page_cannot_leave_its_frame(new_tab: NewTab, made: Origins, name: str) -> None:
    tab = new_tab()
    printed: list[str] = []
    tab.page.on("console", lambda message: printed.append(message.text))
    shown(tab, made, f"https://evil.example/{name}")
    tab.wait_until(lambda: any(word in text for text in printed for word in REFUSED), "a refusal")
    assert not [asked for asked in made.asked if "/attempt" in asked]
    assert tab.page.url == f"{made.address}/web/{WHEN}/https://evil.example/{name}"


def test_another_site_can_neither_frame_nor_read_archived_pages(new_tab: NewTab, made: Origins) -> None:
    tab = new_tab()
    attack = f"""<iframe id=framed src="{made.replay}/web/{WHEN}/https://good.example/"></iframe>
    <iframe sandbox=allow-scripts srcdoc="<script>fetch('{made.replay}/web/{WHEN}/https://good.example/')
    .then(answer => answer.text(), () => 'refused').then(text => document.title = text)</script>"></iframe>"""
    tab.page.set_content(attack)
    framed, sandboxed = tab.page.main_frame.child_frames
    tab.wait_until(sandboxed.title, "an answer")
    assert sandboxed.title() == "refused"
    tab.wait_until(lambda: framed.url not in ("", "about:blank"), "the frame")
    assert framed.url.startswith("chrome-error:")

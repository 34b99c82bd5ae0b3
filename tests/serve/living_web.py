"""Pages that live by scripts: each case is a page of `http://hard.example/NAME/` that writes a result when it is done.

    CASES["fetch-relative"].expected == "data"

What a page needs lies beside it (`files`, by path or URL), or is shared by all. `archive(root)` makes a collection of
them all, without any browser; `answer` is what a live server says, so that a test can see that the pages themselves
are right.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.serve.sample_collection import PIXEL
from tests.serve.warc_fixtures import Fields, record, response

WHEN = "20240506070809"
HOST, CDN, API = "http://hard.example", "http://cdn.example", "http://api.example"
DONE = """<!doctype html><meta charset=utf-8><title>Case</title><p id=out>waiting</p><script>
var done = value => { document.getElementById('out').textContent = String(value); document.body.dataset.done = 1; };
var wait = name => new Promise(yes => window.addEventListener(name, yes));
var told = () => wait('message').then(event => event.data);
var made = (name, more) => document.body.appendChild(Object.assign(document.createElement(name), more));
var loaded = one => new Promise(yes => { one.onload = () => yes('loaded'); one.onerror = () => yes('failed'); });
</script>"""
JS, CSS, JSON, HTML = "text/javascript", "text/css", "application/json", "text/html; charset=utf-8"
OPEN = (("Access-Control-Allow-Origin", "*"),)


@dataclass(frozen=True)
class File:
    type: str
    body: bytes
    status: str = "200 OK"
    head: Fields = ()
    sent: tuple[str, bytes] | None = None  # type and body of the POST that it answers

    @property
    def fields(self) -> Fields:
        return (("Content-Type", self.type), *self.head)


def file(kind: str, body: str | bytes, *head: tuple[str, str], status: str = "200 OK") -> File:
    return File(kind, body.encode() if isinstance(body, str) else body, status, head)


def posted(kind: str, sent: str, answer: str) -> File:
    return File(JSON, answer.encode(), head=OPEN, sent=(kind, sent.encode()))


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    expected: str
    markup: str = ""
    files: dict[str, File | list[File]] = field(default_factory=dict)
    module: bool = False
    live: bool = True  # a plain browser on an insecure origin says the same
    head: Fields = ()

    @property
    def url(self) -> str:
        return f"{HOST}/{self.name}/"

    @property
    def page(self) -> File:
        kind = " type=module" if self.module else ""
        return file(HTML, f"{DONE}{self.markup}<script{kind}>{self.script}</script>", *self.head)


def wav() -> bytes:
    samples = bytes(8000)
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 8000, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", 8000
    )
    return head + samples


SHARED: dict[str, File | list[File]] = {
    f"{HOST}/shared/data.txt": file("text/plain", "data"),
    f"{HOST}/shared/echo.js": file(JS, "window.echoed = 'echo'"),
    f"{HOST}/shared/pixel.png": file("image/png", PIXEL),
    f"{HOST}/shared/word.js": file(JS, "export const word = 'word'; export default import.meta.url"),
    f"{HOST}/shared/frame.html": file(
        HTML,
        "<script>addEventListener('message', e => e.source.postMessage(['heard', e.data, e.origin], e.origin))</script>",
    ),
    f"{HOST}/redirect": file("text/plain", "", ("Location", f"{API}/data.json"), *OPEN, status="302 Found"),
    f"{API}/data.json": file(
        JSON, '{"value": "api"}', *OPEN, ("X-Total", "7"), ("Access-Control-Expose-Headers", "X-Total")
    ),
    f"{API}/credentials.json": file(
        JSON, '{"value": "mine"}', ("Access-Control-Allow-Origin", HOST), ("Access-Control-Allow-Credentials", "true")
    ),
    f"{API}/post": [
        posted("text/plain", '{"q":"one"}', '{"answer": 1}'),
        posted("text/plain", '{"q":"two"}', '{"answer": 2}'),
        posted("application/x-www-form-urlencoded;charset=UTF-8", "q=form", '{"answer": 3}'),
    ],
    f"{CDN}/lib.js": file(JS, "window.lib = 'lib'", *OPEN),
    f"{CDN}/module.js": file(JS, "import {deep} from './deep.js'; export const word = deep", *OPEN),
    f"{CDN}/deep.js": file(JS, "export const deep = 'deep'", *OPEN),
    f"{CDN}/style.css": file(CSS, f"p {{ color: rgb(1, 2, 3); background: url({HOST}/shared/pixel.png) }}", *OPEN),
    f"{CDN}/pixel.png": file("image/png", PIXEL, *OPEN),
    f"{CDN}/frame.html": file(
        HTML,
        "<script>addEventListener('message', e => e.source.postMessage(`${e.origin} ${location.host}`, e.origin))"
        f"; parent.postMessage('ready', '{HOST}')</script>",
    ),
    f"{CDN}/end.html": file(HTML, "<title>end</title><script>parent.postMessage('end ' + location.href, '*')</script>"),
}


def case(name: str, expected: str, script: str, **more: object) -> Case:
    return Case(name, script, expected, **more)  # type: ignore[arg-type]


def _network() -> Iterator[Case]:
    yield case(
        "fetch-relative",
        "near",
        "fetch('near.txt').then(r => r.text()).then(done)",
        files={"near.txt": file("text/plain", "near")},
    )
    yield case("fetch-root", "data", "fetch('/shared/data.txt').then(r => r.text()).then(done)")
    yield case("fetch-absolute", "data", f"fetch('{HOST}/shared/data.txt').then(r => r.text()).then(done)")
    yield case("fetch-elsewhere", "api", f"fetch('{API}/data.json').then(r => r.json()).then(j => done(j.value))")
    yield case(
        "fetch-schemeless", "api", "fetch('//api.example/data.json').then(r => r.json()).then(j => done(j.value))"
    )
    yield case(
        "fetch-request",
        f"{API}/data.json api",
        f"const q = new Request('{API}/data.json'); fetch(q).then(r => r.json()).then(j => done(q.url + ' ' + j.value))",
    )
    yield case("fetch-url", "data", "fetch(new URL('/shared/data.txt', location.href)).then(r => r.text()).then(done)")
    yield case("response-url", f"{API}/data.json", f"fetch('{API}/data.json').then(r => done(r.url))")
    yield case(
        "fetch-redirect", f"true {API}/data.json", "fetch('/redirect').then(r => done(r.redirected + ' ' + r.url))"
    )
    yield case(
        "fetch-post",
        "1 2",
        f"const ask = q => fetch('{API}/post', {{method: 'POST', body: JSON.stringify({{q}})}}).then(r => r.json());"
        "Promise.all([ask('one'), ask('two')]).then(([a, b]) => done(a.answer + ' ' + b.answer))",
    )
    yield case(
        "fetch-post-form",
        "3",
        f"fetch('{API}/post', {{method: 'POST', body: new URLSearchParams({{q: 'form'}})}}).then(r => r.json()).then(j => done(j.answer))",
    )
    yield case(
        "fetch-preflight",
        "api",
        f"fetch('{API}/data.json', {{headers: {{'X-Test': '1'}}}}).then(r => r.json()).then(j => done(j.value), e => done(e))",
    )
    yield case(
        "fetch-credentials",
        "mine",
        f"fetch('{API}/credentials.json', {{credentials: 'include'}}).then(r => r.json()).then(j => done(j.value), e => done(e))",
    )
    yield case("fetch-header", "7", f"fetch('{API}/data.json').then(r => done(r.headers.get('x-total')))")
    yield case(
        "fetch-404",
        "404 gone",
        "fetch('gone').then(async r => done(r.status + ' ' + await r.text()))",
        files={"gone": file("text/plain", "gone", status="404 Not Found")},
    )
    yield case(
        "xhr",
        "data",
        f"const r = new XMLHttpRequest(); r.open('GET', '{HOST}/shared/data.txt'); r.onload = () => done(r.responseText); r.send()",
    )
    yield case(
        "xhr-sync",
        "data",
        "const r = new XMLHttpRequest(); r.open('GET', '/shared/data.txt', false); r.send(); done(r.responseText)",
    )
    yield case(
        "xhr-post",
        "2",
        f"const r = new XMLHttpRequest(); r.open('POST', '{API}/post'); r.onload = () => done(JSON.parse(r.responseText).answer); r.send('{{\"q\":\"two\"}}')",
    )
    yield case(
        "xhr-address",
        f"{API}/data.json",
        f"const r = new XMLHttpRequest(); r.open('GET', '{API}/data.json'); r.onload = () => done(r.responseURL); r.send()",
    )
    yield case(
        "xhr-json",
        "api",
        f"const r = new XMLHttpRequest(); r.responseType = 'json'; r.open('GET', '{API}/data.json'); r.onload = () => done(r.response.value); r.send()",
    )
    yield case(
        "cache-buster",
        "fresh",
        "fetch('state.json?b=2&a=1&_=' + Date.now()).then(r => r.json()).then(j => done(j.state))",
        files={"state.json?a=1&b=2&_=1700000000000": file(JSON, '{"state": "fresh"}')},
    )
    yield case(
        "router-state",
        "routed",
        "fetch('items.txt?_rsc=1a2b3').then(r => r.text()).then(done)",
        files={"items.txt?_rsc=vusbg": file("text/plain", "routed")},
        live=False,
    )
    yield case(
        "jsonp",
        "padded",
        f"const name = 'cb' + Date.now(); window[name] = j => done(j.value); made('script', {{src: '{API}/jsonp?x=1&callback=' + name}})",
        files={f"{API}/jsonp?x=1&callback=cb1700000000000": file(JS, 'cb1700000000000({"value": "padded"})')},
    )
    yield case(
        "script-version",
        "old lib",
        "made('script', {src: 'lib.js?build=new'}).onload = () => done(window.versioned)",
        files={"lib.js?build=old": file(JS, "window.versioned = 'old lib'")},
        live=False,
    )
    yield case(
        "event-source",
        "hello",
        "const s = new EventSource('events'); s.onmessage = e => { s.close(); done(e.data) }",
        files={"events": file("text/event-stream", "data: hello\n\n")},
    )
    yield case("beacon", "true", "done(navigator.sendBeacon('/shared/data.txt', 'x'))")
    yield case(
        "websocket",
        "error",
        "const s = new WebSocket('ws://hard.example/none/'); s.onerror = () => done('error'); s.onopen = () => done('open')",
    )
    yield case(
        "polling",
        "data data data",
        "let got = []; const poll = async () => { got.push(await (await fetch('/shared/data.txt')).text()); got.length < 3 ? setTimeout(poll, 20) : done(got.join(' ')) }; poll()",
    )
    yield case(
        "media-range",
        "1",
        "const a = new Audio(); a.onloadedmetadata = () => done(Math.round(a.duration)); a.onerror = () => done('error'); a.src = 'tone.wav'",
        files={"tone.wav": file("audio/wav", wav())},
    )


WORKER = "onmessage = async e => postMessage(await (await fetch(e.data)).text())"


def _workers() -> Iterator[Case]:
    ask = "w.onmessage = e => done(e.data); w.onerror = e => done('error ' + e.message);"
    yield case(
        "worker",
        "data echo",
        f"const w = new Worker('w.js'); {ask} w.postMessage('{HOST}/shared/data.txt')",
        files={
            "w.js": file(
                JS,
                "importScripts('/shared/echo-worker.js'); onmessage = async e => postMessage(await (await fetch(e.data)).text() + ' ' + echoed)",
            ),
            "/shared/echo-worker.js": file(JS, "self.echoed = 'echo'"),
        },
    )
    yield case(
        "worker-elsewhere",
        "lib",
        f"const w = new Worker('w.js'); {ask}",
        files={"w.js": file(JS, f"self.window = self; importScripts('{CDN}/lib.js'); postMessage(lib)")},
    )
    yield case(
        "worker-module",
        "word deep",
        f"const w = new Worker('w.js', {{type: 'module'}}); {ask}",
        files={
            "w.js": file(
                JS,
                f"import {{word}} from '/shared/word.js'; const m = await import('{CDN}/module.js'); postMessage(word + ' ' + m.word)",
            )
        },
    )
    yield case(
        "worker-meta",
        "inner",
        f"const w = new Worker(new URL('./w.js', import.meta.url), {{type: 'module'}}); {ask}",
        module=True,
        files={"w.js": file(JS, "postMessage('inner')")},
    )
    yield case(
        "worker-blob",
        "data",
        f"const u = URL.createObjectURL(new Blob([`{WORKER}`])); const w = new Worker(u); URL.revokeObjectURL(u); {ask} w.postMessage('{HOST}/shared/data.txt')",
        live=False,
    )
    yield case("worker-data", "7", f"const w = new Worker('data:text/javascript,postMessage(3%2B4)'); {ask}")
    yield case(
        "worker-location",
        f"{HOST}/worker-location/w.js hard.example",
        f"const w = new Worker('w.js'); {ask}",
        files={"w.js": file(JS, "postMessage(location.href + ' ' + self.location.host)")},
    )
    yield case(
        "worker-nested",
        "inner",
        f"const w = new Worker('w.js'); {ask}",
        files={
            "w.js": file(JS, "const inner = new Worker('inner.js'); inner.onmessage = e => postMessage(e.data)"),
            "inner.js": file(JS, "postMessage('inner')"),
        },
    )
    yield case(
        "worker-shared",
        "data",
        f"const w = new SharedWorker('w.js'); w.port.onmessage = e => done(e.data); w.port.postMessage('{HOST}/shared/data.txt')",
        files={
            "w.js": file(
                JS,
                "onconnect = e => { const p = e.ports[0]; p.onmessage = async m => p.postMessage(await (await fetch(m.data)).text()) }",
            )
        },
    )


def _frames() -> Iterator[Case]:
    yield case(
        "frame",
        f"heard hi {HOST}",
        f"const f = made('iframe', {{src: '/shared/frame.html'}}); f.onload = () => f.contentWindow.postMessage('hi', '{HOST}'); told().then(d => done(d.join(' ')))",
    )
    yield case(
        "frame-elsewhere",
        f"{HOST} cdn.example",
        f"const f = made('iframe', {{src: '{CDN}/frame.html'}}); told().then(() => {{ f.contentWindow.postMessage('hi', '{CDN}'); return told() }}).then(done)",
    )
    yield case(
        "frame-source",
        f"true {CDN}",
        f"const f = made('iframe', {{src: '{CDN}/frame.html'}}); wait('message').then(e => done((e.source === f.contentWindow) + ' ' + e.origin))",
    )
    yield case(
        "frame-srcdoc",
        "data",
        "made('iframe', {srcdoc: `<script>fetch('"
        + HOST
        + "/shared/data.txt').then(r => r.text()).then(t => parent.postMessage(t, '*'))<\\/script>`}); told().then(done)",
    )
    yield case(
        "frame-srcdoc-markup",
        "loaded",
        "told().then(done)",
        markup=f"<iframe srcdoc=\"<img src='{CDN}/pixel.png' onload=&quot;parent.postMessage('loaded', '*')&quot;>\"></iframe>",
        live=False,
    )
    yield case(
        "frame-blank",
        "data",
        f"const f = made('iframe', {{}}); f.contentWindow.fetch('{HOST}/shared/data.txt').then(r => r.text()).then(done)",
    )
    yield case(
        "frame-written",
        "lib",
        f"const f = made('iframe', {{}}); const d = f.contentDocument; d.open(); d.write('<script src=\"{CDN}/lib.js\" onload=\"parent.postMessage(lib, \\'*\\')\"><\\/script>'); d.close(); told().then(done)",
    )
    yield case(
        "top", "true true true", "done([top === self, window.parent === window, window.top == window.self].join(' '))"
    )
    yield case(
        "frame-top",
        "false true Case",
        "made('iframe', {src: 'inner.html'}); told().then(done)",
        files={
            "inner.html": file(
                HTML,
                "<script>parent.postMessage([top === self, top === parent, parent.document.title].join(' '), '*')</script>",
            )
        },
    )
    yield case(
        "frame-location",
        f"{HOST}/shared/frame.html",
        "const f = made('iframe', {src: '/shared/frame.html'}); f.onload = () => done(f.contentWindow.location.href)",
    )
    yield case(
        "form-get",
        f"end {CDN}/end.html?q=1",
        f"const f = made('iframe', {{name: 'there'}}); const form = made('form', {{action: '{CDN}/end.html', target: 'there'}}); form.innerHTML = '<input name=q value=1>'; form.submit(); told().then(done)",
        files={f"{CDN}/end.html?q=1": file(HTML, "<script>parent.postMessage('end ' + location.href, '*')</script>")},
    )
    yield case(
        "form-post",
        "posted 5",
        "made('iframe', {name: 'there'}); const form = made('form', {action: 'posted', method: 'post', target: 'there'}); form.innerHTML = '<input name=n value=5>'; form.submit(); told().then(done)",
        files={
            "posted": [
                File(
                    HTML,
                    b"<script>parent.postMessage('posted 5', '*')</script>",
                    sent=("application/x-www-form-urlencoded", b"n=5"),
                )
            ]
        },
    )
    for name, how in (
        ("assign", f"location.assign('{CDN}/end.html')"),
        ("href", f"location.href = '{CDN}/end.html'"),
        ("bare", f"location = '{CDN}/end.html'"),
        ("window", f"window.location = '{CDN}/end.html'"),
        (
            "click",
            f"const a = document.body.appendChild(document.createElement('a')); a.setAttribute('href', '{CDN}/end.html'); a.click()",
        ),
    ):
        yield case(
            f"go-{name}",
            f"end {CDN}/end.html",
            "made('iframe', {src: 'inner.html'}); told().then(done)",
            files={"inner.html": file(HTML, f"<body><script>{how}</script>")},
        )
    yield case(
        "go-refresh",
        f"end {CDN}/end.html",
        "made('iframe', {src: 'inner.html'}); told().then(done)",
        files={"inner.html": file(HTML, f"<meta http-equiv=refresh content='0; url={CDN}/end.html'>")},
    )
    yield case(
        "go-link",
        f"end {CDN}/end.html",
        "made('iframe', {src: 'inner.html'}); told().then(done)",
        files={
            "inner.html": file(HTML, f"<a id=a target=_blank href='{CDN}/end.html'>go</a><script>a.click()</script>")
        },
        live=False,
    )


def _where() -> Iterator[Case]:
    parts = "[l.href, l.host, l.hostname, l.origin, l.protocol, l.port, l.pathname].join(' ')"
    yield case(
        "location",
        f"{HOST}/location/ hard.example hard.example {HOST} http:  /location/",
        f"const l = {{href: location.href, host: location.host, hostname: location.hostname, origin: location.origin, protocol: location.protocol, port: location.port, pathname: location.pathname}}; done({parts})",
    )
    yield case(
        "location-global",
        f"{HOST}/location-global/ hard.example",
        "done(window.location.href + ' ' + document.location.host)",
    )
    yield case(
        "location-value",
        f"{HOST}/location-value/ {HOST}/location-value/",
        "const l = location; done(String(l) + ' ' + `${location}`)",
    )
    yield case(
        "location-parts",
        "hard.example /location-parts/",
        "const {host, pathname} = window.location; done(host + ' ' + pathname)",
    )
    yield case("location-minified", "hard.example", "(function(e){done(e.location.host)})(window)")
    yield case(
        "location-local",
        "mine yours",
        "(function(location){const o={location:{x:'yours'}}; done(location.href + ' ' + o.location.x)})({href: 'mine'})",
    )
    yield case(
        "location-text",
        "location.href /location.href/ 2",
        "const s = 'location.href', r = /location.href/; const a = {location: {b: 4}}, c = 2; done(s + ' ' + r + ' ' + a.location.b / c)",
    )
    yield case("origin", f"{HOST} {HOST}", "done(origin + ' ' + self.origin)")
    yield case(
        "document",
        f"{HOST}/document/ hard.example  {HOST}/document/",
        "done([document.URL, document.domain, document.referrer, document.baseURI].join(' '))",
    )
    yield case(
        "link",
        f"{HOST}/x?y#z hard.example {HOST} {HOST}/x?y#z",
        "const a = document.createElement('a'); a.href = '/x?y#z'; done([a.href, a.host, a.origin, String(a)].join(' '))",
    )
    yield case(
        "attribute",
        f"{CDN}/pixel.png {CDN}/pixel.png",
        f"const i = made('img', {{}}); i.setAttribute('src', '{CDN}/pixel.png'); done(i.getAttribute('src') + ' ' + i.src)",
    )
    yield case(
        "inner-html",
        f'<img src="{CDN}/pixel.png">',
        f"const p = made('p', {{}}); p.innerHTML = '<img src=\"{CDN}/pixel.png\">'; done(p.innerHTML)",
    )
    yield case(
        "push-state",
        f"/push-state/deep {HOST}/push-state/deep?q",
        f"history.pushState(null, '', '{HOST}/push-state/deep?q'); done(location.pathname + ' ' + location.href)",
    )
    yield case("hash", "#/route", "addEventListener('hashchange', () => done(location.hash)); location.hash = '/route'")
    yield case(
        "performance",
        f"{CDN}/lib.js",
        f"const s = made('script', {{src: '{CDN}/lib.js'}}); s.onload = () => setTimeout(() => done(performance.getEntriesByType('resource').map(e => e.name).find(n => n.endsWith('lib.js'))), 100)",
    )
    yield case(
        "message-self",
        f"{HOST} x",
        f"window.postMessage('x', '{HOST}'); wait('message').then(e => done(e.origin + ' ' + e.data))",
    )
    yield case(
        "current-script",
        "1 lib",
        f"made('script', {{src: '{CDN}/lib.js'}}).onload = () => done(document.scripts[0].src.length + ' ' + window.lib)".replace(
            "document.scripts[0].src.length", "(document.scripts[0].src === '' ? 1 : 0)"
        ),
    )


def _resources() -> Iterator[Case]:
    yield case(
        "image",
        "loaded 1",
        f"const i = new Image(); loaded(i).then(v => done(v + ' ' + i.width)); i.src = '{CDN}/pixel.png'",
    )
    yield case(
        "image-set",
        f"loaded {CDN}/pixel.png",
        f"const i = new Image(); loaded(i).then(v => done(v + ' ' + i.currentSrc)); i.srcset = '{CDN}/pixel.png 1x'",
    )
    yield case(
        "image-markup",
        "loaded",
        f"const p = made('p', {{}}); p.innerHTML = '<img src=\"{CDN}/pixel.png\">'; loaded(p.firstChild).then(done)",
    )
    yield case(
        "image-adjacent",
        "loaded",
        "document.body.insertAdjacentHTML('beforeend', \"<img id=i src='//cdn.example/pixel.png'>\"); loaded(i).then(done)",
    )
    yield case(
        "image-lazy",
        "loaded",
        "const i = document.querySelector('img'); loaded(i).then(done); i.src = i.dataset.src",
        markup=f"<img data-src='{CDN}/pixel.png'>",
    )
    yield case(
        "image-template",
        "loaded",
        "const i = document.querySelector('template').content.cloneNode(true).firstChild; loaded(i).then(done); document.body.append(i)",
        markup=f"<template><img src='{CDN}/pixel.png'></template>",
    )
    yield case(
        "image-parsed",
        f"{CDN}/pixel.png loaded",
        f"const i = document.importNode(new DOMParser().parseFromString('<img src=\"{CDN}/pixel.png\">', 'text/html').querySelector('img')); loaded(i).then(v => done(i.getAttribute('src') + ' ' + v)); document.body.append(i)",
    )
    yield case(
        "image-svg",
        "loaded",
        f"const s = document.querySelector('image'); loaded(s).then(done); s.setAttributeNS('http://www.w3.org/1999/xlink', 'xlink:href', '{CDN}/pixel.png')",
        markup="<svg width=9 height=9><image width=9 height=9 /></svg>",
    )
    yield case(
        "script",
        "lib",
        f"made('script', {{src: '{CDN}/lib.js', crossOrigin: 'anonymous'}}).onload = () => done(window.lib)",
    )
    yield case(
        "script-integrity",
        "lib",
        "done(window.lib)",
        markup=f"<script src='{CDN}/lib.js' crossorigin integrity='sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA='></script>",
        live=False,
    )
    yield case(
        "script-written",
        "lib",
        "addEventListener('load', () => done(window.lib))",
        markup=f"<script>document.write('<script src=\"{CDN}/lib.js\"></' + 'script>')</script>",
    )
    yield case(
        "script-function",
        "data",
        "new Function('done', \"fetch('http://hard.example/shared/data.txt').then(r => r.text()).then(done)\")(done)",
    )
    yield case(
        "message-once",
        "once",
        "addEventListener('message', event => done(event.data), {once: true}); postMessage('once', '*')",
    )
    yield case(
        "script-names",
        "seen Kind",
        "done(`${shared} ${Kind.name}`)",
        markup="<script>const shared = 'seen'; class Kind {}</script>",
    )
    yield case(
        "handler",
        "hard.example",
        "document.querySelector('button').click()",
        markup="<button onclick='done(location.host)'></button>",
    )
    yield case(
        "base",
        "lib",
        "addEventListener('load', () => done(window.lib))",
        markup=f"<base href='{CDN}/'><script src='lib.js'></script>",
    )
    yield case(
        "module",
        f"word {HOST}/shared/word.js",
        "import url, {word} from '/shared/word.js'; done(word + ' ' + url)",
        module=True,
    )
    yield case("module-elsewhere", "deep", f"import {{word}} from '{CDN}/module.js'; done(word)", module=True)
    yield case(
        "module-dynamic",
        "deep word",
        f"const a = await import('{CDN}/module.js'), b = await import('/shared/word.js'); done(a.word + ' ' + b.word)",
        module=True,
    )
    yield case(
        "module-computed",
        "deep",
        f"const name = ['{CDN}', 'module.js'].join('/'); import(name).then(m => done(m.word))",
    )
    yield case(
        "module-map",
        "deep word",
        "import {word} from 'far'; import {word as near} from 'near'; done(word + ' ' + near)",
        module=True,
        markup=f"<script type=importmap>{json.dumps({'imports': {'far': f'{CDN}/module.js', 'near': '/shared/word.js'}})}</script>",
    )
    yield case("module-url", f"{HOST}/module-url/x.txt", "done(new URL('x.txt', import.meta.url))", module=True)
    yield case(
        "style",
        "rgb(1, 2, 3)",
        "addEventListener('load', () => done(getComputedStyle(out).color))",
        markup=f"<link rel=stylesheet href='{CDN}/style.css'>",
    )
    yield case(
        "style-import",
        "rgb(1, 2, 3)",
        "addEventListener('load', () => done(getComputedStyle(out).color))",
        markup=f"<style>@import '{CDN}/style.css';</style>",
    )
    yield case(
        "style-made",
        "rgb(1, 2, 3)",
        f"made('link', {{rel: 'stylesheet', href: '{CDN}/style.css'}}).onload = () => done(getComputedStyle(out).color)",
    )
    yield case(
        "font",
        "rejected",
        f"new FontFace('f', 'url({CDN}/pixel.png)').load().then(() => done('loaded'), e => done('rejected'))",
    )
    yield case(
        "shadow",
        "loaded",
        f"customElements.define('x-y', class extends HTMLElement {{ connectedCallback() {{ const r = this.attachShadow({{mode: 'open'}}); r.innerHTML = '<img src=\"{CDN}/pixel.png\">'; loaded(r.firstChild).then(done) }} }}); document.body.append(document.createElement('x-y'))",
    )


def _state() -> Iterator[Case]:
    yield case(
        "cookie",
        "a=1; b=2 | b=2",
        "document.cookie = 'a=1'; document.cookie = 'b=2'; const before = document.cookie; document.cookie = 'a=; max-age=0'; done(before + ' | ' + document.cookie)",
    )
    yield case(
        "cookie-archived",
        "session=x",
        "done(document.cookie.split('; ').filter(one => one[0] === 's'))",
        head=(("Set-Cookie", "session=x; Path=/cookie-archived/"), ("Set-Cookie", "secret=y; HttpOnly")),
    )
    yield case(
        "cookie-reload",
        "kept",
        "if (!sessionStorage.seen) { sessionStorage.seen = 1; document.cookie = 'c=kept'; location.reload() } else done(document.cookie.split('c=')[1].split(';')[0])",
    )
    yield case(
        "storage",
        "1 2",
        "localStorage.a = 1; sessionStorage.setItem('b', 2); done(localStorage.getItem('a') + ' ' + sessionStorage.b)",
    )
    yield case(
        "database",
        "stored",
        "const q = indexedDB.open('d'); q.onupgradeneeded = () => q.result.createObjectStore('s'); q.onsuccess = () => { const t = q.result.transaction('s', 'readwrite'); t.objectStore('s').put('stored', 'k'); const g = t.objectStore('s').get('k'); g.onsuccess = () => done(g.result) }; q.onerror = () => done('error')",
    )
    yield case("dialog", "false", "done(confirm('sure?'))")
    yield case(
        "service-worker",
        "refused",
        "navigator.serviceWorker.register('/sw.js').then(() => done('registered'), () => done('refused'))",
        files={"/sw.js": file(JS, "")},
        live=False,
    )


CASES = {one.name: one for part in (_network, _workers, _frames, _where, _resources, _state) for one in part()}


def all_files() -> dict[str, list[File]]:
    """Everything of this web by URL; several for a URL that answers POSTs."""
    found: dict[str, list[File]] = {}

    def add(url: str, files: File | list[File]) -> None:
        found.setdefault(url, []).extend(files if isinstance(files, list) else [files])

    for url, files in SHARED.items():
        add(url, files)
    for one in CASES.values():
        add(one.url, one.page)
        for name, files in one.files.items():
            add(name if "://" in name else HOST + name if name.startswith("/") else one.url + name, files)
    return found


def records() -> Iterator[bytes]:
    """The records of an archive of this web, as a crawler with a browser would have written them."""
    for url, files in all_files().items():
        for number, one in enumerate(files):
            when = str(int(WHEN) + number)
            answer = response(url, when, one.body, status=one.status, head=one.fields)
            yield answer
            if one.sent:
                yield request_of(url, when, *one.sent)


def request_of(url: str, when: str, kind: str, body: bytes) -> bytes:
    """Return the record of the POST that a response answers."""
    path = urlsplit(url).path
    block = f"POST {path} HTTP/1.1\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    answered = uuid.uuid5(uuid.NAMESPACE_URL, f"response {url} {when}")
    fields = (("Content-Type", "application/http; msgtype=request"), ("WARC-Concurrent-To", f"<urn:uuid:{answered}>"))
    return record("request", url, when, block, fields)

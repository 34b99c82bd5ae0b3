"""Pages that need a browser: each does one thing that makes archiving hard, and shows whether it came off.

Three hosts: the page's own (a secure context, so that workers are allowed), one of another origin of the same site that
allows CORS, and one of another site that does not.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webmill.testing import Answer, ExpectedPage, HttpReply, ReceivedRequest, ScriptedReply, Wait
from webmill.testing.assets import png

HOST, CDN, OTHER = "hard.mill.localhost", "cdn.mill.localhost", "tracker.other.localhost"
JS, CSS, JSON_TYPE, PNG, TEXT = "text/javascript", "text/css", "application/json", "image/png", "text/plain"
HTML = "text/html; charset=utf-8"

HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>
<script>function say(text) {{ const p = document.createElement("p"); p.textContent = text;
 (document.getElementById("out") || document.body).append(p); }}
const get = (url, options) => fetch(url, options).then((r) => r.text());</script></head>
<body><div id="out"></div>
"""

PAGES_FILE = Path(__file__).with_name("hard_pages.txt")


def read_pages(written: str) -> dict[str, str]:
    """Return the pages by name: each begins with a line `=== NAME`."""
    for name, host in (("$HOST", HOST), ("$CDN", CDN), ("$OTHER", OTHER)):
        written = written.replace(name, host)
    parts = (part.partition("\n") for part in f"\n{written}".split("\n=== ")[1:])
    return {name.strip(): body.strip() for name, _, body in parts}


PAGES = read_pages(PAGES_FILE.read_text(encoding="utf-8"))
SCRIPTS = {
    "/module/main.js": "import {part} from './part.js'; say(part());",
    "/module/part.js": "import {deep} from './deep.js'; export const part = () => 'part ' + deep;",
    "/module/deep.js": "export const deep = 'deep';",
    "/script/one.js": "say('one');",
    "/script/two.js": "say('two');",
    "/worker/plain.js": "fetch('/data/worker').then((r) => r.text()).then(postMessage)",
    "/worker/module.js": "import {part} from '/module/part.js'; postMessage(part())",
    "/worker/imports.js": "importScripts('/worker/lib.js'); postMessage(lib())",
    "/worker/lib.js": "function lib() { return 'imported' }",
    "/worker/nested.js": "const w = new Worker('/worker/inner.js'); w.onmessage = (e) => postMessage(e.data)",
    "/worker/inner.js": "fetch('/data/inner').then((r) => r.text()).then(postMessage)",
    "/worker/shared.js": "onconnect = (e) => fetch('/data/shared').then((r) => r.text())"
    ".then((t) => e.ports[0].postMessage(t))",
    "/sw.js": "oninstall = (e) => e.waitUntil(fetch('/data/sw-install').then(() => skipWaiting()))",
}
ADD_WASM = bytes.fromhex("0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b")
FRAME = (
    "<!doctype html><script>fetch('/data/in-frame').then((r) => r.text()).then((t) => top.postMessage(t, '*'))</script>"
)


class HardHost:
    """Answers of one of the three hosts."""

    def __init__(self, name: str) -> None:
        self.name = name

    def pages(self, version: int) -> list[ExpectedPage]:  # type: ignore[override]
        return []

    def answer(self, request: ReceivedRequest) -> Answer:
        answer = self._answer(request)
        if self.name == CDN and isinstance(answer, HttpReply):
            origin = request.headers.get("Origin")
            fields = [("Access-Control-Allow-Origin", origin or "*"), ("Access-Control-Allow-Credentials", "true")]
            fields += [("Access-Control-Allow-Headers", "X-Own"), ("Access-Control-Allow-Methods", "GET, PUT, POST")]
            return _with(answer, headers=(*answer.headers, *fields))
        return answer

    def _answer(self, request: ReceivedRequest) -> Answer:
        path = request.path
        if request.method == "OPTIONS":
            return HttpReply(status=204, media_type="")
        if path == "/":
            links = "".join(f'<a href="/hard/{name}">{name}</a> ' for name in PAGES)
            return HttpReply(body=f"<!doctype html><title>Hard pages</title>{links}".encode())
        if path in SCRIPTS:
            return HttpReply(body=SCRIPTS[path].encode(), media_type=JS)
        first, _, rest = path.removeprefix("/").partition("/")
        made = _ANSWERS.get(first)
        return made(rest, request) if made else HttpReply(status=404, body=b"not here")


def page(name: str) -> HttpReply:
    if name not in PAGES:
        return HttpReply(status=404, body=b"no such page")
    return HttpReply(body=(HEAD.format(name=name) + PAGES[name] + "</body></html>").encode())


def _data(rest: str, request: ReceivedRequest) -> HttpReply:
    return HttpReply(body=f"data of {rest}{'?' if request.query else ''}{request.query}".encode(), media_type=TEXT)


def _post(rest: str, request: ReceivedRequest) -> HttpReply:
    if rest == "length":
        return _text(f"length {len(request.body)}")
    if rest == "frame":
        return HttpReply(body=f"<script>top.postMessage('posted {request.body.decode()}', '*')</script>".encode())
    return _text(f"{request.method} {rest}: {request.body.decode('utf-8', 'replace')}")


def _echo(rest: str, request: ReceivedRequest) -> HttpReply:
    return _text(f"{rest}: {request.headers.get(rest)}")


def _moved(rest: str, _: ReceivedRequest) -> HttpReply:
    target = "/image/moved.png" if rest == "image" else f"/data/{rest}"
    return HttpReply(status=302, headers=(("Location", target),), media_type="")


def _set_cookie(_: str, request: ReceivedRequest) -> HttpReply:
    secret = request.query == "http"
    cookie = "secret=3; HttpOnly; Path=/" if secret else "given=2; Path=/"
    return HttpReply(body=b"set", media_type=TEXT, headers=(("Set-Cookie", cookie),))


def _cookies(_: str, request: ReceivedRequest) -> HttpReply:
    pairs = sorted((request.headers.get("Cookie") or "").split("; "))
    return _text("; ".join(one for one in pairs if one.startswith(("mine", "given"))))


def _frame(rest: str, _: ReceivedRequest) -> HttpReply:
    return HttpReply(body=(f"<iframe src=/frame/inner></iframe>{rest}" if rest == "outer" else FRAME).encode())


def _jsonp(_: str, request: ReceivedRequest) -> HttpReply:
    name = request.query.rpartition("=")[2]
    return HttpReply(body=f'{name}({{"name": "padded"}})'.encode(), media_type=JS)


def _text(text: str) -> HttpReply:
    return HttpReply(body=text.encode(), media_type=TEXT)


def _with(reply: HttpReply, **values: Any) -> HttpReply:
    from msgspec.structs import replace

    return replace(reply, **values)


_ANSWERS: dict[str, Callable[[str, ReceivedRequest], Answer]] = {
    "hard": lambda rest, _: page(rest),
    "data": _data,
    "based": _data,
    "json": lambda rest, _: HttpReply(body=json.dumps({"name": f"json {rest}"}).encode(), media_type=JSON_TYPE),
    "post": _post,
    "method": lambda rest, request: _text(f"{request.method} {rest} {request.body.decode()}"),
    "echo": _echo,
    "moved": _moved,
    "moved303": lambda *_: HttpReply(status=303, headers=(("Location", "/data/seen-other"),), media_type=""),
    "status": lambda rest, _: HttpReply(status=int(rest), body=b"broken"),
    "slow": lambda *_: ScriptedReply(steps=(Wait(40), b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")),
    "gzip": lambda *_: HttpReply(
        body=gzip.compress(b"unpacked", mtime=0), media_type=TEXT, headers=(("Content-Encoding", "gzip"),)
    ),
    "big": lambda rest, _: HttpReply(body=b"x" * int(rest), media_type="application/octet-stream"),
    "image": lambda rest, _: HttpReply(body=png(colour=(len(rest) * 9 % 256, 40, 90)), media_type=PNG),
    "style": lambda rest, _: HttpReply(
        body=b"@import 'more.css'; .grown { color: rgb(1, 2, 3); background: url(/image/wall.png) }"
        if rest == "main.css"
        else b"p { margin: 1px }",
        media_type=CSS,
    ),
    "font": lambda *_: HttpReply(body=b"wOF2 not a font", media_type="font/woff2"),
    "video": lambda *_: HttpReply(body=b"0123456789" * 500, media_type="video/webm", ranges=True),
    "track": lambda *_: HttpReply(body=b"WEBVTT\n\n00:00.000 --> 00:01.000\nword\n", media_type="text/vtt"),
    "set-cookie": _set_cookie,
    "cookies": _cookies,
    "frame": _frame,
    "jsonp": _jsonp,
    "events": lambda *_: HttpReply(body=b"data: one event\n\n", media_type="text/event-stream"),
    "download": lambda *_: HttpReply(
        body=b"PK", media_type="application/zip", headers=(("Content-Disposition", "attachment"),)
    ),
    "latin1": lambda *_: HttpReply(body="größe".encode("latin-1"), media_type="text/plain; charset=iso-8859-1"),
    "module": lambda *_: HttpReply(body=ADD_WASM, media_type="application/wasm"),
}


def hard_hosts() -> dict[str, HardHost]:
    return {name: HardHost(name) for name in (HOST, CDN, OTHER)}

"""Static files: conditional requests, ranges, cookies, and what a client sent."""

from __future__ import annotations

import json

from webmill.testing.assets import pdf, png
from webmill.testing.exchange import HTML, TEXT, Answer, Reply, Request, etag_of, known
from webmill.testing.features.base import Feature, Shelf, page
from webmill.testing.pages import FIRST_DAY

HOST = "files.mill.example"
_BINARY = "application/octet-stream"
_PATTERN = bytes(range(256)) * 400
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><script>alert(1)</script></svg>\n'


def features() -> list[Feature]:
    shelf = Shelf(HOST)
    shelf.put(
        "/file.bin",
        "102,400 bytes; ETag, Last-Modified, ranges",
        known(_PATTERN, _BINARY, modified=FIRST_DAY, ranges=True),
    )
    shelf.put("/etag", "ETag only", Reply(body=page("Tagged").body, etag=etag_of(b"tagged")))
    shelf.put("/weak-etag", "a weak ETag", Reply(body=page("Weak").body, etag='W/"weak"'))
    shelf.put("/modified", "Last-Modified only", Reply(body=page("Dated").body, modified=FIRST_DAY))
    shelf.put("/never-304", "an ETag, and 200 whatever is asked", _stubborn())
    shelf.add("/large", "2 MiB of text", lambda _: Reply(body=b"large text here\n" * (1 << 17), media_type=TEXT))
    shelf.put("/empty", "200 with no bytes", Reply())
    shelf.put("/picture.png", "a PNG", Reply(body=png(colour=(200, 100, 0)), media_type="image/png"))
    shelf.put("/document.pdf", "a PDF", Reply(body=pdf("A document"), media_type="application/pdf"))
    shelf.put("/picture.svg", "an SVG with a script", Reply(body=_SVG, media_type="image/svg+xml"))
    shelf.put("/notes.txt", "plain text", Reply(body=b"Only text, <b>not bold</b>.\n", media_type=TEXT))
    shelf.put("/data.json", "JSON", Reply(body=b'{"grain": ["barley", "rye"]}\n', media_type="application/json"))
    shelf.put("/wrong-type", "a PNG that says it is HTML", Reply(body=png(colour=(0, 100, 200)), media_type=HTML))
    shelf.put("/no-type", "HTML without Content-Type", Reply(body=page("Untyped").body, media_type=""))
    shelf.put("/download", "HTML as an attachment", Reply(body=page("Saved").body, headers=_ATTACHMENT))
    shelf.put("/cookie/set", "sets three cookies, one of them for the parent domain", Reply(headers=_COOKIES))
    shelf.add("/cookie/show", "the Cookie field that came, as text", _show_cookie)
    shelf.add("/headers", "all fields that came, as JSON pairs", _show_headers)
    return shelf.features


_ATTACHMENT = (("Content-Disposition", 'attachment; filename="saved.html"'),)
_COOKIES = (
    ("Set-Cookie", "plain=1"),
    ("Set-Cookie", "wide=2; Domain=mill.example; Path=/"),
    ("Set-Cookie", "long=3; Max-Age=315360000; HttpOnly"),
)


def _stubborn() -> Reply:
    """Named as an extra field, the etag is not looked at."""
    return Reply(body=page("Stubborn").body, headers=(("ETag", '"stubborn"'),))


def _show_cookie(request: Request) -> Answer:
    return Reply(body=(request.headers.get("cookie") or "").encode("latin-1"), media_type=TEXT)


def _show_headers(request: Request) -> Answer:
    return Reply(body=json.dumps(request.headers.pairs).encode(), media_type="application/json")

"""Static files: conditional requests, ranges, cookies, and what a client sent."""

from __future__ import annotations

import json

from webmill.testing.articles import FIRST_DAY
from webmill.testing.assets import pdf, png
from webmill.testing.exchange import HTML, TEXT, Answer, HttpReply, ReceivedRequest, etag_of, reply_with_etag
from webmill.testing.features.base import Feature, HostFeatures, page

HOST = "files.mill.example"
_BINARY = "application/octet-stream"
_PATTERN = bytes(range(256)) * 400
_SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><script>alert(1)</script></svg>\n'


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.put(
        "/file.bin",
        "102,400 bytes; ETag, Last-Modified, ranges",
        reply_with_etag(_PATTERN, _BINARY, modified=FIRST_DAY, ranges=True),
    )
    table.put("/etag", "ETag only", HttpReply(body=page("Tagged").body, etag=etag_of(b"tagged")))
    table.put("/weak-etag", "a weak ETag", HttpReply(body=page("Weak").body, etag='W/"weak"'))
    table.put("/modified", "Last-Modified only", HttpReply(body=page("Dated").body, modified=FIRST_DAY))
    table.put("/never-304", "an ETag, and 200 whatever is asked", _stubborn())
    table.add("/large", "2 MiB of text", lambda _: HttpReply(body=b"large text here\n" * (1 << 17), media_type=TEXT))
    table.put("/empty", "200 with no bytes", HttpReply())
    table.put("/picture.png", "a PNG", HttpReply(body=png(colour=(200, 100, 0)), media_type="image/png"))
    table.put("/document.pdf", "a PDF", HttpReply(body=pdf("A document"), media_type="application/pdf"))
    table.put("/picture.svg", "an SVG with a script", HttpReply(body=_SVG, media_type="image/svg+xml"))
    table.put("/notes.txt", "plain text", HttpReply(body=b"Only text, <b>not bold</b>.\n", media_type=TEXT))
    table.put("/data.json", "JSON", HttpReply(body=b'{"grain": ["barley", "rye"]}\n', media_type="application/json"))
    table.put("/wrong-type", "a PNG that says it is HTML", HttpReply(body=png(colour=(0, 100, 200)), media_type=HTML))
    table.put("/no-type", "HTML without Content-Type", HttpReply(body=page("Untyped").body, media_type=""))
    table.put("/download", "HTML as an attachment", HttpReply(body=page("Saved").body, headers=_ATTACHMENT))
    table.put("/cookie/set", "sets three cookies, one of them for the parent domain", HttpReply(headers=_COOKIES))
    table.add("/cookie/show", "the Cookie field that came, as text", _show_cookie)
    table.add("/headers", "all fields that came, as JSON pairs", _show_headers)
    return table.features


_ATTACHMENT = (("Content-Disposition", 'attachment; filename="saved.html"'),)
_COOKIES = (
    ("Set-Cookie", "plain=1"),
    ("Set-Cookie", "wide=2; Domain=mill.example; Path=/"),
    ("Set-Cookie", "long=3; Max-Age=315360000; HttpOnly"),
)


def _stubborn() -> HttpReply:
    """Return a reply whose ETag is an extra header, so that conditions are ignored."""
    return HttpReply(body=page("Stubborn").body, headers=(("ETag", '"stubborn"'),))


def _show_cookie(request: ReceivedRequest) -> Answer:
    return HttpReply(body=(request.headers.get("cookie") or "").encode("latin-1"), media_type=TEXT)


def _show_headers(request: ReceivedRequest) -> Answer:
    return HttpReply(body=json.dumps(request.headers.pairs).encode(), media_type="application/json")

"""Pages with images, styles, scripts and frames, some of them on another host."""

from __future__ import annotations

from webmill.testing.articles import plain_page
from webmill.testing.assets import png
from webmill.testing.exchange import TEXT, Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page, whole_number

HOST, CDN = "gallery.mill.example", "static.depot.example"
CSS, FONT, PNG, SCRIPT = "text/css", "font/woff2", "image/png", "text/javascript"

_HEAD = f"""<link rel="stylesheet" href="http://{CDN}/look/main.css">
<link rel="icon" href="/icon.png">
<style>@import "/look/inline.css"; h1 {{ background: url(/pictures/head.png) }}</style>
<script src="http://{CDN}/script.js"></script>
"""
_BODY = f"""<img id="one" src="/pictures/one.png" srcset="/pictures/one.png 1x, /pictures/one-large.png 2x" alt="one">
<picture><source srcset="/pictures/two.png"><img id="two" src="/pictures/two-old.png" alt="two"></picture>
<img id="depot" src="http://{CDN}/pictures/depot.png" alt="depot">
<img id="moved" src="/pictures/moved.png" alt="moved">
<img id="closed" src="http://{CDN}/closed/secret.png" alt="closed">
<p id="styled" style="background: url(&quot;/pictures/styled.png&quot;)">A picture behind words.</p>
<iframe src="/frame"></iframe> <iframe src="http://{CDN}/frame"></iframe>
<p><a href="/other">another room</a></p>"""
_MAIN = b"""@import url(more.css);
@font-face { font-family: mill; src: url(mill.woff2) format("woff2") }
body { color: rgb(1, 2, 3); font-family: mill, serif; background: url("../pictures/wall.png") }
/* url(../pictures/never.png) */
"""


def features() -> list[Feature]:
    return [*_gallery().features, *_depot().features]


def _gallery() -> HostFeatures:
    table = HostFeatures(HOST)
    table.put("/whole", "needs all that is below, and more of the depot", HttpReply(body=_gallery_page()))
    table.put("/other", "needs what /whole needs, and nothing else", HttpReply(body=_gallery_page()))
    table.put("/frame", "in a frame of /whole, with a picture and a link", HttpReply(body=_frame("/behind-the-frame")))
    table.put("/behind-the-frame", "what the frame links to", page("Behind the frame"))
    table.put("/astray", "only a link of the depot's frame leads here", page("Astray"))
    table.put("/look/inline.css", "imported by a style element", HttpReply(body=b"h1 { margin: 0 }", media_type=CSS))
    table.add("/pictures/*", "pictures", _picture, start="/pictures/one.png")
    moved = HttpReply(status=302, headers=(("Location", "/pictures/found.png"),))
    table.put("/pictures/moved.png", "302 to another picture", moved)
    table.put("/icon.png", "a picture", HttpReply(body=png(colour=(9, 9, 9)), media_type=PNG))
    table.add("/endless", "a sheet that imports five, each of which imports five, without end", _endless)
    table.add("/endless.css", "such a sheet", _endless_sheet)
    table.add("/many/*", "a page with N pictures", _many, start="/many/300")
    return table


def _depot() -> HostFeatures:
    table = HostFeatures(CDN)
    rules = b"User-agent: *\nDisallow: /closed/\n"
    table.put("/robots.txt", "`/closed/` forbidden", HttpReply(body=rules, media_type=TEXT))
    table.put("/look/main.css", "imports a sheet, has a font and a picture", HttpReply(body=_MAIN, media_type=CSS))
    more = b"#styled { outline: 1px solid }\na { background: url(/pictures/deep.png) }\n"
    table.put("/look/more.css", "has a picture", HttpReply(body=more, media_type=CSS))
    table.put("/look/mill.woff2", "no font, whatever it says", HttpReply(body=b"wOF2" + bytes(40), media_type=FONT))
    table.put("/script.js", "a script", HttpReply(body=b"window.mill = 'grinds'", media_type=SCRIPT))
    table.add("/pictures/*", "pictures", _picture, start="/pictures/depot.png")
    table.add("/closed/*", "a picture that robots.txt forbids", _picture, start="/closed/secret.png")
    table.put(
        "/frame",
        "in a frame of /whole, with a picture and a link",
        HttpReply(body=_frame("/never", f"http://{HOST}/astray")),
    )
    table.put("/never", "not a page resource: only a link of a frame leads here", page("Never"))
    return table


def _gallery_page() -> bytes:
    return plain_page("The gallery", _BODY, head=_HEAD)


def _frame(*links: str) -> bytes:
    anchors = "".join(f'<p><a href="{link}">more</a></p>' for link in links)
    return plain_page("A frame", f'<img src="/pictures/framed.png" alt="">{anchors}')


def _picture(request: ReceivedRequest) -> Answer:
    red, green, blue = (sum(map(ord, request.path[part::3])) % 256 for part in range(3))
    return HttpReply(body=png(colour=(red, green, blue)), media_type=PNG)


def _endless(_: ReceivedRequest) -> Answer:
    return page("Endless", head='<link rel="stylesheet" href="/endless.css?n=1">\n')


def _endless_sheet(request: ReceivedRequest) -> Answer:
    number = whole_number(request.query.removeprefix("n="), default=1, most=10**9)
    imports = "".join(f'@import "/endless.css?n={number * 5 + step}";\n' for step in range(5))
    return HttpReply(body=imports.encode(), media_type=CSS)


def _many(request: ReceivedRequest) -> Answer:
    count = whole_number(request.path.rpartition("/")[2], default=10, most=1000)
    pictures = "".join(f'<img src="/pictures/{number}.png" alt="">\n' for number in range(count))
    return HttpReply(body=plain_page("Many pictures", pictures))

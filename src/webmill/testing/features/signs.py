"""Signs to crawlers in the markup and the header, and pages that are not what they seem."""

from __future__ import annotations

from webmill.testing.exchange import TEXT, Answer, Reply, Request
from webmill.testing.features.base import Feature, Shelf, page
from webmill.testing.pages import plain_page

HOST = "signs.grain.example"
_SAME = page("The same", "Three addresses, one body.")

_ODD_LINKS = """<p>
<a href="javascript:alert(1)">script</a> <a href="mailto:miller@mill.example">mail</a> <a href="tel:+1">phone</a>
<a href="data:text/plain,hello">data</a> <a href="#part">fragment</a> <a href="">empty</a> <a>none</a>
<a href="HTTP://SIGNS.GRAIN.EXAMPLE:80/odd/%7euser">upper case, default port</a>
<a href="//signs.grain.example/odd/scheme">no scheme</a>
<a href=" /odd/space&#10;line ">white space</a> <a href="/odd/a b">space inside</a> <a href="/odd/mühle?q=ü">letters</a>
<a href="/odd/./x/../dots">dots</a> <a href="\\odd\\backslash">backslash</a> <a href="http://[bad/">bad</a>
<a href="http://signs.grain.example@127.0.0.1/">user</a> <a href="http://127.1/">127.1</a>
<a href="http://0177.0.0.1/">octal</a> <a href="http://2130706433/">number</a> <a href="http://①②⑦.⓪.⓪.①/">circled</a>
<a href="http://[::1%25lo]/">zone</a> <a href="http://signs.grain.example:99999/">port</a>
<a href="/odd/pipe|tab&#9;">pipe</a>
</p>"""


def features() -> list[Feature]:
    shelf = Shelf(HOST)
    for content in ("noindex", "nofollow", "none"):
        head = f'<meta name="robots" content="{content}">\n'
        shelf.put(
            f"/meta-{content}", f"meta robots {content}", page(content, links=[f"/after/meta-{content}"], head=head)
        )
        field = (("X-Robots-Tag", content),)
        body = page(content, links=[f"/after/field-{content}"]).body
        shelf.put(f"/field-{content}", f"X-Robots-Tag: {content}", Reply(body=body, headers=field))
    shelf.put("/field-agent", "X-Robots-Tag: webmill: noindex", Reply(body=page("Agent").body, headers=_AGENT))
    shelf.put("/rel-nofollow", 'one link with rel="nofollow", one without', Reply(body=_rel_nofollow()))
    shelf.add("/after/*", "reached by a link of the pages above", lambda _: page("After"), start="/after/x")
    shelf.add("/soft-404/*", "200 and the words of an error page, at any path", _soft_404, start="/soft-404/lost")
    shelf.put(
        "/canonical", "canonical link to /same/one", page("Copy", head='<link rel="canonical" href="/same/one">\n')
    )
    shelf.put(
        "/base",
        '<base href="/after/">, one relative link',
        page("Base", links=["based"], head='<base href="/after/">\n'),
    )
    for name in ("one", "two", "three"):
        shelf.put(f"/same/{name}", "the same bytes at three addresses", _SAME)
    shelf.put("/title-script", "markup inside the title", Reply(body=_TITLE))
    shelf.put("/no-title", "no title, no head", Reply(body=b"<p>Nothing but a paragraph."))
    shelf.add("/form", "a form by GET and one by POST; a POST is shown as text", _form)
    shelf.put("/odd-links", "links of every odd kind", Reply(body=plain_page("Odd links", _ODD_LINKS)))
    shelf.add("/many-links", "20,000 links", _many_links)
    return shelf.features


_AGENT = (("X-Robots-Tag", "webmill: noindex"),)
_TITLE = (
    b"<!doctype html><html lang=en><head><title><script>alert('title')</script> &lt;b&gt;bold&lt;/b&gt;</title></head>"
    b"<body><h1><img src=x onerror=alert(1)> Heading</h1><p>Text with \xe2\x80\xae turned letters.</p></body></html>\n"
)


def _rel_nofollow() -> bytes:
    links = '<a rel="nofollow" href="/after/rel-nofollow">no</a> <a href="/after/rel-follow">yes</a>'
    return plain_page("Links", f"<p>{links}</p>")


def _soft_404(_: Request) -> Answer:
    return page("404 Not Found", "Sorry, the page you are looking for could not be found.")


def _form(request: Request) -> Answer:
    if request.method == "POST":
        return Reply(body=request.body, media_type=TEXT)
    forms = (
        '<form action="/form"><input name="q" value="barley"><button>Find</button></form>\n'
        '<form action="/form" method="post"><input type="hidden" name="token" value="1"><button>Order</button></form>'
    )
    return Reply(body=plain_page("Forms", forms))


def _many_links(_: Request) -> Answer:
    return page("Many links", links=(f"/after/{n}" for n in range(20_000)))

"""Instructions to crawlers in markup and headers, odd links, duplicates and soft errors."""

from __future__ import annotations

from webmill.testing.articles import plain_page
from webmill.testing.exchange import TEXT, Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page

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
    table = HostFeatures(HOST)
    for content in ("noindex", "nofollow", "none"):
        head = f'<meta name="robots" content="{content}">\n'
        table.put(
            f"/meta-{content}", f"meta robots {content}", page(content, links=[f"/after/meta-{content}"], head=head)
        )
        field = (("X-Robots-Tag", content),)
        body = page(content, links=[f"/after/field-{content}"]).body
        table.put(f"/field-{content}", f"X-Robots-Tag: {content}", HttpReply(body=body, headers=field))
    table.put("/field-agent", "X-Robots-Tag: webmill: noindex", HttpReply(body=page("Agent").body, headers=_AGENT))
    table.put("/rel-nofollow", 'one link with rel="nofollow", one without', HttpReply(body=_rel_nofollow()))
    table.add("/after/*", "reached by a link of the pages above", lambda _: page("After"), start="/after/x")
    table.add("/soft-404/*", "200 and the words of an error page, at any path", _soft_404, start="/soft-404/lost")
    table.put(
        "/canonical", "canonical link to /same/one", page("Copy", head='<link rel="canonical" href="/same/one">\n')
    )
    table.put(
        "/base",
        '<base href="/after/">, one relative link',
        page("Base", links=["based"], head='<base href="/after/">\n'),
    )
    for name in ("one", "two", "three"):
        table.put(f"/same/{name}", "the same bytes at three addresses", _SAME)
    table.put("/title-script", "markup inside the title", HttpReply(body=_TITLE))
    table.put("/no-title", "no title, no head", HttpReply(body=b"<p>Nothing but a paragraph."))
    table.add("/form", "a form by GET and one by POST; a POST is shown as text", _form)
    table.put("/odd-links", "links of every odd kind", HttpReply(body=plain_page("Odd links", _ODD_LINKS)))
    table.add("/many-links", "20,000 links", _many_links)
    return table.features


_AGENT = (("X-Robots-Tag", "webmill: noindex"),)
_TITLE = (
    b"<!doctype html><html lang=en><head><title><script>alert('title')</script> &lt;b&gt;bold&lt;/b&gt;</title></head>"
    b"<body><h1><img src=x onerror=alert(1)> Heading</h1><p>Text with \xe2\x80\xae turned letters.</p></body></html>\n"
)


def _rel_nofollow() -> bytes:
    links = '<a rel="nofollow" href="/after/rel-nofollow">no</a> <a href="/after/rel-follow">yes</a>'
    return plain_page("Links", f"<p>{links}</p>")


def _soft_404(_: ReceivedRequest) -> Answer:
    return page("404 Not Found", "Sorry, the page you are looking for could not be found.")


def _form(request: ReceivedRequest) -> Answer:
    if request.method == "POST":
        return HttpReply(body=request.body, media_type=TEXT)
    forms = (
        '<form action="/form"><input name="q" value="barley"><button>Find</button></form>\n'
        '<form action="/form" method="post"><input type="hidden" name="token" value="1"><button>Order</button></form>'
    )
    return HttpReply(body=plain_page("Forms", forms))


def _many_links(_: ReceivedRequest) -> Answer:
    return page("Many links", links=(f"/after/{n}" for n in range(20_000)))

"""Sitemaps: pages that only a sitemap leads to, and malformed or hostile sitemaps (H04)."""

from __future__ import annotations

import gzip

from webmill.testing.articles import FIRST_DAY
from webmill.testing.exchange import TEXT, Answer, HttpReply, ReceivedRequest
from webmill.testing.features.base import Feature, HostFeatures, page
from webmill.testing.story_host import sitemap

HOST = "maps.mill.example"
_XML = "application/xml"
_SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    table.put(
        "/robots.txt", "names the map, the index and the map of another host", HttpReply(body=_ROBOTS, media_type=TEXT)
    )
    table.add("/page/*", "a page that no page links to", _page, start="/page/1")
    table.put("/sitemap.xml", "pages 1 to 10", _xml(_map(range(1, 11))))
    table.put("/sitemap.xml.gz", "pages 11 to 20, gzip file", HttpReply(body=_gz(_map(range(11, 21))), media_type=_GZ))
    table.put("/sitemap.txt", "pages 21 to 25, one URL a line", HttpReply(body=_lines(), media_type=TEXT))
    table.put("/sitemap-index.xml", "index of the first two maps", _xml(_index("sitemap.xml", "sitemap.xml.gz")))
    table.put("/sitemap-loop.xml", "an index that names itself", _xml(_index("sitemap-loop.xml")))
    table.put("/sitemap-deep.xml", "an index of an index", _xml(_index("sitemap-index.xml")))
    table.put("/sitemap-foreign.xml", "URLs of another host", _xml(sitemap([("http://mill.example/", FIRST_DAY)])))
    table.put("/sitemap-cut.xml", "ends in the middle of an entry", _xml(_map(range(1, 4))[:-40]))
    table.put("/sitemap-wrong.xml", "HTML instead of a map", page("No map here"))
    table.add("/sitemap-many.xml", "60,000 URLs; the limit is 50,000", lambda _: _xml(_map(range(60_000))))
    table.put("/sitemap-entities.xml", "an entity bomb in the DTD", _xml(_ENTITIES))
    table.put("/sitemap-external.xml", "external entity file:///etc/hostname", _xml(_EXTERNAL))
    table.put("/sitemap-dtd.xml", "external DTD at http://private.names.test/", _xml(_DTD))
    table.add("/sitemap-bomb.xml.gz", "100 MiB of spaces in 100 kB", lambda _: HttpReply(body=_bomb(), media_type=_GZ))
    return table.features


_GZ = "application/gzip"
_ROBOTS = (
    f"User-agent: *\nAllow: /\n\nSitemap: http://{HOST}/sitemap.xml\nSitemap: http://{HOST}/sitemap-index.xml\n"
    "Sitemap: http://www.mill.example/sitemap.xml\n"
).encode()
_ENTITIES = (
    '<?xml version="1.0"?>\n<!DOCTYPE urlset [\n<!ENTITY a0 "http://maps.mill.example/page/1">\n'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">\n' for n in range(1, 9))
    + f"]>\n<urlset {_SPACE}><url><loc>&a8;</loc></url></urlset>\n"
).encode()
_EXTERNAL = (
    '<?xml version="1.0"?>\n<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/hostname">]>\n'
    f"<urlset {_SPACE}><url><loc>http://{HOST}/page/&x;</loc></url></urlset>\n"
).encode()
_DTD = (
    '<?xml version="1.0"?>\n<!DOCTYPE urlset SYSTEM "http://private.names.test/sitemap.dtd">\n'
    f"<urlset {_SPACE}><url><loc>http://{HOST}/page/1</loc></url></urlset>\n"
).encode()


def _xml(body: bytes) -> HttpReply:
    return HttpReply(body=body, media_type=_XML)


def _gz(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _map(numbers: range) -> bytes:
    return sitemap([(f"http://{HOST}/page/{n}", FIRST_DAY) for n in numbers])


def _lines() -> bytes:
    return "".join(f"http://{HOST}/page/{n}\n" for n in range(21, 26)).encode()


def _index(*names: str) -> bytes:
    maps = "".join(f"<sitemap><loc>http://{HOST}/{name}</loc></sitemap>\n" for name in names)
    return f'<?xml version="1.0"?>\n<sitemapindex {_SPACE}>\n{maps}</sitemapindex>\n'.encode()


def _bomb() -> bytes:
    return _gz(b" " * (1 << 20)) * 100


def _page(request: ReceivedRequest) -> Answer:
    return page(f"Mapped {request.path.removeprefix('/page/')[:9]}")

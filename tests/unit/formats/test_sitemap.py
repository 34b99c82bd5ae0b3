"""Site maps: what is read of right ones, of broken ones, and of those that are made to hurt."""

from __future__ import annotations

import gzip
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webmill.errors import BadInput
from webmill.formats.site.sitemap import Sitemap, SitemapLimits, SitemapUrl, looks_like_sitemap, read_sitemap
from webmill.formats.url.normalise import MAX_URL

SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
FULL = f"""<?xml version="1.0" encoding="UTF-8"?>
<urlset {SPACE} xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml">
  <url>
    <xhtml:link rel="alternate" hreflang="de" href="https://example.com/de"/>
    <image:image><image:loc>https://example.com/a.png</image:loc></image:image>
    <loc> https://example.com/a?x=1&amp;y=2 </loc>
    <lastmod>2024-05-01T10:00:00+00:00</lastmod><changefreq>Weekly</changefreq><priority>0.8</priority>
  </url>
  <url><loc><![CDATA[https://example.com/b]]></loc><priority>high</priority><changefreq>now</changefreq></url>
</urlset>
"""
FULL_URLS = [
    SitemapUrl("https://example.com/a?x=1&y=2", "2024-05-01T10:00:00+00:00", 0.8, "weekly"),
    SitemapUrl("https://example.com/b"),
]
INDEX = (
    f"<sitemapindex {SPACE}><sitemap><loc>https://example.com/1.xml.gz</loc><lastmod>2024</lastmod></sitemap>"
    "<sitemap><loc>/2.xml</loc></sitemap></sitemapindex>"
)
RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<link>https://example.com/</link><image><url>https://example.com/logo.png</url></image>
<item><title>One</title><link>https://example.com/1</link><pubDate>Wed, 02 Oct 2002 13:00:00 GMT</pubDate></item>
<item><atom:link rel="self" href="https://example.com/self"/><link>https://example.com/2</link></item>
</channel></rss>"""
RDF = """<rdf:RDF xmlns:rdf="r" xmlns="x" xmlns:dc="d"><channel><items/></channel>
<item rdf:about="u"><link>https://example.com/3</link><dc:date>2003-01-01</dc:date></item></rdf:RDF>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.com/"/>
<entry><link rel="edit" href="https://example.com/edit"/><link rel="alternate" href="https://example.com/4"/>
<link href="https://example.com/other"/><updated>2003-12-13T18:30:02Z</updated></entry></feed>"""


def locs(found: Sitemap) -> list[str]:
    return [url.loc for url in found.urls]


def outcome(data: bytes) -> Sitemap | str:
    """What was read, or why nothing was."""
    try:
        return read_sitemap(data)
    except BadInput as error:
        return error.reason


def many(count: int) -> bytes:
    urls = "".join(f"<url><loc>https://example.com/{number}</loc></url>" for number in range(count))
    return f"<urlset {SPACE}>{urls}</urlset>".encode()


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_map_is_read_with_all_it_says(encoding: str) -> None:
    assert read_sitemap(FULL.encode(encoding)) == Sitemap(FULL_URLS)


def test_an_index_names_maps() -> None:
    assert read_sitemap(INDEX.encode()) == Sitemap(
        [], [SitemapUrl("https://example.com/1.xml.gz", "2024"), SitemapUrl("/2.xml")]
    )


@pytest.mark.parametrize(
    ("feed", "urls"),
    [
        (
            RSS,
            [
                SitemapUrl("https://example.com/1", "Wed, 02 Oct 2002 13:00:00 GMT"),
                SitemapUrl("https://example.com/2"),
            ],
        ),
        (RDF, [SitemapUrl("https://example.com/3", "2003-01-01")]),
        (ATOM, [SitemapUrl("https://example.com/4", "2003-12-13T18:30:02Z")]),
    ],
    ids=["rss", "rdf", "atom"],
)
def test_feeds_are_maps(feed: str, urls: list[SitemapUrl]) -> None:
    assert read_sitemap(feed.encode()) == Sitemap(urls)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_list_of_urls_is_a_map(encoding: str) -> None:
    found = read_sitemap("https://example.com/ü\r\n\r\n HTTP://EXAMPLE.COM/2 \nno url\n".encode(encoding))
    assert (locs(found), found.flaws) == (["https://example.com/ü", "HTTP://EXAMPLE.COM/2"], {"bad_loc": 1})


@pytest.mark.parametrize("data", [b"", b" \r\n", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_nothing_is_an_empty_map(data: bytes) -> None:
    assert read_sitemap(data) == Sitemap()


def test_a_gzip_file_is_known_by_its_first_bytes() -> None:
    packed = gzip.compress(FULL.encode(), mtime=0)
    assert read_sitemap(packed) == Sitemap(FULL_URLS)
    assert read_sitemap(packed + b"junk").flaws == {"trailing_bytes": 1}


@pytest.mark.parametrize("root", ['<urlset xmlns="anything">', "<urlset>", "<x:urlset>", "\n\n<urlset>"])
def test_namespaces_and_white_space_do_not_matter(root: str) -> None:
    prefix = "x:" if "x:" in root else ""
    data = f"{root}<{prefix}url><{prefix}loc>https://a/</{prefix}loc></{prefix}url></{prefix}urlset>"
    assert locs(read_sitemap(data.encode())) == ["https://a/"]


@pytest.mark.parametrize(
    ("label", "raw", "read"),
    [
        ("windows-1251", b"\xff", "я"),
        ("shift_jis", b"\x83\x65", "テ"),
        ("utf-16", "é".encode(), "é"),
        ("unicode_escape", b"\\x41", "\\x41"),  # a codec of Python's, not an encoding of the web
        ("no-such", b"x", "x"),
    ],
)
def test_only_encodings_of_the_web_are_believed(label: str, raw: bytes, read: str) -> None:
    data = b'<?xml version="1.0" encoding="%s"?><urlset><url><loc>%s</loc></url></urlset>' % (label.encode(), raw)
    assert locs(read_sitemap(data)) == [read]


@pytest.mark.parametrize("packed", ["plain", "gzip"])
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        *((text.encode(), True) for text in (FULL, INDEX, RSS, RDF, ATOM)),
        (FULL.encode("utf-16"), True),
        (b'\xef\xbb\xbf\n<?xml version="1.0"?><?xml-stylesheet href="a"?><!-- <html> - --><urlset/>', True),
        (b"<!DOCTYPE urlset [<!ENTITY a 'b'>]><urlset/>", True),
        (b"https://a/" + b"x" * 3000 + b"\r\n" + b"https://b/" + b"y" * 3000, True),
        (b"https://a/", True),
        (b"<!DOCTYPE html><html><rss>", False),
        (b"<html><!-- <urlset> -->", False),
        (b"<!-- " + b"-" * 5000 + b"<urlset>", False),
        (b"<feedback>", False),
        (b"https://a/\nis a page\n", False),
        (b"", False),
        (b"\x89PNG", False),
    ],
    ids=range(17),
)
def test_a_map_is_known_by_how_it_begins(data: bytes, expected: bool, packed: str) -> None:
    assert looks_like_sitemap(gzip.compress(data, mtime=0) if packed == "gzip" else data) is expected


# --- what is broken ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, len(FULL)))
def test_a_map_cut_anywhere_gives_what_came_before(end: int) -> None:
    found = outcome(FULL.encode()[:end])
    if isinstance(found, str):
        assert found == "not_sitemap"
        assert end < FULL.index("<urlset") + len(FULL.splitlines()[1])
    else:
        assert found.urls == FULL_URLS[: FULL[:end].count("</url>")]
        assert found.flaws == ({} if not end or FULL[:end].rstrip().endswith("</urlset>") else {"bad_xml": 1})


@settings(deadline=None)
@given(st.integers(2, 200))
def test_a_gzip_file_cut_anywhere_is_no_crash(end: int) -> None:
    found = outcome(gzip.compress(FULL.encode(), mtime=0)[:end])
    if isinstance(found, str):
        assert found == "not_sitemap"
    else:
        assert found.urls == FULL_URLS[: len(found.urls)]
        assert found.flaws


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"<", b"<urlset><url><loc>", b"\x1f\x8b\x08", b"\xff\xfe<\0"]))
def test_any_bytes_are_a_map_or_bad_input(data: bytes, begin: bytes) -> None:
    found = outcome(begin + data)
    assert isinstance(found, Sitemap) or found in ("not_sitemap", "xml_entities")


def test_junk_after_the_map_costs_nothing_of_it() -> None:
    found = read_sitemap(FULL.encode() + b"<!-- ok --><more/>")
    assert (found.urls, found.flaws) == (FULL_URLS, {"bad_xml": 1})


def test_entries_without_a_usable_url_are_counted() -> None:
    long = "https://example.com/" + "x" * MAX_URL
    data = f"<urlset><url><loc/></url><url/><url><loc>{long}</loc></url><url><loc>https://a/</loc></url></urlset>"
    found = read_sitemap(data.encode())
    assert (locs(found), found.flaws) == (["https://a/"], {"bad_loc": 3})


@pytest.mark.parametrize(
    "data",
    [
        b"<!DOCTYPE html><html><body>Not found</body></html>",
        b'<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "http://www.w3.org/x.dtd"><html></html>',
        b"<html><head><title>Hello",
        b"<svg/>",
        b"< not xml",
        b"404 not found\nsorry",
        bytes(range(256)),
        b"\x1f\x8bnot gzip",
    ],
)
def test_something_else_is_bad_input(data: bytes) -> None:
    assert outcome(data) == "not_sitemap"


# --- what is made to hurt ---------------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))


@pytest.mark.parametrize("packed", ["plain", "gzip"])
@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE urlset [<!ENTITY a0 "ha">{LAUGHS}]>',
        '<!DOCTYPE urlset [<!ENTITY a9 SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE urlset [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p.dtd"> %p;]>',
        '<!DOCTYPE urlset SYSTEM "http://127.0.0.1:9/sitemap.dtd">',
        '<!DOCTYPE urlset PUBLIC "-//x//y" "http://127.0.0.1:9/sitemap.dtd">',
        "<!DOCTYPE urlset []>",
    ],
    ids=["bomb", "file", "parameter", "system", "public", "empty"],
)
def test_document_types_and_entities_are_refused(doctype: str, packed: str) -> None:
    data = f'<?xml version="1.0"?>{doctype}<urlset><url><loc>https://a/&a9;</loc></url></urlset>'.encode()
    assert outcome(gzip.compress(data, mtime=0) if packed == "gzip" else data) == "xml_entities"


def test_nobody_is_asked_for_a_document_type() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for doctype in (f'SYSTEM "{url}"', f'[<!ENTITY x SYSTEM "{url}">]', f'[<!ENTITY % x SYSTEM "{url}"> %x;]'):
            assert outcome(f"<!DOCTYPE urlset {doctype}><urlset>&x;</urlset>".encode()) == "xml_entities"
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_entity_that_nobody_declared_ends_the_map() -> None:
    found = read_sitemap(b"<urlset><url><loc>https://a/</loc></url><url><loc>https://b/&nbsp;</loc></url></urlset>")
    assert (locs(found), found.flaws) == (["https://a/"], {"bad_xml": 1})


def test_no_more_than_50000_urls_are_taken() -> None:
    found = read_sitemap(many(50_001))
    assert (len(found.urls), found.flaws) == (50_000, {"too_many_urls": 1})
    assert read_sitemap(many(50_000)).flaws == {}


def test_a_list_and_an_index_have_the_same_limit() -> None:
    limits = SitemapLimits(urls=2)
    assert read_sitemap(b"http://a\nhttp://b\nhttp://c\n", limits=limits).flaws == {"too_many_urls": 1}
    index = read_sitemap(INDEX.encode(), limits=SitemapLimits(urls=1))
    assert ([each.loc for each in index.sitemaps], index.flaws) == (
        ["https://example.com/1.xml.gz"],
        {"too_many_urls": 1},
    )


def test_a_large_map_is_read_up_to_the_limit() -> None:
    found = read_sitemap(many(1000), limits=SitemapLimits(size=10_000))
    assert found.flaws == {"too_large": 1, "bad_xml": 1}
    assert locs(found) == locs(read_sitemap(many(1000)))[: len(found.urls)] != []


def test_a_packed_map_is_unpacked_up_to_the_limit() -> None:
    found = read_sitemap(gzip.compress(many(1000), mtime=0), limits=SitemapLimits(size=10_000))
    assert found.flaws == {"decode_limit": 1, "bad_xml": 1}


def test_a_gzip_bomb_is_not_unpacked() -> None:
    """The ratio stops it long before 50 MB."""
    bomb = gzip.compress(b"<urlset>" + b" " * (60 << 20), mtime=0)
    assert read_sitemap(bomb).flaws == {"decode_limit": 1, "bad_xml": 1}


def test_a_deep_document_is_left_where_it_becomes_unreasonable() -> None:
    found = read_sitemap(b"<urlset><url><loc>https://a/</loc></url>" + b"<a>" * 100_000)
    assert (locs(found), found.flaws) == (["https://a/"], {"too_deep": 1})


def test_one_endless_token_or_text_is_no_burden() -> None:
    for begin in (b"<urlset><url><loc>", b"<urlset><url ", b"<urlset><!--", b"<urlset><url><loc><![CDATA["):
        assert read_sitemap(begin + b"a" * (8 << 20)).flaws == {"bad_xml": 1}

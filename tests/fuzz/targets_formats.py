"""Formats: what comes from servers, archives and people."""

from __future__ import annotations

import gzip
import io
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import zstandard

from tests.fuzz.target import Target, drain, each, text
from webmill.boards.board_list import Board, read_board_list
from webmill.boards.listing import read_body, read_listing, selector_error
from webmill.crawl.page.links import read_links
from webmill.crawl.page.resources import read_module_resources, read_page, read_resources, read_sheet_resources
from webmill.crawl.politeness.retries import retry_after
from webmill.crawl.politeness.robots import robots_directives
from webmill.crawl.seeds import parse_seed
from webmill.errors import BadInput
from webmill.extract.content import read_feed_or_refuse, read_plain
from webmill.formats import dates, timestamps
from webmill.formats.cdx.cdxj import format_line, parse
from webmill.formats.cdx.query import compile_filters, key_range, split_url_pattern
from webmill.formats.cdx.zipnum import decode_block, encode_block, parse_location, parse_summary_line
from webmill.formats.compression import content_coding
from webmill.formats.html import charset
from webmill.formats.html.page import read_html, read_html_text
from webmill.formats.http import ResponseFramer, split_request, split_response
from webmill.formats.preferences.capture import SitePreferences, capture_statements, license_of
from webmill.formats.preferences.decision import decide
from webmill.formats.preferences.llms_txt import read_llms_txt
from webmill.formats.preferences.page import head_of
from webmill.formats.preferences.page import read_page as read_preferences
from webmill.formats.preferences.robots_usage import read_robots_usage
from webmill.formats.preferences.rsl import read_rsl
from webmill.formats.preferences.tdm import read_tdm_file
from webmill.formats.site.feed import read_feed
from webmill.formats.site.robots import parse_robots
from webmill.formats.site.sitemap import looks_like_sitemap, read_sitemap
from webmill.formats.url import normalise as urls
from webmill.formats.url.surt import surt
from webmill.formats.warc.fields import MetadataFields, parse_warc_fields
from webmill.formats.warc.reader import read_records
from webmill.formats.warc.single_record import read_record_at
from webmill.formats.warc.typed_records import FileType, read_typed_record
from webmill.formats.warc.wat import read_wat, read_wat_title
from webmill.index.lookup.query import Query, run_query, url_range
from webmill.model import Headers, Record
from webmill.pipeline.extract.manifest import (
    manifest_line,
    own_manifest_line,
    parse_line,
    parse_manifest,
    parse_own_line,
)
from webmill.search.query import format_query
from webmill.search.query import parse as parse_query
from webmill.settings import load_settings

NOW = datetime(2024, 7, 1, tzinfo=UTC)
PAGE = b"<!doctype html><html lang=en><head><title>T</title><base href='/b/'></head><body><a href='x'>y</a><p>z</body>"
NEEDY = (
    b"<base href=/b/><img src=a srcset='b 1x, c 2x'><link rel=stylesheet href=d><style>@import 'e';</style>"
    b"<p style='background: url(f)'><iframe src=g srcdoc='<img src=h>'></iframe><svg><use xlink:href=i#j></svg>"
)
SHEET = b"@import url(a.css); /* url(no) */ @font-face { src: url('b.woff2') } a { background: url(c\\20 d.png) }"
SET = b"a{b:image-set('c.avif' type('image/avif'), url(d.png) 2x)} @import/**/'e' layer(f);"
MODULE = b"/* a */ import b, {c} from './d.js'; export * from '../e.js';\nimport './f.js' // g"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
LINE = b'com,example)/a 20240101000000 {"url": "http://example.com/a", "status": "200", "mime": "text/html"}\n'
WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\n"
    b"WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Target-URI: http://example.com/\r\n"
    b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    % (len(RESPONSE), RESPONSE)
)
ARC = b"filedesc://a 0.0.0.0 20240101000000 text/plain 10\n1 0 x\n\n\n\n\nhttp://a/ 1.2.3.4 20240101000000 a/b 3\nabc\n"
ROBOTS = (
    b"User-agent: *\nDisallow: /a*b$\nAllow: /\nCrawl-delay: 5\nSitemap: http://a/s.xml\n\nUser-agent: x\nDisallow:\n"
)
SITEMAP = (
    b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url>'
    b"<loc>http://a.example/?a=1&amp;b=2</loc><lastmod>2024-01-01</lastmod><priority>0.5</priority></url></urlset>"
)
WAT = (
    b'{"Container":{"Filename":"a","Offset":"0"},"Envelope":{"Format":"WARC","WARC-Header-Metadata":'
    b'{"WARC-Type":"response"},"Payload-Metadata":{"HTTP-Response-Metadata":{"HTML-Metadata":{"Head":{"Title":"T"},'
    b'"Links":[{"path":"A@/href","url":"x"}]}}}}}'
)
SITE_MAPS = (
    b'{"sources":[{"source":"a/b","url":"http://a.example/","facets":{"x":"y"},"selectors":{"item":"li","title":"a"}}]}',
    b'[{"campus":"a","colleges":[{"departments":[{"id":"c","boards":[{"id":"e","url":"http://a.example/e"}]}]}]}]',
)
BOARD = Board(source="a/b", board="b", url="http://a.example/list")
LISTING = (
    b"<table><tbody><tr><td>1</td><td class=title><a href='view?id=7'>One</a></td><td class=date>2024-05-01</td></tr>"
    b"<tr><td>2</td><td class=title><a href='view?id=8'>Two</a></td><td class=date>3 hours ago</td></tr></table>"
    b"<a class=next href='list?page=2'>next</a><div class=content>words</div>"
)
FIELDS = b'fetchTimeMs: 3\r\ncharset-detected: UTF-8\r\nlanguages-cld2: {"languages":[{"code":"de"}]}\r\n a\r\n'
REQUEST = b"POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nb=c"
SCRIPTED = b"<script>if (a < b) '</scr' + 'ipt>'</script><!-- <a> --><style>@import 'x'"
PREFERRED = (
    b"train-ai=n, search=y;a=(b c)\nUser-agent: *\nContent-Usage: /b* train-ai=n\nLicense: /rsl.xml\n"
    b"<meta name=robots content='noai, webmill: noindex'><meta name=tdm-reservation content=1><a rel=license href=/l>"
    b"<script type=application/ld+json>{'license': {'@id': 'x'}}</script>\n# A\n> b\n- [c](d): e"
)
RSL = (
    b'<rsl xmlns="https://rslstandard.org/rsl"><content url="/b*"><license><permits type="usage">search</permits>'
    b'<prohibits type="usage">ai-train</prohibits><payment type="free"/></license></content></rsl>'
)
FEED = b"<rss><channel><item><link>http://a.example/</link><pubDate>today</pubDate></item></channel></rss>"
ATOM = (
    b'<feed xml:lang="de"><title>A&nbsp;B</title><link href="/"/><entry><title type="html">&lt;b&gt;c</title>'
    b'<link href="d"/><content type="xhtml"><div><p>e</p><br/>f</div></content></entry></feed>'
)
JSON_FEED = b'{"version":"https://jsonfeed.org/version/1","title":"a","items":[{"url":"b","content_html":"<p>c"}]}'
PLAIN = b"# One #\r\n\ttwo  three\x00\n\n<meta charset=utf-16>"
SETTINGS = b'[queue]\nurl = "sqlite:a"\nattempts = 3\n[serve]\nport = 80\n'


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def take_warc(data: bytes) -> None:
    for item in read_records(io.BytesIO(data)):
        if isinstance(item, Record):
            for kind in FileType:
                read_typed_record(item, file_type=kind)


def take_framing(data: bytes) -> None:
    framer = ResponseFramer(method="GET")
    for start in range(0, len(data), 7):
        framer.feed(data[start : start + 7])


def take_cdxj(data: bytes) -> None:
    """What is read and written again reads the same."""
    capture = parse(data)
    assert parse(format_line(capture)) == capture


def take_robots(data: bytes) -> None:
    """The first line is a path that is asked for."""
    path, _, body = data.partition(b"\n")
    robots = parse_robots(body)
    for agent in ("webmill/1.0", "*"):
        robots.for_agent(agent).allows(text(path))
    robots_directives(Headers([("X-Robots-Tag", data.decode("latin-1"))]), text(path))


def take_manifest(data: bytes) -> None:
    """What was read is written so that it is read again, line by line, by either parser."""
    for read, to_line in ((parse_line, manifest_line), (parse_own_line, own_manifest_line)):
        try:
            tasks = parse_manifest(text(data).splitlines(), source="m", parse=read)
        except BadInput:
            continue
        assert [read(to_line(files)) for files in tasks] == tasks


def take_search(data: bytes) -> None:
    """Any text is a query, and its text is one again."""
    parse_query(format_query(parse_query(text(data))))


class OneLine:
    """An index of one line."""

    def lines(self, _: object) -> Iterator[bytes]:
        return iter([LINE])

    def batches(self, _: object) -> Iterator[list[bytes]]:
        return iter([[LINE]])


def take_cdx_question(data: bytes) -> None:
    url, _, rest = text(data).partition("\n")
    filters = tuple(rest.split("\n"))[:5] if rest else ()
    compile_filters(filters)
    pattern, match = split_url_pattern(url)
    key_range(pattern, match or "exact")
    drain(run_query(OneLine(), Query(range=url_range(url), filters=filters)))


def take_settings(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        load_settings(Path(file.name), collection=None, environment={}, is_trusted=lambda _: True, flags={})


def take_coding(data: bytes) -> None:
    for coding in ("gzip", "deflate", "br", "zstd"):
        content_coding.decode_codings(data, (coding,), limits=content_coding.DecodeLimits(output=1 << 20))
    content_coding.decode_chunked(data)


def take_html(data: bytes) -> None:
    page = charset.decode_page(data, content_type=None).text
    read_html(page)
    read_html_text(page)


def take_feed(data: bytes) -> None:
    """No text grows out of nothing: there are no entities to be declared."""
    page = charset.decode_page(data, content_type=None).text
    feed = read_feed(page)
    assert len(feed.text) <= 2 * len(page) + 2
    for kind in ("feed", "xml", "json"):
        read_feed_or_refuse(data, kind)


def take_plain(data: bytes) -> None:
    """The first line is what the server said of it."""
    stated, _, body = data.partition(b"\n")
    read_plain(body, content_type=stated.decode("latin-1"))


def take_links(data: bytes) -> None:
    """Whatever is a link can be asked for, and is in its canonical form. The first line is the HTTP field `Link`."""
    field, _, page = data.partition(b"\n")
    found = read_links(page, url="http://a.example/b/", content_type=None, link_field=field.decode("latin-1"))
    assert all(urls.normalise(link) == link for link in found.links)
    looks_like_sitemap(data)


def take_requisites(data: bytes) -> None:
    """Of a page, a sheet, a module: what is found can be asked for, as it is written. One pass finds what two do."""
    field, _, page = data.partition(b"\n")
    url = "http://a.example/b/"
    found = read_resources(page, url=url, content_type=None, link_field=field.decode("latin-1"))
    links = read_links(page, url=url, content_type=None, link_field=field.decode("latin-1"))
    assert read_page(page, url=url, content_type=None, link_field=field.decode("latin-1")) == (links, found)
    inner = [*read_sheet_resources(data, url=url), *read_module_resources(data, url=url)]
    assert all(urls.normalise(one.url) == one.url for one in [*found, *inner])


def take_preferences(data: bytes) -> None:
    """What a site says of its use is bounded, whatever it is. The first line is every header field."""
    field, page, url = (
        text(data.partition(b"\n")[0]),
        read_preferences(text(data), agent="webmill"),
        "http://a.example/b",
    )
    robots = read_robots_usage(data, agent="webmill")
    site = SitePreferences(robots=robots, tdm=read_tdm_file(data), rsl=read_rsl(data))
    names = ("Content-Usage", "X-Robots-Tag", "Link", "tdm-reservation", "crawler-price")
    headers = Headers((name, field) for name in names)
    found = capture_statements(url, 402, headers, page=page, site=site)
    assert sum(len(one.text) for one in found) < 64 * 1000
    decide("training", found)
    license_of(headers, page)
    read_llms_txt(data)
    head_of(data)


def take_board(data: bytes) -> None:
    about = {"url": "http://a.example/list", "content_type": "text/html; charset=utf-8", "board": BOARD}
    read_listing(data, now=NOW, **about)
    read_body(data, **about)


def as_text(take: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: take(text(data))


TARGETS = (
    Target("warc", take_warc, (WARC, WARC + WARC, ARC, gzip.compress(WARC, mtime=0), zstd(WARC)), "warc"),
    Target("warc-record", read_record_at, (WARC, gzip.compress(WARC, mtime=0)), "warc"),
    Target("warc-fields", lambda data: MetadataFields(parse_warc_fields(data)).languages, (FIELDS,)),
    Target("http", each(split_response, split_request), (RESPONSE, CHUNKED, REQUEST), "http"),
    Target("http-framing", take_framing, (RESPONSE, CHUNKED), "http"),
    Target("content-coding", take_coding, (encode_block([LINE]), zstd(LINE), b"5\r\nhello\r\n0\r\n\r\n"), "packed"),
    Target("cdxj", take_cdxj, (LINE,), "lines"),
    Target(
        "zipnum",
        each(
            lambda data: parse_summary_line(data, line_number=1),
            lambda data: parse_location(data, line_number=1),
            lambda data: decode_block(data, limit=1 << 20),
        ),
        (encode_block([LINE]), b"com,a)/ 20240101000000\tcdx-0.gz\t0\t9\t1\n", b"a\tb/c\n"),
    ),
    Target("wat", each(read_wat, read_wat_title), (WAT,), "wat"),
    Target("preferences", take_preferences, (PREFERRED, RSL, b'[{"location": "/", "tdm-reservation": 1}]'), "pages"),
    Target("robots", take_robots, (b"/a/b\n" + ROBOTS,), "robots"),
    Target("sitemap", read_sitemap, (SITEMAP, FEED, b"http://a.example/\nhttp://b.example/\n")),
    Target(
        "url",
        each(*map(as_text, (urls.normalise, surt, partial(urls.join, "http://a.example/b"), urls.host_of, parse_seed))),
        (b"http://user@www.Example.com:80/a/../b?x=1&y#z", b"//[::1]/%zz", b"http://1.2.3/"),
        "urls",
    ),
    Target("feed", take_feed, (FEED, ATOM, JSON_FEED)),
    Target("plain", take_plain, (b"text/markdown; charset=utf-8\n" + PLAIN, b"text/plain\n" + PLAIN)),
    Target("html", take_html, (PAGE, SCRIPTED), "pages"),
    Target("links", take_links, (b'<http://b.example/2>; rel="next"\n' + PAGE, b"\n" + SCRIPTED), "pages"),
    Target("requisites", take_requisites, (b"</a>; rel=preload\n" + NEEDY, SHEET, SET, MODULE), "pages"),
    Target("board", take_board, (LISTING,), "pages"),
    Target("search-query", take_search, (b'ferry "the town" -old OR title:new* site:a.example lang:en',)),
    Target("cdx-query", take_cdx_question, (b"*.example.com/\n!=status:200\n~mime:text/.*", b"http://a.example/x*")),
    Target("settings", take_settings, (SETTINGS,)),
    Target("board-list", lambda data: read_board_list(data, selector_error=selector_error), SITE_MAPS),
    Target("manifest", take_manifest, (b"WARC:a|WAT:b|WET:c\nd\n", b"Archive : a | Metadata : b\n", b"LOG:a|B:c\n")),
    Target(
        "times",
        each(
            *map(
                as_text,
                (
                    *(timestamps.earliest, timestamps.latest, timestamps.from_warc_date, timestamps.to_datetime),
                    lambda stated: dates.parse_day(stated, now=NOW),
                    lambda stated: retry_after(stated, 0.0),
                ),
            )
        ),
        (b"20240101", b"2024-01-01T00:00:00Z", "2024년 7월 1일".encode(), b"Wed, 21 Oct 2015 07:28:00 GMT"),
    ),
)

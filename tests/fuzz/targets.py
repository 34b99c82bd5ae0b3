"""What is fuzzed: a name, what takes the bytes, and where mutations begin."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from webmill.config import load
from webmill.errors import WebmillError
from webmill.extract.board import complaint_about
from webmill.flows.dataset.manifest import parse_manifest
from webmill.formats import charset, content_coding, dates, timestamps, urls
from webmill.formats.cdx_query import compile_filters, key_range, read_pattern
from webmill.formats.cdxj import format_line, parse
from webmill.formats.html import read_html, read_html_text
from webmill.formats.http import ResponseFramer, split_message, split_request
from webmill.formats.robots import parse_robots
from webmill.formats.site_map import read_site_map
from webmill.formats.sitemap import read_sitemap
from webmill.formats.surt import surt
from webmill.formats.typed_records import FileType, read_typed
from webmill.formats.warc import read_records
from webmill.formats.warc.single import read_record_at
from webmill.formats.wat import read_description
from webmill.formats.zipnum import decode_block, encode_block, parse_location, parse_summary_line
from webmill.index.query import Query, answer, url_range
from webmill.model import Record
from webmill.search.query import parse as parse_query
from webmill.search.query import text_of

NOW = datetime(2024, 7, 1, tzinfo=UTC)
PAGE = b"<!doctype html><html lang=en><head><title>T</title><base href='/b/'></head><body><a href='x'>y</a><p>z</body>"
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
SITE_MAP = b'{"sources":[{"name":"a","boards":[{"name":"n","url":"http://a/","selectors":{"list":"li","title":"a"}}]}]}'
SETTINGS = b'[queue]\nurl = "sqlite:a"\nattempts = 3\n[serve]\nport = 80\n'


@dataclass(frozen=True)
class Target:
    """`take` may raise any `WebmillError`; whatever else escapes is a fault."""

    name: str
    take: Callable[[bytes], object]
    seeds: tuple[bytes, ...]

    def survives(self, data: bytes) -> None:
        try:
            self.take(data)
        except WebmillError:
            pass


def text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def drain(items: Iterable[object]) -> None:
    for _ in items:
        pass


def take_warc(data: bytes) -> None:
    for item in read_records(io.BytesIO(data)):
        if isinstance(item, Record):
            for kind in FileType:
                read_typed(item, file_type=kind)


def take_framing(data: bytes) -> None:
    framer = ResponseFramer(method="GET")
    for start in range(0, len(data), 7):
        framer.feed(data[start : start + 7])


def take_cdxj(data: bytes) -> None:
    """What is read and written again reads the same."""
    capture = parse(data)
    assert parse(format_line(capture)) == capture


def take_zipnum(data: bytes) -> None:
    for take in (
        lambda: parse_summary_line(data, line_number=1),
        lambda: parse_location(data, line_number=1),
        lambda: decode_block(data, limit=1 << 20),
    ):
        try:
            take()
        except WebmillError:
            pass


def take_url(data: bytes) -> None:
    for take in (urls.normalise, surt, lambda url: urls.join("http://a.example/b", url), urls.host_of):
        try:
            take(text(data))
        except WebmillError:
            pass


def take_search(data: bytes) -> None:
    """Any text is a query, and its text is one again."""
    parse_query(text_of(parse_query(text(data))))


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
    pattern, match = read_pattern(url)
    key_range(pattern, match or "exact")
    drain(answer(OneLine(), Query(range=url_range(url), filters=filters, start=rest[:14] or None)))


def take_settings(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        load(Path(file.name), collection=None, environment={}, flags={})


def take_times(data: bytes) -> None:
    for take in (timestamps.earliest, timestamps.latest, timestamps.from_warc_date, timestamps.to_datetime):
        try:
            take(text(data))
        except WebmillError:
            pass
    dates.read_day(text(data), now=NOW)


def take_coding(data: bytes) -> None:
    for coding in ("gzip", "deflate", "br", "zstd"):
        content_coding.decode(data, (coding,), limits=content_coding.Limits(output=1 << 20))
    content_coding.dechunk(data)


def take_html(data: bytes) -> None:
    page = charset.decode_page(data, content_type=None).text
    read_html(page)
    read_html_text(page)


TARGETS = {
    target.name: target
    for target in (
        Target("warc", take_warc, (WARC, WARC + WARC, ARC)),
        Target("warc-record", read_record_at, (WARC,)),
        Target("http", lambda data: (split_message(data), split_request(data)), (RESPONSE, CHUNKED)),
        Target("http-framing", take_framing, (RESPONSE, CHUNKED)),
        Target("content-coding", take_coding, (encode_block([LINE]), b"5\r\nhello\r\n0\r\n\r\n")),
        Target("cdxj", take_cdxj, (LINE,)),
        Target(
            "zipnum", take_zipnum, (encode_block([LINE]), b"com,a)/ 20240101000000\tcdx-0.gz\t0\t9\t1\n", b"a\tb/c\n")
        ),
        Target("wat", read_description, (WAT,)),
        Target("robots", parse_robots, (ROBOTS,)),
        Target("sitemap", read_sitemap, (SITEMAP, b"http://a.example/\nhttp://b.example/\n")),
        Target("url", take_url, (b"http://user@www.Example.com:80/a/../b?x=1&y#z", b"//[::1]/%zz", b"http://1.2.3/")),
        Target(
            "html", take_html, (PAGE, b"<script>if (a < b) '</scr' + 'ipt>'</script><!-- <a> --><style>@import 'x'")
        ),
        Target("search-query", take_search, (b'ferry "the town" -old OR title:new* site:a.example lang:en',)),
        Target(
            "cdx-query", take_cdx_question, (b"*.example.com/\n!=status:200\n~mime:text/.*", b"http://a.example/x*")
        ),
        Target("settings", take_settings, (SETTINGS,)),
        Target("site-map", lambda data: read_site_map(data, complaint_about=complaint_about), (SITE_MAP,)),
        Target(
            "manifest", lambda data: parse_manifest(text(data).splitlines(), source="m"), (b"WARC:a|WAT:b|WET:c\nd\n",)
        ),
        Target("times", take_times, (b"20240101", b"2024-01-01T00:00:00Z", "2024년 7월 1일".encode())),
    )
}

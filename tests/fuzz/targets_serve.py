"""What clients ask the server, and what the server makes of archived pages."""

from __future__ import annotations

import asyncio
import atexit
import logging
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import QueryParams

from tests.fuzz.target import Target, drain, text
from tests.fuzz.targets_formats import PAGE, SCRIPTED
from tests.serve.asgi_client import AsgiClient
from tests.serve.sample_collection import NAME, build
from webmill.collection import Collection
from webmill.crawl.page.tags import attributes_of, read_tags
from webmill.errors import BadInput
from webmill.formats.cdx.cdxj import parse
from webmill.formats.css import read_css_urls, unescape_css
from webmill.formats.encodings import decode_as
from webmill.formats.html.charset import decode_page
from webmill.formats.url import normalise as urls
from webmill.index.zipnum.writer import write_index
from webmill.serve.api.search_params import read_search_params
from webmill.serve.api.text_diff import compare_texts
from webmill.serve.app import application, replay_application
from webmill.serve.captures.address import parse_address, raw_address, web_address
from webmill.serve.captures.memento import read_accept_datetime
from webmill.serve.cdx.output import format_lines
from webmill.serve.cdx.params import read_params
from webmill.serve.guard.client_address import TrustedProxies, client_network
from webmill.serve.http.codings import CODINGS, IDENTITY, choose_coding
from webmill.serve.http.conditional_requests import UnsatisfiableRange, is_not_modified, parse_range, precondition_fails
from webmill.serve.open_site import open_site
from webmill.serve.replay.links import LinkRewriter, PageEncoding
from webmill.serve.replay.rewrite_css import rewrite_css
from webmill.serve.replay.rewrite_html import rewrite_html
from webmill.settings import ServeSettings, Settings

BASE = "https://a.example/dir/page?q=1"
LINKED = (
    b"<!doctype html><base href=//b.example/c/><link rel=stylesheet href=s.css integrity=x><a target=_top href='/x?a'>"
    b"<img src=https://c.example/i.png srcset='a.png, b.png 2x' style='top:url(\"d.png\")'>"
    b"<iframe srcdoc='&lt;a href=y&gt;'></iframe><meta http-equiv=refresh content='5; url=\"x\"'>"
    b"<style>@import 'i.css'; p{a:url(b.png)}</style><script src=j.js>"
)
SHEET = b"@import \"a.css\" screen; @import url(b.css); p{a:URL( 'c\\'d.png' )} /* url(x) */ i{a:url(\\68ttp://x/)}"
LINE = b'com,example)/a 20240101000000 {"url": "http://example.com/a", "status": "200", "mime": "text/html"}\n'
WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://any.example/\r\n"
    b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
)
ANY, ANY_SIZE = "any.warc", 80 << 10
ANY_LINE = (
    b'example,any)/ 20240101000000 {"url": "http://any.example/", "mime": "text/html", "status": "200", '
    b'"length": "%d", "offset": "0", "filename": "%b"}\n' % (ANY_SIZE, ANY.encode())
)
REPLY = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=euc-kr\r\nRefresh: 5; url=/there\r\nLocation: /x\r\n\r\n"
    + PAGE
)
LOG = logging.getLogger("webmill.serve")
ETAG, MODIFIED = b'"x"', datetime(2024, 1, 1, tzinfo=UTC)
MOST_GROWTH = 64  # times: a character may become an escape, and that be escaped again; links have a limit of their own
MOST_LINKED = 16 << 20


# --- archived pages ---------------------------------------------------------------------------------------------------


def take_page(data: bytes) -> None:
    """Rewritten, a page does not grow without end, and all its links lead into the archive."""
    encoding = decode_page(data).encoding
    if encoding.startswith(("utf-16", "iso-2022", "replacement")):
        encoding = "utf-8"
    page = rewrite_html(
        data.decode("latin-1"), LinkRewriter("2023", BASE), encoding=PageEncoding(encoding), first="<!--!-->"
    )
    assert len(page) <= MOST_GROWTH * len(data) + MOST_LINKED
    assert page.count("<!--!-->") >= 1
    for tag, raw, _ in read_tags(decode_as(page.encode("latin-1"), encoding)):
        if tag in ("style", "title") and raw.endswith("/"):
            return  # from here on they differ: a crawler takes it for closed, as in a picture, a browser does not
        attributes = attributes_of(raw)
        for name in ("href", "src"):
            assert_archived(attributes.get(name, ""), tag)


def take_sheet(data: bytes) -> None:
    """So does a style sheet: what the tokenizer finds in it afterwards is in the archive, too."""
    encoding = PageEncoding("utf-8")
    sheet = rewrite_css(data.decode("latin-1"), LinkRewriter("2023", BASE), encoding=encoding)
    sheet.encode("latin-1")
    assert len(sheet) <= MOST_GROWTH * len(data) + MOST_LINKED
    for found in read_css_urls(sheet):
        assert_archived(unescape_css(encoding.decode(found.written)), "style")


def assert_archived(link: str, tag: str) -> None:
    """It leads into the archive, or nowhere on the web."""
    link = link.strip("\t\n\f\r ")
    if not link or link.startswith(("#", "/web/2023/http://", "/web/2023/https://")):
        return
    try:
        there = urls.join(BASE, link)
    except BadInput:
        return
    raise AssertionError(f"<{tag}> leads to {there[:200]}")


# --- addresses and parameters -----------------------------------------------------------------------------------------


def take_address(data: bytes) -> None:
    """What is written of what was read is read as the same."""
    asked = parse_address(data)
    if asked is not None:
        assert parse_address(web_address(asked.timestamp_part, asked.url).encode("ascii")) == asked
        assert parse_address(raw_address(asked.timestamp, asked.url, modifier=asked.modifier).encode("ascii")) == asked
        assert len(asked.moment) == 14


def take_cdx(data: bytes) -> None:
    params = QueryParams(data).multi_items()
    for output in ("cdxj", "json", "text"):
        asked = read_params(params, output=output)  # type: ignore[arg-type]
        drain(format_lines([LINE], asked.output, asked.fields))


def take_conditions(data: bytes) -> None:
    names = b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since", b"range", b"if-range"
    values = data.split(b"\n")
    for asked in (dict(zip(names, values, strict=False)), dict(zip(reversed(names), values, strict=False))):
        precondition_fails(asked, ETAG, MODIFIED)
        is_not_modified(asked, ETAG, MODIFIED)
        try:
            found = parse_range(asked, 100, etag=ETAG, modified=MODIFIED)
            assert found is None or 0 <= found[0] < found[1] <= 100
        except UnsatisfiableRange:
            pass
    assert choose_coding(values[0]) in (IDENTITY, *CODINGS)
    stated = data.decode("latin-1")
    client_network(stated)
    TrustedProxies(["10.0.0.0/8"]).client("10.0.0.1", stated)
    read_accept_datetime(values[-1].decode("latin-1"))


def take_diff(data: bytes) -> None:
    """Where nothing is left out, both texts can be told from what is shown of them."""
    old, _, new = text(data).partition("\n---\n")
    pieces = compare_texts(old, new)
    if pieces is not None and all(piece.kind != "left out" for piece in pieces):
        assert "".join(piece.text for piece in pieces if piece.kind in ("same", "gone")) == old
        assert "".join(piece.text for piece in pieces if piece.kind in ("same", "new")) == new


# --- whole requests ---------------------------------------------------------------------------------------------------


class Failures(logging.Handler):
    """Raises again, when it is left, what the server told its log while it told a client that something went wrong."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self._told: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            self._told.append(record.exc_info[1])

    def __enter__(self) -> None:
        LOG.addHandler(self)

    def __exit__(self, *_: object) -> None:
        LOG.removeHandler(self)
        for error in self._told:
            raise error


class ServedSample:
    """A small collection and both applications on it. One capture of it may be anything: what is in `ANY`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        folder = Collection(root, "ANY").zipnum
        folder.mkdir(parents=True)
        write_index([[ANY_LINE]], folder, lines=10, shard_size=10)
        address, replay = "http://127.0.0.1:8080", "http://127.0.0.1:8081"
        site = open_site(
            root, Settings(serve=ServeSettings(rate=0)), address=address, replay_address=replay, secret=b"secret"
        )
        runner = asyncio.Runner()
        self.own, self.replay = (AsgiClient(app(site), runner) for app in (application, replay_application))
        atexit.register(runner.close)


@cache
def served_sample() -> ServedSample:
    folder = tempfile.TemporaryDirectory(prefix="webmill-fuzz-")
    atexit.register(folder.cleanup)
    return ServedSample(build(Path(folder.name)))


def take_reply(data: bytes) -> None:
    """An archived answer, whatever its head says, becomes one of ours."""
    (served_sample().root / ANY).write_bytes((WARC % (len(data), data)).ljust(ANY_SIZE, b"\n"))
    for asker, path in ((served_sample().replay, "/web"), (served_sample().own, "/web"), (served_sample().own, "/raw")):
        with Failures():
            answer = asker(f"{path}/20240101000000/http://any.example/", sec_fetch_dest="iframe")
        assert not any(control in name + value for control in "\r\n\0" for name, value in answer.pairs)


def take_line(data: bytes) -> None:
    """Whatever an index says of a capture, there is an answer to all that can be asked about it."""
    line = data.partition(b"\n")[0] + b"\n"
    capture = parse(line)
    write_index([[line]], Collection(served_sample().root, "ANY").zipnum, lines=10, shard_size=10)
    url = capture.text("url")
    asked = quote(url, safe="", errors="replace")
    paths = [f"/web/2024/{url}", f"/raw/2024/{url}", f"/timegate/{url}", f"/timemap/link/{url}"]
    queries = [f"/ANY-index?url={asked}&output={output}&fl=url,status,x" for output in ("json", "text", "cdxj")]
    pages = [f"/history?url={asked}", f"/api/captures?url={asked}", "/api/captures?url=*", f"/cdx?url={asked}", "/"]
    for target in (*paths, *queries, *pages):
        path, _, query = quote(target, safe="/:?&=%*-", errors="replace").partition("?")
        with Failures():
            answer = served_sample().own(path, query=query)
        assert answer.status < 500 or answer.status == 503, (target[:100], answer.status, answer.body[:300])


def take_request(data: bytes) -> None:
    """No request is answered by an error of ours. Lines: path, method, headers; behind an empty line the body."""
    head, _, body = data.partition(b"\n\n")
    target, *lines = head.decode("latin-1").split("\n")
    path, _, query = target.partition("?")
    method = lines[0] if lines and lines[0] in ("HEAD", "POST", "OPTIONS") else "GET"
    fields = [
        (name.strip().lower(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon
    ]
    for asker in (served_sample().own, served_sample().replay):
        with Failures():
            answer = asker(f"/{path.lstrip('/')}", method=method, query=query, more=fields, body=body)
        assert answer.status < 500 or answer.status == 503, (answer.status, answer.body[:300])


REQUESTS = (
    b"/web/20230401120000/https://town.example/\nGET\nsec-fetch-dest: iframe",
    b"/web/2023/https://town.example/old?a=b\nHEAD\nreferer: http://127.0.0.1:8081/web/2023/http://town.example/",
    b"/raw/20230401120500warc_/https://town.example/style.css",
    b"/%b-index?url=*.example&output=json&filter=~status:2..&limit=3&page=0&showNumPages=true" % NAME.encode(),
    b"/timegate/https://town.example/\nGET\naccept-datetime: Wed, 21 Oct 2015 07:28:00 GMT",
    b"/timemap/link/https://town.example/",
    b"/search?q=ferry&language=eng&facet=domain%3Dtown.example&since=2024-01-01&page=2&sort=newest",
    b"/api/search?q=%22the+town%22&limit=3&offset=1\nGET\naccept-encoding: br;q=1, gzip",
    b'/latest.json\nGET\nrange: bytes=0-9\nif-none-match: "x"',
    b"/versions/diff?from=00000001-0&to=x&change=changed&after=a&id=com,x)/",
    b"/api/versions/diff?from=1&to=2&change=added&limit=5&after=x",
    b"/history?url=town.example/clock&match=domain&period=202404&page=2&after=com,x&past=1",
    b"/documents?facet=language&prefix=com&after=x",
    b"/api/documents/item?id=example,town)/",
    b"/tasks?did=retry&count=3",
    b"/tasks/drop?queue=publish&id=job-1",
    b"/tasks/retry\nPOST\ncontent-type: application/x-www-form-urlencoded\n\nqueue=publish&id=job-1&stamp=x",
    b"/crawl-data/%b/warc.paths.gz\nGET\nif-modified-since: Wed, 21 Oct 2015 07:28:00 GMT" % NAME.encode(),
    b"/web-banner?at=/web/2023/http://a.example/&stamp=x",
)
ADDRESSES = (
    b"/web/20230401120000/https://town.example/a?b=c",
    b"/raw/2023warc_/http:/a.example//x%2F",
    b"/web/2~0123456789abcdef/https%3A%2F%2Fa.example%2F%3Fx",
)
QUERIES = (
    b"url=*.example.com&matchType=domain&output=json&filter=!~status:3..&filter=mime:html&fl=url,timestamp&limit=5",
    b"url=a.example/x*&from=2023&to=202401&sort=closest&closest=now&collapse=timestamp:6&page=1&pageSize=2",
    b"url=a.example&showNumPages=true&resolveRevisits=true&collapseTime=10&reverse=1&closest=20240229",
)
CONDITIONS = (
    b'W/"a", "x"\n*\nWed, 21 Oct 2015 07:28:00 GMT\nWed, 21 Oct 2015 07:28:00 +0100\nbytes=0-9\n21 Oct 15 07:28:00 GMT',
    b"gzip;q=0.5, br\n10.0.0.2, 192.0.2.1\nbytes=-5\n21 Oct 15 7:28 EST",
)

TARGETS = (
    Target("replay-page", take_page, (LINKED, PAGE, SCRIPTED), "pages"),
    Target("replay-sheet", take_sheet, (SHEET, b"a{b:url(http://c.example/d) url( //e.example )}")),
    Target("replay-reply", take_reply, (REPLY, REPLY.replace(b"200", b"302")), "http"),
    Target("replay-address", take_address, ADDRESSES),
    Target("cdx-params", take_cdx, QUERIES),
    Target(
        "search-params",
        lambda data: read_search_params(QueryParams(data)).request(count=()),
        (b"q=a+%22b%22&facet=x%3Dy&since=2024-01-01&sort=newest&limit=5&page=2",),
    ),
    Target("conditions", take_conditions, CONDITIONS),
    Target("text-diff", take_diff, (b"a b\nc d\n---\na x\nc d e", "서울 대학\n---\n서울 학교".encode())),
    Target("served-line", take_line, (ANY_LINE, LINE)),
    Target("request", take_request, REQUESTS),
)

"""What servers do that HTTP allows: each answer is archived as it went over the wire, and leads where it says."""

from __future__ import annotations

import gzip
import socket
from collections import Counter
from io import BytesIO
from pathlib import Path

import brotli
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from tests.pipeline.crawling import Linked, Setup, archives, check_records, crawl_here, moved_to, seen_by, visits
from tests.unit.crawl.fetch.fetching import Listener, read_request
from webmill.crawl.options import CrawlRules
from webmill.testing import Answer, Cut, HttpReply, ReceivedRequest, ScriptedReply, TestWeb

PAGE = b"<html><body><a href=/found-%s>on</a></body></html>"
HOST = "www.one.test"


@pytest.fixture
def root(memory_folder: Path) -> Path:
    return memory_folder / "collection"


def wire(head: str, body: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{head}\r\n\r\n".encode() + body


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


def sized(coding: str, body: bytes, *more: str) -> bytes:
    return wire("\r\n".join([f"Content-Encoding: {coding}", f"Content-Length: {len(body)}", *more]), body)


WHOLE = {
    "/zstd": sized("zstd", zstandard.compress(PAGE % b"zstd")),
    "/br": sized("br", brotli.compress(PAGE % b"br"), "x-odd-CASE:  kept  "),
    "/gzip": sized("gzip", gzip.compress(PAGE % b"gzip", mtime=0)),
    "/trailers": wire(
        "Transfer-Encoding: chunked\r\nTrailer: X-Sum", chunk(PAGE % b"trailers") + b"0\r\nX-Sum: 1\r\n\r\n"
    ),
    "/hints": wire(f"Content-Length: {len(PAGE) + 3}", PAGE % b"hints"),
    "/long-head": wire(f"X-Long: {'x' * 65_000}\r\nContent-Length: {len(PAGE) + 7}", PAGE % b"long-head"),
}
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </never>; rel=next\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"


class Careful(Linked):
    """Exactly those bytes; a second one of them on the same connection."""

    def answer(self, request: ReceivedRequest) -> Answer:
        if request.path not in WHOLE:
            return super().answer(request)
        before = HINTS if request.path == "/hints" else b""
        return ScriptedReply(steps=[before + WHOLE[request.path]], reuse=True)


def blocks(root: Path) -> dict[str, bytes]:
    """The responses as they are stored, not decoded."""
    found = {}
    for path in archives(root):
        for record in ArchiveIterator(BytesIO(path.read_bytes()), no_record_parse=True):
            if record.rec_type == "response":
                found[record.rec_headers.get_header("WARC-Target-URI")] = record.raw_stream.read()
    return found


def test_answers_are_stored_as_sent_and_read_as_meant(root: Path) -> None:
    with TestWeb(hosts=0, sites={HOST: Careful(0)}) as web:
        seeds = tuple(f"http://{HOST}{path}" for path in WHOLE)
        report = crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve)))
        assert web.log.settle()
        asked = Counter(one.path for one in seen_by(web.log))
    assert report.total.errors == {}
    assert asked == dict.fromkeys(["/robots.txt", *WHOLE, *(f"/found-{path[1:]}" for path in WHOLE)], 1)
    stored = blocks(root)
    assert {path: stored[f"http://{HOST}{path}"] for path in WHOLE} == WHOLE
    check_records(root)


class Closing(Linked):
    """It promises to keep connections open, and closes them."""

    def answer(self, request: ReceivedRequest) -> Answer:
        reply = super().answer(request)
        assert isinstance(reply, HttpReply)
        return ScriptedReply(steps=[wire(f"Content-Length: {len(reply.body)}", reply.body), Cut.FIN])


def test_a_connection_that_is_closed_between_requests_is_no_failure(root: Path) -> None:
    with TestWeb(hosts=0, sites={HOST: Closing(20)}) as web:
        report = crawl_here(root, Setup(seeds=(f"http://{HOST}/",), resolve=dict(web.resolve)))
    assert report.total.errors == {}
    assert report.total.pages == 21
    assert {visit.status for visit in visits(root).values()} == {200}


PLACES = {  # where it says, and what is asked for then
    "/relative": ("target?a=1", "/target?a=1"),
    "/no-host": ("/t/no-host", "/t/no-host"),
    "/no-scheme": (f"//{HOST}/t/no-scheme", "/t/no-scheme"),
    "/fragment": ("/t/fragment#part", "/t/fragment"),
    "/user": (f"http://user:secret@{HOST}/t/user", "/t/user"),
    "/at": ("/t/@user", "/t/@user"),
    "/utf-8": ("/t/m\u00c3\u00bchle?\u00c3\u00bc", "/t/m%C3%BChle?%C3%BC"),  # bytes, as fields hold them
    "/latin-1": ("/t/m\u00fchle", "/t/m%FChle"),
    "/spaces": ("/t/a b ", "/t/a%20b"),
    "/backslash": (f"http:\\\\{HOST}\\t\\backslash", "/t/backslash"),
    "/dots": ("/t/x/../dots", "/t/dots"),
}


def test_a_location_leads_where_browsers_go(root: Path) -> None:
    site = Linked(0, **{path[1:]: moved_to(place) for path, (place, _) in PLACES.items()})
    with TestWeb(hosts=0, sites={HOST: site}) as web:
        seeds = tuple(f"http://{HOST}{path}" for path in PLACES)
        crawl_here(root, Setup(seeds=seeds, resolve=dict(web.resolve), rules=CrawlRules(scope="host")))
        assert web.log.settle()
        asked = Counter(visit.path for visit in web.log)
    assert asked == dict.fromkeys(["/robots.txt", *PLACES, *(target for _, target in PLACES.values())], 1)
    assert visits(root).keys() == {f"http://{HOST}{path}" for path in asked if path != "/robots.txt"}


def test_users_in_links_make_no_other_pages(root: Path) -> None:
    site = Linked(0)
    site.replies["/"] = HttpReply(
        body=b"".join(b"<a href=http://u%d:p@www.one.test/page>" % number for number in range(9))
    )
    with TestWeb(hosts=0, sites={HOST: site}) as web:
        crawl_here(root, Setup(seeds=(f"http://{HOST}/",), resolve=dict(web.resolve)))
        assert web.log.settle()
        assert Counter(visit.path for visit in web.log) == {"/robots.txt": 1, "/": 1, "/page": 1}
    assert visits(root).keys() == {f"http://{HOST}/", f"http://{HOST}/page"}


def test_an_address_of_ipv6_is_a_host_like_others(root: Path) -> None:
    asked = []

    def serve(connection: socket.socket, _: int) -> None:
        request = read_request(connection)
        asked.append(request.split()[1].decode())
        body = b"User-agent: *\nDisallow: /closed\n" if asked[-1] == "/robots.txt" else b"<a href=/two><a href=/closed>"
        connection.sendall(wire(f"Connection: close\r\nContent-Length: {len(body)}", body))

    try:
        listener = Listener(serve, ip="::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with listener:
        setup = Setup(seeds=(f"{listener.url}/",), rules=CrawlRules(scope="host"))
        report = crawl_here(root, setup)
    assert asked == ["/robots.txt", "/", "/two"]
    assert (report.end, report.total.pages, report.total.refused) == ("finished", 2, {"robots": 1})
    assert visits(root).keys() == {f"{listener.url}{path}" for path in ("/", "/two", "/closed")}
    check_records(root)

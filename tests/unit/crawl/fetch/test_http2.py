"""HTTP/2 of servers that are right, odd and hostile: what comes out is an answer as HTTP/1.1 would have it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from tests.unit.crawl.fetch import http2_server as http2
from tests.unit.crawl.fetch.certificates import Authority
from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import (
    PATIENT,
    Listener,
    answer,
    failed,
    fetched,
    fetching,
    get,
    get_one,
    read_request,
)
from tests.unit.crawl.fetch.http2_server import Http2Listener, Http2Peer
from tests.unit.crawl.fetch.proxies import HttpProxy, Proxy, SocksProxy
from webmill.crawl.fetch import FetchedResponse, FetchFailure, FetchLimits, FetchRequest, SocketAddress
from webmill.crawl.fetch.proxy import parse_proxy
from webmill.crawl.fetch.route import NetworkRoute

HOST = "secure.example"
URL = f"https://{HOST}/"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Path:
    return authority.issue(HOST)


@contextmanager
def serving(certificate: Path, serve: Callable[[Http2Peer], None], **options: Any) -> Iterator[Listener]:
    with Listener(Http2Listener(certificate, serve, **options)) as listener:
        yield listener


def ask(
    run: Run, certificate: Path, serve: Callable[[Http2Peer], None], **options: Any
) -> FetchedResponse | FetchFailure:
    with serving(certificate, serve) as listener:
        options = {"limits": PATIENT, **options}
        return run(get_one(URL, {HOST: ("127.0.0.1", listener.port)}, **options))


def replying(*frames: bytes) -> Callable[[Http2Peer], None]:
    """A server that sends these frames upon the first request, and waits for the client's end."""

    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        peer.send(*frames)
        peer.wait_for_end()

    return serve


class IndependentServer:
    """HTTP/2 by the library h2, to be served by a `Listener`: it refuses all that the standard forbids a client."""

    def __init__(self, certificate: Path, body: bytes) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._context.set_alpn_protocols(["h2"])
        self._body, self.requests = body, list[list[tuple[bytes, bytes]]]()
        self._left: dict[int, bytes] = {}

    def __call__(self, connection: Any, _: int) -> None:
        with self._context.wrap_socket(connection, server_side=True) as secure:
            state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
            state.initiate_connection()
            secure.sendall(state.data_to_send())
            while data := secure.recv(65536):
                for event in state.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        self.requests.append(list(event.headers))
                        fields = [(":status", "200"), ("content-type", "text/plain"), ("set-cookie", "a=1")]
                        state.send_headers(event.stream_id, fields)
                        self._left[event.stream_id] = self._body
                self._send_body(state)
                secure.sendall(state.data_to_send())

    def _send_body(self, state: h2.connection.H2Connection) -> None:
        for stream, left in list(self._left.items()):
            while left and (room := min(state.local_flow_control_window(stream), state.max_outbound_frame_size)):
                state.send_data(stream, left[:room])
                left = left[room:]
            self._left[stream] = left
            if not left:
                state.end_stream(stream)
                del self._left[stream]


def test_pages_of_an_independent_server_come_over_one_connection(run: Run, certificate: Path) -> None:
    body = bytes(range(256)) * 40_000  # beyond the window, so that the client has to give room
    server = IndependentServer(certificate, body)

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for number in range(3):
                outcome = fetched(await get(fetcher, f"{URL}{number}?q", ("Cookie", f"n={number}")))
                assert (outcome.payload, outcome.flaws, outcome.head.status) == (body, (), 200)
                assert outcome.exchange.protocols == ("h2", "tls/1.3")
                assert outcome.exchange.response.startswith(b"HTTP/1.1 200 \r\ncontent-type: text/plain\r\n")
                assert outcome.head.headers.get("Set-Cookie") == "a=1"
                request = outcome.exchange.request
                assert request.startswith(b"GET /%d?q HTTP/1.1\r\nHost: %b\r\n" % (number, HOST.encode()))
                assert b"onnection" not in request
                assert request.endswith(b"\r\nCookie: n=%d\r\n\r\n" % number)

    with Listener(server) as listener:
        run(main(listener.port))
        assert listener.accepted == 1
    assert server.requests[1][:4] == [
        (b":method", b"GET"),
        (b":scheme", b"https"),
        (b":authority", HOST.encode()),
        (b":path", b"/1?q"),
    ]
    assert server.requests[1][-1] == (b"cookie", b"n=1")


def test_a_server_that_prefers_http_1_gets_it(run: Run, certificate: Path) -> None:
    def serve_http1(secure: ssl.SSLSocket) -> None:
        read_request(secure)
        secure.sendall(answer())

    with serving(certificate, replying(), serve_http1=serve_http1, protocols=["http/1.1"]) as listener:
        outcome = fetched(run(get_one(URL, {HOST: ("127.0.0.1", listener.port)}, limits=PATIENT)))
    assert outcome.exchange.protocols == ("http/1.1", "tls/1.3")


def test_http2_can_be_switched_off(run: Run, certificate: Path) -> None:
    def serve_http1(secure: ssl.SSLSocket) -> None:
        read_request(secure)
        secure.sendall(answer())

    with serving(certificate, replying(), serve_http1=serve_http1) as listener:
        outcome = fetched(run(get_one(URL, {HOST: ("127.0.0.1", listener.port)}, limits=PATIENT, http2=False)))
    assert outcome.exchange.protocols == ("http/1.1", "tls/1.3")


def test_a_redirect_and_an_answer_without_a_body_are_answers(run: Run, certificate: Path) -> None:
    moved = http2.head(1, ("location", "/next"), status="301", flags=http2.END_HEADERS | http2.END_STREAM)
    outcome = fetched(ask(run, certificate, replying(moved)))
    assert (outcome.head.status, outcome.head.headers.get("location"), outcome.flaws) == (301, "/next", ())
    assert (outcome.payload, outcome.exchange.truncated) == (b"", None)


def test_padding_priorities_continuations_interim_answers_and_trailers_are_understood(
    run: Run, certificate: Path
) -> None:
    whole = http2.block((":status", "200"), ("content-type", "text/html"))
    flags = http2.PADDED | http2.HAS_PRIORITY
    outcome = fetched(
        ask(
            run,
            certificate,
            replying(
                http2.frame(0xBB, flags=0xFF, stream=7, payload=b"of no known type"),
                http2.head(1, ("link", "</a.css>"), status="103"),
                http2.frame(http2.HEADERS, flags=flags, stream=1, payload=b"\2\0\0\0\0\x10" + whole[:3] + b"\0\0"),
                http2.frame(http2.CONTINUATION, stream=1, payload=whole[3:5]),
                http2.frame(http2.CONTINUATION, flags=http2.END_HEADERS, stream=1, payload=whole[5:]),
                http2.body(1, b"\3hello\0\0\0", flags=http2.PADDED),
                http2.body(1, b"", flags=0),
                http2.frame(
                    http2.HEADERS,
                    flags=http2.END_HEADERS | http2.END_STREAM,
                    stream=1,
                    payload=http2.block(("x-sum", "1")),
                ),
            ),
        )
    )
    assert (outcome.payload, outcome.flaws, outcome.exchange.truncated) == (b"hello", (), None)
    assert outcome.exchange.response == b"HTTP/1.1 200 \r\ncontent-type: text/html\r\n\r\nhello"


def test_an_answer_that_comes_byte_by_byte_is_whole(run: Run, certificate: Path) -> None:
    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        for byte in http2.answer(1, b"x" * 200):
            peer.send(bytes((byte,)))
        peer.wait_for_end()

    assert fetched(ask(run, certificate, serve)).payload == b"x" * 200


def test_a_long_request_is_sent_in_several_frames(run: Run, certificate: Path) -> None:
    seen: list[tuple[str, str]] = []

    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS, payload=b"\0\1\0\0\0\0"))  # no table of fields
        for stream in (1, 3):
            seen.extend(peer.read_request()[1])
            peer.send(http2.answer(stream))
        peer.wait_for_end()

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for _ in range(2):
                outcome = await get(fetcher, URL, ("X-Long", "v" * 40_000), ("Cookie", "c" * 200))
                assert fetched(outcome).payload == b"hello"

    with serving(certificate, serve) as listener:
        run(main(listener.port))
    assert seen.count(("x-long", "v" * 40_000)) == 2
    assert seen.count(("cookie", "c" * 200)) == 2


@pytest.mark.parametrize(("kind", "make"), [("http", HttpProxy), ("socks5", SocksProxy)])
def test_it_is_spoken_through_a_proxy(run: Run, certificate: Path, kind: str, make: type[Proxy]) -> None:
    proxy = make(password="")
    with serving(certificate, replying(http2.answer(1))) as server, Listener(proxy) as listener:
        route = NetworkRoute(parse_proxy(f"{kind}://127.0.0.1:{listener.port}"))
        outcome = fetched(run(get_one(URL, {HOST: ("127.0.0.1", server.port)}, limits=PATIENT, route=route)))
        assert proxy.asked == [f"127.0.0.1 {server.port}"]
    assert (outcome.payload, outcome.exchange.protocols[0]) == (b"hello", "h2")


def test_secret_fields_are_archived_as_what_stands_in_their_place(run: Run, certificate: Path) -> None:
    async def main(port: int) -> FetchedResponse | FetchFailure:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            request = FetchRequest(url=URL, headers=(("Cookie", "secret"),), archived=(("Cookie", "left-out"),))
            return await fetcher.fetch(request, SocketAddress("127.0.0.1", port))

    with serving(certificate, replying(http2.answer(1))) as listener:
        request = fetched(run(main(listener.port))).exchange.request
    assert b"Cookie: left-out" in request
    assert b"secret\r" not in request
    assert b"Connection" not in request


# --- servers that leave, and answers that break off ---


def leave(last: int, code: int = 0) -> bytes:
    return http2.frame(http2.GOAWAY, payload=last.to_bytes(4, "big") + code.to_bytes(4, "big"))


def test_an_answer_goes_on_after_goaway_and_the_connection_is_not_used_again(run: Run, certificate: Path) -> None:
    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for _ in range(2):
                outcome = fetched(await get(fetcher, URL))
                assert (outcome.payload, outcome.flaws) == (b"hello", ())

    with serving(certificate, replying(leave(1), http2.answer(1))) as listener:
        run(main(listener.port))
        assert listener.accepted == 2


def test_a_request_that_a_leaving_server_did_not_take_is_sent_once_more(run: Run, certificate: Path) -> None:
    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        peer.send(http2.answer(1))
        peer.read_request()
        peer.send(leave(1))
        peer.wait_for_end()

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for _ in range(2):
                assert fetched(await get(fetcher, URL)).payload == b"hello"

    with serving(certificate, serve) as listener:
        run(main(listener.port))
        assert listener.accepted == 2


def test_what_a_server_says_between_two_requests_is_taken_for_no_answer(run: Run, certificate: Path) -> None:
    async def main(port: int, told: asyncio.Event) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            assert fetched(await get(fetcher, URL)).payload == b"hello"
            await told.wait()
            while len(fetcher._idle):
                await asyncio.sleep(0.01)
            assert fetched(await get(fetcher, URL)).payload == b"hello"

    for said in (http2.answer(1, b"again"), http2.answer(3, b"early"), leave(1), b"\0" * 9):

        async def once(said: bytes) -> int:
            told, loop = asyncio.Event(), asyncio.get_running_loop()

            def serve(peer: Http2Peer) -> None:
                peer.send(http2.frame(http2.SETTINGS))
                peer.read_request()
                peer.send(http2.answer(1))
                if listener.accepted == 1:
                    peer.send(said)
                    loop.call_soon_threadsafe(told.set)
                peer.wait_for_end()

            with serving(certificate, serve) as listener:
                await main(listener.port, told)
                return listener.accepted

        assert run(once(said)) == 2


def test_a_ping_between_two_requests_is_answered_and_the_connection_kept(run: Run, certificate: Path) -> None:
    async def main() -> int:
        ponged, loop = asyncio.Event(), asyncio.get_running_loop()

        def serve(peer: Http2Peer) -> None:
            peer.send(http2.frame(http2.SETTINGS))
            peer.read_request()
            peer.send(http2.answer(1), http2.frame(http2.PING, payload=b"12345678"))
            while (found := peer.read_frame())[0] != http2.PING:
                pass
            assert found == (http2.PING, http2.ACK, 0, b"12345678")
            loop.call_soon_threadsafe(ponged.set)
            stream, _ = peer.read_request()
            peer.send(http2.answer(stream))
            peer.wait_for_end()

        with serving(certificate, serve) as listener:
            async with fetching({HOST: ("127.0.0.1", listener.port)}, limits=PATIENT) as fetcher:
                assert fetched(await get(fetcher, URL)).payload == b"hello"
                await ponged.wait()
                assert fetched(await get(fetcher, URL)).payload == b"hello"
            return listener.accepted

    assert run(main()) == 1


@pytest.mark.parametrize(
    ("code", "reason"), [(0x0, "reset"), (0x7, "reset"), (0x2, "http2_error"), (0xD, "http2_error")]
)
def test_a_stream_that_is_refused_fails(run: Run, certificate: Path, code: int, reason: str) -> None:
    refused = http2.frame(http2.RST_STREAM, stream=1, payload=code.to_bytes(4, "big"))
    outcome = failed(ask(run, certificate, replying(refused)))
    assert (outcome.reason, outcome.sent) == (reason, True)


BEGUN = http2.head(1, ("content-type", "text/plain"), ("content-length", "9")) + http2.body(1, b"hello", flags=0)
BREAKS: list[tuple[str, bytes, str | None, tuple[str, ...]]] = [
    ("reset", http2.frame(http2.RST_STREAM, stream=1, payload=b"\0\0\0\2"), "unspecified", ("http2_error",)),
    ("cancelled", http2.frame(http2.RST_STREAM, stream=1, payload=b"\0\0\0\x08"), "disconnect", ()),
    ("left out", leave(0), "disconnect", ()),
    ("too short", http2.body(1, b""), "disconnect", ("truncated",)),
    ("too long", http2.body(1, b"hello"), None, ("excess_bytes",)),
    ("a breach", http2.body(3, b"hello"), "unspecified", ("http2_error",)),
]


@pytest.mark.parametrize(
    ("then", "truncated", "flaws"), [each[1:] for each in BREAKS], ids=[each[0] for each in BREAKS]
)
def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(
    run: Run, certificate: Path, then: bytes, truncated: str | None, flaws: tuple[str, ...]
) -> None:
    outcome = fetched(ask(run, certificate, replying(BEGUN, then)))
    assert outcome.payload.startswith(b"hello")
    assert (outcome.exchange.truncated, outcome.flaws) == (truncated, flaws)


@pytest.mark.parametrize("length", [b"", b"9"], ids=["no length", "a length"])
def test_an_answer_without_its_end_is_no_whole_one(run: Run, certificate: Path, length: bytes) -> None:
    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        fields = (("content-length", length.decode()),) if length else ()
        peer.send(http2.head(1, *fields), http2.body(1, b"hello", flags=0))

    outcome = fetched(ask(run, certificate, serve))
    assert (outcome.payload, outcome.exchange.truncated) == (b"hello", "disconnect")


def test_fields_that_speak_of_the_connection_are_left_out(run: Run, certificate: Path) -> None:
    headed = http2.head(1, ("transfer-encoding", "chunked"), ("connection", "close"), ("x-a", "1"))
    outcome = fetched(ask(run, certificate, replying(headed, http2.body(1, b"5\r\nhello"))))
    assert outcome.exchange.response == b"HTTP/1.1 200 \r\nx-a: 1\r\n\r\n5\r\nhello"
    assert outcome.flaws == ("connection_field",)


# --- hostile servers: bounded in time and memory, and told by name ---

PING = http2.frame(http2.PING, payload=b"12345678")
MANY = 100_000
FLOODS = {
    "settings": http2.frame(http2.SETTINGS) * MANY,
    "large settings": http2.frame(http2.SETTINGS, payload=b"\0\3\0\0\0\1" * 2700) * 300,
    "pings": PING * MANY,
    "answers to pings": http2.frame(http2.PING, flags=http2.ACK, payload=b"12345678") * MANY,
    "room": http2.frame(http2.WINDOW_UPDATE, payload=b"\0\0\0\1") * MANY,
    "room of the stream": http2.frame(http2.WINDOW_UPDATE, stream=1, payload=b"\0\0\0\1") * MANY,
    "priorities": http2.frame(http2.PRIORITY, stream=3, payload=b"\0\0\0\0\1") * MANY,
    "unknown": http2.frame(0x42) * MANY,
    "goaways": leave(1) * MANY,
    "empty continuations": http2.frame(http2.HEADERS, stream=1) + http2.frame(http2.CONTINUATION, stream=1) * MANY,
}
LIMITED = {
    "continuations": http2.frame(http2.HEADERS, stream=1)
    + http2.frame(http2.CONTINUATION, stream=1, payload=b"\0\1x\1y" * 3000) * 1000,
    "a table's bomb": http2.frame(
        http2.HEADERS,
        flags=http2.END_HEADERS,
        stream=1,
        payload=b"\x88\x40\1x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 12_000,
    ),
    "a large field": http2.frame(http2.HEADERS, stream=1, payload=b"\x88\0\1x\x7f\x81\xfe\3" + b"y" * 16_000)
    + http2.frame(http2.CONTINUATION, stream=1, payload=b"y" * 16_384) * 5,
    "many fields": http2.head(1, *((f"x-{n}", "y") for n in range(400))),
    "interim answers": http2.head(1, status="103") * 20,
}
BREACHES = {
    "no settings": PING,
    "HTTP/1.1": answer(),
    "a large frame": b"\xff\xff\xff\0\0\0\0\0\1",
    "a table over its size": http2.frame(
        http2.HEADERS, flags=http2.END_HEADERS, stream=1, payload=b"\x3f\xe1\xff\3\x88"
    ),
    "no HPACK": http2.frame(http2.HEADERS, flags=http2.END_HEADERS, stream=1, payload=b"\xff" * 40),
    "an endless number": http2.frame(
        http2.HEADERS, flags=http2.END_HEADERS, stream=1, payload=b"\x7f" + b"\xff" * 16_000
    ),
    "a cut block": http2.frame(http2.HEADERS, flags=http2.END_HEADERS, stream=1, payload=b"\x40\x7f\x01x"),
    "a push": http2.frame(
        http2.PUSH_PROMISE, flags=http2.END_HEADERS, stream=1, payload=b"\0\0\0\2" + http2.block((":path", "/b"))
    ),
    "a body before its head": http2.body(1, b"hello"),
    "a body of another stream": http2.body(3, b"hello"),
    "a head of another stream": http2.answer(2),
    "a head of no stream": http2.answer(0),
    "no status": http2.frame(http2.HEADERS, flags=http2.END_HEADERS, stream=1, payload=http2.block(("a", "b"))),
    "a status of words": http2.head(1, status="fine"),
    "a line break": http2.head(1, ("x", "a\r\nSet-Cookie: b=1")),
    "a line break in a name": http2.head(1, ("x\r\ny", "a")),
    "a colon in a name": http2.head(1, ("x: y", "a")),
    "an interrupted head": http2.frame(http2.HEADERS, stream=1, payload=b"\x88") + PING,
    "a continuation of nothing": http2.frame(http2.CONTINUATION, stream=1),
    "too much padding": http2.frame(http2.HEADERS, flags=http2.PADDED, stream=1, payload=b"\xff\x88"),
    "no priority": http2.frame(http2.HEADERS, flags=http2.HAS_PRIORITY, stream=1, payload=b"\0"),
    "odd settings": http2.frame(http2.SETTINGS, payload=b"\0"),
    "an odd ping": http2.frame(http2.PING, payload=b"\0"),
    "an odd goaway": http2.frame(http2.GOAWAY, payload=b"\0"),
    "an odd reset": http2.frame(http2.RST_STREAM, stream=5, payload=b"\0\0\0\0"),
    "an interim end": http2.head(1, status="103", flags=http2.END_HEADERS | http2.END_STREAM),
}


@pytest.mark.parametrize("name", [*FLOODS, *LIMITED, *BREACHES])
def test_a_hostile_server_gets_no_further(run: Run, certificate: Path, name: str) -> None:
    frames = FLOODS.get(name) or LIMITED.get(name) or BREACHES[name]
    reason = "too_many_frames" if name in FLOODS else "header_limit" if name in LIMITED else "http2_error"

    def serve(peer: Http2Peer) -> None:
        if name not in ("no settings", "HTTP/1.1"):
            peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        peer.send(frames)
        peer.wait_for_end()

    outcome = failed(ask(run, certificate, serve))
    assert (outcome.reason, outcome.sent) == (reason, True)


def test_empty_frames_of_a_body_end_it(run: Run, certificate: Path) -> None:
    outcome = fetched(ask(run, certificate, replying(BEGUN, http2.body(1, b"", flags=0) * MANY)))
    assert (outcome.payload, outcome.exchange.truncated, outcome.flaws) == (
        b"hello",
        "unspecified",
        ("too_many_frames",),
    )


def test_a_body_that_does_not_end_is_kept_up_to_the_limit(run: Run, certificate: Path) -> None:
    limits = FetchLimits(body=100_000)
    begun = http2.head(1) + http2.body(1, b"x" * 16_384, flags=0) * 100
    outcome = fetched(ask(run, certificate, replying(begun), limits=limits))
    assert (len(outcome.payload), outcome.exchange.truncated) == (100_000, "length")


@pytest.mark.parametrize("begun", [b"", http2.head(1) + http2.body(1, b"hello", flags=0)], ids=["head", "body"])
def test_pings_do_not_keep_a_silent_answer_alive(run: Run, certificate: Path, begun: bytes) -> None:
    def serve(peer: Http2Peer) -> None:
        peer.send(http2.frame(http2.SETTINGS))
        peer.read_request()
        peer.send(begun)
        while peer.read_frame()[0] != http2.GOAWAY:  # as fast as they are answered
            peer.send(PING)

    limits = FetchLimits(window=0.3)
    outcome = ask(run, certificate, serve, limits=limits)
    if begun:
        assert fetched(outcome).exchange.truncated in ("time", "unspecified")
    else:
        assert failed(outcome).reason in ("timeout", "too_many_frames")


def test_a_host_that_fails_at_http2_is_asked_by_http_1_from_then_on(run: Run, certificate: Path) -> None:
    def serve_http1(secure: ssl.SSLSocket) -> None:
        while read_request(secure):
            secure.sendall(answer())

    server = Http2Listener(certificate, replying(http2.body(1, b"hello")), serve_http1=serve_http1)

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            assert failed(await get(fetcher, URL)).reason == "http2_error"
            for _ in range(2):
                assert fetched(await get(fetcher, URL)).exchange.protocols[0] == "http/1.1"

    with Listener(server) as listener:
        run(main(listener.port))
    assert server.chosen == ["h2", "http/1.1"]

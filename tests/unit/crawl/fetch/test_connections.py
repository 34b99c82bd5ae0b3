"""What is sent, when a connection is used again and when not (N13), and what is left behind: nothing (N05)."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import (
    AGENT,
    PATIENCE,
    PATIENT,
    Listener,
    answer,
    failed,
    fetched,
    fetching,
    get,
    get_one,
    read_request,
    reset,
    wait_for_end,
)
from webmill.crawl.fetch import DnsLimits, DnsResolver, FetchRequest, no_lookup
from webmill.testing import TestWeb

LINUX_ONLY = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")


class Echo:
    """A server that answers each request on a connection with its number and the connection's, and keeps them all."""

    def __init__(self, *, fields: bytes = b"", after: bytes = b"", version: bytes = b"1.1") -> None:
        self.requests: list[bytes] = []
        self._fields, self._after, self._version = fields, after, version

    def __call__(self, connection: socket.socket, number: int) -> None:
        while request := read_request(connection):
            self.requests.append(request)
            body = b"connection %d request %d" % (number, len(self.requests))
            connection.sendall(answer(body, self._fields).replace(b"1.1", self._version, 1) + self._after)


def test_exactly_these_bytes_are_sent_and_kept(run: Run) -> None:
    echo = Echo()
    with Listener(echo) as listener:
        url = f"{listener.url}/a%20path?b=c"
        before = datetime.now(UTC)
        outcome = fetched(run(_ask(url, ("If-None-Match", '"1"'), ("X-Other", "y"))))
    expected = (
        f"GET /a%20path?b=c HTTP/1.1\r\nHost: 127.0.0.1:{listener.port}\r\nUser-Agent: {AGENT}\r\n"
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\n"
        "Accept-Encoding: gzip, br, zstd, deflate\r\nConnection: keep-alive\r\n"
        'If-None-Match: "1"\r\nX-Other: y\r\n\r\n'
    ).encode()
    assert echo.requests == [expected]
    exchange = outcome.exchange
    assert exchange.request == expected
    assert exchange.response == answer(b"connection 1 request 1")
    assert (exchange.url, exchange.ip, exchange.protocols) == (url, "127.0.0.1", ("http/1.1",))
    assert before <= exchange.date <= datetime.now(UTC)
    assert exchange.seconds >= 0


async def _ask(url: str, *headers: tuple[str, str]):  # type: ignore[no-untyped-def]
    async with fetching(limits=PATIENT) as fetcher:
        return await get(fetcher, url, *headers)


def test_user_password_and_fragment_are_not_sent(run: Run) -> None:
    echo = Echo()
    with Listener(echo) as listener:
        fetched(run(get_one(f"http://user:secret@127.0.0.1:{listener.port}/#part")))
    assert b"secret" not in echo.requests[0]
    assert b"Authorization" not in echo.requests[0]
    assert b"part" not in echo.requests[0]


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "\u20ac"])
def test_a_field_that_would_break_the_request_is_refused(value: str) -> None:
    with Listener(Echo()) as listener:
        outcome = failed(asyncio.run(_ask(f"{listener.url}/", ("If-None-Match", value))))
        assert outcome.reason in ("header_injection", "not_latin1")
        assert (outcome.sent, listener.accepted) == (False, 0)


def test_a_condition_is_answered_with_304(web: TestWeb, run: Run) -> None:
    async def main() -> None:
        async with fetching(web.resolve, limits=PATIENT) as fetcher:
            first = fetched(await get(fetcher, "http://files.mill.example/etag"))
            tag = first.head.headers.get("etag") or ""
            second = fetched(await get(fetcher, "http://files.mill.example/etag", ("If-None-Match", tag)))
            assert (first.head.status, second.head.status, second.payload) == (200, 304, b"")

    run(main())


def test_a_proper_connection_is_used_again(run: Run) -> None:
    with Listener(Echo()) as listener:
        bodies = run(_several(listener, 5))
        assert bodies == [b"connection 1 request %d" % number for number in range(1, 6)]
        assert listener.accepted == 1


@pytest.mark.parametrize(
    "echo",
    [
        Echo(fields=b"Connection: close\r\n"),
        Echo(version=b"1.0"),
        Echo(fields=b"X: a\rb\r\n"),
        Echo(fields=b"Content-Length: 22\r\n"),
        Echo(fields=b"X: a\r\n folded\r\n"),
        Echo(fields=b"no colon\r\n"),
        Echo(after=b"\r\n"),
        Echo(after=answer(b"the answer to what comes next")),
    ],
    ids=["close", "http10", "bare_cr", "repeated", "folded", "no_colon", "excess", "two_answers"],
)
def test_a_connection_with_a_flaw_is_not_used_again(run: Run, echo: Echo) -> None:
    echo.requests.clear()
    with Listener(echo) as listener:
        bodies = run(_several(listener, 3))
        assert bodies == [b"connection %d request %d" % (number, number) for number in (1, 2, 3)]


async def _several(listener: Listener, count: int) -> list[bytes]:
    async with fetching(limits=PATIENT) as fetcher:
        return [fetched(await get(fetcher, f"{listener.url}/{number}")).payload for number in range(count)]


def test_an_answer_that_comes_unasked_is_taken_for_no_other(run: Run) -> None:
    """The second answer comes when the first is long over, and before the second request."""
    late, sent = threading.Event(), threading.Event()

    def serve(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(answer(b"proper %d" % number))
        late.wait(PATIENCE)
        connection.sendall(answer(b"smuggled"))
        sent.set()
        wait_for_end(connection)

    async def main(url: str) -> None:
        async with fetching(limits=PATIENT) as fetcher:
            assert fetched(await get(fetcher, url)).payload == b"proper 1"
            late.set()
            sent.wait(PATIENCE)  # the loop stands still: it has not seen what is in its socket by now
            assert fetched(await get(fetcher, url)).payload == b"proper 2"

    with Listener(serve) as listener:
        run(main(listener.url))
        assert listener.accepted == 2


def test_hosts_on_one_address_do_not_share_connections(run: Run) -> None:
    async def main(port: int) -> None:
        fixed = dict.fromkeys(("a.example", "b.example"), ("127.0.0.1", port))
        async with fetching(fixed, limits=PATIENT) as fetcher:
            for name in ("a.example", "b.example", "a.example"):
                fetched(await get(fetcher, f"http://{name}/"))

    with Listener(Echo()) as listener:
        run(main(listener.port))
        assert listener.accepted == 2


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_request_that_meets_a_closing_connection_is_sent_once_more(run: Run, how: str) -> None:
    asked: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        read_request(connection)
        asked.append(number)
        connection.sendall(answer())
        if number == 1:
            read_request(connection)
            asked.append(number)
            if how == "rst":
                reset(connection)
        else:
            wait_for_end(connection)

    with Listener(serve) as listener:
        assert run(_several(listener, 2)) == [b"hello", b"hello"]
    assert asked == [1, 1, 2]


@pytest.mark.parametrize(
    "rest",
    [
        b" and ten bytes more than it said",
        b"HTTP/1.1 999999 Odd\r\n\r\n",
        answer(b"tired").replace(b"200 OK", b"408 Late"),
    ],
    ids=["the rest of a body", "no status", "408"],
)
def test_what_is_no_answer_to_a_second_request_is_asked_for_on_a_new_connection(run: Run, rest: bytes) -> None:
    def serve(connection: socket.socket, number: int) -> None:
        read_request(connection)
        connection.sendall(answer(b"%d" % number))
        if number == 1:
            read_request(connection)
            connection.sendall(rest)
        wait_for_end(connection)

    with Listener(serve) as listener:
        assert run(_several(listener, 2)) == [b"1", b"2"]
        assert listener.accepted == 2


def test_a_new_connection_that_fails_is_not_tried_again(run: Run) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        read_request(connection)
        reset(connection)

    with Listener(serve) as listener:
        outcome = failed(run(get_one(f"{listener.url}/", limits=PATIENT)))
        assert (outcome.reason, outcome.sent, outcome.partial, listener.accepted) == ("reset", True, b"", 1)


def test_no_more_fetches_than_connections_are_under_way(run: Run) -> None:
    lock, level, peak = threading.Lock(), [0], [0]

    def serve(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            with lock:
                level[0] += 1
                peak[0] = max(peak[0], level[0])
            with lock:
                level[0] -= 1
            connection.sendall(answer())

    async def main(url: str) -> None:
        async with fetching(limits=PATIENT, connections=4) as fetcher:
            await asyncio.gather(*(get(fetcher, url) for _ in range(40)))

    with Listener(serve) as listener:
        run(main(listener.url))
        assert listener.accepted <= 4
    assert 1 <= peak[0] <= 4


@pytest.mark.parametrize("stage", ["head", "body"])
def test_a_cancelled_fetch_closes_its_socket(run: Run, stage: str) -> None:
    asked, ended = threading.Event(), threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf" if stage == "body" else b"HTTP/1")
        asked.set()
        if wait_for_end(connection):
            ended.set()

    async def main(url: str) -> None:
        async with fetching(limits=PATIENT) as fetcher:
            task = asyncio.create_task(get(fetcher, url))
            assert await asyncio.to_thread(asked.wait, PATIENCE)
            task.cancel()
            await asyncio.wait((task,))
            assert task.cancelled()
            assert await asyncio.to_thread(ended.wait, PATIENCE)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with Listener(serve) as listener:
        run(main(listener.url))


@LINUX_ONLY
def test_nothing_stays_open_after_fetches_of_all_kinds(web: TestWeb, run: Run) -> None:
    paths = ["no-length", "chunked", "two-lengths", "short-body", "nothing", "rst/0", "rst/40", "fin/90", "two-answers"]

    async def main() -> None:
        before = _open_sockets()
        async with fetching(web.resolve, limits=PATIENT) as fetcher:
            await asyncio.gather(*(get(fetcher, f"http://broken.harvest.test/{path}") for path in paths * 3))
        while _open_sockets() > before:
            await asyncio.sleep(0.01)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def _open_sockets() -> int:
    """Of the client: the server is in this process too, but its end of a connection closes when ours does."""
    return sum(_is_socket(each) for each in Path("/proc/self/fd").iterdir())


def _is_socket(file: Path) -> bool:
    try:
        return str(file.readlink()).startswith("socket:")
    except OSError:
        return False  # closed meanwhile


def test_proxies_netrc_and_cookies_do_not_exist(
    web: TestWeb, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("default login somebody password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with Listener(lambda connection, _: None) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)

        async def main() -> None:
            async with fetching(web.resolve, limits=PATIENT) as fetcher:
                fetched(await get(fetcher, "http://files.mill.example/cookie/set"))
                shown = fetched(await get(fetcher, "http://files.mill.example/cookie/show"))
                assert shown.payload == b""
                fields = fetched(await get(fetcher, "http://files.mill.example/headers"))
                assert b"authorization" not in fields.payload.lower()

        run(main())
        assert proxy.accepted == 0


def test_ipv6_is_spoken(run: Run) -> None:
    try:
        listener = Listener(Echo(), ip="::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with listener:
        outcome = fetched(run(get_one(f"{listener.url}/", limits=PATIENT)))
    assert outcome.exchange.ip == "::1"
    assert f"Host: [::1]:{listener.port}\r\n".encode() in outcome.exchange.request


def test_the_address_given_is_the_one_connected(run: Run) -> None:
    """Whatever the name means now: the answer to `locate` is what counts (N02)."""

    async def main(port: int) -> None:
        turns = iter([["127.0.0.1"], ["127.0.0.9"], ["127.0.0.9"]])
        resolver = DnsResolver(lookup=lambda _: next(turns), limits=DnsLimits(keep=0.0))
        async with fetching(resolver=resolver, limits=PATIENT) as fetcher:
            url = f"http://a.example:{port}/"
            address = await fetcher.locate(url)
            assert (await fetcher.locate(url)) != address
            outcome = await fetcher.fetch(FetchRequest(url=url), address)  # type: ignore[arg-type]
            assert fetched(outcome).exchange.ip == "127.0.0.1"

    with Listener(Echo()) as listener:
        run(main(listener.port))
        assert listener.accepted == 1


def test_an_unknown_name_of_a_fixed_web_is_not_found(web: TestWeb, run: Run) -> None:
    outcome = failed(
        run(get_one("http://nowhere.names.test/", resolver=DnsResolver(fixed=web.resolve, lookup=no_lookup)))
    )
    assert (outcome.reason, outcome.sent) == ("dns_notfound", False)

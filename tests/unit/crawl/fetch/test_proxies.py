"""Through a proxy only vetted addresses are connected, and nobody sees its password."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

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
from tests.unit.crawl.fetch.proxies import HttpProxy, Proxy, SocksProxy
from webmill.crawl.fetch import AddressRules, FetchLimits, FetchRequest, SocketAddress
from webmill.crawl.fetch.proxy import ProxyServer, parse_proxy
from webmill.crawl.fetch.route import NetworkRoute
from webmill.errors import Misconfigured

KINDS = pytest.mark.parametrize(("kind", "make"), [("http", HttpProxy), ("socks5", SocksProxy)])
SECRET = "us%40r:p%3Ass%2Fword"
PLAIN = "us@r:p:ss/word"
HOST = "secure.example"


def through(kind: str, listener: Listener, credentials: str = "") -> NetworkRoute:
    return NetworkRoute(parse_proxy(f"{kind}://{credentials}{'@' if credentials else ''}127.0.0.1:{listener.port}"))


def echo(connection: socket.socket, number: int) -> None:
    while request := read_request(connection):
        connection.sendall(answer(request))


@KINDS
@pytest.mark.parametrize("credentials", ["", SECRET], ids=["open", "password"])
def test_pages_come_through_a_proxy_and_the_tunnel_is_kept(
    run: Run, kind: str, make: type[Proxy], credentials: str
) -> None:
    proxy = make(password=PLAIN if credentials else "")

    async def main(port: int, route: NetworkRoute) -> None:
        async with fetching({"a.example": ("127.0.0.1", port)}, limits=PATIENT, route=route) as fetcher:
            for _ in range(2):
                outcome = fetched(await get(fetcher, f"http://a.example:{port}/page"))
                assert outcome.payload == outcome.exchange.request
                assert outcome.exchange.request.startswith(b"GET /page HTTP/1.1\r\nHost: a.example")
                assert b"roxy" not in outcome.exchange.request
                assert outcome.exchange.ip == "127.0.0.1"

    with Listener(echo) as server, Listener(proxy) as listener:
        run(main(server.port, through(kind, listener, credentials)))
        assert proxy.asked == [f"127.0.0.1 {server.port}"]
        assert (server.accepted, listener.accepted) == (1, 1)
    assert proxy.credentials == ([PLAIN] if credentials else [""] if kind == "http" else [])


@KINDS
def test_tls_is_spoken_with_the_server_and_its_certificate_checked(
    run: Run, kind: str, make: type[Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def serve(connection: socket.socket, number: int) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            echo(secure, number)

    for certificate, reason in ((authority.issue(HOST), None), (authority.self_signed(HOST), "tls_self_signed")):
        context.load_cert_chain(certificate)
        with Listener(serve) as server, Listener(make()) as listener:
            fixed = {HOST: ("127.0.0.1", server.port)}
            outcome = run(get_one(f"https://{HOST}/", fixed, limits=PATIENT, route=through(kind, listener)))
        assert getattr(outcome, "reason", None) == reason


@KINDS
def test_an_address_that_is_not_public_is_not_asked_of_a_proxy(run: Run, kind: str, make: type[Proxy]) -> None:
    proxy = make()

    async def main(route: NetworkRoute) -> None:
        options: dict[str, Any] = {"address_rules": AddressRules(), "limits": PATIENT, "route": route}
        async with fetching({"a.example": ("10.0.0.1", 80)}, **options) as fetcher:
            assert failed(await get(fetcher, "http://a.example/")).reason == "blocked_address"
            there = SocketAddress("127.0.0.1", 80)
            asked_past = await fetcher.fetch(FetchRequest(url="http://a.example/"), there)
            assert failed(asked_past).reason == "blocked_address"

    with Listener(proxy) as listener:
        run(main(through(kind, listener)))
        assert listener.accepted == 0


@KINDS
def test_a_server_that_the_proxy_does_not_reach_is_not_the_proxys_fault(run: Run, kind: str, make: type[Proxy]) -> None:
    with Listener(echo) as server:
        gone = server.port
    with Listener(make()) as listener:
        outcome = failed(run(get_one(f"http://127.0.0.1:{gone}/", limits=PATIENT, route=through(kind, listener))))
    assert outcome.reason == ("connect_refused" if kind == "socks5" else "connect_failed")
    assert not outcome.sent


@KINDS
@pytest.mark.parametrize("credentials", ["", "somebody:else"])
def test_a_wrong_password_is_told_and_not_shown(run: Run, kind: str, make: type[Proxy], credentials: str) -> None:
    with Listener(echo) as server, Listener(make(password=PLAIN)) as listener:
        outcome = failed(run(get_one(f"{server.url}/", limits=PATIENT, route=through(kind, listener, credentials))))
        assert (outcome.reason, outcome.sent, server.accepted) == ("proxy_failed", False, 0)
    assert "else" not in outcome.message


@KINDS
@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\n\r\nand more",
        b"HTTP/1.1 403 No\r\n\r\n",
        b"\5\0\5\7\0\1",
        b"\5\0\5\0\0\7",
        b"\4\0",
    ],
)
def test_a_broken_proxy_is_said_to_be_broken(run: Run, kind: str, make: type[Proxy], broken: bytes) -> None:
    proxy = make()
    proxy.broken = broken or b"\0"
    with Listener(echo) as server, Listener(proxy) as listener:
        outcome = failed(run(get_one(f"{server.url}/", limits=PATIENT, route=through(kind, listener))))
        assert (outcome.reason, outcome.sent, server.accepted) == ("proxy_failed", False, 0)


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_proxy_that_is_not_there_is_named(run: Run, kind: str) -> None:
    with Listener(echo) as gone:
        route = through(kind, gone)
    with Listener(echo) as server:
        outcome = failed(run(get_one(f"{server.url}/", limits=PATIENT, route=route)))
    assert (outcome.reason, outcome.sent) == ("proxy_failed", False)
    assert "proxy" in outcome.message


@pytest.mark.parametrize("kind", ["http", "socks5"])
def test_a_silent_proxy_is_given_up(run: Run, kind: str) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        while connection.recv(1000):
            pass

    limits = FetchLimits(connect=0.3)
    with Listener(echo) as server, Listener(serve) as listener:
        outcome = failed(run(get_one(f"{server.url}/", limits=limits, route=through(kind, listener))))
    assert (outcome.reason, outcome.sent) == ("connect_timeout", False)


def test_forms_of_proxies() -> None:
    assert parse_proxy("") is None
    assert parse_proxy("HTTP://proxy.example:3128/") == ProxyServer("http", "proxy.example", 3128)
    assert parse_proxy(f"socks5://{SECRET}@[::1]:1080") == ProxyServer("socks5", "::1", 1080, "us@r", "p:ss/word")
    assert "word" not in repr(parse_proxy(f"socks5://{SECRET}@[::1]:1080"))


@pytest.mark.parametrize(
    "address",
    [
        "proxy.example:3128",
        "user:secret@proxy.example:3128",
        "http//user:secret@proxy.example:3128",
        "https://user:secret@proxy.example:3128",
        "socks5h://user:secret@proxy.example:1080",
        "socks5://user:secret@proxy.example",
        "socks5://user:sec/ret@proxy.example:1080",
        "http://user:secret@proxy.example:0",
        f"http://user:{'secret' * 50}@proxy.example:1",
        "http://user:secret@proxy.example:1/path",
    ],
)
def test_what_is_no_proxy_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        parse_proxy(address)
    assert "secret" not in str(refused.value)
    assert "sec/ret" not in str(refused.value)


# --- source addresses ---

SOURCES = ("127.0.8.1", "127.0.8.2", "127.0.8.3")


def test_each_host_is_asked_from_one_of_the_addresses_and_always_the_same(run: Run) -> None:
    seen: dict[str, set[str]] = {}

    def serve(connection: socket.socket, _: int) -> None:
        host = read_request(connection).decode().split("Host: ")[1].split("\r\n")[0]
        seen.setdefault(host, set()).add(connection.getpeername()[0])
        connection.sendall(answer(fields=b"Connection: close\r\n"))

    async def main(port: int) -> None:
        fixed = {f"{number}.example": ("127.0.0.1", port) for number in range(20)}
        async with fetching(fixed, limits=PATIENT, route=NetworkRoute.from_settings("", SOURCES)) as fetcher:
            for host in (*fixed, *fixed):
                fetched(await get(fetcher, f"http://{host}/"))

    with Listener(serve) as listener:
        run(main(listener.port))
    assert {len(ips) for ips in seen.values()} == {1}
    assert set.union(*seen.values()) == set(SOURCES)


def test_a_server_of_the_other_family_is_not_asked_from_any_address(run: Run) -> None:
    outcome = failed(run(get_one("http://[::1]:9/", limits=PATIENT, route=NetworkRoute(source_addresses=SOURCES))))
    assert (outcome.reason, outcome.sent) == ("connect_failed", False)
    assert "IPv6" in outcome.message


def test_an_address_that_the_machine_lost_is_named(run: Run) -> None:
    route = NetworkRoute(source_addresses=("192.0.2.77",))
    with Listener(echo) as server:
        outcome = failed(run(get_one(f"{server.url}/", limits=PATIENT, route=route)))
    assert (outcome.reason, outcome.sent) == ("source_address", False)
    assert "192.0.2.77" in outcome.message


@pytest.mark.parametrize("written", ["192.0.2.77", "example.org", "127.0.0.1:80", ""])
def test_what_is_no_address_of_this_machine_is_refused_at_the_start(written: str) -> None:
    with pytest.raises(Misconfigured, match="--source-address"):
        NetworkRoute.from_settings("", (written,))

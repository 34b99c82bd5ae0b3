"""TLS sessions are resumed with the servers that allow it, and never from a connection that was not verified."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.services.nginx import Nginx
from tests.unit.crawl.fetch.certificates import Authority
from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import PATIENT, Listener, answer, fetched, fetching, get, read_request
from webmill.crawl.fetch.tls import lenient_context, strict_context
from webmill.crawl.fetch.tls_sessions import TlsSessions

HOST = "secure.example"
ADDRESS = "127.0.4.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


async def flaws_of(port: int, count: int, *, ip: str = "127.0.0.1", **options: Any) -> list[tuple[str, ...]]:
    async with fetching({HOST: (ip, port)}, limits=PATIENT, **options) as fetcher:
        return [fetched(await get(fetcher, f"https://{HOST}/")).flaws for _ in range(count)]


@pytest.mark.server("nginx")
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("tickets", ["on", "off"])
def test_nginx_resumes_what_it_is_offered(
    nginx: Callable[..., Nginx], authority: Authority, run: Run, tmp_path: Path, version: str, tickets: str
) -> None:
    (tmp_path / "index.html").write_text("hello")
    directives = (
        f"ssl_protocols {version}; ssl_session_tickets {tickets}; ssl_session_cache shared:s:1m; keepalive_timeout 0;"
    )
    server = nginx(
        hosts={HOST: tmp_path}, addresses={HOST: ADDRESS}, certificate=authority.issue(HOST), directives=directives
    )
    assert run(flaws_of(server.port, 5, ip=ADDRESS)) == [()] * 5
    # The first connection shows that the host is asked again, the second gives the session. Without tickets, TLS 1.3
    # has sessions that are good for once.
    log = [one.resumed for one in server.log()]
    assert log[:3] == [False, False, True]
    assert log == [False, False, True, True, True] or (version == "TLSv1.3" and tickets == "off")


class Forgetful:
    """A TLS server that ends each connection after an answer; `resumed` says how each began."""

    def __init__(self, certificate: Path, *, tune: Callable[[ssl.SSLContext], None] = lambda _: None) -> None:
        self.resumed: list[bool] = []
        self._certificate, self._tune = certificate, tune
        self.renew()

    def renew(self) -> None:
        """Forget the keys of all tickets."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self._certificate)
        self._tune(self.context)

    def __call__(self, connection: socket.socket, number: int) -> None:
        with self.context.wrap_socket(connection, server_side=True) as secure:
            if read_request(secure):
                self.resumed.append(bool(secure.session_reused))
                secure.sendall(answer(fields=b"Connection: close\r\n"))


def test_a_session_that_was_not_verified_is_resumed_without_verification_only(authority: Authority, run: Run) -> None:
    server = Forgetful(authority.self_signed(HOST))
    with Listener(server) as listener:
        assert run(flaws_of(listener.port, 4, tls="archive")) == [("tls_unverified",)] * 4
    assert server.resumed == [False, False, True, True]


def test_a_session_of_one_policy_cannot_be_offered_by_the_other(authority: Authority) -> None:
    """Python ties a session to its context; should it stop doing so, this must be known."""
    server = Forgetful(authority.self_signed(HOST))
    lenient, strict = lenient_context(), strict_context()
    with Listener(server) as listener:
        with (
            socket.create_connection(("127.0.0.1", listener.port)) as sock,
            lenient.wrap_socket(sock, server_hostname=HOST) as secure,
        ):
            secure.sendall(b"GET / HTTP/1.1\r\n\r\n")
            secure.recv(1000)
            session = secure.session
        with pytest.raises(ValueError, match="different SSLContext"):
            strict.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=HOST).session = session


def test_a_server_with_new_keys_is_connected_as_if_for_the_first_time(authority: Authority, run: Run) -> None:
    server = Forgetful(authority.issue(HOST))

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for number in range(6):
                if number == 3:
                    server.renew()
                assert fetched(await get(fetcher, f"https://{HOST}/")).flaws == ()

    with Listener(server) as listener:
        run(main(listener.port))
        assert listener.accepted == 6
    assert server.resumed == [False, False, True, False, True, True]


def test_a_server_that_ends_the_handshake_when_it_is_offered_a_session_is_asked_without(
    authority: Authority, run: Run
) -> None:
    server = Forgetful(authority.issue(HOST))
    seen: list[int] = []

    def serve(connection: socket.socket, number: int) -> None:
        hello = connection.recv(65536, socket.MSG_PEEK)
        seen.append(len(hello))
        if len(seen) > 2 and len(hello) > seen[0]:  # there is a session in it
            return
        server(connection, number)

    with Listener(serve) as listener:
        assert run(flaws_of(listener.port, 4)) == [()] * 4
    assert server.resumed == [False] * 4
    assert len(seen) > 4


class Handshake:
    """As much of a connection as `TlsSessions` looks at."""

    def __init__(self, *, resumed: bool = False, lifetime: int = 300, certificate: int = 1000) -> None:
        self.session_reused = resumed
        self.session = self
        self.ticket_lifetime_hint, self.timeout = lifetime, 7200
        self._certificate = certificate

    def getpeercert(self, *, binary_form: bool) -> bytes:
        return bytes(self._certificate)


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def sessions(now: list[float]) -> TlsSessions:
    return TlsSessions(size=3, keep=3600.0, clock=lambda: now[0])


def learn(sessions: TlsSessions, host: str, **values: Any) -> None:
    sessions.learn(host, cast("ssl.SSLObject", Handshake(**values)))


def test_a_session_is_taken_from_the_second_connection_and_offered_while_it_lives(
    sessions: TlsSessions, now: list[float]
) -> None:
    learn(sessions, HOST)
    assert sessions.offer(HOST) is None
    learn(sessions, HOST, lifetime=300)
    assert sessions.offer(HOST) is not None
    now[0] = 299.0
    assert sessions.offer(HOST) is not None
    now[0] = 300.0
    assert sessions.offer(HOST) is None


def test_no_session_lives_longer_than_an_hour_however_often_it_is_resumed(
    sessions: TlsSessions, now: list[float]
) -> None:
    for _ in range(2):
        learn(sessions, HOST, lifetime=7 * 86400)
    for minute in range(60):
        now[0] = minute * 60.0
        assert sessions.offer(HOST) is not None
        learn(sessions, HOST, resumed=True)
    now[0] = 3600.0
    assert sessions.offer(HOST) is None


def test_a_server_that_never_resumes_is_left_alone_after_two_refusals(sessions: TlsSessions) -> None:
    offered = []
    for _ in range(6):
        offered.append(sessions.offer(HOST) is not None)
        learn(sessions, HOST)
    assert offered == [False, False, True, True, False, False]


def test_sessions_are_bounded_and_huge_ones_not_kept(sessions: TlsSessions) -> None:
    for number in range(5):
        for _ in range(2):
            learn(sessions, f"{number}.example")
    assert [sessions.offer(f"{number}.example") is not None for number in range(5)] == [False, False, True, True, True]
    assert len(sessions) == 3
    for _ in range(2):
        learn(sessions, HOST, certificate=1 << 20)
    assert sessions.offer(HOST) is None

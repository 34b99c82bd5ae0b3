"""TLS that is right, wrong, old, stalled and cut (N15)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.crawl.fetch.certificates import Authority
from tests.unit.crawl.fetch.conftest import Run
from tests.unit.crawl.fetch.fetching import (
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
from webmill.crawl.fetch import FAILURES, FetchLimits
from webmill.crawl.fetch.tls import RefusedCertificates, TlsServer

HOST = "secure.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL reads where the system's store is from here."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))


class Secure:
    """A listener that answers over TLS and remembers the names that it was asked for, and what failed."""

    def __init__(
        self, certificate: Path, *, tune: Callable[[ssl.SSLContext], None] | None = None, until_close: bool = False
    ) -> None:
        self.names: list[str | None] = []
        self.requests = 0
        self._until_close, self._tune = until_close, tune
        self.show(certificate)

    def show(self, certificate: Path) -> None:
        """Show this certificate from the next connection on."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._context.sni_callback = lambda _object, name, _context: self.names.append(name)
        if self._tune:
            self._tune(self._context)

    def __call__(self, connection: socket.socket, number: int) -> None:
        with self._context.wrap_socket(connection, server_side=True) as secure:
            while read_request(secure):
                self.requests += 1
                if self._until_close:
                    secure.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")
                    secure.unwrap()
                    return
                secure.sendall(answer(b"hello %d" % number))


def _ask(run: Run, listener: Listener, host: str = HOST, **options: object):  # type: ignore[no-untyped-def]
    options = {"limits": PATIENT, **options}
    return run(get_one(f"https://{host}/", {host: ("127.0.0.1", listener.port)}, **options))


def test_a_proper_server_is_fetched_and_its_protocol_told(authority: Authority, run: Run) -> None:
    server = Secure(authority.issue(HOST))

    async def main(port: int) -> None:
        async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT) as fetcher:
            for _ in range(3):
                outcome = fetched(await get(fetcher, f"https://{HOST}/"))
                assert (outcome.payload, outcome.flaws) == (b"hello 1", ())
                assert outcome.exchange.protocols == ("http/1.1", "tls/1.3")
                assert outcome.exchange.cipher_suites[0].startswith("TLS_")

    with Listener(server) as listener:
        run(main(listener.port))
        assert (listener.accepted, server.names, server.requests) == (1, [HOST], 3)


def test_a_body_until_the_end_of_the_connection_is_whole(authority: Authority, run: Run) -> None:
    with Listener(Secure(authority.issue(HOST), until_close=True)) as listener:
        outcome = fetched(_ask(run, listener))
    assert (outcome.payload, outcome.exchange.truncated) == (b"hello", None)


def test_a_certificate_for_an_address_is_checked(authority: Authority, run: Run) -> None:
    for name, reason in (("127.0.0.1", None), ("127.0.0.2", "tls_host")):
        with Listener(Secure(authority.issue(name))) as listener:
            outcome = run(get_one(f"https://127.0.0.1:{listener.port}/", limits=PATIENT))
        assert getattr(outcome, "reason", None) == reason


WRONG: list[tuple[str, Callable[[Authority, Path], Path]]] = [
    ("tls_expired", lambda authority, _: authority.issue(HOST, days=-1)),
    ("tls_self_signed", lambda authority, _: authority.self_signed(HOST)),
    ("tls_host", lambda authority, _: authority.issue("other.example")),
    ("tls_untrusted", lambda _, folder: Authority(folder, "stranger").issue(HOST)),
]


@pytest.mark.parametrize(("reason", "certificate"), WRONG, ids=[reason for reason, _ in WRONG])
def test_a_wrong_certificate_is_refused_and_nothing_is_sent(
    authority: Authority, run: Run, tmp_path: Path, reason: str, certificate: Callable[[Authority, Path], Path]
) -> None:
    server = Secure(certificate(authority, tmp_path))
    with Listener(server) as listener:
        outcome = failed(_ask(run, listener))
        assert listener.accepted == 1
    assert (outcome.reason, outcome.sent, server.requests) == (reason, False, 0)
    assert outcome.reason in FAILURES


@pytest.mark.parametrize(("reason", "certificate"), WRONG, ids=[reason for reason, _ in WRONG])
def test_an_archive_fetches_it_all_the_same_and_says_so(
    authority: Authority, run: Run, tmp_path: Path, reason: str, certificate: Callable[[Authority, Path], Path]
) -> None:
    server = Secure(certificate(authority, tmp_path))
    with Listener(server) as listener:
        outcome = fetched(_ask(run, listener, tls="archive"))
    assert outcome.flaws == ("tls_unverified",)
    assert outcome.payload == b"hello 2"
    assert server.requests == 1


async def _flaws(port: int, count: int, between: Callable[[], None] = lambda: None) -> list[tuple[str, ...]]:
    async with fetching({HOST: ("127.0.0.1", port)}, limits=PATIENT, tls="archive") as fetcher:
        found = []
        for _ in range(count):
            found.append(fetched(await get(fetcher, f"https://{HOST}/")).flaws)
            between()
        return found


def test_a_connection_with_a_wrong_certificate_is_kept_and_each_answer_says_so(authority: Authority, run: Run) -> None:
    server = Secure(authority.self_signed(HOST))
    with Listener(server) as listener:
        assert run(_flaws(listener.port, 3)) == [("tls_unverified",)] * 3
        assert (listener.accepted, server.requests) == (2, 3)  # strictly, and once more


def test_a_wrong_certificate_is_remembered_for_the_next_connections(authority: Authority, run: Run) -> None:
    server = Secure(authority.self_signed(HOST), until_close=True)
    with Listener(server) as listener:
        assert run(_flaws(listener.port, 3)) == [("tls_unverified",)] * 3
        assert (listener.accepted, server.requests) == (4, 3)  # strictly only the first time


def test_an_old_protocol_is_remembered_like_a_wrong_certificate(authority: Authority, run: Run) -> None:
    server = Secure(authority.issue(HOST), tune=_only_tls_1_0, until_close=True)
    with Listener(server) as listener:
        if getattr(_ask(run, listener, tls="archive"), "reason", "") == "tls_other":
            pytest.skip("this OpenSSL was built without TLS 1.0")
        before = listener.accepted
        assert run(_flaws(listener.port, 3)) == [("tls_unverified",)] * 3
        assert listener.accepted - before == 4


def test_a_certificate_that_was_put_right_is_found_so_at_the_next_connection(authority: Authority, run: Run) -> None:
    server = Secure(authority.issue(HOST, days=-1), until_close=True)
    with Listener(server) as listener:
        repaired = run(_flaws(listener.port, 2, between=lambda: server.show(authority.issue(HOST))))
        assert repaired == [("tls_unverified",), ()]


def test_a_certificate_that_is_wrong_in_another_way_is_judged_anew(authority: Authority, run: Run) -> None:
    server = Secure(authority.issue(HOST, days=-1), until_close=True)
    with Listener(server) as listener:
        found = run(_flaws(listener.port, 2, between=lambda: server.show(authority.self_signed(HOST))))
        assert found == [("tls_unverified",)] * 2
        assert listener.accepted == 2 + 3  # known, then strictly, then leniently


def test_refused_certificates_are_bounded_and_forgotten() -> None:
    now = [0.0]
    refused = RefusedCertificates(size=2, keep=60.0, clock=lambda: now[0])
    servers = [TlsServer(f"{name}.example", "192.0.2.1", 443) for name in "abc"]
    for server in servers:
        refused.add(server, b"certificate")
    assert [refused.is_known(server) for server in servers] == [False, True, True]
    assert refused.is_refused(servers[1], b"certificate")
    assert not refused.is_refused(servers[1], b"another")
    now[0] = 60.0
    assert not any(refused.is_known(server) for server in servers)


def test_an_archive_marks_nothing_on_a_proper_server(authority: Authority, run: Run) -> None:
    with Listener(Secure(authority.issue(HOST))) as listener:
        assert fetched(_ask(run, listener, tls="archive")).flaws == ()


def _only_tls_1_0(context: ssl.SSLContext) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1


def test_an_old_protocol_is_refused_or_marked(authority: Authority, run: Run) -> None:
    with Listener(Secure(authority.issue(HOST), tune=_only_tls_1_0)) as listener:
        assert failed(_ask(run, listener)).reason == "tls_other"
        outcome = _ask(run, listener, tls="archive")
    if getattr(outcome, "reason", "") == "tls_other":
        pytest.skip("this OpenSSL was built without TLS 1.0")
    assert (outcome.flaws, outcome.exchange.protocols) == (("tls_unverified",), ("http/1.1", "tls/1.0"))


def test_a_huge_certificate_is_refused(authority: Authority, run: Run) -> None:
    with Listener(Secure(authority.issue(HOST, padding=1 << 20))) as listener:
        assert failed(_ask(run, listener)).reason == "tls_other"
        assert listener.accepted == 1


def test_a_server_that_speaks_no_tls_is_refused(run: Run) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.recv(1000)
        connection.sendall(answer())
        wait_for_end(connection)

    with Listener(serve) as listener:
        assert failed(_ask(run, listener)).reason == "tls_other"


def test_a_handshake_that_stalls_is_given_up_and_its_socket_closed(run: Run) -> None:
    ended = threading.Event()

    def serve(connection: socket.socket, _: int) -> None:
        if wait_for_end(connection):
            ended.set()

    async def main(port: int) -> None:
        limits = FetchLimits(connect=2.0)
        async with fetching({HOST: ("127.0.0.1", port)}, limits=limits) as fetcher:
            outcome = failed(await get(fetcher, f"https://{HOST}/"))
            assert (outcome.reason, outcome.sent) == ("tls_timeout", False)
            assert await asyncio.to_thread(ended.wait, PATIENCE)

    with Listener(serve) as listener:
        run(main(listener.port))


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_handshake_that_is_cut_fails(run: Run, how: str) -> None:
    def serve(connection: socket.socket, _: int) -> None:
        connection.recv(10)
        if how == "rst":
            reset(connection)

    with Listener(serve) as listener:
        outcome = failed(_ask(run, listener))
    assert outcome.reason in ("reset", "tls_other")
    assert not outcome.sent

"""The server that other tests rely on: what it serves, to whom, and what it remembers."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.services.nginx import Nginx
from tests.unit.crawl.fetch.certificates import Authority
from webmill.infra.storage.http import HttpStorage

pytestmark = pytest.mark.server("nginx")
Start = Callable[..., Nginx]


def ask(server: Nginx, path: str, *, host: str, address: str | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection(address or server.addresses[host], server.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_folder_is_served_with_ranges_and_every_request_is_in_the_log(nginx: Start, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "value").write_bytes(bytes(range(256)))
    server = nginx(tmp_path)
    with HttpStorage(server.url, user_agent="webmill-test (nobody@example.org)") as storage:
        stat = storage.stat("a b/value")
        assert storage.read("a b/value", start=10, length=5, etag=stat.etag) == bytes(range(10, 15))
        with storage.open("a b/value") as whole:
            assert whole.read() == bytes(range(256))
    log = server.log()
    assert [(one.method, one.path, one.status, one.range, one.sent) for one in log] == [
        ("HEAD", "/a%20b/value", 200, "", 0),
        ("GET", "/a%20b/value", 206, "bytes=10-14", 5),
        ("GET", "/a%20b/value", 200, "", 256),
    ]
    assert {one.user_agent for one in log} == {"webmill-test (nobody@example.org)"}
    assert {one.connection for one in log[:2]} == {log[0].connection}
    assert [one.at for one in log] == sorted(one.at for one in log)
    assert all(one.at <= one.ended for one in log)


def test_hundreds_of_hosts_have_folders_and_addresses_of_their_own(nginx: Start, tmp_path: Path) -> None:
    hosts, addresses = {}, {}
    for number in range(300):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "index.html").write_text(f"host {number}")
        hosts[f"h{number}.test"] = folder
        addresses[f"h{number}.test"] = f"127.0.{3 + number // 100}.{1 + number % 100}"
    server = nginx(hosts=hosts, addresses=addresses)
    for number in (0, 1, 150, 299):
        assert ask(server, "/", host=f"h{number}.test") == (200, f"host {number}".encode())
    assert ask(server, "/", host="h1.test", address=addresses["h2.test"])[0] == 421
    assert server.url_of("h1.test") == f"http://h1.test:{server.port}"
    log = server.log()
    assert [(one.host, one.address) for one in log[:2]] == [("h0.test", "127.0.3.1"), ("h1.test", "127.0.3.2")]
    assert log[-1].status == 421


def test_many_names_share_one_address_and_take_directives(nginx: Start, tmp_path: Path) -> None:
    for name in ("a.test", "b.test"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name)
    hosts = {name: tmp_path / name for name in ("a.test", "b.test")}
    server = nginx(tmp_path, hosts=hosts, directives="location /busy { return 503; }")
    assert ask(server, "/", host="a.test") == (200, b"a.test")
    assert ask(server, "/", host="b.test") == (200, b"b.test")
    assert ask(server, "/a.test/index.html", host="other", address="127.0.0.1") == (200, b"a.test")
    assert ask(server, "/busy", host="a.test")[0] == 503


def test_hosts_speak_tls_and_the_log_tells_of_connections_and_sessions(nginx: Start, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("secure")
    certificate = Authority(tmp_path).issue("s.test")
    server = nginx(hosts={"s.test": tmp_path}, addresses={"s.test": "127.0.3.9"}, certificate=certificate)
    assert server.url_of("s.test") == f"https://s.test:{server.port}"
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # of which a session is there after the handshake
    session = None
    for _ in range(2):
        with (
            socket.create_connection(("127.0.3.9", server.port), timeout=30) as plain,
            context.wrap_socket(plain, server_hostname="s.test", session=session) as secure,
        ):
            for _ in range(2):
                secure.sendall(b"GET / HTTP/1.1\r\nHost: s.test\r\n\r\n")
                assert b"secure" in secure.recv(10_000)
            session = secure.session
    log = server.log()
    assert [(one.request, one.resumed, one.protocol) for one in log] == [
        (1, False, "HTTP/1.1"),
        (2, False, "HTTP/1.1"),
        (1, True, "HTTP/1.1"),
        (2, True, "HTTP/1.1"),
    ]

"""Clients that are slow, greedy or no clients at all, on real sockets. Whatever they do, the next one is served."""

from __future__ import annotations

import http.client
import os
import random
import re
import select
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.server_process import DEADLINE, RunningServer, read_all, serving, wait_until_true

pytestmark = [
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]

PROGRAM = ("tests.serve.limited_server",)
HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"

JUNK = {
    "no http": b"hello\r\n\r\n",
    "binary": bytes(range(256)) * 8,
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http 0.9": b"GET /\r\n\r\n",
    "http 9": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "no host 1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "another host": b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "length and chunks": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    "other coding": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked and another, in two fields": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: xchunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "target of another host": b"GET http://evil.example/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "target with a user": b"GET http://127.0.0.1@evil.example/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "target of another scheme": b"GET ftp://127.0.0.1/healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "large extension": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n1;"
    + b"x" * 200_000
    + b"\r\na\r\n0\r\n\r\n",
    "many extensions": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + (b"1;" + b"x" * 500 + b"\r\na\r\n") * 300
    + b"0\r\n\r\n",
    "large trailer": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: "
    + b"t" * 200_000
    + b"\r\n\r\n",
    "negative length": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
    "length in words": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: four\r\n\r\n",
    "bad chunk": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "space before colon": b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
    "folded": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\nTransfer-Encoding : chunked\r\n\r\n",
    "bare cr": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n",
    "nul in a value": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "nul in the path": b"GET /\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "raw bytes in the path": b"GET /\xff\xfe HTTP/1.1\r\n" + HOST + b"\r\n",
    "connect": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "no method": b" / HTTP/1.1\r\n" + HOST + b"\r\n",
    "unknown method": b"BREW /pot HTTP/1.1\r\n" + HOST + b"\r\n",
    "huge header": b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    "huge path": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "endless name": b"GET / HTTP/1.1\r\n" + b"a" * 200_000,
    "many headers": b"GET / HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 50_000 + b"\r\n",
    "huge body": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000\r\n\r\n" + b"x" * 200_000,
    "endless chunks": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n"
    + (b"4000\r\n" + b"x" * 0x4000 + b"\r\n") * 16,
    "endless trailers": b"POST / HTTP/1.1\r\n"
    + HOST
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    + b"t: x\r\n" * 20_000,
}


@pytest.fixture(scope="module")
def server(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Impatient, and with little room."""
    flags = ("head_seconds=5", "idle_seconds=5", "send_seconds=5", "connections_each=300", "connections=400")
    with serving(sample_root, tmp_path_factory.mktemp("server") / "errors", *flags, program=PROGRAM) as running:
        yield running


def answer_on(connection: socket.socket) -> bytes:
    """On a connection that stays open."""
    connection.sendall(GET)
    answer = b""
    while not answer.endswith(b"}"):
        data = connection.recv(1 << 16)
        assert data, answer
        answer += data
    return answer


def is_well(server: RunningServer) -> None:
    """On a busy machine we are the slow client ourselves, now and then."""
    wait_until_true(lambda: server.get("/healthz").startswith(b"HTTP/1.1 200 "), "an answer")


def refused(server: RunningServer, reason: str) -> float:
    text = server.get("/metrics").decode()
    found = re.search(rf'webmill_serve_refused_total{{reason="{reason}"}} (\S+)', text)
    assert found
    return float(found[1])


@pytest.mark.parametrize("name", sorted(JUNK))
def test_junk_is_refused_once_and_the_connection_closed(server: RunningServer, name: str) -> None:
    with server.connect() as connection:
        try:
            connection.sendall(JUNK[name])
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it hung up before the end
        answer = read_all(connection)
    if answer:  # else it was reset while we were still talking, which is an answer too
        assert re.match(rb"HTTP/1\.1 4\d\d ", answer)
    assert b"smuggled" not in answer
    assert answer.count(b"HTTP/1.1 ") <= 2
    is_well(server)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("chunked and another, in two fields", 400),
        ("chunked twice", 400),
        ("target of another host", 400),
        ("target with a user", 400),
        ("target of another scheme", 400),
        ("large extension", 431),
        ("many extensions", 431),
        ("large trailer", 431),
    ],
)
def test_what_two_readers_could_understand_differently_is_no_request(
    server: RunningServer, name: str, status: int
) -> None:
    with server.connect() as connection:
        connection.sendall(JUNK[name])
        answer = read_all(connection)
    assert [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+) ", answer)][-1] == status


def test_a_target_with_the_name_of_this_server_is_answered(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET http://127.0.0.1/healthz HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_pieces_that_come_one_by_one_are_one_request(server: RunningServer) -> None:
    def is_answered() -> bool:
        with server.connect() as connection:
            try:
                for byte in GET:
                    connection.sendall(bytes([byte]))
            except OSError:
                return False  # a busy machine: it took us too long
            return connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")

    wait_until_true(is_answered, "an answer")


def test_requests_in_one_piece_are_answered_in_their_order(server: RunningServer) -> None:
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n").replace(b"/healthz", b"/version")
    answer = server.print_line(GET * 5 + last)
    assert answer.count(b"HTTP/1.1 200 OK") == 6
    assert answer.rstrip().endswith(b"}")
    assert answer.index(b'"webmill"') > answer.rindex(b'"ok"')


def test_too_many_requests_at_once_end_the_connection(server: RunningServer) -> None:
    answer = server.print_line(GET * 5000)
    assert 1 <= answer.count(b"HTTP/1.1 200 OK") <= 20
    assert (b"HTTP/1.1 503 " in answer) == (b"\r\nRetry-After: 5\r\n" in answer)
    assert refused(server, "pipelined") >= 1
    is_well(server)


def test_junk_behind_a_request_does_not_spoil_its_answer(server: RunningServer) -> None:
    answer = server.print_line(GET + b"\x00junk\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'{"ok":true}' in answer
    assert answer.count(b"HTTP/1.1 400 ") == 1


def test_a_client_that_says_no_more_gets_its_answer(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(GET)
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).startswith(b"HTTP/1.1 200 OK")


def test_an_upgrade_is_answered_in_http_and_closed(server: RunningServer) -> None:
    upgrade = GET.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    answer = server.print_line(upgrade + GET)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"HTTP/1.1") == 1


def test_the_body_of_a_read_is_ignored_and_the_next_request_is_read(server: RunningServer) -> None:
    with_body = b"GET /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 26\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert server.print_line(with_body + last).count(b"HTTP/1.1 200 OK") == 2


def test_200_slow_clients_do_not_stop_another_and_lose_their_place(server: RunningServer) -> None:
    """Slowloris: heads that never end, and connections that say nothing."""
    slow = [server.connect() for _ in range(200)]
    try:
        for number, connection in enumerate(slow):
            if number % 2:
                try:
                    connection.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"X-%d: " % number)
                except OSError:
                    pass  # so slow that it has lost its place already
        for _ in range(20):
            is_well(server)
        waiting = {connection.fileno(): connection for connection in slow}
        answers = []

        def all_are_gone() -> bool:
            answers.extend(read_all(waiting.pop(fd)) for fd in select.select(list(waiting), [], [], 0.1)[0])
            for connection in list(waiting.values())[1::2]:
                try:
                    connection.sendall(b"x")  # a byte now and then gains nothing
                except OSError:
                    pass
            return not waiting

        wait_until_true(all_are_gone, "an end of every slow client")
        assert sum(answer.startswith(b"HTTP/1.1 408 ") for answer in answers) >= 100
        is_well(server)
    finally:
        for connection in slow:
            connection.close()


def test_a_body_that_does_not_come_is_not_waited_for(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(b"POST /healthz HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nhalf")
        assert read_all(connection).startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 405 "))


def test_an_idle_connection_is_closed(server: RunningServer) -> None:
    with server.connect() as connection:
        connection.sendall(GET)
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 1


def test_a_client_that_does_not_read_is_cut_off_and_one_that_reads_slowly_is_not(
    sample_root: Path, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    large = root / "crawl-data" / "large.gz"
    with large.open("wb") as file:
        file.truncate(64 << 20)
    ask = b"GET /crawl-data/large.gz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    with (
        serving(root, tmp_path / "errors", "send_seconds=2", program=PROGRAM) as server,
        server.connect() as connection,
    ):
        connection.sendall(ask)
        with server.connect() as slow:
            slow.sendall(ask)
            size, ends = 0, time.monotonic() + 6
            while data := slow.recv(1 << 18):
                size += len(data)
                time.sleep(0.02 if time.monotonic() < ends else 0)
            assert size > 64 << 20
        wait_until_true(lambda: refused(server, "slow_reader") >= 1, "the end of the one that does not read")
        assert len(read_all(connection)) < 64 << 20
        assert refused(server, "slow_reader") == 1


def test_one_connection_too_many_takes_the_place_of_the_one_that_waits_longest(
    sample_root: Path, tmp_path: Path
) -> None:
    with serving(sample_root, tmp_path / "errors", "connections_each=5", "head_seconds=300", program=PROGRAM) as server:
        idle = [server.connect() for _ in range(5)]
        try:
            assert answer_on(idle[0]).endswith(b'{"ok":true}')  # now it has waited least
            is_well(server)
            assert idle[1].recv(1) == b""
            assert refused(server, "too_many_of_one") >= 1
            assert answer_on(idle[0]).startswith(b"HTTP/1.1 200 OK")
        finally:
            for connection in idle:
                connection.close()


def test_who_holds_most_connections_loses_one_when_there_are_too_many(sample_root: Path, tmp_path: Path) -> None:
    """Also when it is in the middle of an answer that it does not read."""
    root = Path(shutil.copytree(sample_root, tmp_path / "town", symlinks=True))
    with (root / "crawl-data" / "large.gz").open("wb") as file:
        file.truncate(64 << 20)
    ask = b"GET /crawl-data/large.gz HTTP/1.1\r\n" + HOST + b"\r\n"
    with serving(root, tmp_path / "errors", "connections=8", "send_seconds=300", program=PROGRAM) as server:
        there, here = ("127.0.0.1", server.port), ("127.0.3.1", 0)
        greedy = [socket.create_connection(there, DEADLINE, source_address=here) for _ in range(8)]
        try:
            for connection in greedy:
                connection.sendall(ask)
                assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            with server.connect() as modest, server.connect() as another:
                assert answer_on(modest).startswith(b"HTTP/1.1 200 OK")
                assert answer_on(another).startswith(b"HTTP/1.1 200 OK")
                assert answer_on(modest).startswith(b"HTTP/1.1 200 OK")
            assert refused(server, "too_many") >= 2
        finally:
            for connection in greedy:
                connection.close()


def test_from_a_client_that_asks_too_often_nothing_is_read_for_a_while(sample_root: Path, tmp_path: Path) -> None:
    with serving(sample_root, tmp_path / "errors", "rate=1", "burst=5", program=PROGRAM) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)

        def status() -> int:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            return answer.status

        try:
            wait_until_true(lambda: status() == 429, "a refusal")
            began = time.monotonic()
            assert status() in (200, 429)  # it is answered in the end
            assert time.monotonic() - began > 0.5
        finally:
            connection.close()


def test_who_is_refused_again_and_again_is_not_listened_to_and_then_is_again(sample_root: Path, tmp_path: Path) -> None:
    with serving(sample_root, tmp_path / "errors", "refusals=10", program=PROGRAM) as server:
        there, here = ("127.0.0.1", server.port), ("127.0.3.1", 0)

        def is_ignored() -> bool:
            with socket.create_connection(there, DEADLINE, source_address=here) as connection:
                try:
                    connection.sendall(b"junk\r\n\r\n")
                    return not read_all(connection)
                except OSError:
                    return True

        wait_until_true(is_ignored, "a connection that is closed without a word")
        assert server.get("/healthz").startswith(b"HTTP/1.1 200 ")  # another client
        assert refused(server, "ignored") >= 1
        time.sleep(3)
        assert not is_ignored()


def cost(server: RunningServer) -> tuple[int, int]:
    """Open files and resident bytes."""
    pid = server.process.pid
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE")


def harass(server: RunningServer, count: int, seed: int) -> None:
    rng = random.Random(seed)
    names = sorted(JUNK)
    for _ in range(count):
        data = JUNK[rng.choice(names)]
        cut = rng.randrange(len(data)) if rng.random() < 0.5 else len(data)
        with server.connect() as connection:
            try:
                connection.sendall(data[:cut])
                if cut == len(data):  # of half a request there is no answer for seconds
                    connection.recv(100)
            except OSError:
                pass
            if rng.random() < 0.3:  # vanish by a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_hostile_requests_leave_no_files_open_and_no_memory_taken(server: RunningServer, count: int) -> None:
    harass(server, 200, seed=1)  # what is loaded late is loaded
    wait_until_true(lambda: cost(server)[0] < 60, "the end of what was begun")
    files, memory = cost(server)
    harass(server, count, seed=2)
    is_well(server)
    wait_until_true(lambda: cost(server)[0] <= files + 2, "the same number of open files")
    assert cost(server)[1] < memory + (16 << 20)


def test_nothing_was_told_that_is_not_for_strangers(server: RunningServer) -> None:
    """The last: after all of the above, the log has no traceback."""
    assert "Traceback" not in server.errors.read_text(errors="replace")

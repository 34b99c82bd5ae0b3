"""Sockets, requests and endings."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import urllib3

from tests.unit.testing.clients import ask, connect, get, raw, read_all
from webmill.errors import Misconfigured
from webmill.testing import Answer, AnswerLimits, ExpectedPage, HttpReply, ReceivedRequest, ScriptedReply, TestWeb, Wait

HOME = "http://www.mill.example/"


class Fixed:
    """A site of our own with one answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def answer(self, request: ReceivedRequest) -> Answer:
        return self._answer

    def pages(self, version: int) -> tuple[ExpectedPage, ...]:
        return ()


def open_descriptors() -> int:
    """Without what earlier tests left to the garbage collector, which may take it at any moment."""
    gc.collect()
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_a_host_is_reached_by_its_address_and_by_its_name(web: TestWeb) -> None:
    for name in web.names[:16]:
        address, port = web.resolve[name]
        by_address = urllib3.request("GET", f"http://{address}:{port}/", retries=False)
        assert by_address.data == get(web, f"http://{name}/").body


def test_some_hosts_share_an_address_and_are_told_apart_by_name(web: TestWeb) -> None:
    assert web.resolve[web.names[0]] == web.resolve[web.names[16]]
    assert get(web, f"http://{web.names[0]}/").body != get(web, f"http://{web.names[16]}/").body


def test_where_the_addresses_cannot_be_had_all_hosts_live_on_one() -> None:
    with TestWeb(hosts=4, addresses=("192.0.2.1", "192.0.2.2")) as web:
        assert web.addresses == ("127.0.0.1",)
        assert {get(web, f"http://{name}/").status for name in web.names} == {200}
        assert len({get(web, f"http://{name}/").body for name in web.names}) == 4


def test_an_address_that_is_none_is_refused_with_the_reason() -> None:
    with pytest.raises(Misconfigured, match="cannot listen"):
        TestWeb(addresses=("300.0.0.1",)).start()


def test_an_unknown_host_is_misdirected(web: TestWeb) -> None:
    with connect(web, HOME) as sock:
        sock.sendall(ask("http://nobody.names.test/", "Connection: close"))
        assert read_all(sock).startswith(b"HTTP/1.1 421 ")
    assert "nobody.names.test" not in web.resolve


def test_every_address_is_a_proxy_for_all_names(web: TestWeb) -> None:
    proxy = f"http://{web.addresses[3]}:{web.port}"
    with urllib3.ProxyManager(proxy) as pool:
        assert pool.request("GET", "http://blog.harvest.test/about.txt").data.startswith(b"blog.harvest.test\n")


def test_one_connection_carries_many_requests_and_hosts(web: TestWeb) -> None:
    with connect(web, HOME) as sock, sock.makefile("rb") as stream:
        for name in (web.names[0], web.names[16]):
            sock.sendall(ask(f"http://{name}/about.txt"))
            head = b"".join(iter(stream.readline, b"\r\n"))
            length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
            assert stream.read(length).startswith(name.encode())


def test_senseless_requests_get_400_and_a_closed_connection() -> None:
    cases = (b"hello\r\n\r\n", b"GET / HTTP/3\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"x" * 200_000)
    with TestWeb(hosts=1) as web:
        for nonsense in cases:
            with connect(web, HOME) as sock:
                try:
                    sock.sendall(nonsense)
                    assert read_all(sock).startswith(b"HTTP/1.1 400 ")
                except ConnectionError:
                    assert len(nonsense) > 100_000  # the server left before it had read all of it
        assert web.log.settle()
        assert [visit.status for visit in web.log] == [400] * 4


def test_http_1_0_and_connection_close_end_the_connection(web: TestWeb) -> None:
    with connect(web, HOME) as sock:
        sock.sendall(b"GET / HTTP/1.0\r\nHost: www.mill.example\r\n\r\n")
        assert b"\r\nConnection: close\r\n" in read_all(sock)


def test_head_has_the_fields_of_get_and_no_body(web: TestWeb) -> None:
    whole, head = get(web, HOME), get(web, HOME, method="HEAD")
    assert head.headers.items() == whole.headers.items()
    assert head.body == b""
    assert get(web, HOME, method="DELETE").status == 405


def test_answers_have_no_date(web: TestWeb) -> None:
    assert b"\r\nDate:" not in raw(web, HOME)


def test_conditional_requests_are_answered_with_304(web: TestWeb) -> None:
    first = get(web, HOME)
    for condition in (
        {"If_None_Match": first.headers["ETag"]},
        {"If_None_Match": f'"other", W/{first.headers["ETag"]}'},
        {"If_Modified_Since": first.headers["Last-Modified"]},
    ):
        again = get(web, HOME, **condition)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
    for condition in (
        {"If_None_Match": '"other"'},
        {"If_None_Match": '"other"', "If_Modified_Since": first.headers["Last-Modified"]},
        {"If_Modified_Since": "Sat, 01 Jan 2000 00:00:00 GMT"},
        {"If_Modified_Since": "yesterday"},
    ):
        assert get(web, HOME, **condition).status == 200


@pytest.mark.parametrize(
    ("field", "status", "span"),
    [
        ("bytes=0-99", 206, slice(0, 100)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=-100", 206, slice(-100, None)),
        ("bytes=102399-999999", 206, slice(102399, None)),
        ("bytes=102400-", 416, slice(0, 0)),
        ("bytes=9-3", 416, slice(0, 0)),
        ("bytes=0-1,5-6", 200, slice(None)),
        ("lines=0-1", 200, slice(None)),
        ("bytes=-", 200, slice(None)),
    ],
)
def test_ranges_of_a_file(web: TestWeb, field: str, status: int, span: slice) -> None:
    whole = get(web, "http://files.mill.example/file.bin").body
    part = get(web, "http://files.mill.example/file.bin", Range=field)
    assert (part.status, part.body) == (status, whole[span])


def test_a_range_of_a_changed_file_is_the_whole_file(web: TestWeb) -> None:
    url = "http://files.mill.example/file.bin"
    assert get(web, url, Range="bytes=0-9", If_Range='"older"').status == 200
    assert get(web, url, Range="bytes=0-9", If_Range=get(web, url).headers["ETag"]).status == 206


def test_a_site_of_ones_own_is_served_beside_the_others() -> None:
    with TestWeb(hosts=1, sites={"own.names.test": Fixed(HttpReply(body=b"mine"))}) as web:
        assert get(web, "http://own.names.test/any").body == b"mine"


def test_closing_raises_what_a_site_did_wrong() -> None:
    class Wrong(Fixed):
        def answer(self, request: ReceivedRequest) -> Answer:
            raise ZeroDivisionError

    web = TestWeb(hosts=1, sites={"wrong.names.test": Wrong(HttpReply())})
    web.start()
    assert raw(web, "http://wrong.names.test/") == b""
    with pytest.raises(ZeroDivisionError):
        web.close()


def test_closing_ends_open_slow_endless_and_idle_connections_and_leaves_nothing() -> None:
    threads, descriptors = threading.active_count(), open_descriptors()
    web = TestWeb(pace=60, limits=AnswerLimits(answer_seconds=3600, idle_seconds=3600))
    web.start()
    paths = ("/silent", "/drip", "/stall", "/endless", "/endless-head", "/header")
    sockets = [connect(web, "http://slow.harvest.test/") for _ in range(len(paths) * 3 + 2)]
    for sock, path in zip(sockets, paths * 3, strict=False):
        sock.sendall(ask(f"http://slow.harvest.test{path}"))
    sockets[-1].sendall(b"GET / HT")
    sockets[1].recv(1)
    web.close()
    web.close()
    assert threading.active_count() == threads
    for sock in sockets:
        with sock:
            try:
                read_all(sock)
            except ConnectionError:
                pass
    assert open_descriptors() <= descriptors


def test_closing_in_the_moment_of_accepting_drops_no_connection_unclosed() -> None:
    """A dropped one is reported by its destructor, which pytest turns into an error."""
    descriptors = open_descriptors()
    for _ in range(40):
        web = TestWeb(hosts=1)
        web.start()
        sockets = [connect(web, HOME) for _ in range(8)]
        for sock in sockets[::2]:
            sock.sendall(ask("http://slow.harvest.test/endless"))
        web.close()
        for sock in sockets:
            sock.close()
    assert open_descriptors() <= descriptors


def test_an_endless_answer_stops_at_the_byte_cap() -> None:
    with TestWeb(hosts=1, limits=AnswerLimits(answer_bytes=1 << 20)) as web:
        for path in ("/endless", "/endless-chunks", "/endless-head", "/endless-100"):
            assert 1 << 20 <= len(raw(web, f"http://slow.harvest.test{path}")) <= (1 << 20) + (1 << 17)


def test_a_slow_answer_stops_at_the_time_cap() -> None:
    with TestWeb(hosts=1, pace=0.01, limits=AnswerLimits(answer_seconds=0.2)) as web:
        assert raw(web, "http://slow.harvest.test/drip").startswith(b"HTTP/1.1 200 OK\r\n")
        assert raw(web, "http://slow.harvest.test/silent") == b""


def test_an_endless_answer_stops_when_the_client_goes_away() -> None:
    with TestWeb(hosts=1, pace=0.01, limits=AnswerLimits(answer_bytes=1 << 40, answer_seconds=3600)) as web:
        for path in ("/endless", "/drip", "/silent", "/drip-head"):
            with connect(web, "http://slow.harvest.test/") as sock:
                sock.sendall(ask(f"http://slow.harvest.test{path}"))
                if path != "/silent":
                    sock.recv(100)
        assert web.log.settle()
        assert len(web.log) == 4


def test_others_are_served_while_an_endless_answer_runs() -> None:
    with TestWeb(hosts=1, limits=AnswerLimits(answer_bytes=1 << 40)) as web, connect(web, HOME) as sock:
        sock.sendall(ask("http://slow.harvest.test/endless"))
        done = threading.Event()
        reader = threading.Thread(target=lambda: [sock.recv(1 << 16) for _ in iter(done.is_set, True)])
        reader.start()
        assert get(web, HOME).status == 200
        done.set()
        reader.join()


def test_a_connection_that_says_nothing_is_ended() -> None:
    with TestWeb(hosts=1, limits=AnswerLimits(idle_seconds=0.1)) as web, connect(web, HOME) as sock:
        assert read_all(sock) == b""


def test_a_reader_that_never_reads_does_not_hold_the_server() -> None:
    big = ScriptedReply(steps=(b"z" * (1 << 24), Wait(0)))
    limits = AnswerLimits(answer_seconds=0.1)
    web = TestWeb(hosts=1, sites={"big.names.test": Fixed(big)}, limits=limits)
    with web, connect(web, "http://big.names.test/") as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(ask("http://big.names.test/"))
        sock.recv(1)
        assert web.log.settle()


def test_by_hand_it_prints_the_hosts_and_ends_on_interrupt(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "webmill.testing", "--hosts", "3", "--log", str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        deadline = threading.Timer(120, child.kill)  # ends the loop where the last line never comes
        deadline.start()
        lines = []
        for line in child.stdout:
            lines.append(line)
            if line.startswith("Stop with"):
                break
        deadline.cancel()
        child.send_signal(2)
        assert child.wait(120) == 0
    assert lines[0].split()[0] == "www.mill.example"
    assert any("codes.mill.example" in line for line in lines)

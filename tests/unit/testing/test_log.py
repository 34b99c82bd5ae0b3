"""The log is the judge of politeness: it must itself be right."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.unit.testing.clients import ask, connect, get, read_all
from webmill.testing import LoggedVisit, TestWeb, most_at_once, read_visits, requests_per_host, smallest_gap


def visit(started: float, ended: float, host: str = "a.test") -> LoggedVisit:
    return LoggedVisit(
        started=started,
        ended=ended,
        wall=0,
        host=host,
        address="127.0.0.2",
        client_port=1,
        method="GET",
        path="/",
        status=200,
        user_agent="",
        sent=0,
    )


def test_a_visit_has_all_that_the_client_did() -> None:
    with TestWeb(hosts=3) as web:
        before = time.monotonic()
        with connect(web, "http://news.mill.example/") as sock:
            port = sock.getsockname()[1]
            sock.sendall(ask("http://news.mill.example/about.txt?x=1", "User-Agent: miller/1", "Connection: close"))
            answer = read_all(sock)
        assert web.log.settle()
        (seen,) = web.log.visits(host="news.mill.example")
        assert before <= seen.started <= seen.ended <= time.monotonic()
        assert abs(seen.wall - time.time()) < 60
        assert (seen.address, seen.client_port) == (web.resolve["news.mill.example"][0], port)
        assert (seen.method, seen.path, seen.status) == ("GET", "/about.txt?x=1", 200)
        assert (seen.user_agent, seen.sent) == ("miller/1", len(answer))


def test_visits_are_counted_per_host_and_address_and_names_below_a_star_apart() -> None:
    with TestWeb(hosts=17) as web:
        for url in ("http://www.mill.example/", "http://letters.lighthouse.test/", "http://one.maze.grain.example/"):
            get(web, url)
        get(web, "http://one.maze.grain.example/")
        assert web.log.settle()
        assert requests_per_host(web.log) == {
            "www.mill.example": 1,
            "letters.lighthouse.test": 1,
            "one.maze.grain.example": 2,
        }
        assert len(web.log.visits(address="127.0.0.2")) == 2


def test_gaps_and_overlaps_are_computed_from_the_times() -> None:
    visits = [visit(5.0, 6.0), visit(1.0, 3.0), visit(2.5, 2.6), visit(3.0, 4.0)]
    assert smallest_gap(visits) == 0.5
    assert most_at_once(visits) == 2
    assert smallest_gap(visits[:1]) is None
    assert smallest_gap([]) is None
    assert most_at_once([]) == 0
    assert most_at_once([visit(1, 2), visit(2, 3)]) == 1


def test_requests_under_way_together_are_seen_so() -> None:
    with TestWeb(hosts=1, pace=10) as web:
        url = "http://slow.harvest.test/stall"
        sockets = [connect(web, url) for _ in range(5)]
        for sock in sockets:
            sock.sendall(ask(url))
        for sock in sockets:
            sock.recv(1)  # each has begun to be answered
        for sock in sockets:
            sock.close()
        assert web.log.settle()
        assert most_at_once(web.log.visits(host="slow.harvest.test")) == 5


def test_requests_one_after_the_other_never_overlap() -> None:
    with TestWeb(hosts=1) as web:
        for _ in range(50):
            get(web, "http://www.mill.example/")
        assert web.log.settle()
        visits = web.log.visits(host="www.mill.example")
        assert len(visits) == 50
        assert most_at_once(visits) == 1


def test_the_gap_that_a_client_keeps_is_in_the_log() -> None:
    with TestWeb(hosts=1) as web:
        for _ in range(3):
            get(web, "http://www.mill.example/")
            threading.Event().wait(0.05)
        assert web.log.settle()
        gap = smallest_gap(web.log)
        assert gap is not None
        assert gap >= 0.05


def test_the_memory_of_the_log_is_bounded_and_its_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    with TestWeb(hosts=1, log_file=path, log_limit=3) as web:
        for n in range(10):
            get(web, f"http://www.mill.example/?{n}")
        assert web.log.settle()
        assert [each.path for each in web.log] == ["/?7", "/?8", "/?9"]
        kept = list(web.log)
    written = list(read_visits(path))
    assert [each.path for each in written] == [f"/?{n}" for n in range(10)]
    assert written[-3:] == kept


def test_a_torn_last_line_of_the_file_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    with TestWeb(hosts=1, log_file=path) as web:
        for _ in range(3):
            get(web, "http://www.mill.example/")
    path.write_bytes(path.read_bytes()[:-5])
    assert len(list(read_visits(path))) == 2

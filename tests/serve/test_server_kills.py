"""Processes of a server are killed with -9 under downloads: what came whole is right, what was cut says so."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, IncompleteRead
from pathlib import Path

import pytest

from tests.faults.matrix import record, seed
from tests.serve.server_process import DEADLINE, RunningServer, read_all, serving, wait_until_true

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("serve"),
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc"),
]
KILLS = min(10, int(os.environ.get("WEBMILL_TEST_KILLS", "2")))
READERS, LARGE = 6, "crawl-data/large.gz"


@dataclass
class Answers:
    """By hash: what was said to be whole, what of it is not what lies on the disk, what was said to be cut."""

    truth: dict[str, str]
    whole: int = 0
    wrong: list[str] = field(default_factory=list)
    cut: int = 0

    def take(self, path: str, body: bytes) -> None:
        self.whole += 1
        if hashlib.sha256(body).hexdigest() != self.truth[path]:
            self.wrong.append(path)


@pytest.fixture(scope="module")
def root(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a file that fits into no buffer between us and the server."""
    root = Path(shutil.copytree(sample_root, tmp_path_factory.mktemp("kills") / "town", symlinks=True))
    (root / LARGE).write_bytes(random.Random(1).randbytes(1 << 20) * 24)
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[RunningServer]:
    with serving(root, root.with_name("errors"), "--processes", "2", "--rate", "0", "--no-feed") as running:
        wait_until_true(lambda: len(workers(running)) == 2, "two processes")
        yield running


def workers(server: RunningServer) -> list[int]:
    try:
        return server.workers()
    except OSError:  # one of them ended while we looked
        return []


def truth_of(root: Path) -> dict[str, str]:
    paths = [root / LARGE, *root.glob("crawl-data/*/segments/*/warc/*.warc.gz"), *root.glob("blobs/sha256/*.json")]
    return {f"/{path.relative_to(root)}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def kill_some(server: RunningServer, dice: random.Random, *, every: bool) -> int:
    """How many; there are as many again then."""
    both = wait_until_true(lambda: len(found := workers(server)) == 2 and found, "two processes")
    victims = both if every else [dice.choice(both)]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    wait_until_true(lambda: len(set(workers(server)) - set(victims)) == 2, "two other processes")
    return len(victims)


def ask_on(port: int, answers: Answers, stop: threading.Event, dice: random.Random) -> None:
    """Small things, one after the other, on connections that are kept as long as they live."""
    paths = [path for path in answers.truth if path != f"/{LARGE}"]
    connection = HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    while not stop.wait(0.005):  # and leave the machine to others
        path = dice.choice(paths)
        try:
            connection.request("GET", path, headers={"Accept-Encoding": "identity"})
            answer = connection.getresponse()
            body = answer.read()
        except (HTTPException, OSError):
            answers.cut += 1
            connection.close()
            continue
        assert answer.status == 200
        answers.take(path, body)
    connection.close()


def test_what_was_sent_whole_is_right_and_what_was_cut_says_so(root: Path, server: RunningServer) -> None:
    dice, answers, kills = random.Random(seed(3)), Answers(truth_of(root)), 0
    stop, small = threading.Event(), Answers(answers.truth)
    asking = threading.Thread(target=ask_on, args=(server.port, small, stop, random.Random(seed(4))))
    asking.start()
    try:
        for turn in range(KILLS):
            readers = [HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE) for _ in range(READERS)]
            for reader in readers:
                reader.request("GET", f"/{LARGE}")
            begun = [reader.getresponse() for reader in readers]
            kills += kill_some(server, dice, every=turn == KILLS - 1)
            for answer in begun:
                try:
                    answers.take(f"/{LARGE}", answer.read())
                except (IncompleteRead, ConnectionResetError):
                    answers.cut += 1
            for reader in readers:
                reader.close()
        before = small.whole
        wait_until_true(lambda: small.whole > before + 20, "answers after the last kill")
    finally:
        stop.set()
        asking.join()
    whole, wrong, cut = (a + b for a, b in zip(numbers(answers), numbers(small), strict=True))
    record("server", "kill -9 at random", injected=kills, acknowledged=whole, lost=wrong)
    print(f"{kills} kills, {whole} whole answers, {cut} cut ones")
    assert not wrong
    assert answers.cut >= READERS  # the last ones were all cut
    assert "Traceback" not in server.errors.read_text()


def numbers(answers: Answers) -> tuple[int, int, int]:
    return answers.whole, len(answers.wrong), answers.cut


def test_who_does_not_look_at_the_length_takes_a_torn_answer_for_a_whole_one(root: Path, server: RunningServer) -> None:
    """The negative control."""
    answers = Answers(truth_of(root))
    readers = [server.connect() for _ in range(READERS)]
    for reader in readers:
        reader.sendall(f"GET /{LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    begun = [reader.recv(1000, socket.MSG_WAITALL) for reader in readers]
    kills = kill_some(server, random.Random(0), every=True)
    for reader, first in zip(readers, begun, strict=True):
        answers.take(f"/{LARGE}", (first + read_all(reader)).partition(b"\r\n\r\n")[2])
        reader.close()
    whole, lost, _ = numbers(answers)
    record("server", "a client ignores Content-Length", injected=kills, acknowledged=whole, lost=lost, control=True)
    assert lost

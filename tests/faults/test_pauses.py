"""Every process stands still for a while (SIGSTOP) and goes on: nothing is lost, nothing doubled, exit codes are right.

Workers that were stopped past their lease: tests/contracts/test_queue_kills.py, tests/pipeline/test_cc_work.py; nodes
of a crawl: tests/services/test_crawl_nodes.py; publishers beside gc: tests/contracts/test_publish_kills.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.matrix import record
from tests.faults.pauses import is_stopped, pause, paused
from tests.pipeline.crawling import Linked, Setup, captures, check_records, children, counts, seen_by, start
from tests.serve.server_process import RunningServer, descendants, serving, wait_until_true
from webmill.model import Document
from webmill.pipeline.documents import documents
from webmill.testing import TestWeb

PATIENCE = 120.0
PAUSE = 1.0  # seconds: long enough to see who stands still
pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


# --- a crawl ---


@pytest.mark.parametrize("who", ["coordinator", "shard", pytest.param("both", marks=pytest.mark.soak)])
def test_a_crawl_whose_processes_were_stopped_gets_each_page_once(memory_folder: Path, who: str) -> None:
    root, pages = memory_folder / "collection", 12
    hosts = ("www.one.test", "www.two.test")
    with TestWeb(hosts=0, sites={host: Linked(pages) for host in hosts}) as web:
        seeds = tuple(f"http://{host}/0" for host in hosts)
        program = start(root, Setup(seeds=seeds, resolve=dict(web.resolve), delay=0.1))
        try:
            wait_until_true(lambda: len(web.log) > 6, "requests")
            (shard,) = children(program.pid)
            with paused(*{"coordinator": [program.pid], "shard": [shard], "both": [program.pid, shard]}[who]):
                time.sleep(PAUSE)
            code = program.wait(PATIENCE)
        finally:
            program.kill()
        asked = counts(one for one in seen_by(web.log) if not one.is_robots)
    expected = {f"http://{host}/{page}" for host in hosts for page in range(pages)}
    kept = [url for _, url, _ in captures(root) if not url.endswith("/robots.txt")]
    lost, twice = len(expected - set(kept)), len(kept) - len(set(kept))
    record("crawl", "process paused", injected=1, acknowledged=len(expected), lost=lost, duplicated=twice)
    assert (code, lost, twice) == (0, 0, 0)
    assert set(asked.values()) == {1}
    assert json.loads((memory_folder / "out").read_bytes())["end"] == "finished"
    check_records(root)


def test_a_crawl_that_is_told_to_stop_while_it_is_stopped_ends_in_good_order(memory_folder: Path) -> None:
    root = memory_folder / "collection"
    with TestWeb(hosts=0, sites={"www.one.test": Linked(500)}) as web:
        program = start(root, Setup(seeds=("http://www.one.test/0",), resolve=dict(web.resolve), delay=0.05))
        try:
            wait_until_true(lambda: len(web.log) > 6, "requests")
            with paused(program.pid):
                program.send_signal(signal.SIGTERM)
                time.sleep(PAUSE)
            assert program.wait(PATIENCE) == 0
        finally:
            program.kill()
    assert json.loads((memory_folder / "out").read_bytes())["end"] == "stopped"
    assert not list(root.rglob("*.open"))
    check_records(root)


# --- a server ---


@pytest.fixture
def server(sample_root: Path, tmp_path: Path) -> Iterator[RunningServer]:
    root = shutil.copytree(sample_root, tmp_path / "town", symlinks=True)
    with serving(Path(root), tmp_path / "errors", "--processes", "2", "--rate", "0", "--no-feed") as running:
        wait_until_true(lambda: len(running.workers()) == 2, "two processes")
        yield running


def is_answered(server: RunningServer) -> bool:
    return server.get("/latest.json").startswith(b"HTTP/1.1 200 ")


def test_a_server_answers_while_one_of_its_processes_or_their_parent_is_stopped(server: RunningServer) -> None:
    first, second = workers = server.workers()
    answered = 0
    for victim in (first, second, server.process.pid):
        with paused(victim):
            answered += sum(is_answered(server) for _ in range(10))
        answered += sum(is_answered(server) for _ in range(10))
    record("server", "process paused", injected=3, acknowledged=60, lost=60 - answered)
    assert answered == 60
    assert server.workers() == workers, "none was taken for dead"
    assert server.stop() == 0


def test_a_server_whose_processes_all_stood_still_answers_what_was_asked_meanwhile(server: RunningServer) -> None:
    workers = server.workers()
    with paused(*workers, server.process.pid):
        waiting = [server.connect() for _ in range(20)]
        for connection in waiting:
            connection.sendall(b"GET /latest.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        time.sleep(PAUSE)
    answers = [connection.recv(12) for connection in waiting]
    for connection in waiting:
        connection.close()
    lost = sum(answer != b"HTTP/1.1 200" for answer in answers)
    record("server", "all processes paused", injected=1, acknowledged=len(answers), lost=lost)
    assert not lost
    with paused(server.process.pid):
        server.process.send_signal(signal.SIGTERM)
        os.kill(workers[0], signal.SIGKILL)
    assert server.process.wait(PATIENCE) == 0
    assert not server.workers()


# --- an extraction ---


def worker_and_sandbox(command: int) -> tuple[int, int] | None:
    """Return the process that extracts, and its child that parses pages, once both are there."""
    for worker in descendants(command):
        for child in descendants(worker):
            if getpgid(child) == child:  # a group of its own: it is killed with all that it started
                return worker, child
    return None


def getpgid(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


@pytest.fixture(scope="module")
def archives(sample_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Document]]:
    """Return a collection of WARC files, and the documents that are made of it undisturbed."""
    root = tmp_path_factory.mktemp("pauses") / "town"
    shutil.copytree(sample_root / "crawl-data", root / "crawl-data")
    whole = Path(shutil.copytree(root, root.with_name("whole")))
    assert extraction(whole).wait(PATIENCE) == 0
    return root, documents_in(whole)


def extraction(root: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "webmill", "-q", "extract", str(root), "--processes", "1", "--extractor", "plain"]
    return subprocess.Popen(command, env={**os.environ, "WEBMILL_EXECUTOR_URL": "pool"})


def documents_in(root: Path) -> dict[str, Document]:
    found = [(one.id, one) for one in documents(root)]
    assert len(dict(found)) == len(found), "twice"
    return dict(found)


@pytest.mark.parametrize(
    "who", ["worker", "sandbox", *(pytest.param(who, marks=pytest.mark.soak) for who in ("command", "all"))]
)
def test_an_extraction_whose_processes_were_stopped_makes_the_same_documents(
    archives: tuple[Path, dict[str, Document]], memory_folder: Path, who: str
) -> None:
    root = Path(shutil.copytree(archives[0], memory_folder / "town"))
    command = extraction(root)
    try:
        worker, sandbox = wait_until_true(lambda: worker_and_sandbox(command.pid), "a sandbox")
        everyone = [*descendants(command.pid), command.pid]
        victims = {"command": [command.pid], "worker": [worker], "sandbox": [sandbox], "all": everyone}[who]
        with paused(*victims):
            time.sleep(PAUSE)
        code = command.wait(PATIENCE)
    finally:
        command.kill()
    made = documents_in(root)
    lost = sum(made.get(key) != document for key, document in archives[1].items())
    record("extract", "process paused", injected=1, acknowledged=len(archives[1]), lost=lost)
    assert (code, made) == (0, archives[1])


# --- a whole run ---


def kind_of(pid: int) -> str:
    """Return what a process is: its command line without what is different each time."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    return re.sub(r"[0-9]+", "0", words)


def stop_each_for_a_while(run: subprocess.Popen[str]) -> set[str]:
    """Until it ends, stop every process of a run for a while, three times; return which kinds there were."""
    times: Counter[int] = Counter()
    kinds: set[str] = set()
    while run.poll() is None:
        victim = min([run.pid, *descendants(run.pid)], key=times.__getitem__)
        if times[victim] == 3:
            time.sleep(0.05)
            continue
        times[victim] += 1
        with suppress(FileNotFoundError, ProcessLookupError, AssertionError):  # it has ended
            kind = kind_of(victim)
            with paused(victim):
                time.sleep(PAUSE / 4)
            kinds.add(kind)
        time.sleep(0.02)
    return kinds


def test_a_run_whose_processes_are_stopped_one_after_the_other_makes_the_same(memory_folder: Path) -> None:
    """Crawl, index, extract, publish, search index: everything that `webmill run` starts."""
    root, pages = memory_folder / "news", 20
    root.mkdir()
    with TestWeb(hosts=0, sites={"www.one.test": Linked(pages)}) as web:
        address, port = web.resolve["www.one.test"]
        crawl = {"allow_private": True, "delay": "50ms", "address_delay": "0s", "processes": 1}
        lines = [f"{key} = {json.dumps(value)}" for key, value in crawl.items()]
        settings = ['[http]\ncontact = "me@example.org"\n[crawl]', *lines]
        settings += [f'resolve = ["www.one.test={address}:{port}"]', '[executor]\nurl = "pool"\n']
        (root / "webmill.toml").write_text("\n".join(settings))
        (root / "seeds.txt").write_text("http://www.one.test/\n")
        command = [sys.executable, "-m", "webmill", "run", str(root)]
        environment = {**os.environ, "WEBMILL_TRUST": str(root)}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as run:
            kinds = stop_each_for_a_while(run)
            err = run.stderr.read() if run.stderr else ""
        asked = counts(one for one in seen_by(web.log) if not one.is_robots)
    lost = pages + 1 - len(documents_in(root))
    record("run", "processes paused", injected=len(kinds), acknowledged=pages + 1, lost=lost)
    assert (run.returncode, lost) == (0, 0), err
    assert set(asked.values()) == {1}
    assert f"{pages + 1} documents" in err
    assert len(kinds) >= 4, kinds


# --- the proof ---


def test_a_process_that_runs_is_not_taken_for_a_stopped_one() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_stopped(process.pid)
        pause(process.pid)
        assert is_stopped(process.pid)
        process.send_signal(signal.SIGCONT)
        wait_until_true(lambda: not is_stopped(process.pid), "going on")

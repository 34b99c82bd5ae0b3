"""`webmill cc work`, `seal` and `dead` as a person uses them: poison, wrong flags, signals, numbers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.matrix import record
from tests.faults.pauses import pause
from tests.pipeline.cc_commands import DEADLINE, cc, environment, started, wait_for
from tests.pipeline.cc_pages import RUN, Page, batches, index_crawl, parts, rows, snapshot, write_crawl
from tests.services.base import free_port
from tests.services.nginx import Nginx
from webmill.cli.cc.worker_flags import release_dead_leases
from webmill.infra import lock
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Page]]:
    root = tmp_path_factory.mktemp("crawl")
    pages = write_crawl(root, pages=600, files=4)
    index_crawl(root)
    return root, pages


# --- batches that cannot be worked ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_poison_is_listed_shown_queued_again_and_dropped(crawl: tuple[Path, list[Page]], tmp_path: Path) -> None:
    root, pages = crawl
    url, out = f"sqlite:{tmp_path}/work.sqlite", tmp_path / "out"
    messages = list(batches(pages[:30]))
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish([messages[0], Message(messages[1].id, b"poison\x1b[2J"), messages[2]])
    flags = ("--queue", url, "--out", out, "--base-url", root, "--until-empty", "--no-metrics")
    done = cc("work", *flags)
    assert done.returncode == 3, done.stderr
    assert "webmill dead list" in done.stderr
    assert [row["url"] for row in rows(out)] == [page.url for page in [*pages[:10], *pages[20:30]]]
    (record_of_part,) = out.glob(".webmill/sealed/*/*")
    assert json.loads(record_of_part.read_bytes())["missing"] == [2]

    listed = cc("dead", "list", "--queue", url)
    assert listed.stdout.startswith(f"{messages[1].id}\t1 attempt\t")
    assert "bad_batch" in listed.stdout
    assert "\x1b" not in listed.stdout
    assert json.loads(cc("dead", "list", "--queue", url, "--json").stdout)["bytes"] == len(b"poison\x1b[2J")
    assert cc("dead", "show", messages[1].id, "--queue", url).stdout == "poison\x1b[2J\n"
    assert cc("dead", "show", "nobody", "--queue", url).returncode == 1
    assert cc("dead", "requeue", "--queue", url).returncode == 2

    assert "1 task requeued" in cc("dead", "requeue", messages[1].id, "--queue", url).stderr
    assert cc("work", *flags).returncode == 3  # it is poison still
    assert "1 task dropped" in cc("dead", "drop", "--all", "--queue", url).stderr
    queue.publish([messages[1]])  # repaired
    assert cc("work", *flags).returncode == 0
    assert Counter(row["url"] for row in rows(out)) == Counter(page.url for page in pages[:30])
    assert len(parts(out)) == 2
    queue.close()


def test_wrong_settings_are_told_before_any_work(crawl: tuple[Path, list[Page]], tmp_path: Path) -> None:
    root, _ = crawl
    out = tmp_path / "out"
    SqliteQueue(tmp_path / "q.sqlite").close()
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--base-url", root, "--until-empty", "--no-metrics")
    assert cc("work", *flags, "--out", out, "--extractor", "none").returncode == 0
    changed = cc("work", *flags, "--out", out, "--extractor", "trafilatura")
    assert changed.returncode == 1
    assert "started with --extractor none: use the same flags" in changed.stderr
    longer = cc("work", *flags, "--out", tmp_path / "long", "--min-text", "5", "--language", "eng", "--json")
    assert json.loads(longer.stdout) == {
        "tasks": 0, "captures": 0, "documents": 0, "outcomes": {}, "left_out": {}, "errors": 0, "reasons": {},
        "failures": [], "given_back": 0, "stopped": False, "failed": 0, "left": 0,
    }  # fmt: skip
    changed = cc("work", *flags, "--out", tmp_path / "long", "--max-text", "9")
    assert "started with --min-text 5, --max-text none, --detected-language eng: use" in changed.stderr
    assert "need text" in cc("work", *flags, "--out", out, "--extractor", "none", "--min-text", "5").stderr
    assert "use sqlite:FILE or amqp" in cc("work", "--queue", "memory:", "--out", out).stderr
    assert "give --crawl NAME or" in cc("run", "--out", out).stderr
    nothing = ("--crawl", "TEST-2024", "--base-url", root, "--domain", "nobody.test", "--no-metrics")
    for command in (("run", "--out", tmp_path / "none"), ("batch", "--queue", f"sqlite:{tmp_path}/none.sqlite")):
        done = cc(*command, *nothing)
        assert (done.returncode, "no captures match" in done.stderr) == (0, True)
    assert "is not an output of" in cc("seal", tmp_path / "nothing").stderr
    refused = cc("run", "--crawl", "TEST-2024", "--base-url", root, "--out", "s3://bucket/x", "--no-metrics")
    assert "needs --queue" in refused.stderr


WITHOUT_RESILIPARSE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "resiliparse":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def test_a_missing_extra_is_told_with_the_repair(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_RESILIPARSE)
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--out", tmp_path / "out", "--extractor", "resiliparse")
    done = cc("work", *flags, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.returncode == 1
    assert "pip install 'webmill[text]'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_extractor_that_lacks_a_part_of_its_own_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "trafilatura.py").write_text("raise ImportError('install lxml_html_clean')\n")
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--out", tmp_path / "out", "--extractor", "trafilatura")
    done = cc("work", *flags, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.returncode == 1
    assert "trafilatura is installed, but cannot be loaded: install lxml_html_clean" in done.stderr
    assert not (tmp_path / "out").exists()


# --- captures that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lost", "code", "reported"),
    [
        (5, 0, "1 task: 10 documents of 10 captures, 5 ok; rejected: 5 not found\n"),
        (6, 3, "read: 6 not found; the `error` column of their rows says why\n6 rejected: see the lines above"),
    ],
)
def test_a_few_captures_that_cannot_be_read_are_told_and_most_of_them_are_code_3(
    crawl: tuple[Path, list[Page]], tmp_path: Path, lost: int, code: int, reported: str
) -> None:
    root, pages = crawl
    gone = {"filename": "crawl-data/TEST-2024/segments/1/warc/gone.warc.gz"}
    some = [replace(page, fields=page.fields | gone) if n < lost else page for n, page in enumerate(pages[:10])]
    with closing(SqliteQueue(tmp_path / "q.sqlite")) as queue:
        queue.publish(batches(some))
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--base-url", root, "--until-empty", "--no-metrics")
    done = cc("work", *flags, "--out", tmp_path / "out")
    assert done.returncode == code, done.stderr
    assert reported in done.stderr
    assert len(rows(tmp_path / "out")) == 10


def test_a_run_whose_captures_cannot_be_read_is_not_called_done(tmp_path: Path) -> None:
    write_crawl(tmp_path / "crawl", pages=12)
    index_crawl(tmp_path / "crawl")
    for archive in (tmp_path / "crawl").rglob("*.warc.gz"):
        archive.write_bytes(archive.stat().st_size * b"\0")
    flags = ("--crawl", "TEST-2024", "--base-url", tmp_path / "crawl", "--out", tmp_path / "out", "--no-metrics")
    done = cc("run", *flags)
    assert done.returncode == 3, done.stderr
    assert "; rejected: 12 bad record\n" in done.stderr
    assert "most captures could not be read: 12 bad record" in done.stderr


# --- what a person sees -----------------------------------------------------------------------------------------------


def test_a_worker_on_a_terminal_shows_how_many_batches_there_are(
    crawl: tuple[Path, list[Page]], tmp_path: Path
) -> None:
    root, pages = crawl
    with closing(SqliteQueue(tmp_path / "q.sqlite")) as queue:
        queue.publish(batches(pages[:30]))
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--base-url", root, "--until-empty", "--no-metrics")
    command = [sys.executable, "-m", "webmill", "cc", "work", *map(str, flags), "--out", str(tmp_path / "out")]
    ours, theirs = os.openpty()
    worker = subprocess.Popen(command, stderr=theirs, env=environment(TERM="xterm", COLUMNS="120"))
    os.close(theirs)
    shown = read_terminal(ours)
    assert worker.wait(DEADLINE) == 0, shown
    assert "0 of 3 batches" in shown
    assert "3 tasks: 30 documents of 30 captures, 30 ok" in shown


def read_terminal(end: int) -> str:
    """All that is written to it, until nobody has it open any more."""
    parts = []
    with suppress(OSError):  # that is how Linux says it
        while part := os.read(end, 4096):
            parts.append(part)
    os.close(end)
    return b"".join(parts).decode()


def test_what_was_sealed_is_told_to_programs_too(crawl: tuple[Path, list[Page]], tmp_path: Path) -> None:
    root, pages = crawl
    out, messages = tmp_path / "out", list(batches(pages[:30]))
    with closing(SqliteQueue(tmp_path / "q.sqlite")) as queue:
        queue.publish([messages[0], messages[2]])  # the second is missing
    flags = ("--queue", f"sqlite:{tmp_path}/q.sqlite", "--base-url", root, "--until-empty", "--no-metrics")
    assert cc("work", *flags, "--out", out).returncode == 0
    waiting = cc("seal", out, "--json")
    assert json.loads(waiting.stdout) == {"files": 0, "rows": 0, "waiting": 1}
    assert "1 batch in the spool, waiting for earlier batches" in waiting.stderr
    assert json.loads(cc("seal", out, "--json", "--over-holes").stdout) == {"files": 1, "rows": 10, "waiting": 0}


# --- signals, leases, numbers -----------------------------------------------------------------------------------------


@pytest.mark.server("nginx")
def test_a_worker_shows_its_numbers_and_ends_gracefully(
    crawl: tuple[Path, list[Page]], nginx: Callable[..., Nginx], tmp_path: Path
) -> None:
    root, pages = crawl
    port, out = free_port(), tmp_path / "out"
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish(batches(pages[:200]))
    flags = ("--queue", f"sqlite:{tmp_path}/work.sqlite", "--out", out, "--base-url", nginx(root).url, "--rate", "0")
    with started("work", *flags, "--metrics-port", str(port)) as worker:
        wait_for(lambda: queue.stats().ready == 0 == queue.stats().leased, process=worker)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            reported = answer.read().decode()
        assert "worker_documents_written_total 200.0" in reported
        assert "worker_batches_total 20.0" in reported
        with started("work", *flags, "--until-empty", "--metrics-port", str(port)) as second:
            assert second.wait(100) == 0  # a taken port is no reason not to work
            assert "is taken" in (second.stderr.read() if second.stderr else "")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(100) == 130
    queue.close()
    assert cc("seal", out).returncode == 0
    assert [row["url"] for row in rows(out)] == [page.url for page in pages[:200]]


@pytest.mark.slow
@pytest.mark.crash
def test_a_worker_that_was_stopped_past_its_lease_adds_nothing(crawl: tuple[Path, list[Page]], tmp_path: Path) -> None:
    """SIGSTOP while it holds batches; another works them; then it goes on, and finds that they are not its own."""
    root, pages = crawl
    out, messages = tmp_path / "out", list(batches(pages[:600], size=100))
    queue = SqliteQueue(tmp_path / "work.sqlite")
    queue.publish(messages)
    flags = ("--queue", f"sqlite:{tmp_path}/work.sqlite", "--out", out, "--base-url", root, "--until-empty")
    flags = (*flags, "--no-metrics", "--format", "jsonl", "--processes", "1", "--extractor", "trafilatura")
    with started("work", *flags, WEBMILL_QUEUE_LEASE="1") as sleeper:
        wait_for(lambda: queue.stats().leased == 1, process=sleeper)
        pause(sleeper.pid)
        other = cc("work", *flags)
        assert other.returncode == 0, other.stderr
        assert queue.stats().ready == 0
        before = snapshot(out)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(100) == 0
    queue.close()
    assert snapshot(out) == before
    found, wanted = [row["url"] for row in rows(out)], [page.url for page in pages[:600]]
    lost, twice = len({*wanted} - {*found}), len(found) - len({*found})
    numbers = {"acknowledged": len(wanted), "lost": lost, "duplicated": twice}
    record("Common Crawl workers", "worker paused past its lease", injected=1, **numbers)
    assert found == wanted
    assert RUN in {path.parent.name for path in parts(out)}


def test_a_run_that_is_told_to_stop_ends_and_goes_on_later(crawl: tuple[Path, list[Page]], tmp_path: Path) -> None:
    root, pages = crawl
    out = tmp_path / "out"
    flags = ("--crawl", "TEST-2024", "--base-url", root, "--out", out, "--no-metrics", "--batch-size", "10")
    with started("run", *flags, "--extractor", "trafilatura", "--processes", "1") as run:
        wait_for(lambda: list(out.glob(".webmill/spool/*.zst")), process=run)
        run.send_signal(signal.SIGTERM)
        assert run.wait(100) == 130
    assert not parts(out)  # nothing is sealed before its time
    done = cc("run", *flags, "--extractor", "trafilatura")
    assert done.returncode == 0, done.stderr
    assert [row["url"] for row in rows(out)] == [page.url for page in pages]


def test_what_a_killed_worker_held_is_taken_back_at_once_unless_another_lives(tmp_path: Path) -> None:
    file = tmp_path / "work.sqlite"
    with closing(SqliteQueue(file, lease=3600)) as queue:
        queue.publish([Message("a", b"[]")])
        assert queue.consume().receive(timeout=0)  # and its worker is killed
        with lock.shared(tmp_path, "work.sqlite-workers", doing="working"), release_dead_leases(queue, file):
            assert (queue.stats().ready, queue.stats().leased) == (0, 1)
        with release_dead_leases(queue, file):
            assert (queue.stats().ready, queue.stats().leased) == (1, 0)


def test_who_mistypes_the_name_of_a_queue_is_told(tmp_path: Path) -> None:
    with started(
        "work", "--queue", f"sqlite:{tmp_path}/wrok.sqlite", "-o", tmp_path / "out", "--base-url", tmp_path
    ) as worker:
        assert worker.stderr
        assert "is a new, empty queue" in worker.stderr.readline()

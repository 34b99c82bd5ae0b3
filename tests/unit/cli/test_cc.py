"""`webmill cc crawls`, `paths` and `batch` as a person uses them."""

from __future__ import annotations

import gzip
import json
import signal
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.range_server import RangeServer, serving
from tests.pipeline.dispatch_samples import captures, in_blocks, messages_of, read_plainly, write_index
from tests.services.base import free_port
from tests.unit.cli.command import Ended, webmill
from tests.unit.cli.command import started as command_started
from webmill.infra.queue.sqlite import SqliteQueue

COLLINFO = [
    {"id": "CC-MAIN-2023-50", "name": "December 2023", "from": "2023-11-28T00:00:00", "to": "2023-12-12T00:00:00"},
    {"id": "CC-MAIN-2024-30", "name": "July 2024\x1b[2J", "from": "2024-07-12T00:00:00", "to": "2024-07-25T00:00:00"},
    {"id": "../up", "name": "not a name"},
    {"id": "CC-MAIN-2008-2009"},
]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WEBMILL_COMMONCRAWL_RATE", "0")
    return tmp_path


def batch(*arguments: str | Path) -> Ended:
    return webmill("cc", "batch", *arguments, "--metrics-port", "0", "--queue", "sqlite:queue.sqlite")


@pytest.mark.parametrize("command", [(), ("crawls",), ("paths",), ("batch",)], ids=" ".join)
def test_help_fits_80_columns(command: tuple[str, ...]) -> None:
    done = webmill("cc", *command, "--help")
    assert done.code == 0
    lines = done.out.decode().splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert "INTEGER" not in done.out.decode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give --crawl NAME or --cluster-idx"),
        (("--crawl", "a", "--language", "en"), "three letters of ISO 639-3"),
        (("--crawl", "a", "--status", "ok"), "three digits"),
        (("--crawl", "a", "--sample", "0"), "above 0"),
        (("--crawl", "a", "--from", "yesterday"), "not a date"),
        (("--crawl", "a", "--batch-size", "0"), "0 is too small"),
        (("--crawl", "a/b"), "is not the name of a crawl"),
        (("--crawl", "a", "--base-url", "gopher://x"), "use http(s)://…, a folder or s3://"),
        (("--crawl", "a", "--url-regex", "("), "not a valid RE2 regular expression"),
        (("--crawl", "a", "--from", "2024", "--to", "2023"), "--from 2024 is later than --to 2023"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
@pytest.mark.parametrize("command", ["batch", "run"])
def test_wrong_use_is_a_sentence_and_code_2(command: str, arguments: tuple[str, ...], message: str, here: Path) -> None:
    done = webmill("cc", command, *arguments, *(("--out", "out") if command == "run" else ()))
    assert (done.code, done.out) == (2, b"")
    assert message in done.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("batch", "--crawl", "a", "--queue", "memory:"), "use sqlite:FILE or amqp"),
        (("work", "--out", "out", "--queue", "redis://x"), "use sqlite:FILE, amqp"),
        (("work", "--out", "out", "--language", "english"), "three letters of ISO 639-3"),
        (("work", "--out", "out", "--min-text", "5", "--extractor", "none"), "need text"),
        (("work", "--out", "out", "--min-text", "5", "--max-text", "4"), "no page would be kept"),
        (("run", "--crawl", "a", "--out", "out", "--detected-language", "english"), "three letters of ISO 639-3"),
        (("run", "--crawl", "a", "--out", "s3://bucket/x"), "needs --queue"),
        (("dead", "list", "--queue", "memory:"), "use sqlite:FILE or amqp"),
        (("crawls", "--base-url", "gopher://x"), "use http(s)://…, a folder or s3://"),
        (("paths", "a/b"), "is not the name of a crawl"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_value_is_wrong_use_in_every_command(arguments: tuple[str, ...], message: str, here: Path) -> None:
    done = webmill("cc", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert message in " ".join(done.err.split())
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("batch", "--crawl", "none", "--base-url", "."), "`webmill cc crawls` with the same --base-url lists"),
        (
            ("work", "--out", "out", "--queue", "sqlite:none.sqlite", "--until-empty"),
            "give the queue that `webmill cc batch` fills",
        ),
        (("seal", "out", "--queue", "sqlite:none.sqlite"), "is not an output of `webmill cc`"),
        (("dead", "list", "--queue", "sqlite:none.sqlite"), "give the queue that `webmill cc batch` fills"),
        (("paths", "none", "--base-url", "."), "`webmill index` writes the lists"),
        (("paths", "latest", "--base-url", "."), "no crawls found"),
        (("crawls", "--base-url", "nowhere"), "check --base-url"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_cannot_be_done_names_the_repair(arguments: tuple[str, ...], message: str, here: Path) -> None:
    done = webmill("cc", *arguments)
    assert done.code == 1
    assert message in done.err
    assert not (here / "none.sqlite").exists()


ASKING = [
    ("cc", "crawls"),
    ("cc", "paths", "latest"),
    ("cc", "batch", "--crawl", "latest"),
    ("cc", "run", "--crawl", "latest", "-o", "out"),
    ("dataset", "manifest", "--crawl", "latest"),
]


@pytest.mark.parametrize("command", ASKING, ids=lambda command: command[1])
def test_every_command_that_asks_a_server_says_by_whom_and_asks_for_it(command: tuple[str, ...]) -> None:
    with serving() as server:
        put(server, "collinfo.json", json.dumps(COLLINFO).encode())
        strange = server.url.replace("127.0.0.1", "0.0.0.0")  # here as well, and not seen to be
        known = webmill(*command, "--base-url", strange, "--contact", "me@example.org", "--rate", "1000")
        agents = {headers["User-Agent"] for _, _, headers in server.requests}
        unknown = webmill(*command, "--base-url", strange)
        quiet = webmill(*command, "--base-url", server.url)
    assert {agent.endswith(" (+me@example.org)") for agent in agents} == {True}
    notice = "no contact is set: give --contact"
    assert [notice in done.err for done in (known, unknown, quiet)] == [False, True, False]


@pytest.mark.parametrize("command", ["batch", "run"])
@pytest.mark.parametrize("wrong", [("--crawl", "none", "--base-url", "."), ("--cluster-idx", "none/cluster.idx")])
def test_a_wrong_name_of_a_crawl_leaves_nothing_behind(command: str, wrong: tuple[str, ...], here: Path) -> None:
    """An output that was begun would hold the next try to the flags of this one."""
    done = webmill("cc", command, *wrong, *(("--out", "out") if command == "run" else ("--queue", "sqlite:q.sqlite")))
    assert (done.code, "no such index" in done.err) == (1, True)
    assert list(here.iterdir()) == []


def test_crawls_of_a_server_are_listed_newest_first() -> None:
    with serving() as server:
        put(server, "collinfo.json", json.dumps(COLLINFO).encode())
        listed = webmill("cc", "crawls", "--base-url", server.url)
        reported = webmill("cc", "crawls", "--base-url", server.url, "--json", "--limit", "1")
    assert [line.split()[0] for line in listed.lines] == [b"CC-MAIN-2024-30", b"CC-MAIN-2023-50", b"CC-MAIN-2008-2009"]
    assert b"2024-07-12 to 2024-07-25" in listed.lines[0]
    assert b"\x1b" not in listed.out
    assert json.loads(reported.out)["id"] == "CC-MAIN-2024-30"


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"[" * 100_000], ids=["empty", "object", "numbers", "deep"])
def test_a_catalog_that_is_none_is_bad_input(text: bytes) -> None:
    with serving() as server:
        put(server, "collinfo.json", text)
        done = webmill("cc", "crawls", "--base-url", server.url)
    assert done.code == 1
    assert "bad_collinfo" in done.err


def test_a_server_without_a_catalog_says_what_to_do() -> None:
    with serving() as server:
        done = webmill("cc", "crawls", "--base-url", server.url)
    assert (done.code, "give a name with --crawl" in done.err) == (1, True)


def test_crawls_of_a_folder_are_its_folders(here: Path) -> None:
    for name in ("NEWS-2023", "NEWS-2024", "NEWS-2024b"):
        for number in range(3):
            file = here / "crawl-data" / name / "segments" / str(number) / "warc" / "a.warc.gz"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"")
    (here / "crawl-data" / "stray").write_bytes(b"")
    assert webmill("cc", "crawls", "--base-url", ".").out == b"NEWS-2024b\nNEWS-2024\nNEWS-2023\n"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("warc", "warc"),
        ("wet", "wet"),
        ("index", "cc-index"),
        ("table", "cc-index-table"),
        ("non200responses", "non200responses"),
    ],
)
def test_the_paths_of_a_crawl(here: Path, kind: str, name: str) -> None:
    folder = here / "crawl-data" / "NEWS"
    folder.mkdir(parents=True)
    text = b"".join(b"crawl-data/NEWS/%d\n" % number for number in range(5000))
    (folder / f"{name}.paths.gz").write_bytes(gzip.compress(text))
    assert webmill("cc", "paths", "latest", "--base-url", ".", "--kind", kind).out == text
    assert len(webmill("cc", "paths", "NEWS", "--base-url", ".", "--kind", kind, "--limit", "2").lines) == 2


def test_paths_move_no_cursor(here: Path) -> None:
    key = here / "crawl-data" / "A" / "warc.paths.gz"
    key.parent.mkdir(parents=True)
    key.write_bytes(gzip.compress(b"a/\x1b[2J\rb.warc.gz\n\xc3\xa4/c.warc.gz\n"))
    assert webmill("cc", "paths", "A", "--base-url", ".").out == b"a/\\x1b[2J\\x0db.warc.gz\n\xc3\xa4/c.warc.gz\n"


def test_a_list_of_paths_that_was_cut_is_not_taken_as_whole(here: Path) -> None:
    folder = here / "crawl-data" / "NEWS"
    folder.mkdir(parents=True)
    (folder / "warc.paths.gz").write_bytes(gzip.compress(b"a\n" * 10_000)[:-9])
    done = webmill("cc", "paths", "NEWS", "--base-url", ".")
    assert done.code == 1
    assert "bad input" in done.err


def test_batches_of_a_crawl_of_a_server(here: Path) -> None:
    cluster = write_index(here / "x", in_blocks(captures(300), 20))
    with serving() as server:
        put(server, "collinfo.json", json.dumps(COLLINFO).encode())
        for file in cluster.parent.iterdir():
            put(server, f"cc-index/collections/CC-MAIN-2024-30/indexes/{file.name}", file.read_bytes())
        done = batch("--crawl", "latest", "--base-url", server.url, "--status", "200", "--json")
    report = json.loads(done.out)
    assert (done.code, report["published"], report["counts"]["lines"]) == (0, report["batches"], 300)
    assert taken(here / "queue.sqlite") == [found for found in read_plainly(cluster) if found[2]["status"] == "200"]


def test_done_once_it_says_so_and_begins_anew_when_told(here: Path) -> None:
    cluster = write_index(here / "x", in_blocks(captures(300), 20))
    assert "batches: 6, 6 of them queued now; captures: 300 of 300" in batch("--cluster-idx", cluster).err
    assert "nothing to do: all 6 batches were queued before" in batch("--cluster-idx", cluster).err
    assert len(taken(here / "queue.sqlite")) == 300
    assert "batches: 6, 6 of them queued now" in batch("--cluster-idx", cluster, "--restart").err
    assert len(taken(here / "queue.sqlite")) == 300


def test_damage_is_told_with_exit_code_3_and_listed(here: Path) -> None:
    blocks = in_blocks(captures(100), 20)
    blocks[1][3] = b'com,h0001)/ 20240101000000 {"url": '
    cluster = write_index(here / "x", blocks)
    done = batch("--cluster-idx", cluster.parent)
    assert done.code == 3
    (listed,) = here.glob(".webmill/batcher/*/rejected.jsonl")
    assert str(listed.relative_to(here)) in done.err
    assert json.loads(listed.read_text())["line"] == 4


def test_a_taken_port_is_a_warning(here: Path) -> None:
    cluster = write_index(here / "x", in_blocks(captures(10), 20))
    with serving() as server:
        port = str(server.server_address[1])
        done = webmill("cc", "batch", "--cluster-idx", cluster, "--queue", "sqlite:q.sqlite", "--metrics-port", port)
    assert done.code == 0
    assert "is taken" in done.err


def taken(path: Path) -> list[tuple[str, str, dict[str, str]]]:
    queue, bodies = SqliteQueue(path), []
    with queue.consume() as consumer:
        while delivery := consumer.receive(timeout=0):
            bodies.append(delivery.body)
            delivery.ack()
    queue.close()
    return messages_of(bodies)


def put(server: RangeServer, key: str, value: bytes) -> None:
    server.values[key] = value


def test_a_summary_that_was_downloaded_points_into_the_blocks_of_its_crawl(here: Path) -> None:
    """As with `wget …/cluster.idx`: what is beside it are no blocks."""
    indexes = here / "site" / "cc-index" / "collections" / "CC-MAIN-2024-30" / "indexes"
    cluster = write_index(indexes, in_blocks(captures(60), 10))
    copy = here / "cluster.idx"
    copy.write_bytes(b"".join(cluster.read_bytes().splitlines(keepends=True)[:2]))
    alone = batch("--cluster-idx", copy)
    assert (alone.code, "2 rejected" in alone.err) == (3, True)
    (here / "queue.sqlite").unlink()
    done = batch("--cluster-idx", copy, "--crawl", "CC-MAIN-2024-30", "--base-url", here / "site")
    assert done.code == 0, done.err
    with closing(SqliteQueue(here / "queue.sqlite")) as queue, queue.consume(prefetch=9) as consumer:
        bodies = [delivery.body for _ in range(1) if (delivery := consumer.receive(timeout=0))]
    assert messages_of(bodies) == read_plainly(cluster)[:20]


def test_the_variable_of_commoncrawl_pipeline_is_not_passed_over_in_silence(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = write_index(here / "index", in_blocks(captures(20), 10))
    monkeypatch.setenv("RABBITMQ_CONNECTION_STRING", "amqp://localhost/")
    done = batch("--cluster-idx", cluster)
    assert done.code == 0
    assert 'RABBITMQ_CONNECTION_STRING is not used: give --queue "$RABBITMQ_CONNECTION_STRING"' in done.err


def test_a_command_waits_at_its_end_until_its_metrics_were_read(here: Path) -> None:
    cluster = write_index(here / "index", in_blocks(captures(20), 10))
    port = str(free_port())
    flags = ("--cluster-idx", cluster, "--queue", "sqlite:q.sqlite", "--metrics-port", port, "--metrics-linger", "60s")
    batcher = command_started("cc", "batch", *flags)
    assert batcher.stderr
    assert any(b"waiting up to 60s for Prometheus" in line for line in batcher.stderr)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert b"batcher_batches_total 1.0" in answer.read()
    assert batcher.wait(30) == 0
    batcher.communicate()


def test_ctrl_c_ends_the_wait_for_prometheus_and_the_command_is_done(here: Path) -> None:
    cluster = write_index(here / "index", in_blocks(captures(20), 10))
    flags = ("--cluster-idx", cluster, "--queue", "sqlite:q.sqlite", "--metrics-port", "0", "--metrics-linger", "1h")
    batcher = command_started("cc", "batch", *flags)
    assert batcher.stderr
    assert any(b"for Prometheus" in line for line in batcher.stderr)
    batcher.send_signal(signal.SIGINT)
    assert batcher.wait(30) == 0
    batcher.communicate()

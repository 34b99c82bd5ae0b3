"""What is wrong is told with its repair; what is whole is told, too; and looking changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.serve.sample_collection import NAME
from tests.services.redis_kinds import private_redis
from tests.unit.archive.captures import capture, writer
from tests.unit.cli.command import webmill
from webmill.infra.queue.base import Message
from webmill.infra.queue.sqlite import SqliteQueue
from webmill.pipeline.doctor import check_machine
from webmill.pipeline.doctor.machine import check_clock, check_open_files, check_sqlite


@pytest.fixture
def copy(sample_root: Path, tmp_path: Path) -> Path:
    """With all times: an index is as new as its archives."""
    return Path(shutil.copytree(sample_root, tmp_path / "town"))


def findings(*arguments: str | Path, code: int = 0) -> dict[str, dict[str, Any]]:
    ended = webmill("doctor", "--json", *arguments)
    assert ended.code == code, ended
    return {finding["part"]: finding for finding in map(json.loads, ended.lines)}


def files(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def test_a_sound_collection_is_told_so_and_left_as_it_is(copy: Path) -> None:
    before = files(copy)
    found = findings(copy, "--read-data")
    apart = ("open files", "problems")
    assert {finding["state"] for part, finding in found.items() if part not in apart} == {"good"}
    assert found["problems"]["found"] == "1 problem"  # the task that the town has failed at
    assert found["versions"]["found"] == "2 versions, 9 blobs, every byte read"
    assert found[f"index of {NAME}"]["found"] == "every block read"
    assert "7 documents" in found["search"]["found"]
    assert files(copy) == before


def test_a_database_of_any_name_is_looked_into_and_its_journal_told(tmp_path: Path) -> None:
    with closing(SqliteQueue(tmp_path / "queue.sqlite")) as queue:
        queue.publish([Message("a", b"1")])
    try:
        shutil.copy(tmp_path / "queue.sqlite", tmp_path / os.fsdecode(b"\xff.sqlite"))
    except OSError:
        pytest.skip("names are UTF-8 here")
    ended = webmill("doctor", tmp_path, "--json")
    reported = [json.loads(line) for line in ended.out.splitlines()]
    assert [each["found"] for each in reported if each["part"].endswith(".sqlite")] == ["whole, journal mode wal"] * 2


def test_people_get_signs_promises_and_repairs(copy: Path) -> None:
    shutil.rmtree(copy / "cc-index")
    ended = webmill("doctor", copy)
    assert ended.code == 0
    reported = ended.out.decode()
    assert f"note  index of {NAME}: there is none\n      keeps: nothing of it is found\n" in reported
    assert f"      repair: webmill index {copy}\n" in reported
    assert max(map(len, reported.replace(str(copy), "DIR").splitlines())) <= 100


def test_damage_is_named_with_its_place_and_repair(copy: Path) -> None:
    (archive,) = (copy / "crawl-data").rglob("warc/*.warc.gz")
    data = bytearray(archive.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 100] = bytes(100)
    archive.write_bytes(data)
    os.utime(archive, (0, 0))
    blob = next((copy / "blobs").rglob("*.json"))
    blob.write_bytes(blob.read_bytes()[:-1])
    (copy / "publish" / "queue.sqlite").write_bytes(b"no database" * 1000)
    found = findings(copy, "--read-data", code=1)
    assert archive.name in found[f"archives of {NAME}"]["found"]
    assert blob.name in found["versions"]["found"]
    assert "publish verify" in found["versions"]["repair"]
    assert found["publish/queue.sqlite"]["state"] == "bad"
    assert {part for part, finding in found.items() if finding["state"] == "bad"} == {
        f"archives of {NAME}",
        "versions",
        "publish/queue.sqlite",
    }


def test_what_lags_behind_is_doubted(copy: Path) -> None:
    (archive,) = (copy / "crawl-data").rglob("warc/*.warc.gz")
    os.utime(archive)
    rows = (copy / "documents" / "town.jsonl").read_text().splitlines()
    (copy / "documents" / "town.jsonl").write_text("\n".join(rows[:-1]) + "\n")
    shutil.move(copy / "search", copy / "aside")
    assert webmill("publish", "documents", copy).code == 0
    shutil.move(copy / "aside", copy / "search")
    found = findings(copy)
    assert "newer" in found[f"index of {NAME}"]["found"]
    assert found["search"]["state"] == "doubt"
    assert found["search"]["repair"] == f"webmill search update {copy}"


def test_what_dead_processes_left_is_swept_and_captures_in_it_are_kept(tmp_path: Path) -> None:
    out = writer(tmp_path)
    out.append(capture(1))
    out.sync()
    (left,) = (tmp_path / "crawl-data").rglob("*.open")
    shutil.copy(left, tmp_path / "torn")
    out.close()
    (sealed,) = (tmp_path / "crawl-data").rglob("*.warc.gz")
    sealed.unlink()
    left.write_bytes((tmp_path / "torn").read_bytes() + b"\x1f\x8b torn")
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True).stdout.strip()
    (tmp_path / f".webmill-tmp-{dead}-{'0' * 16}").write_bytes(b"half")
    found = findings(tmp_path)
    assert "1 unfinished file of dead" in found["leftovers"]["found"]
    assert "1 WARC file was left open" in found["archives"]["found"]

    ended = webmill("doctor", tmp_path, "--sweep")
    assert ended.code == 0
    assert "sealed" in ended.err
    assert ": 1 capture" in ended.err
    found = findings(tmp_path, "--read-data")
    assert not {"leftovers", "archives"} & found.keys()
    assert found["archives of TEST-2024"]["state"] == "good"


def test_a_folder_that_cannot_be_looked_into_is_told(tmp_path: Path) -> None:
    """By the length of its path, which is a limit for every user."""
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("x" * 200, dir_fd=here)
        here, before = os.open("x" * 200, os.O_RDONLY, dir_fd=here), here
        os.close(before)
    os.close(here)
    found = findings(tmp_path, code=1)
    assert "cannot be looked into: File name too long" in found["files"]["found"]
    reported = json.loads(webmill("status", tmp_path, "--json").out)
    assert [problem["part"] for problem in reported["problems"]] == ["disk"]
    assert reported["disk"]["used"]["is_whole"] is False


def test_a_folder_that_cannot_be_written_to_is_bad(tmp_path: Path) -> None:
    found = findings("/proc/self", code=1) if Path("/proc/self").exists() else {"disk": {"state": "bad"}}
    assert found["disk"]["state"] == "bad"


def test_the_machine_is_judged_by_what_it_has() -> None:
    assert {finding.state for finding in check_machine() if finding.part != "open files"} == {"good"}
    assert check_sqlite("3.40.1").state == "doubt"
    assert (check_open_files(64).state, check_open_files(1024).state, check_open_files(65536).state) == (
        "bad",
        "doubt",
        "good",
    )
    assert check_clock(1000.0, made=10_000_000.0).state == "bad"


def test_servers_that_are_not_there_are_bad_and_named(tmp_path: Path) -> None:
    found = findings("--frontier", "redis://127.0.0.1:1/0", "--queue", "amqp://127.0.0.1:1/", code=1)
    assert found["redis"]["state"] == found["queue"]["state"] == "bad"
    assert "127.0.0.1:1" in found["redis"]["found"]


@pytest.mark.server("redis")
@pytest.mark.parametrize(
    ("flags", "state", "words"),
    [
        ((), "good", "survives"),
        (("--appendfsync", "everysec"), "doubt", "a second"),
        (("--appendonly", "no"), "bad", "loses"),
        (("--maxmemory-policy", "allkeys-lru"), "bad", "may forget keys"),
    ],
)
def test_a_redis_is_judged_by_what_it_keeps_when_it_dies(flags: tuple[str, ...], state: str, words: str) -> None:
    with private_redis(*flags) as server:
        found = findings("--frontier", server.url, code=1 if state == "bad" else 0)["redis"]
    assert found["state"] == state
    assert words in found.get("promise", "") + found["found"]


@pytest.mark.server("rabbitmq", "s3")
def test_a_broker_and_a_bucket_are_asked_what_they_keep(amqp_url: str, s3_url: str) -> None:
    found = findings("--queue", amqp_url, "--storage", s3_url)
    assert "wait" in found["queue"]["found"]
    assert found["storage"]["found"] == "refuses a second writer"

"""A collection on a server that lies: bounded memory, a clear end, no request to a place that nobody named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.range_server import RangeServer, serving
from tests.trust.hostile_remote import COLLINFO, LIES, read_all, redirect_to, serving_collection
from tests.unit.cli.command import webmill

KINDS = (COLLINFO, "cluster.idx", ".gz", ".warc.gz")  # of files, by how their names end
MEMORY = 400 << 20
FASTER = ("--rate", "1000")


def lie_about(server: RangeServer, ending: str, lie: Any) -> None:
    for key in server.values:
        if key.endswith(ending):
            server.lies[key] = lie


def read_apart(server: RangeServer, folder: Path) -> dict[str, Any]:
    """Read the collection in a process of its own, in an empty folder."""
    command = [sys.executable, "-m", "tests.trust.hostile_remote", server.url]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(folder), "TMPDIR": str(folder)}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_server_that_tells_the_truth_is_read(sample_root: Path, tmp_path: Path) -> None:
    """The control: without a lie all is there."""
    with serving_collection(sample_root) as server:
        found = read_apart(server, tmp_path)
    assert found["outcome"].startswith("read ")
    assert found["peak"] < MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_whatever_a_server_sends_reading_ends_within_its_memory_and_says_why(
    lie: Any, sample_root: Path, tmp_path: Path
) -> None:
    for number, ending in enumerate(KINDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with serving_collection(sample_root) as server:
            lie_about(server, ending, lie)
            found = read_apart(server, folder)
        assert found["peak"] < MEMORY, (ending, found)
        assert len(found["outcome"]) < 1000, "a sentence, not what the server sent"
        written = {path.name.partition("-")[0] for path in folder.rglob("*") if path.is_file()}
        assert written <= {f"127.0.0.1:{server.server_address[1]}.limit"}, "the limiter of requests, and nothing else"


@pytest.mark.parametrize("ending", KINDS)
def test_no_redirect_leads_to_a_server_that_was_not_named(ending: str, sample_root: Path) -> None:
    """Another port of this machine stands for what only this machine reaches."""
    with serving_collection(sample_root) as server, serving() as private:
        private.values.update(server.values)
        keys = [key for key in server.values if key.endswith(ending)]
        for key in keys:
            server.lies[key] = redirect_to(f"{private.url}/{key}")
        said = read_all(server.url)
        assert "is not followed: give that address yourself" in said, said
        assert not private.requests


HOSTILE_NAMES = [
    "../../../../etc/passwd",
    "/etc/passwd",
    "http://127.0.0.1:{port}/secret",
    "a/../../b",
    "..\\..\\b",
    "\x00",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_in_a_remote_index_lead_nowhere_else(name: str, sample_root: Path, tmp_path: Path) -> None:
    """Names of shards in the summary, of crawls in the list, of archives in the lists of paths."""
    with serving_collection(sample_root) as server, serving() as private:
        named = name.format(port=private.server_address[1])
        (summary,) = (key for key in server.values if key.endswith("cluster.idx"))
        rows = [line.split(b"\t") for line in server.values[summary].splitlines()]
        server.values[summary] = b"".join(b"\t".join([row[0], named.encode(), *row[2:]]) + b"\n" for row in rows)
        server.values.pop(summary + ".crc32", None)
        said = read_all(server.url)
        assert not said.startswith("read "), said
        server.values[COLLINFO] = json.dumps([{"id": named}]).encode()
        assert not read_all(server.url).startswith("read ")
        ended = webmill("cc", "crawls", "--base-url", server.url)
        assert b"passwd" not in ended.out
        assert not private.requests
        assert all(path.startswith("/data/") for _, path, _ in server.requests), "below its folder"
    assert not list(tmp_path.iterdir())


def test_commands_of_common_crawl_end_with_a_sentence(
    sample_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # `cc batch` keeps its checkpoint in the present folder
    uses = {
        "cc crawls": (),
        "cc paths": ("TOWN-2024",),
        "cc batch": ("--crawl", "TOWN-2024", "--queue", f"sqlite:{tmp_path / 'q.sqlite'}", "--no-metrics"),
    }
    with serving_collection(sample_root) as server, serving() as private:
        for name in ("bomb", "deep_json", "endless_line"):
            for ending in KINDS:
                lie_about(server, ending, LIES[name])
            for command, arguments in uses.items():
                ended = webmill(*command.split(), *arguments, "--base-url", server.url)
                assert ended.code in (1, 3), (name, command, ended)
                assert ended.err.startswith("webmill: ") or "rejected: see" in ended.err, ended.err
                assert len(ended.out) < 1 << 20
        assert not private.requests

"""The simulations as tests: promises hold for hundreds of seeds, a seed is a replay, and planted bugs are found.

Each runs in an interpreter of its own, since a simulation replaces clocks and files of the whole process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.simulation.disk import Disk, mixture

SEEDS = {"frontier": 40, "host-schedule": 60, "cluster": 10, "queue": 50, "publish": 50}
FAULTS = {
    "frontier": {"kills", "power cuts", "stalls", "clock jumps", "leases lost"},
    "host-schedule": {"kills", "power cuts", "stalls", "clock jumps"},
    "cluster": {"kills", "partitions", "stalls", "request lost", "answer lost", "request delayed", "shards lost"},
    "queue": {"kills", "power cuts", "stalls", "clock jumps"},
    "publish": {"kills", "power cuts", "stalls", "partitions", "request repeated", "answer lost", "trashed"},
}


def simulate(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def play(*arguments: str, **environment: str) -> dict[str, Any]:
    ended = simulate(*arguments, "--json", **environment)
    assert not ended.stderr, ended.stderr[-2000:]
    played: dict[str, Any] = json.loads(ended.stdout)
    return played


@pytest.mark.parametrize("protocol", SEEDS)
def test_promises_hold_whatever_the_seed_brings(protocol: str) -> None:
    played = play("--protocol", protocol, "--seeds", str(SEEDS[protocol]))[protocol]
    assert [(one["seed"], one["failure"]) for one in played["failures"]] == []
    assert played["seeds"] == SEEDS[protocol]
    assert {name for name in FAULTS[protocol] if not played["counts"].get(name)} == set()  # they really happened


def test_a_seed_is_a_replay_of_everything() -> None:
    """Two processes, whose sets of names have other orders unless the simulation sees to it."""
    first = play("--seeds", "20", PYTHONHASHSEED="1")
    second = play("--seeds", "20", PYTHONHASHSEED="2")
    other = play("--seeds", "20", "--first", "1000")
    digests = [{name: one["digest"] for name, one in played.items()} for played in (first, second, other)]
    assert digests[0] == digests[1]
    assert not set(digests[0].values()) & set(digests[2].values())


@pytest.mark.parametrize("protocol", SEEDS)
def test_planted_bugs_are_found(protocol: str) -> None:
    ended = simulate("--mutants", "--recorded", "--protocol", protocol, "--json")
    found = json.loads(ended.stdout)
    assert len(found) > 1, ended.stderr
    assert [one["mutant"] for one in found if one["seed"] is None] == []


@pytest.mark.parametrize("seed", [109, 235])
def test_seeds_that_have_found_faults_of_the_queue(seed: int) -> None:
    """A clock that was set back kept messages leased for a day, and those that were fetched ahead."""
    ended = simulate("--protocol", "queue", "--seed", str(seed))
    assert "clock set by -86400 s" in ended.stdout
    assert ended.stdout.splitlines()[-2] == f"queue {seed}: all promises held"


def test_an_update_never_shortens_what_two_have_reserved() -> None:
    """A process that was paused extended its reservation, which another had by then, and gave both up (seed 57)."""
    ended = simulate("--protocol", "host-schedule", "--seed", "57")
    assert ended.stdout.splitlines()[-2] == "host-schedule 57: all promises held"


def test_a_failure_prints_its_trace_and_is_told_by_the_exit_code() -> None:
    ended = simulate("--protocol", "queue", "--seed", "0", "--mutant", "a commit is acknowledged before its sync")
    assert ended.returncode == 1
    assert "power cut" in ended.stdout
    assert "world: VIOLATION" in ended.stdout
    assert "was published, and is lost" in ended.stdout.splitlines()[-2]


@pytest.mark.soak
def test_ten_thousand_seeds() -> None:
    played = play("--seeds", "10000")
    print({name: {**one, "failures": len(one["failures"])} for name, one in played.items()})
    assert [(name, one["seed"], one["failure"]) for name in played for one in played[name]["failures"]] == []
    assert sum(one["seeds"] for one in played.values()) >= 10_000


@pytest.mark.soak
def test_planted_bugs_are_found_within_the_budget() -> None:
    ended = simulate("--mutants", "--json")
    found = json.loads(ended.stdout)
    print(found)
    assert [one["mutant"] for one in found if one["seed"] is None] == []


# --- the disk itself ---


def write(path: Path, data: bytes, *, disk: Disk | None = None) -> None:
    path.write_bytes(data)
    if disk:
        disk.sync_file(path)


def test_what_was_synced_survives_every_power_cut(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "before")
    write(disk.root / "a", b"old" * 1000, disk=disk)
    disk.sync_folder(disk.root)
    for seed in range(20):
        after = disk.after_power_cut(tmp_path / f"after-{seed}", Random(seed))
        assert (after.root / "a").read_bytes() == b"old" * 1000


def test_of_what_was_not_synced_anything_may_be_left(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "before")
    write(disk.root / "a", b"o" * 2048, disk=disk)
    disk.sync_folder(disk.root)
    write(disk.root / "a", b"n" * 4096)
    write(disk.root / "new", b"x" * 10, disk=disk)  # its folder was not synced
    (disk.root / "a").rename(disk.root / "b")
    left = set()
    for seed in range(60):
        after = disk.after_power_cut(tmp_path / f"after-{seed}", Random(seed)).root
        left |= {(path.name, frozenset(path.read_bytes())) for path in after.iterdir()}
        left.add(("names", frozenset(path.name for path in after.iterdir())))  # type: ignore[arg-type]
    assert ("names", frozenset({"a"})) in left  # as if nothing had happened since the sync
    assert ("names", frozenset({"b", "new"})) in left  # as if all had
    assert ("b", frozenset(b"on")) in left  # torn: sectors of both
    assert ("b", frozenset(b"o")) in left
    assert ("b", frozenset(b"n")) in left


def test_a_mixture_has_sectors_of_both() -> None:
    found = {mixture(b"o" * 1024, b"n" * 1024, Random(seed)) for seed in range(50)}
    assert {b"o" * 1024, b"n" * 1024, b"o" * 512 + b"n" * 512, b"n" * 512 + b"o" * 512} <= found

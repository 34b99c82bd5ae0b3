"""A writer of WARC files is killed before its durable calls, loses what was not synced, meets a disk that refuses.

Whatever happens, after recovery each acknowledged record is alone in exactly its bytes, every file is whole for our
reader, warcio, FastWARC and gzip, and what was cut off lies in `rejected/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.faults import Stage, needs_killer
from tests.faults.matrix import record, seed
from tests.faults.power import DISK, cut_power
from tests.pipeline.archive_checker import Account, account
from tests.pipeline.archiving import BATCH, CAPTURES
from tests.thoroughness import kills as kills_of
from tests.unit.archive.captures import NAME, check_files, read_place, sealed
from webmill.archive.recovery import recover
from webmill.collection import Collection
from webmill.errors import WebmillError
from webmill.formats.warc.capture import WrittenCapture

SEED = seed(11)
PART = "WARC writer"
PROGRAM = "tests.pipeline.archiving"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def root(memory_folder: Path) -> Path:
    """In memory: what a power cut would take is cut off by hand."""
    (memory_folder / "collection").mkdir()
    return memory_folder / "collection"


class Sums:
    """Over many deaths; recorded before anything is asserted of them."""

    def __init__(self) -> None:
        self.faults = self.acknowledged = self.lost = self.twice = self.extras = self.torn = 0

    def add(self, reported: Acknowledged, found: Account, *, faults: int = 1) -> None:
        self.faults += faults
        self.acknowledged += len(reported.places)
        self.lost += len(found.lost)
        self.twice += len(found.twice)
        self.extras += len(found.extras)
        self.torn += found.torn

    def record(self, fault: str, *, control: bool = False) -> None:
        numbers = {"lost": self.lost, "duplicated": self.twice, "quarantined": self.torn}
        record(PART, fault, injected=self.faults, acknowledged=self.acknowledged, **numbers, control=control)


class Acknowledged:
    """What a program printed before it died."""

    def __init__(self, output: str) -> None:
        self.places: list[WrittenCapture] = []
        self.synced: dict[str, int] = {}
        self.last: dict[str, Any] = {}
        for line in output.splitlines():
            self.last = json.loads(line)
            self.places += msgspec.convert(self.last.get("places", []), list[WrittenCapture])
            self.synced.update(self.last.get("sizes", {}))


def lose_unsynced(root: Path, reported: Acknowledged, dice: random.Random) -> int:
    """Of what was not synced something is lost: the end, or what is in it. How many files that happened to."""
    harmed = 0
    for file in sorted((root / "crawl-data").rglob("*.open")):
        durable, size = reported.synced.get(str(file), 0), file.stat().st_size
        if durable == size:
            continue
        at = dice.randint(durable, size)
        os.truncate(file, at)
        if dice.random() < 0.5:  # the size was written, the bytes were not
            os.truncate(file, size)
        harmed += at < size
    return harmed


def check_archive(root: Path, reported: Acknowledged) -> int:
    """How many captures are there that nobody acknowledged."""
    assert list(root.rglob("*.open")) == []
    for place in reported.places:
        read_place(root, place)
    found = check_files(list(sealed(root)))
    captures = {record.record_id for record in found if record.type == "response"}
    acknowledged = {place.record_id for place in reported.places}
    assert acknowledged <= captures
    assert Counter(record.type for record in found)["metadata"] == len(captures)
    for note in (root / "rejected").rglob("*.json"):
        assert json.loads(note.read_bytes())["reason"]
        assert note.with_suffix(".torn").exists()
    return len(captures - acknowledged)


def hashes(root: Path) -> dict[str, str]:
    files = (file for file in root.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def clear(root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()


@needs_killer
@pytest.mark.crash
def test_killed_before_each_durable_call_it_loses_nothing_that_it_acknowledged(root: Path) -> None:
    dice = random.Random(SEED)
    harmed, deaths, sums = 0, Counter[str](), Sums()
    with Stage(PROGRAM, under=root) as stage:
        for at in range(1, 1000):
            clear(root)
            ended = stage.run("work", root, "a", at=at)
            reported = Acknowledged(ended.output)
            if not ended.killed:
                assert ended.code == 0, ended.output
                break
            deaths[ended.calls[-1].partition(" ")[0]] += 1
            harmed += lose_unsynced(root, reported, dice) if at % 2 else 0
            recover(Collection(root, NAME))
            sums.add(reported, account(root, reported.places))
            assert check_archive(root, reported) <= BATCH
            before = hashes(root)
            assert recover(Collection(root, NAME)) == []
            assert hashes(root) == before
    assert len(reported.places) == CAPTURES
    assert check_archive(root, reported) == 0
    print(f"{sums.faults} kills before {dict(deaths)}, {harmed} files torn, {sums.extras} extras")
    sums.record("kill -9 before a durable call")
    assert (sums.lost, sums.twice) == (0, 0)
    assert sums.faults > 50
    assert harmed > 5
    assert {"pwrite64", "fdatasync", "rename", "fsync", "mkdirat"} <= {*deaths}


@needs_killer
@pytest.mark.crash
def test_recovery_killed_anywhere_is_recovered_from(root: Path) -> None:
    dice, sums = random.Random(SEED), Sums()
    with Stage(PROGRAM, under=root) as stage:
        for death in (8, 21, 34, 47):
            clear(root)
            reported = Acknowledged(stage.run("work", root, "a", at=death).output)
            lose_unsynced(root, reported, dice)
            for file in (root / "crawl-data").rglob("*.open"):
                with file.open("ab") as stream:
                    stream.write(b"\x1f\x8b\x08 torn")
            torn = shutil.copytree(root, root.parent / "torn", dirs_exist_ok=True)
            for at in range(1, 200, 2):
                shutil.rmtree(root)
                shutil.copytree(torn, root)
                ended = stage.run("recover", root, at=at)
                if not ended.killed:
                    break
                assert stage.run("recover", root).code == 0
                sums.add(reported, account(root, reported.places))
                assert check_archive(root, reported) <= BATCH
                assert list(root.glob("rejected/archive/*.torn"))
                assert not list(root.rglob(".webmill-tmp*"))
            shutil.rmtree(torn)
    sums.record("kill -9 before a durable call")
    assert (sums.lost, sums.twice) == (0, 0)
    assert sums.faults > 30


@needs_killer
@pytest.mark.crash
def test_killed_and_started_again_and_again_no_file_is_written_twice(root: Path) -> None:
    closed: dict[str, str] = {}
    reported, sums = Acknowledged(""), Sums()
    deaths = sorted(random.Random(SEED).sample(range(1, 70), min(kills_of(6), 60)))
    with Stage(PROGRAM, under=root) as stage:
        for at in (*deaths, 0):
            assert stage.run("recover", root).code == 0
            archives = {name: value for name, value in hashes(root).items() if name.endswith(".warc.gz")}
            assert closed.items() <= archives.items()
            closed = archives
            ended = stage.run("work", root, "a", at=at)
            sums.faults += ended.killed
            more = Acknowledged(ended.output)
            assert not {one.capture.place for one in reported.places} & {one.capture.place for one in more.places}
            reported.places += more.places
    sums.add(reported, account(root, reported.places), faults=0)
    sums.record("kill -9 at random")
    assert (sums.lost, sums.twice) == (0, 0)
    check_archive(root, reported)


@needs_killer
@pytest.mark.crash
def test_an_acknowledgement_before_its_sync_is_noticed(root: Path) -> None:
    """The negative control: a writer that promises too early loses what it promised, and the checks above see it."""
    dice, noticed, sums = random.Random(SEED), 0, Sums()
    with Stage(PROGRAM, under=root) as stage:
        for at in range(8, 60, 4):
            clear(root)
            ended = stage.run("too_early", root, "a", at=at)
            reported = Acknowledged(ended.output)
            lose_unsynced(root, reported, dice)
            recover(Collection(root, NAME))
            sums.add(reported, account(root, reported.places), faults=ended.killed)
            try:
                check_archive(root, reported)
            except (AssertionError, WebmillError):
                noticed += 1
    sums.record("acknowledged before its sync", control=True)
    assert sums.lost > 0
    assert noticed > 5


def test_two_processes_write_beside_each_other(root: Path) -> None:
    command = [sys.executable, "-m", PROGRAM, "work", str(root)]
    both = [
        subprocess.Popen([*command, stem], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) for stem in ("a", "b")
    ]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    reported = Acknowledged("".join(outputs))
    assert len(reported.places) == 2 * CAPTURES
    assert check_archive(root, reported) == 0


# --- a disk that refuses ----------------------------------------------------------------------------------------------


def strace_works() -> bool:
    try:
        command = ["strace", "-o", "/dev/null", "-e", "inject=pwrite64:error=EIO:when=1", "true"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


FAULTS = {"ENOSPC": "full disk", "fdatasync": "failing sync", "rename": "failing rename", "pwrite64": "failing write"}
needs_strace = pytest.mark.skipif(not strace_works(), reason="needs strace and the right to trace")


@needs_strace
@pytest.mark.crash
@pytest.mark.parametrize(
    ("faults", "refuses", "extras"),
    [
        (["pwrite64:error=ENOSPC:when=2"], True, 0),
        (["pwrite64:error=ENOSPC:when=5+3"], True, 0),
        (["pwrite64:error=EIO:when=4..6"], True, 0),
        (["fdatasync:error=EIO:when=1"], True, 0),
        (["fdatasync:error=EIO:when=2..4"], True, 0),
        (["fdatasync:error=ENOSPC:when=3"], True, 0),
        # Then recovery finds whole captures that were not acknowledged.
        (["fdatasync:error=EIO:when=3", "ftruncate:error=EIO:when=1+1"], True, BATCH),
        # Files that cannot be sealed are left to recovery.
        (["rename:error=EIO:when=1+2"], False, 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_disk_refuses_is_not_acknowledged_and_goes_into_a_new_file(
    root: Path, faults: list[str], refuses: bool, extras: int
) -> None:
    log = root.parent / "log"
    injected = [word for fault in faults for word in ("-e", f"inject={fault}")]
    traced = ",".join(fault.partition(":")[0] for fault in faults)
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={traced}", *injected]
    ended = subprocess.run(
        [*command, os.path.realpath(sys.executable), "-m", PROGRAM, "stubborn", str(root), "a"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert all(re.search(rf"{fault.partition(':')[0]}.*\(INJECTED\)", log.read_text()) for fault in faults)
    reported, sums = Acknowledged(ended.stdout), Sums()
    assert len(reported.places) == CAPTURES
    assert (reported.last["refusals"] > 0) == refuses
    recover(Collection(root, NAME))
    sums.add(reported, account(root, reported.places), faults=log.read_text().count("(INJECTED)"))
    sums.record(FAULTS[next(word for word in FAULTS if word in faults[0])])
    assert (sums.lost, sums.twice) == (0, 0)
    assert check_archive(root, reported) <= extras


@needs_killer  # Linux
@pytest.mark.crash
def test_a_limit_on_the_size_of_files_costs_no_acknowledged_record(root: Path) -> None:
    """The write that meets the limit is short, the next is refused."""
    ended = subprocess.run(
        [sys.executable, "-m", PROGRAM, "stubborn", str(root), "a"],
        env=ENVIRONMENT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    reported, sums = Acknowledged(ended.stdout), Sums()
    assert reported.last["refusals"] > 0
    sums.add(reported, account(root, reported.places), faults=reported.last["refusals"])
    sums.record("short write")
    assert (sums.lost, sums.twice) == (0, 0)
    assert len(reported.places) == CAPTURES
    assert check_archive(root, reported) == 0


@pytest.mark.crash
def test_a_disk_that_was_full_is_used_again_when_there_is_room(root: Path) -> None:
    script = f'mount -t tmpfs -o size=400k none "{root}" && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("needs a namespace to mount a small disk in")
    ended = subprocess.run(
        [*command, sys.executable, "-m", PROGRAM, "fill", str(root), "a"],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    reported = json.loads(ended.stdout)
    record(
        PART, "full disk", injected=reported["refused"], acknowledged=reported["acknowledged"], lost=reported["lost"]
    )
    assert reported["lost"] == 0
    assert reported["refused"] == 5
    assert reported["acknowledged"] > 10
    assert reported["captures"] == reported["acknowledged"]
    assert reported["open"] == []


@pytest.mark.slow
@pytest.mark.crash
def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """And everything of a writer that does not sync: else the cut would prove nothing."""
    dice = random.Random(SEED)
    for mode, cuts in (("work", kills_of(2)), ("faulty", 1)):
        sums = Sums()
        for number in range(cuts):
            after = dice.randint(20, 100)
            left = cut_power(tmp_path / f"{mode}-{number}", PROGRAM, f"endless-{mode}", DISK, "a", after=after)
            reported = Acknowledged("\n".join(left.printed))
            recover(Collection(left.folder, NAME))
            sums.add(reported, account(left.folder, reported.places))
            check_files(list(sealed(left.folder)))
        sums.record("power cut", control=mode == "faulty")
        if mode == "work":
            assert (sums.lost, sums.twice) == (0, 0)
            assert sums.acknowledged > 50
    assert sums.lost > 0

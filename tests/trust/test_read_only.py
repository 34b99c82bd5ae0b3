"""A collection on a disk that is mounted read-only: it is read as ever, and whoever would write is told where."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bit_rot import make_collection
from tests.trust.commands import COMMANDS
from tests.trust.read_only import READING
from webmill.testing import TestWeb

pytestmark = [pytest.mark.slow]
# there is nothing that they would write
IDLE = {
    "alerts retry",
    "alerts test",
    "curate explain",
    "curate stats",
    "dead drop",
    "dead requeue",
    "dead show",
    "search update",
}
OTHERWISE = {  # refused for another reason, before they would write
    "cc seal": "is not an output of `webmill cc`",
    "curate export": "make one with `webmill curate run`",
    "verify-export": "is no data set of webmill's",
    "frontier restore": "that is no backup",
    "frontier import-postgres": "PostgreSQL: connection failed",
    "qa": "no browser at",
}


def needs_mounts() -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("mounting needs root and unshare")
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespaces here: {tried.stderr.decode()}")


def use_all(root: Path, out: Path, mode: str) -> Any:
    command = [sys.executable, "-m", "tests.trust.read_only", str(root), str(out), mode]
    if mode == "mounted":
        command = ["unshare", "--mount", *command]
    environment = {**os.environ, "WEBMILL_TRUST": str(root), "WEBMILL_EXECUTOR_URL": "inline"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def all_files(root: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


def without_disk(lines: str) -> list[Any]:
    """What the doctor finds, but for the disk, of which it says that it is read-only."""
    found = [json.loads(line) for line in lines.splitlines()]
    return [one for one in found if one["part"] not in ("disk", "clock")]


def test_a_collection_on_a_read_only_disk_is_read_as_ever_and_who_writes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_mounts()
    monkeypatch.setenv("WEBMILL_EXECUTOR_URL", "inline")
    root, out = tmp_path / "full", tmp_path / "out"
    out.mkdir()
    with TestWeb(hosts=2, pages_per_host=3, seed=3) as web:
        make_collection(root, web, pages=6, rounds=2)
    shutil.copyfile(next(root.glob("crawl-data/*/segments/*/warc/*.warc.gz")), out / "extra.warc.gz")
    writable = use_all(root, out, "reading")
    before = all_files(root)
    mounted = use_all(root, out, "mounted")
    assert all_files(root) == before, "nothing half"

    for name in READING:
        whole, found = writable["said"][f"read {name}"], mounted["said"][f"read {name}"]
        if name == "doctor":
            (disk,) = (one for one in map(json.loads, found[1].splitlines()) if one["part"] == "disk")
            assert disk["state"] == "doubt"
            whole, found = ([one[0], without_disk(one[1]), one[2]] for one in (whole, found))
        assert whole[0] == 0, (name, whole)
        assert found == whole, name
    assert mounted["pages"] == writable["pages"]
    assert [status for _, status, _ in mounted["pages"]].count(200) >= 5

    written = {name.removeprefix("write "): said for name, said in mounted["said"].items() if name.startswith("write")}
    assert written.keys() >= {name for name, use in COMMANDS.items() if use.destroys and use.arguments} - {
        "dataset delete",
        "doctor",
    }
    for name, (code, _, err) in written.items():
        if name in IDLE:
            continue
        assert code == 1, (name, err)
        if name in OTHERWISE:
            assert OTHERWISE[name] in err, name
        else:
            assert str(root) in err, (name, err)
            assert "Read-only file system; mount it for writing, or work on a copy of the folder" in err, (name, err)

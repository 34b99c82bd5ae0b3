"""Cuts the power of a small ext4 disk under a program, and gives what was on it afterwards. For root, on Linux.

    left = cut_power(folder, "tests.pipeline.archiving", "endless-work", DISK, "a", after=40)
    left.said       the lines that it had printed before
    left.later      those that it printed while the power went: what they tell may have happened, or not
    left.folder     a copy of what the disk held when it was mounted again; it lies where the disk was

The disk is a file on a loop device; the file system is shut down without writing its log (EXT4_IOC_SHUTDOWN), as if the
machine had stopped: what was not synced is gone. All of it happens in a mount namespace of its own.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest

SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2
DEADLINE = 120.0
DISK = "{disk}"  # in a program's arguments: the folder on the disk


class Left(NamedTuple):
    printed: list[str]
    later: list[str]
    folder: Path


def cut_power(folder: Path, module: str, *arguments: str, after: int) -> Left:
    """Once the program has printed so many lines. Skips the test where power cannot be cut."""
    if not can_cut_power():
        pytest.skip("needs root, ext4 and loop devices")
    command = ["unshare", "--mount", sys.executable, "-m", "tests.faults.power", str(folder), str(after), module]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    folder.mkdir()
    ended = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return Left(*json.loads(ended.stdout), (folder / "left").rename(folder / "mounted" / "root"))


@functools.cache
def can_cut_power() -> bool:
    if os.geteuid() != 0 or not (shutil.which("mkfs.ext4") and shutil.which("unshare")):
        return False
    with tempfile.TemporaryDirectory() as folder:
        script = "truncate -s 16M disk && mkfs.ext4 -q -F disk && mkdir at && mount -o loop disk at && umount at"
        command = ["unshare", "--mount", "sh", "-c", script]
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


# --- inside the namespace --------------------------------------------------------------------------------------------


def main() -> None:
    folder, after, module, *arguments = sys.argv[1:]
    disk, mounted = Path(folder) / "disk", Path(folder) / "mounted"
    mounted.mkdir()
    with disk.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
    mount(disk, mounted)
    (mounted / "root").mkdir()
    subprocess.run(["sync", "-f", str(mounted)], check=True)  # this disk; others may be busy for minutes
    command = [sys.executable, "-m", module, *(word.replace(DISK, str(mounted / "root")) for word in arguments)]
    lines = watch(command, Path(folder) / "printed", mounted, after=int(after))
    subprocess.run(["umount", str(mounted)], check=True)
    mount(disk, mounted)
    shutil.copytree(mounted / "root", Path(folder) / "left")
    subprocess.run(["umount", str(mounted)], check=True)
    disk.unlink()
    print(json.dumps(lines))


def mount(disk: Path, at: Path) -> None:
    """It writes nothing down by itself for ten minutes: what is there was synced."""
    subprocess.run(["mount", "-o", "loop,commit=600", str(disk), str(at)], check=True)


def watch(command: list[str], log: Path, mounted: Path, *, after: int) -> tuple[list[str], list[str]]:
    """Whole lines that were there before the power went, and after."""
    with log.open("wb") as out:
        victim = subprocess.Popen(command, stdout=out)
    give_up = time.monotonic() + DEADLINE
    while (printed := log.read_bytes()).count(b"\n") < after:
        assert victim.poll() is None, "it ended by itself"
        assert time.monotonic() < give_up, "it does not get on"
        time.sleep(0.01)
    fd = os.open(mounted, os.O_RDONLY)
    fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
    os.close(fd)
    victim.kill()
    victim.wait()
    count, lines = printed.count(b"\n"), log.read_text().split("\n")[:-1]
    return lines[:count], lines[count:]


if __name__ == "__main__":
    main()

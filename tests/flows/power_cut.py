"""Cuts the power of a small ext4 disk under a writer of WARC files. For root, in a mount namespace of its own.

    power_cut FOLDER work|careless CUTS     prints acknowledged, lost, extras

The disk is a file on a loop device; the file system is shut down without writing its log (EXT4_IOC_SHUTDOWN), as if
the machine had stopped: what was not synced is gone. Acknowledgements count that were printed before.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tests.unit.archive.captures import NAME, check_files, read_place, sealed
from webmill.archive.recovery import recover
from webmill.archive.writer import Place
from webmill.collection import Collection
from webmill.errors import WebmillError

SHUTDOWN, WITHOUT_LOG = 0x8004587D, 2
DEADLINE = 60.0


def main() -> None:
    folder, mode, cuts = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    disk, mounted = folder / "disk", folder / "mounted"
    mounted.mkdir()
    acknowledged = lost = extras = 0
    for number in range(1, cuts + 1):
        with disk.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(disk)], check=True)
        mount(disk, mounted)
        (mounted / "collection").mkdir()
        os.sync()
        places = cut_power(mounted, mode, after=number * 20)
        subprocess.run(["umount", str(mounted)], check=True)
        mount(disk, mounted)
        missing, more = judge(mounted / "collection", places)
        subprocess.run(["umount", str(mounted)], check=True)
        acknowledged, lost, extras = acknowledged + len(places), lost + missing, max(extras, more)
    print(json.dumps({"acknowledged": acknowledged, "lost": lost, "extras": extras}))


def mount(disk: Path, at: Path) -> None:
    subprocess.run(["mount", "-o", "loop", str(disk), str(at)], check=True)


def cut_power(mounted: Path, mode: str, *, after: int) -> list[Place]:
    """Once this many lines of acknowledgements are there."""
    said = mounted.parent / "said"
    command = [sys.executable, "-m", "tests.flows.archiving", f"endless-{mode}", str(mounted / "collection"), "a"]
    with said.open("wb") as out:
        victim = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + DEADLINE
    while (output := said.read_bytes()).count(b"\n") < after and victim.poll() is None:
        assert time.monotonic() < give_up, "the writer does not get on"
        time.sleep(0.01)
    fd = os.open(mounted, os.O_RDONLY)
    fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
    os.close(fd)
    victim.kill()
    victim.wait()
    lines = output[: output.rfind(b"\n") + 1].splitlines()
    return [place for line in lines for place in msgspec.convert(json.loads(line)["places"], list[Place])]


def judge(root: Path, places: list[Place]) -> tuple[int, int]:
    """How many acknowledged captures are lost, how many others there are. Every file must be whole."""
    recover(Collection(root, NAME))
    kept = set()
    for place in places:
        try:
            kept.add(read_place(root, place).record_id)
        except (AssertionError, WebmillError):
            pass
    captures = {record.record_id for record in check_files(list(sealed(root))) if record.type == "response"}
    return len(places) - len(kept), len(captures - kept)


if __name__ == "__main__":
    main()

"""Files written durably, to be killed, refused and cut off: `MODE FOLDER`. A line `NAME TURN` after each promise.

work      some turns: a name that is replaced, a new name, a new name in a new folder
stubborn  more turns, on a disk that refuses: what was refused is written again in a later turn
endless   turns for ever
in-place  as `work`, but over the old bytes: a negative control
unsynced  turns for ever, renamed into place without a sync: a negative control
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

from webmill.errors import Unavailable
from webmill.infra.atomic import create_exclusive, make_folder, write_bytes

TURNS = 8


def body(turn: int) -> bytes:
    """Larger than a buffer, and of one turn only."""
    return b"%08d" % turn * 2000


def main() -> None:
    mode, root = sys.argv[1], Path(sys.argv[2])
    write = {"in-place": in_place, "unsynced": unsynced}.get(mode, write_bytes)
    turns = {"work": TURNS, "in-place": TURNS, "stubborn": 10 * TURNS}
    for turn in range(1, turns[mode] + 1) if mode in turns else itertools.count(1):
        promise(root / f"old-{turn % 3}", turn, lambda path, turn=turn: write(path, body(turn)))  # type: ignore[misc]
        if mode in ("work", "stubborn", "endless"):
            promise(root / f"new-{turn}", turn, lambda path, turn=turn: create_exclusive(path, body(turn)))  # type: ignore[misc]
            promise(root / f"folder-{turn}" / "file", turn, lambda path, turn=turn: deeper(path, turn))  # type: ignore[misc]


def promise(path: Path, turn: int, write: Callable[[Path], None]) -> None:
    try:
        write(path)
    except Unavailable:
        return
    print(path.relative_to(sys.argv[2]), turn, flush=True)


def deeper(path: Path, turn: int) -> None:
    make_folder(path.parent)
    write_bytes(path, body(turn))


def in_place(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def unsynced(path: Path, data: bytes) -> None:
    path.with_suffix(".tmp").write_bytes(data)
    path.with_suffix(".tmp").replace(path)


if __name__ == "__main__":
    main()

"""Every file below a folder, also where others write at the same moment, links lead anywhere, and a part is closed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)

Refuse = Callable[[OSError], None]
GONE = (FileNotFoundError, NotADirectoryError)


def warn(error: OSError) -> None:
    log.warning("not looked into", extra={"path": os.fsdecode(error.filename or ""), "why": error.strerror})


def files_below(folder: Path, *, refuse: Refuse = warn) -> Iterator[os.DirEntry[str]]:
    """All that is no folder, in no order: links, too, but none is followed, so none leads out of it or around.

    What has gone meanwhile is passed over; a folder that is not there has no files. One that cannot be read (no right
    to, a path of more than the system's 4096 bytes) is refused with its reason, and the others are told.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry
        except GONE:
            continue
        except OSError as error:
            refuse(error)


def size_of(entry: os.DirEntry[str]) -> int:
    """In bytes; 0 of what has gone meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0

"""Walk the files below a folder, also while others write, links lead anywhere, and parts cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)

Refuse = Callable[[OSError], None]
GONE = (FileNotFoundError, NotADirectoryError)


def warn(error: OSError) -> None:
    log.warning("cannot read a folder", extra={"path": os.fsdecode(error.filename or ""), "why": error.strerror})


def files_below(folder: Path, *, refuse: Refuse = warn) -> Iterator[os.DirEntry[str]]:
    """Yield all that is not a folder, in no order: links, too, but none is followed, so none leads out of it or around.

    What has gone meanwhile is skipped; a folder that does not exist has no files. One that cannot be read (no right to,
    a path of more than the system's 4096 bytes) is passed to `refuse`, and the others are still walked.
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
    """Return the size in bytes; 0 when the file has gone meanwhile."""
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0

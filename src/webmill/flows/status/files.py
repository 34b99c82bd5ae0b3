"""Files of a folder, as far as a glance goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from webmill.flows.status.nouns import Amount

MOST_FILES = 25_000  # that are looked at in one folder: a second or so, of all of them


def files_below(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Whoever writes there meanwhile does no harm; links are not followed."""
    waiting = [os.fspath(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        yield entry
        except OSError:  # gone meanwhile, or not for us
            continue


def amount_of(folder: Path, *, most: int = MOST_FILES) -> Amount:
    return added(map(size_of, files_below(folder)), most=most)


def added(sizes: Iterable[int], *, most: int = MOST_FILES) -> Amount:
    count = total = 0
    for size in sizes:
        if count == most:
            return Amount(files=count, bytes=total, is_whole=False)
        count += 1
        total += size
    return Amount(files=count, bytes=total)


def size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0

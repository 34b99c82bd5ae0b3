"""Replace a whole folder: whoever opens it sees all of the old files or all of the new ones."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from webmill.errors import Misconfigured
from webmill.infra import atomic
from webmill.infra.files import RESERVED, os_errors

AT_FDCWD = -100
RENAME_EXCHANGE = 2


IsOurs = Callable[[str], bool]  # whether a file of this name in a folder is ours to remove


@contextmanager
def replacing(place: Path, *, beside: Path, is_ours: IsOurs) -> Iterator[Path]:
    """Yield a folder to fill; it replaces `place` when the block ends, and is removed when the block raises.

    Misconfigured, before anything is done: there is something in `place` that is not ours.

    `beside` is a folder of the same file system that no reader opens: the work is there, and the replaced files stay
    there until the next time. If they went at once, a reader who is just listing them would see half of them.
    One caller at a time.
    """
    refuse_foreign(place, is_ours)
    fresh, old = _asides(place, beside)
    atomic.make_folder(place.parent)
    atomic.make_folder(beside)
    if place.parent.stat().st_dev != beside.stat().st_dev:
        raise Misconfigured(f"{place} is on another disk than {beside}: put both on one, or leave the tables out")
    with os_errors(str(fresh)):
        _discard(fresh, old)
        fresh.mkdir()
    try:
        yield fresh
        refuse_foreign(place, is_ours)  # put there meanwhile
        with os_errors(str(place)):
            _sync(fresh)
            _exchange(fresh, place, old)
            _sync(place.parent, beside)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def remove(place: Path, *, beside: Path, is_ours: IsOurs) -> None:
    """Remove a folder at once for readers; its files stay in `beside` until the next time.

    Misconfigured: there is something in it that is not ours.
    """
    refuse_foreign(place, is_ours)
    fresh, old = _asides(place, beside)
    if not place.exists():
        return
    with os_errors(str(place)):
        _discard(fresh, old)
        place.rename(old)
        _sync(place.parent, beside)


def refuse_foreign(place: Path, is_ours: IsOurs) -> None:
    """Raise Misconfigured if a folder that is to be replaced has a file that we did not make."""
    try:
        foreign = sorted(path.name for path in place.iterdir() if not is_ours(path.name))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise Misconfigured(f"{place} is a file: choose another folder") from None
    if foreign:
        raise Misconfigured(
            f"{place / foreign[0]} was not made by webmill, and {place} would be replaced as a whole: choose another "
            "folder, or move the file"
        )


def remove_unfinished(place: Path, *, beside: Path) -> None:
    """Remove what a killed caller had filled so far."""
    fresh, _ = _asides(place, beside)
    with os_errors(str(fresh)):
        _discard(fresh)


def _asides(place: Path, beside: Path) -> tuple[Path, Path]:
    return beside / f"{RESERVED}new-{place.name}", beside / f"{RESERVED}old-{place.name}"


def _discard(*folders: Path) -> None:
    for folder in folders:
        if folder.exists():
            shutil.rmtree(folder)


def _sync(*folders: Path) -> None:
    for folder in folders:
        with atomic.open_folder(folder) as fd:
            atomic.sync_folder(fd)


def _exchange(fresh: Path, place: Path, old: Path) -> None:
    if not place.exists():
        fresh.rename(place)
    elif _exchange_at_once(fresh, place):
        fresh.rename(old)
    else:
        place.rename(old)
        fresh.rename(place)  # between these two there is no folder: the price where the system cannot exchange


def _exchange_at_once(fresh: Path, place: Path) -> bool:
    """Swap two names in one step with renameat2; False where the system or file system cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(AT_FDCWD, os.fsencode(fresh), AT_FDCWD, os.fsencode(place), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number), str(place))

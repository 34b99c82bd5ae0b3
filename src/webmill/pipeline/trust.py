"""Whether the user trusts a collection, and what is refused of one that is not trusted: docs/design/trust.md.

A collection that the user made here is remembered as his when it is made, unless something was in the folder before
that could give orders: settings, the state of a stage, links that lead out.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from webmill.collection import OWN_FOLDERS, STATE_FOLDER, is_archive_name
from webmill.errors import Misconfigured
from webmill.infra.trusted_folders import TrustedFolders
from webmill.settings import FILE_NAME

log = logging.getLogger(__name__)

WRITTEN = (*sorted(OWN_FOLDERS), STATE_FOLDER, "crawl-data")  # folders that commands write to
ORDERS = (FILE_NAME, STATE_FOLDER, "frontier", "publish", "extract", "dataset.json")  # what is read as more than data
LARGE = ("blobs", "snapshots")  # read and written only through a storage, which follows no link


def is_trusted(folder: Path) -> bool:
    return TrustedFolders(os.environ).is_trusted(folder)


def is_new(root: Path) -> bool:
    """Return whether a collection that is made here now is the user's own: nothing in the folder gives orders yet."""
    return not any(os.path.lexists(root / name) for name in ORDERS) and not any(outside_links(root))


def remember_own(root: Path, *, made_by: str) -> None:
    """Trust a collection that the user has just made. That it cannot be remembered must not stop the work."""
    try:
        trust(root, why=f"made by webmill {made_by}")
    except Misconfigured as error:
        log.info("not remembered as yours: %s", error)


def trust(root: Path, *, why: str) -> None:
    TrustedFolders(os.environ).remember(root, since=datetime.now(UTC).strftime("%Y-%m-%d"), why=why)


def refuse_outside_links(root: Path) -> None:
    """Raise Misconfigured for a collection that is not trusted and would have commands write somewhere else."""
    if root.is_dir() and not is_trusted(root):
        for link in outside_links(root):
            raise Misconfigured(
                f"{link} is a link that leads out of this collection, and you have not said that you trust {root}. "
                f"If it is yours, run `webmill trust {shlex.quote(str(root))}`; else remove the link"
            )


def outside_links(root: Path) -> Iterator[Path]:
    """Yield the links in folders that commands write to, if they lead out. Archives may be links, as they are only
    read."""
    real = root.resolve()
    for name in WRITTEN:
        yield from _outside_links(root / name, real)


def _outside_links(path: Path, root: Path) -> Iterator[Path]:
    if path.is_symlink():
        if not is_archive_name(path.name) and not path.resolve().is_relative_to(root):
            yield path
        return
    if path.name in LARGE or not path.is_dir():
        return
    with os.scandir(path) as entries:
        below = [entry.name for entry in entries if entry.is_symlink() or entry.is_dir(follow_symlinks=False)]
    for name in sorted(below):
        yield from _outside_links(path / name, root)

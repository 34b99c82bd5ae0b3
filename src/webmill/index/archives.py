"""The archives of a collection (WARC and ARC files), and the names of their CDXJ files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from webmill.collection import Collection, is_archive_name, list_crawls
from webmill.infra.storage.uploads import uploaded_files

UNPRINTABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")  # a list of paths has one to a line, in UTF-8

_CDXJ_NAME = re.compile(r"[0-9a-f]{32}-.*\.cdxj", re.ASCII | re.DOTALL)

Refuse = Callable[[str, str, str], None]  # path, reason, message


def find_archives(collection: Collection, *, refuse: Refuse) -> Iterator[str]:
    """Yield the keys of all archives, except hidden ones and those in folders for other files; those that are in an
    object store alone, too.

    Links are followed; a folder that can be reached twice is read once. What cannot be read goes to `refuse`.
    """
    for key in uploaded_files(collection.root):
        if collection.owns(key) and is_archive_name(key) and not os.path.lexists(collection.root / key):
            yield key
    yield from find_local_archives(collection, refuse=refuse)


def find_local_archives(collection: Collection, *, refuse: Refuse) -> Iterator[str]:
    """Yield the keys of the archives that are on this machine."""

    def unreadable(error: OSError) -> None:
        refuse(
            printable_path(os.path.relpath(error.filename, collection.root)), "unreadable", error.strerror or str(error)
        )

    seen: set[Path] = set()
    for name, folders, files in os.walk(collection.root, followlinks=True, onerror=unreadable):
        folder = Path(name)
        identity = folder.resolve()
        if identity in seen:
            folders.clear()
            continue
        seen.add(identity)
        folders[:] = [f for f in sorted(folders) if f[0] != "." and collection.owns(collection.key(folder / f))]
        for file in files:
            if file[0] == "." or not is_archive_name(file):
                continue
            key = collection.key(folder / file)
            if UNPRINTABLE.search(key):
                refuse(printable_path(key), "bad_name", "its path is not UTF-8 or has a control character; rename it")
            elif not (folder / file).is_file():
                refuse(key, "unreadable", "neither a file nor a link to one")
            else:
                yield key


def cdxj_name(key: str) -> str:
    """Return the name of an archive's CDXJ. It begins with a hash of the path: names may repeat in other folders."""
    readable = key.rpartition("/")[2].encode()[:120].decode(errors="ignore")
    return f"{hashlib.sha256(key.encode()).hexdigest()[:32]}-{readable}.cdxj"


def is_cdxj_name(name: str) -> bool:
    """Return whether `cdxj_name` could have made this name: other files in the folder are not ours."""
    return bool(_CDXJ_NAME.fullmatch(name))


def printable_path(key: str) -> str:
    """Return a path that can be printed, whatever bytes it has."""
    return key.encode(errors="backslashreplace").decode()


def crawls_with_archives(root: Path) -> list[Collection]:
    """Return the crawls of a collection that have archives."""
    return [crawl for crawl in list_crawls(root) if any(find_archives(crawl, refuse=lambda *_: None))]

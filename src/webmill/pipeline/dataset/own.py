"""Documents of a collection's own archives, as far as they are new: each time a dataset of the files that none has yet.

    COLLECTION/extract/NAME/     one dataset for each time there were new archives
    COLLECTION/documents/        what they all write to

Archives never change once they have their name, so a file is read once. A dataset that was begun by another version of
webmill and not finished is given up, and its files are read again: publishing takes the newest capture of each page, so
a document that is there twice is published once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

from webmill import __version__
from webmill.collection import Collection, Publishing
from webmill.errors import Conflict
from webmill.formats.typed_records import FileType
from webmill.index.archives import ENDINGS, find_archives
from webmill.infra import atomic
from webmill.pipeline.dataset import folder as folders
from webmill.pipeline.dataset.config import Dataset, Make, Read, Write
from webmill.pipeline.dataset.folder import Folder
from webmill.pipeline.dataset.ledger import looking
from webmill.pipeline.dataset.manifest import manifest_line, parse_manifest

Refuse = Callable[[str, str, str], None]  # path, reason, message
NO_PAGES = ("crawldiagnostics", "robotstxt")  # subsets of a crawl that hold none


def datasets_due(
    root: Path, crawls: list[Collection], *, document: Make, write: Write, refuse: Refuse
) -> Iterator[Folder]:
    """Those begun and not finished, then one of all archives that are in none."""
    place = Publishing(root).extract
    known: set[str] = set()
    for path in folders.find_folders(place):
        try:
            folder = folders.open_folder(path)
        except Conflict:
            if not is_finished(path):
                folders.delete(path)
                continue
        else:
            if not is_finished(path):
                yield folder
        known.update(warcs_of(path))
    found = {key for crawl in crawls for key in find_archives(crawl, refuse=refuse) if holds_pages(key)}
    new = sorted(found - known)
    if new:
        atomic.make_folder(place)
        yield begin(root, new, document=document, write=write)


def begin(root: Path, new: list[str], *, document: Make, write: Write) -> Folder:
    name = hashlib.sha256("\n".join([__version__, *new]).encode()).hexdigest()[:16]
    publishing = Publishing(root)
    lines = [manifest_line({FileType.WARC: key}) for key in new]
    dataset = Dataset(name=f"warc-{name}", manifest=lines, read=Read(str(root)), document=document, write=write)
    folder, _ = folders.create(dataset, publishing.extract, beside=root, read_lines=lambda _: ())
    return folder


def holds_pages(key: str) -> bool:
    folders_of_key = key.split("/")[:-1]
    return key.lower().endswith(ENDINGS) and not (folders_of_key and folders_of_key[-1] in NO_PAGES)


def warcs_of(path: Path) -> set[str]:
    lines = (path / folders.MANIFEST).read_text(encoding="utf-8").splitlines()
    return {files[FileType.WARC] for files in parse_manifest(lines, source=folders.MANIFEST)}


def is_finished(path: Path) -> bool:
    """Failed tasks are finished, too: they are told, and redriven by hand."""
    ledger = path / folders.LEDGER
    if not ledger.exists():
        return False
    with looking(ledger) as book:
        counts = book.counts()
    return counts.done + counts.failed >= len(warcs_of(path))  # killed early, the ledger has no tasks yet

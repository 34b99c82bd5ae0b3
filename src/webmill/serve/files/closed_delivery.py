"""What is not given away as a file, since something in it was taken down: archives, indexes, versions, blobs.

Of an archive that holds something, records that its index names are given one by one, by exactly their ranges: that is
how clients of Common Crawl read. Everything else of it is refused until it is rewritten. What was not checked for the
list as it is now is refused, too (`pipeline/forget/closed_files.py`).
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from webmill.errors import BadInput, NotFound, Unavailable
from webmill.forgotten import ForgetRule, ForgottenFiles, TakenDown, list_path
from webmill.infra.files import read_at
from webmill.pipeline.forget.archives import DERIVED
from webmill.pipeline.forget.closed_files import BLOBS, CLOSED, DIGEST, ClosedFiles, open_ranges, read_closed
from webmill.publish.keys import hash_of_key, version_of_key

MOST_ARCHIVES = 16  # whose records are known at once
LONGEST_REASON = 200
_RANGE = re.compile(rb"bytes=([0-9]{1,19})-([0-9]{1,19})")


class ClosedDelivery:
    """Answers for one collection; a list that has changed is noticed within a second. Threads may share it."""

    def __init__(self, root: Path, *, tells: bool) -> None:
        """`tells`: people who ask for a page are told that it was taken down; else it was never here."""
        self._root, self._tells = root, tells
        self._files = ForgottenFiles(list_path(root))
        self._lock = Lock()
        self._closed: tuple[object, ClosedFiles] = (None, ClosedFiles())
        self._ranges: OrderedDict[tuple[str, str, str], set[tuple[int, int]]] = OrderedDict()
        self._looked = 0.0

    def refuse_page(self, url: str) -> None:
        """Raise `TakenDown` for an address that was taken down, if people are told."""
        self._refuse(self._files.current().find(url))

    def refuse_document(self, id_: str) -> None:
        """The same for the id of a document: the key of its page in an index."""
        self._refuse(self._files.current().find_key(id_))

    def _refuse(self, rule: ForgetRule | None) -> None:
        if rule and self._tells:
            raise TakenDown(describe(rule))

    def refuse_file(self, key: str, size: int, byte_range: bytes | None) -> None:
        """Raise for a file of archives or indexes that holds something. `byte_range`: what is asked for of it."""
        forgotten = self._files.current()
        if not forgotten or key.endswith(".paths.gz"):
            return
        closed = self._read_closed()
        if key.startswith("cc-index/"):
            if closed.indexes.get(_crawl_of(key)) != forgotten.digest:
                raise Unavailable("pages are being taken down from this index: try again later")
            return
        archive = _archive_of(key)
        check = closed.archives.get(archive)
        if check is None or check.rules != forgotten.digest or (archive == key and check.size != size):
            raise Unavailable("this file was not checked yet for pages that were taken down: try again later")
        if check.is_closed and not (archive == key and self._is_open_record(key, check.cdxj, byte_range)):
            raise TakenDown("this file holds pages that were taken down: other records of it are given one by one")

    def refuse_published(self, path: str) -> None:
        """Raise for a file of a version, or a blob, that holds something."""
        forgotten = self._files.current()
        if not forgotten:
            return
        hash_, version = hash_of_key(path[1:]), version_of_key(path[1:])
        if not hash_ and not version:
            return
        closed = self._read_closed()
        if closed.versions_for != forgotten.digest:
            raise Unavailable("pages are being taken down from versions: try again later")
        if version in closed.versions:
            raise TakenDown("this version has pages that were taken down: newer ones are without them")
        if hash_ and self._holds(bytes.fromhex(hash_)):
            raise TakenDown("this was taken down")

    def _is_open_record(self, key: str, cdxj: str, byte_range: bytes | None) -> bool:
        found = _RANGE.fullmatch(byte_range or b"")
        if not found:
            return False
        start, end = int(found[1]), int(found[2])
        forgotten = self._files.current()
        name = (key, cdxj, forgotten.digest)
        with self._lock:
            if name not in self._ranges:
                try:
                    self._ranges[name] = open_ranges(self._root, key, forgotten)
                except (NotFound, BadInput):  # the index is being made anew
                    return False
                if len(self._ranges) > MOST_ARCHIVES:
                    self._ranges.popitem(last=False)
            self._ranges.move_to_end(name)
            return (start, end - start + 1) in self._ranges[name]

    def _read_closed(self) -> ClosedFiles:
        """Return what was checked, read again when it has changed."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked > 1.0 or self._closed[0] is None:
                seen = _identity(self._root / CLOSED)
                if seen != self._closed[0]:
                    self._closed = (seen, read_closed(self._root))
                self._looked = now
            return self._closed[1]

    def _holds(self, digest: bytes) -> bool:
        """Return whether a blob is among the closed ones, by bisecting their file."""
        with (self._root / BLOBS).open("rb", buffering=0) as file:
            low, high = 0, file.seek(0, 2) // DIGEST
            while low < high:
                middle = (low + high) // 2
                there = read_at(file.fileno(), DIGEST, middle * DIGEST)
                if there == digest:
                    return True
                low, high = (middle + 1, high) if there < digest else (low, middle)
        return False


def describe(rule: ForgetRule) -> str:
    reason = f": {rule.reason[:LONGEST_REASON]}" if rule.reason else ""
    return f"this was taken down on {rule.at:%Y-%m-%d}{reason}"


def _crawl_of(key: str) -> str:
    parts = key.split("/")
    named = next((part.removeprefix("crawl=") for part in parts if part.startswith("crawl=")), "")
    return named or (parts[2] if len(parts) > 2 else "")


def _archive_of(key: str) -> str:
    """Return the archive that a WAT or WET file was made of; any other file is its own."""
    for kind, ending in DERIVED:
        folder, slash, name = key.rpartition(f"/{kind}/")
        if slash and name.endswith(ending):
            return f"{folder}/warc/{name.removesuffix(ending)}.warc.gz"
    return key


def _identity(path: Path) -> object:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino

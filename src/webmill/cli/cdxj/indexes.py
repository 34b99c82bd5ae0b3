"""Opens the indexes that a person names: a folder, a file or a URL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.index.lookup.gzip_scan import GzipIndex, is_gzip
from webmill.index.lookup.indexes import (
    SUMMARY_ENDINGS,
    CaptureIndex,
    FlatIndex,
    MergedIndex,
    ZipNumIndex,
    find_summary,
    open_index,
)
from webmill.index.zipnum.writer import SUMMARY
from webmill.infra.address import scheme_of
from webmill.infra.storage.backends import locate, open_readable
from webmill.infra.storage.local import LocalStorage
from webmill.settings import HttpSettings

FLAT = (".cdxj", ".cdx")
BEGINNING = 64 << 10  # bytes of a file that are checked
LINE = re.compile(rb"^[^\s\x00-\x1f]+ [0-9]{1,14} ", re.MULTILINE)  # may follow header lines


def open_indexes(names: Sequence[str], *, http: HttpSettings) -> CaptureIndex:
    """Return one index, or several merged into one."""
    indexes = [open_named_index(name, http=http) for name in names]
    return indexes[0] if len(indexes) == 1 else MergedIndex(indexes)


def open_named_index(name: str, *, http: HttpSettings) -> CaptureIndex:
    """Open a ZipNum folder or summary, a sorted CDXJ file (gzip is scanned), a folder of those, or a collection."""
    if scheme_of(name)[0] != "file":
        if urlsplit(name).path.endswith(FLAT):
            storage, key = locate(name, contact=http.contact, timeout=http.timeout)
            return FlatIndex(storage, key)
        return open_zipnum(name, http=http)
    path = Path(scheme_of(name)[1])
    if path.is_dir() and not has_summary(path):
        files = sorted(file for file in path.iterdir() if file.name.endswith(FLAT))
        files = files or sorted(path.glob(f"cc-index/collections/*/indexes/{SUMMARY}"))
        if not files:
            raise NotFound(
                f"no index in {path}: neither a summary (cluster.idx) nor a .cdxj file, nor the index of a collection"
            )
        return open_index(*files)
    if is_gzip(path):
        return GzipIndex(path)
    if path.is_file() and not path.name.endswith(SUMMARY_ENDINGS):
        check_cdxj_lines(path)
    return open_index(path)


def open_zipnum(name: str, *, http: HttpSettings) -> ZipNumIndex:
    """Open a ZipNum index by its summary, or by its folder."""
    if scheme_of(name)[0] != "file":
        if urlsplit(name).path.endswith(SUMMARY_ENDINGS):
            storage, key = locate(name, contact=http.contact, timeout=http.timeout)
            return ZipNumIndex(storage, key)
        return ZipNumIndex(open_readable(name, contact=http.contact, timeout=http.timeout), SUMMARY)
    path = Path(scheme_of(name)[1])
    if not path.exists():
        raise NotFound(f"no index {path}")
    summary = (find_summary(path) if path.is_dir() else path).resolve()
    if not summary.name.endswith(SUMMARY_ENDINGS):
        raise Misconfigured(f"{path} is not the summary of a ZipNum index: give its .idx file")
    return ZipNumIndex(LocalStorage(summary.parent), summary.name)


def has_summary(folder: Path) -> bool:
    return any(path.name.endswith(SUMMARY_ENDINGS) for path in folder.iterdir())


def check_cdxj_lines(path: Path) -> None:
    """Raise `BadInput` if no line at the beginning of a file is CDXJ: nothing would ever be found in it."""
    with path.open("rb") as file:
        start = file.read(BEGINNING)
    if start and not LINE.search(start):
        raise BadInput("neither a sorted CDXJ file nor a summary (.idx)", reason="bad_line", source=str(path))

"""A WACZ file in the making: entries one after another, each hashed as it is written."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Self

from webmill import __version__
from webmill.formats import wacz
from webmill.infra.storage.base import chunks_of


class WaczWriter:
    def __init__(self, out: BinaryIO, *, created: datetime) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._created = created.astimezone(UTC)
        self._resources: list[wacz.WaczResource] = []

    def add(self, path: str, chunks: Iterable[bytes], *, size: int, compressed: bool = False) -> None:
        """`size` is that of all chunks."""
        info = self._info(path, compressed=compressed)
        info.file_size = size
        digest = hashlib.sha256()
        with self._zip.open(info, "w") as entry:
            for chunk in chunks:
                digest.update(chunk)
                entry.write(chunk)
        name = re.sub(r"[^-a-z0-9._]", "-", path.rpartition("/")[2].lower())  # what a data package allows
        hash_ = f"sha256:{digest.hexdigest()}"
        self._resources.append(wacz.WaczResource(name=name, path=path, hash=hash_, bytes=size))

    @contextmanager
    def adding(self, path: str, *, compressed: bool = False) -> Iterator[IO[bytes]]:
        """Yield a file for an entry of unknown length; it is kept in a temporary file until it is complete.

        ZIP entries can be begun without knowing, but then their headers get room for 64 bits, and players in browsers
        look for the data behind headers without it.
        """
        with TemporaryFile() as waiting:
            yield waiting
            size = waiting.tell()
            waiting.seek(0)
            self.add(path, chunks_of(waiting), size=size, compressed=compressed)

    def finish(self, about: wacz.PackageSummary) -> None:
        """Write the list of contents, without which it is not a package."""
        software = f"webmill/{__version__}"
        package = wacz.encode_package(self._resources, about, created=self._created, software=software)
        self._zip.writestr(self._info(wacz.PACKAGE, compressed=True), package)
        self._zip.writestr(self._info(wacz.DIGEST, compressed=True), wacz.encode_package_digest(package))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _info(self, path: str, *, compressed: bool) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(path, date_time=self._created.timetuple()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16
        return info

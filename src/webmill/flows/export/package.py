"""A WACZ file in the making: entries one after another, each hashed as it is written."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, BinaryIO, Self

from webmill import __version__
from webmill.formats import wacz


class Package:
    def __init__(self, out: BinaryIO, *, title: str, created: datetime) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._title, self._created = title, created.astimezone(UTC)
        self._resources: list[wacz.Resource] = []

    @contextmanager
    def entry(self, path: str, *, compressed: bool = False) -> Iterator[Hashing]:
        with self._zip.open(self._info(path, compressed=compressed), "w", force_zip64=True) as raw:
            entry = Hashing(raw)
            yield entry
        name = re.sub(r"[^-a-z0-9._]", "-", path.rpartition("/")[2].lower())  # what a data package allows
        hash_ = f"sha256:{entry.digest}"
        self._resources.append(wacz.Resource(name=name, path=path, hash=hash_, bytes=entry.size))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """A package that was not finished says nothing of what is in it: it is none."""
        self._zip.close()

    def finish(self) -> None:
        software = f"webmill/{__version__}"
        package = wacz.package(self._resources, title=self._title, created=self._created, software=software)
        self._zip.writestr(self._info(wacz.PACKAGE, compressed=True), package)
        self._zip.writestr(self._info(wacz.DIGEST, compressed=True), wacz.digest_of(package))

    def _info(self, path: str, *, compressed: bool) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(path, date_time=self._created.timetuple()[:6])
        info.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
        info.external_attr = 0o644 << 16
        return info


class Hashing(io.RawIOBase):
    """What is written to it is counted and hashed."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._hash, self.size = raw, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # only bytes come here
        self._hash.update(data)
        self._raw.write(data)
        self.size += len(data)
        return len(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

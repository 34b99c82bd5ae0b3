"""What the files of sites say of the use of their pages, kept across restarts: `tdmrep.json` and RSL documents.

Written before the visit of a file is committed: a killed crawl does not know the file as visited and its words as
unsaid. Bounded: the sites that were met last are kept. A file that is damaged is replaced; what it held is met again
when the files of its sites are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from webmill.errors import BadInput, Misconfigured
from webmill.formats.preferences.rsl import RslContent
from webmill.formats.preferences.tdm import TdmLocation
from webmill.infra.sqlite import Database, Schema

log = logging.getLogger(__name__)

FILE = "usage.db"  # not *.sqlite: a crawl goes on without it
MOST_ORIGINS = 2000
LONGEST_ROW = 4 << 20  # bytes; a site that says more is met again after a restart
SCHEMA = Schema(
    tag=int.from_bytes(b"wmUs"),
    steps=("CREATE TABLE site (met INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE, files BLOB NOT NULL) STRICT;",),
)
_encoder = msgspec.json.Encoder()


class SiteFiles(msgspec.Struct):
    """What the files of one origin say, as far as they were met."""

    tdm: tuple[TdmLocation, ...] = ()
    rsl: tuple[RslContent, ...] = ()


_decoder = msgspec.json.Decoder(SiteFiles)


class SiteFileStore:
    """The files of a shard's sites. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._database = _open(path)

    def read(self) -> Iterator[tuple[str, SiteFiles]]:
        """Yield origins with their files, the one that was met last at the end."""
        for origin, encoded in self._database.read("SELECT origin, files FROM site ORDER BY met"):
            try:
                yield origin, _decoder.decode(encoded)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                log.warning("the stored files of a site cannot be read", extra={"site": origin})

    def write(self, changes: Mapping[str, SiteFiles]) -> None:
        """Write changes, durably."""
        with self._database.write() as run:
            for origin, files in changes.items():
                run("DELETE FROM site WHERE origin = ?", (origin,))
                encoded = _encoder.encode(files)
                if (files.tdm or files.rsl) and len(encoded) <= LONGEST_ROW:
                    run("INSERT INTO site (origin, files) VALUES (?, ?)", (origin, encoded))
            run(f"DELETE FROM site WHERE met <= (SELECT max(met) FROM site) - {MOST_ORIGINS}")  # noqa: S608

    def close(self) -> None:
        self._database.close()


def _open(path: Path) -> Database:
    try:
        database = Database(path, schema=SCHEMA)
        try:
            database.verify()
        except BadInput:
            database.close()
            raise
    except (BadInput, Misconfigured) as error:
        log.warning("the stored files of sites are damaged: they are met again", extra={"why": str(error)})
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            with suppress(FileNotFoundError):
                (path.parent / name).unlink()
        return Database(path, schema=SCHEMA)
    return database

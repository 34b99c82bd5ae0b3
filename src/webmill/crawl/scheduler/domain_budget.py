"""How many pages each domain has given, for `--max-pages-per-domain`.

Counted before the frontier settles the pages: a kill in between counts too many, so that the limit is never passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from webmill.infra.sqlite import Database, Schema

SCHEMA = Schema(
    tag=int.from_bytes(b"wmQo"),
    steps=("CREATE TABLE domain (name TEXT PRIMARY KEY, pages INTEGER NOT NULL) STRICT, WITHOUT ROWID;",),
)


class Quota(Protocol):
    def left(self, domains: Iterable[str]) -> dict[str, int] | None:
        """How many pages each may still give; None: any number."""
        ...

    def count(self, pages: Counter[str]) -> None: ...

    def close(self) -> None: ...


class SqliteQuota:
    def __init__(self, path: Path, *, limit: int | None) -> None:
        self.limit = limit
        self._database = Database(path, schema=SCHEMA)

    def left(self, domains: Iterable[str]) -> dict[str, int] | None:
        if self.limit is None:
            return None
        find = "SELECT pages FROM domain WHERE name = ?"
        given = {domain: self._database.read(find, (domain,)) for domain in domains}
        return {domain: max(0, self.limit - (rows[0][0] if rows else 0)) for domain, rows in given.items()}

    def count(self, pages: Counter[str]) -> None:
        with self._database.write_relaxed() as run:
            for domain, number in pages.items():
                run(
                    "INSERT INTO domain VALUES (?, ?) ON CONFLICT DO UPDATE SET pages = pages + excluded.pages",
                    (domain, number),
                )

    def close(self) -> None:
        self._database.close()

"""How many pages each domain may still give, for `--max-pages-per-domain`.

Pages are counted before the frontier settles them: a kill in between counts too many, so the limit is never passed.
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


class DomainBudget(Protocol):
    def remaining(self, domains: Iterable[str]) -> dict[str, int] | None:
        """Return how many pages each domain may still give. None: any number."""
        ...

    def spend(self, pages: Counter[str]) -> None:
        """Count pages against their domains."""
        ...

    def close(self) -> None: ...


class SqliteDomainBudget:
    def __init__(self, path: Path, *, limit: int | None) -> None:
        self.limit = limit
        self._database = Database(path, schema=SCHEMA)

    def remaining(self, domains: Iterable[str]) -> dict[str, int] | None:
        if self.limit is None:
            return None
        find = "SELECT pages FROM domain WHERE name = ?"
        spent = {domain: self._database.read(find, (domain,)) for domain in domains}
        return {domain: max(0, self.limit - (rows[0][0] if rows else 0)) for domain, rows in spent.items()}

    def spend(self, pages: Counter[str]) -> None:
        with self._database.write_relaxed() as run:
            for domain, number in pages.items():
                run(
                    "INSERT INTO domain VALUES (?, ?) ON CONFLICT DO UPDATE SET pages = pages + excluded.pages",
                    (domain, number),
                )

    def close(self) -> None:
        self._database.close()

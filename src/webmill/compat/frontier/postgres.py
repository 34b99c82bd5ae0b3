"""Reading PostgreSQL: one snapshot, rows in bounded memory by a server-side cursor. Needs the extra `postgres`.

    with DatabaseSnapshot("postgresql://user@host/crawler") as database:
        for rows in database.stream("SELECT url FROM frontier", (), batch=10_000): ...

Nothing is written. Text that is not UTF-8 (a database of SQL_ASCII may hold any bytes) comes with surrogate escapes.
Errors never name the password of the URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from webmill.errors import Misconfigured, Unavailable

if TYPE_CHECKING:  # an extra
    import psycopg

CONNECT_TIMEOUT = 20
Row = tuple[Any, ...]


class DatabaseSnapshot:
    """One read-only transaction: all queries see the database as of the first one."""

    def __init__(self, url: str) -> None:
        self._psycopg = _driver()
        with self._translated():
            self._connection = self._psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT, client_encoding="utf8")
        info = self._connection.info
        self.place = f"{info.host}:{info.port}/{info.dbname}"
        with self._translated():
            self._connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
            self._connection.read_only = True
            self._connection.adapters.register_loader("text", _lenient_loader(self._psycopg))
            self._connection.adapters.register_loader("varchar", _lenient_loader(self._psycopg))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def columns(self, table: str) -> Mapping[str, str]:
        """Return the column types of a table by name. Misconfigured when there is no such table."""
        with self._translated(), self._connection.cursor() as cursor:
            cursor.execute(_sql(f'SELECT * FROM "{table}" LIMIT 0'))  # noqa: S608  our own names
            types = self._psycopg.adapters.types
            described = cursor.description or []
            return {column.name: found.name if (found := types.get(column.type_code)) else "" for column in described}

    def count(self, table: str) -> int:
        with self._translated(), self._connection.cursor() as cursor:
            row = cursor.execute(_sql(f'SELECT count(*) FROM "{table}"')).fetchone()  # noqa: S608
            return int(row[0]) if row else 0

    def stream(self, sql: str, values: Sequence[object], *, batch: int) -> Iterator[list[Row]]:
        """Yield the rows in lists of up to `batch`; no more than that is in memory."""
        with self._translated(), self._connection.cursor(name="webmill") as cursor:
            cursor.execute(_sql(sql), values)
            while rows := cursor.fetchmany(batch):
                yield rows

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._psycopg.errors
        try:
            yield
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.InsufficientPrivilege) as error:
            raise Misconfigured(
                f"{_first_line(error)}: is this the right database, and may this user read it?"
            ) from None
        except self._psycopg.OperationalError as error:
            raise Unavailable(f"PostgreSQL: {_first_line(error)}") from None
        except self._psycopg.Error as error:
            raise Misconfigured(f"PostgreSQL: {_first_line(error)}") from None


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise Misconfigured("PostgreSQL needs an extra: pip install 'webmill[postgres]'") from error
    return psycopg


def _lenient_loader(driver: Any) -> type[psycopg.abc.Loader]:
    class Lenient(driver.adapt.Loader):  # type: ignore[misc]  # the driver is imported late
        def load(self, data: Any) -> str:
            return bytes(data).decode("utf-8", "surrogateescape")

    return Lenient


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _sql(sql: str) -> Any:
    """Return the query: psycopg's types want literal strings; ours are made of our own names."""
    return sql

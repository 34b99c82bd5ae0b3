"""Files that are written once."""

from __future__ import annotations

from webmill.errors import Conflict, NotFound, Unavailable
from webmill.infra.storage.base import Absent, Storage


def write_once(storage: Storage, key: str, data: bytes, *, conflict: str = "there is another one already") -> None:
    """Create a file; the same bytes again are fine. `Conflict` with this message when others are there.

    After `Unavailable` the write may have happened, and after a retry below us `Conflict` may be our own write: so what
    is there is compared.
    """
    try:
        storage.write(key, data, condition=Absent())
    except (Conflict, Unavailable) as error:
        try:
            there = storage.read(key)
        except NotFound:
            raise error from None
        if there != data:
            raise Conflict(f"{key}: {conflict}") from error

"""A file that is written once: whoever comes second is told, unless it is the same."""

from __future__ import annotations

from webmill.errors import Conflict, NotFound, Unavailable
from webmill.infra.storage.base import Absent, Storage


def write_once(storage: Storage, key: str, data: bytes, *, taken: str = "there is another one already") -> None:
    """`Conflict` (`taken`) when something else is there. After `Unavailable` the write may have happened, and after a
    retry below us `Conflict` may mean ourselves: what is there then is our own."""
    try:
        storage.write(key, data, condition=Absent())
    except (Conflict, Unavailable) as error:
        try:
            there = storage.read(key)
        except NotFound:
            raise error from None
        if there != data:
            raise Conflict(f"{key}: {taken}") from error

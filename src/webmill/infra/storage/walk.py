"""Listing by folders, in the byte order of whole keys, for stores that do not keep that order themselves.

A disk has no order. S3 has this one, but not every store that speaks S3: SeaweedFS lists the folder `a/` before `a-b`,
although `-` sorts before `/`, and its `start-after` follows the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from webmill.errors import BadInput
from webmill.infra.files import RESERVED
from webmill.infra.storage.base import Stat, check_key, check_prefix

log = logging.getLogger(__name__)

Entry: TypeAlias = tuple[bytes, Stat | None]  # a key and its value, or a folder (its key ends with "/") and None
Entries: TypeAlias = Callable[[str], Iterable[Entry]]  # what is directly in the folder "a/b/", or in the root ""


def walk(entries: Entries, *, prefix: str, start_after: str) -> Iterator[Stat]:
    folder, _ = check_prefix(prefix)
    if start_after:
        check_key(start_after)
    return _walk(entries, f"{folder}/" if folder else "", prefix=prefix.encode(), after=start_after.encode())


def _walk(entries: Entries, folder: str, *, prefix: bytes, after: bytes) -> Iterator[Stat]:
    for key, stat in sorted(entries(folder), key=lambda entry: entry[0]):
        if stat:
            if key > after and key.startswith(prefix):
                yield stat
        elif (key > after or after.startswith(key)) and (key.startswith(prefix) or prefix.startswith(key)):
            yield from _walk(entries, key.decode(), prefix=prefix, after=after)


def is_listed(key: str) -> bool:
    """Return whether a key is valid. Our own temporary names are skipped silently, other invalid ones are logged."""
    try:
        check_key(key)
    except BadInput as error:
        if RESERVED not in key:
            log.warning("not listed: %s", error)
        return False
    return True

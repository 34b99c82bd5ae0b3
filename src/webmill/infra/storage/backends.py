"""Which storage an address names: a path · file:PATH · memory: · s3://BUCKET/PREFIX?endpoint=… · http(s)://… (reading).

To add one: a function that takes the address and `StorageOptions`, and its line in a table here; or, from another
package, an entry point of the group `webmill.storage` (`webmill.readable` for what can only be read).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from webmill.collection import ARCHIVE_ENDINGS
from webmill.errors import Misconfigured
from webmill.infra.address import scheme_of
from webmill.infra.registry import Registry
from webmill.infra.storage.base import Readable, Storage, StorageOptions
from webmill.infra.storage.uploads import UploadedReads, journal_path
from webmill.masking import hide_secrets

OpenStorage: TypeAlias = Callable[[str, StorageOptions], Storage]
OpenReadable: TypeAlias = Callable[[str, StorageOptions], Readable]

STORAGES = Registry[OpenStorage](
    "storage",
    {
        "file": "webmill.infra.storage.local:open_local",
        "memory": "webmill.infra.storage.memory:open_memory",
        "s3": "webmill.infra.storage.s3:open_s3",
    },
    group="webmill.storage",
    forms="a folder or s3://BUCKET/PREFIX",
)
READ_ONLY = Registry[OpenReadable](
    "storage",
    {"http": "webmill.infra.storage.http:open_http", "https": "webmill.infra.storage.http:open_http"},
    group="webmill.readable",
    forms="http(s)://…",
)
# Stores of which some cannot keep a promise that publishing needs: what finds out, and raises `Misconfigured`.
PROBES = Registry[Callable[[str], None]]("storage", {"s3": "webmill.infra.storage.s3:probe"})


def open_storage(url: str) -> Storage:
    """Open a place that can be written to."""
    opened = STORAGES.get(scheme_of(url)[0])
    if opened is None:
        raise Misconfigured(f"cannot write to {hide_secrets(url)}: use {STORAGES.forms()}")
    return opened(url, StorageOptions())


def open_versions(url: str) -> Storage:
    """Open a place to publish to. `Misconfigured`: a store in which two publishers would not see each other."""
    probe = PROBES.get(scheme_of(url)[0])
    if probe:
        probe(url)
    return open_storage(url)


def open_readable(url: str, *, contact: str = "", timeout: float = StorageOptions().timeout) -> Readable:
    """Open a place that can be read. A server is told the `contact`, and has `timeout` seconds for an answer.

    In a folder, links to archives are followed: an index of it names them. Archives that were uploaded from there, and
    dropped, are read where they are.
    """
    scheme = scheme_of(url)[0]
    opened = STORAGES.get(scheme) or READ_ONLY.get(scheme)
    if opened is None:
        raise Misconfigured(f"cannot read {hide_secrets(url)}: use {readable_forms()}")
    storage = opened(url, StorageOptions(contact=contact, timeout=timeout, links=ARCHIVE_ENDINGS))
    return with_uploads(storage, Path(scheme_of(url)[1])) if scheme == "file" else storage


def with_uploads(storage: Readable, root: Path) -> Readable:
    """Return the storage of a folder with the files that were uploaded from there, and dropped."""
    return UploadedReads(storage, root, open_storage) if journal_path(root).is_file() else storage


def is_readable(url: str) -> bool:
    """Return whether there is a storage for addresses like this."""
    scheme = scheme_of(url)[0]
    return scheme in STORAGES or scheme in READ_ONLY


def readable_forms() -> str:
    """Return how addresses of places to read from are written, in words."""
    return f"{READ_ONLY.forms()}, {STORAGES.forms()}"


def locate(url: str, *, contact: str = "", timeout: float = StorageOptions().timeout) -> tuple[Readable, str]:
    """Return the storage and the key of one file that is named by a path or an address."""
    folder, name = split_address(url)
    return open_readable(folder, contact=contact, timeout=timeout), name


def split_address(url: str) -> tuple[str, str]:
    """Return the address of a file's folder, and the file's name there."""
    scheme, rest = scheme_of(url)
    if scheme == "file":
        path = Path(rest)
        return str(path.parent), path.name
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    if not name:
        raise Misconfigured(f"{hide_secrets(url)} names a folder, not a file")
    return parts._replace(path=folder).geturl(), name

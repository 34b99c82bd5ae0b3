"""`latest.json`: a copy of the head of the history, for readers that make one request. It only ever moves forward."""

from __future__ import annotations

from webmill.errors import BadInput, Conflict, NotFound, Unavailable
from webmill.infra.storage.base import Absent, Matches, Readable, Storage
from webmill.publish.keys import LATEST
from webmill.publish.types import Commit, Pointer, decode_sealed, encode_sealed

_TRIES = 100  # each lost race is somebody else's success


def read_pointer(storage: Readable) -> Pointer:
    """Return `latest.json`. `NotFound` before the first publication, `BadInput` when it is damaged."""
    return decode_sealed(storage.read(LATEST), Pointer, source=LATEST)


def advance_pointer(storage: Storage, commit: Commit) -> None:
    """Move the pointer to this record, unless it is there already or further."""
    for _ in range(_TRIES):
        pointer, etag = _read_with_etag(storage)
        if pointer and pointer.sequence >= commit.sequence:
            return
        try:
            storage.write(LATEST, encode_sealed(_pointer_to(commit)), condition=Matches(etag) if etag else Absent())
        except Conflict:
            continue
        return
    raise Unavailable(f"{LATEST} changes faster than it can be written")


def rewrite_pointer(storage: Storage, commit: Commit) -> None:
    """Move the pointer to this record, whatever it says now. `Conflict` when it was written meanwhile."""
    etag = _read_with_etag(storage)[1]
    storage.write(LATEST, encode_sealed(_pointer_to(commit)), condition=Matches(etag) if etag else Absent())


def points_to(pointer: Pointer, commit: Commit) -> bool:
    return pointer == _pointer_to(commit)


def _read_with_etag(storage: Storage) -> tuple[Pointer | None, str | None]:
    """Return the pointer and its etag. A damaged pointer is None but has an etag, so that it can be replaced."""
    try:
        etag = storage.stat(LATEST).etag
        return decode_sealed(storage.read(LATEST, etag=etag), Pointer, source=LATEST), etag
    except NotFound:
        return None, None
    except Conflict:
        return _read_with_etag(storage)
    except BadInput:
        return None, etag


def _pointer_to(commit: Commit) -> Pointer:
    return Pointer(
        version=commit.live.version,
        sequence=commit.sequence,
        updated_at=commit.at,
        count=commit.live.count,
        manifest_sha256=commit.live.manifest_sha256,
        manifest_bytes=commit.live.manifest_bytes,
    )

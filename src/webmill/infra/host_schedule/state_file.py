"""A store of one key: its state in one small file, which is locked for some microseconds at a time.

It is opened anew each time (5 µs in all), so that threads and forks share nothing but the file, and whoever removes it
is obeyed at once. It is not synced: a checksum tells a state that a power cut has damaged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic

import msgspec

from webmill.errors import BadInput, Misconfigured, Unavailable
from webmill.infra import lock
from webmill.infra.files import os_errors, read_at, write_at
from webmill.infra.host_schedule.base import KeyStates, State

LOCK_PATIENCE = 10.0
LOCK_INTERVAL = 0.001
_CHECKSUM = struct.Struct("<I")


class StateFormat(Generic[State]):
    """The bytes of a state: `magic`, its fields packed as `fields` says, and a checksum."""

    def __init__(self, kind: type[State], *, magic: bytes, fields: str) -> None:
        self._kind, self._magic = kind, magic
        self._layout = struct.Struct(f"<{len(magic)}s{fields}")
        self.size = self._layout.size + _CHECKSUM.size

    def encode(self, state: State) -> bytes:
        body = self._layout.pack(self._magic, *msgspec.structs.astuple(state))
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def decode(self, data: bytes) -> State | None:
        """Return the state, or None when the data is not what we wrote."""
        body = data[: self._layout.size]
        if data[self._layout.size :] != _CHECKSUM.pack(zlib.crc32(body)) or not body.startswith(self._magic):
            return None
        values = self._layout.unpack(body)[1:]
        return self._kind(**dict(zip(self._kind.__struct_fields__, values, strict=True)))


class StateFile(Generic[State]):
    """A `StateStore` whose one key is whatever its callers agree on, such as the name of the file."""

    def __init__(self, path: Path, form: StateFormat[State]) -> None:
        self.path, self._form = path, form

    @contextmanager
    def locked(self) -> Iterator[KeyStates[State]]:
        with os_errors(str(self.path)):
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            _lock(fd, self.path)
            with os_errors(str(self.path)):
                states = _LockedFile(fd, self.path, self._form)
                yield states
                states.write()
        finally:
            lock.unlock(fd)  # else a fork of this moment, which has the file open too, holds on
            os.close(fd)


class _LockedFile(Generic[State]):
    def __init__(self, fd: int, path: Path, form: StateFormat[State]) -> None:
        self._fd, self._path, self._form = fd, path, form
        self._put: State | None = None

    def get(self, key: str) -> State | None:
        data = read_at(self._fd, self._form.size, 0)
        if not data:
            return None
        state = self._form.decode(data)
        if state is None:
            raise BadInput(f"the state of {key} is damaged", reason="corrupt", source=str(self._path))
        return state

    def put(self, key: str, state: State) -> None:  # noqa: ARG002 - there is one
        self._put = state

    def write(self) -> None:
        if self._put is not None:
            write_at(self._fd, self._form.encode(self._put), 0)


def _lock(fd: int, path: Path) -> None:
    """Wait for the lock, but not for ever: a process that was suspended while it held it holds it still."""
    try:
        is_locked = lock.try_lock(fd, patience=LOCK_PATIENCE, interval=LOCK_INTERVAL)
    except OSError as error:
        raise Misconfigured(f"{path}: no locks here ({error.strerror}); choose a folder on a local disk") from error
    if not is_locked:
        raise Unavailable(f"{path} is locked by a process that is suspended: find and end it")

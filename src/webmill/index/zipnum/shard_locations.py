"""Where the shards of a ZipNum index are: beside the summary, or where its `.loc` says, and nowhere else.

A name or path from an index is not trusted: it is resolved inside the storage of the index (which follows no link out
of its root) or below a location declared by the operator. Anything else is refused, even if a file is there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

from webmill.errors import BadInput, NotFound
from webmill.formats.cdx.zipnum import ShardLocation, parse_location
from webmill.index.lines import read_lines
from webmill.infra.storage.base import Readable, check_key

T = TypeVar("T")


class ShardLocations:
    def __init__(self, storage: Readable, summary: str, *, elsewhere: Mapping[str, Readable]) -> None:
        self._storage = storage
        self._folder = posixpath.dirname(summary)
        self._loc = posixpath.splitext(summary)[0] + ".loc"
        self._elsewhere = elsewhere

    def read(self, name: str, *, start: int, length: int) -> bytes:
        """Return these bytes from the first location that has the shard. NotFound names all that were tried."""

        def read(storage: Readable, key: str) -> bytes:
            try:
                return storage.read(key, start=start, length=length)
            except BadInput as error:
                raise BadInput(error.message, reason=error.reason, source=name, offset=start) from error

        return self._first(name, read)

    def size(self, name: str) -> int:
        return self._first(name, lambda storage, key: storage.stat(key).size)

    def _first(self, name: str, access: Callable[[Readable, str], T]) -> T:
        tried = []
        for path in self.paths(name):
            try:
                return access(*self._resolve(path))
            except NotFound as error:
                tried.append(str(error))
            except BadInput as error:
                if error.reason != "bad_key":
                    raise
                tried.append(str(error))
        raise NotFound(f"shard {name!r} was not found where {self._loc} says: {'; '.join(tried)}")

    def paths(self, name: str) -> tuple[str, ...]:
        """Return the paths to try, in order: those of the `.loc`, or else beside the summary."""
        return self.locations.get(name, (name,))

    @cached_property
    def locations(self) -> dict[str, tuple[str, ...]]:
        try:
            stream = self._storage.open(self._loc)
        except NotFound:
            return {}
        with stream:
            lines = enumerate(read_lines(stream, name=self._loc), start=1)
            return {place.shard: place.paths for place in (self._parse(line, number) for number, line in lines)}

    def _parse(self, line: bytes, number: int) -> ShardLocation:
        try:
            return parse_location(line, line_number=number)
        except BadInput as error:
            raise BadInput(error.message, reason=error.reason, source=self._loc) from error

    def _resolve(self, path: str) -> tuple[Readable, str]:
        for root, storage in self._elsewhere.items():
            if path.startswith(root):
                return storage, check_key(path[len(root) :])
        if "://" in path or path.startswith("/"):
            raise BadInput(f"{path!r} is outside of all declared locations", reason="bad_key")
        return self._storage, check_key(posixpath.normpath(posixpath.join(self._folder, path)))

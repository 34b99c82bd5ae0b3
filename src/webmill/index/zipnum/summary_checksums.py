"""Checksums of a ZipNum summary, page by page, in a file beside it: `cluster.idx.crc32`.

    {"page":16384,"generations":[{"size":61,"crc32":[2774612183]}],"crc32":"…"}

The blocks of an index have their own (gzip); the summary is text, and a flipped bit in a key would hide a block. While
it is being replaced, the file has the checksums of both. Other programs need not know it, and an index without it is
read as it is: an earlier webmill, or somebody else, has made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import msgspec

from webmill.errors import BadInput, NotFound
from webmill.index.lookup.sorted_file import PAGE
from webmill.infra import atomic
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.storage.base import Readable
from webmill.infra.storage.local import LocalStorage

ENDING = ".crc32"


class SummaryPages(msgspec.Struct, frozen=True):
    """The size of a summary, and the CRC-32 of each of its pages."""

    size: int
    crc32: tuple[int, ...]


class SummaryChecksums(msgspec.Struct, frozen=True):
    """The checksums of a summary, and of the one that it replaces."""

    page: int
    generations: tuple[SummaryPages, ...]

    def check(self, number: int, data: bytes, *, size: int, source: str) -> bytes:
        """Return a page of a summary of that size. `BadInput` if it does not have its checksum."""
        known = [each.crc32[number] for each in self.generations if each.size == size and number < len(each.crc32)]
        if crc32(data) not in known:
            message = (
                f"does not have its checksum: `webmill index DIR --from-scratch` makes it again; "
                f"if you have replaced it, remove {source}{ENDING}"
            )
            raise BadInput(message, reason="corrupt", source=source, offset=number * self.page)
        return data

    def pieces(self, stream: BinaryIO, *, low: int, high: int, size: int, source: str) -> Iterator[bytes]:
        """Yield what a stream has between `low` and `high`, checked; it begins where the page of `low` does."""
        number = low // self.page
        while data := stream.read(self.page):
            first = number * self.page
            checked = self.check(number, data, size=size, source=source)
            if piece := checked[max(low - first, 0) : max(high - first, 0)]:
                yield piece
            number += 1


def read_summary_checksums(storage: Readable, summary: str) -> SummaryChecksums | None:
    """Return the checksums of a summary on this machine; None if it has none, or is elsewhere."""
    if not isinstance(storage, LocalStorage):
        return None
    source = summary + ENDING
    try:
        data = unseal_json(storage.read(source), source=source, repair="remove it, and run `webmill index DIR`")
        found = msgspec.json.decode(data, type=SummaryChecksums)
    except NotFound:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        message = f"{error}: remove it, and run `webmill index DIR`"
        raise BadInput(message, reason="corrupt", source=source) from error
    return found if found.page == PAGE else None


def checksum_pages(lines: Iterable[bytes]) -> SummaryPages:
    """Return the checksums of a summary with these lines."""
    size, rest, found = 0, b"", list[int]()
    for line in lines:
        size, rest = size + len(line), rest + line
        while len(rest) >= PAGE:
            found.append(crc32(rest[:PAGE]))
            rest = rest[PAGE:]
    return SummaryPages(size, (*found, crc32(rest)) if rest else tuple(found))


def write_summary_checksums(summary: Path, *generations: SummaryPages) -> None:
    found = SummaryChecksums(PAGE, generations)
    atomic.write_bytes(summary.with_name(summary.name + ENDING), seal_json(msgspec.json.encode(found)))


def known_generations(summary: Path) -> tuple[SummaryPages, ...]:
    """Return the checksums of the summary that is there, if they can be read."""
    try:
        found = read_summary_checksums(LocalStorage(summary.parent), summary.name)
    except BadInput:
        return ()
    return found.generations if found else ()

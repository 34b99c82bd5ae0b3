"""The format of a file of vectors: rows of one size and nothing else, each with a checksum of its own.

    key     16 bytes     of the content of the document (`content_of`)
    number   1 byte      of the passage; a document's rows follow one another
    count    1 byte      of the document's passages
    length   2 bytes     of the passage, in characters
    start    4 bytes     of the passage in the text
    scale    4 bytes     float: the vector is the integers times this
    crc      4 bytes     CRC-32 of the row without these four
    vector   DIMENSIONS signed bytes

Numbers are little-endian. A row that was torn when its writer was killed does not have its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy

from webmill.search.meaning.model import Vectors
from webmill.search.meaning.passages import Passage

Rows: TypeAlias = numpy.ndarray[Any, Any]

KEY_BYTES = 16
_HEAD = struct.Struct("<16sBBHIf")
_CRC = struct.Struct("<I")
HEAD_BYTES = _HEAD.size + _CRC.size
LARGEST = 127  # of an integer
ROWS_AT_ONCE = 16_384


def row_type(dimensions: int) -> numpy.dtype[Any]:
    names = [("key", "V16"), ("number", "u1"), ("count", "u1"), ("length", "<u2"), ("start", "<u4"), ("scale", "<f4")]
    return numpy.dtype([*names, ("crc", "<u4"), ("vector", "i1", (dimensions,))])


def encode_rows(key: bytes, passages: Sequence[Passage], vectors: Vectors) -> bytes:
    """Return the rows of one document. The integers of each vector use their whole range."""
    largest = numpy.abs(vectors).max(axis=1, keepdims=True)
    scales = numpy.where(largest > 0, largest, 1) / LARGEST
    numbers = numpy.rint(vectors / scales).astype(numpy.int8)
    parts = []
    for number, (passage, scale) in enumerate(zip(passages, scales[:, 0], strict=True)):
        head = _HEAD.pack(key, number, len(passages), min(passage.length, 0xFFFF), passage.start, scale)
        body = numbers[number].tobytes()
        parts += [head, _CRC.pack(crc32(body, crc32(head))), body]
    return b"".join(parts)


def map_rows(path: Path, dimensions: int) -> Rows:
    """Return the whole rows of a file, mapped. What follows them is of a writer that was killed, or still writes."""
    kind = row_type(dimensions)
    count = path.stat().st_size // kind.itemsize
    return numpy.memmap(path, kind, "r", shape=(count,)) if count else numpy.empty(0, kind)


def sound_documents(rows: Rows) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and rows of each document of which every row is there and has its checksum."""
    size, at = rows.dtype.itemsize, 0
    while at < len(rows):
        count = max(1, int(rows["count"][at]))
        data = rows[at : at + count].tobytes()
        key = data[:KEY_BYTES]
        if len(data) == count * size and all(
            _is_sound(data[number * size : (number + 1) * size], key, number, count) for number in range(count)
        ):
            yield key, data
            at += count
        else:
            at += 1


def _is_sound(row: bytes, key: bytes, number: int, count: int) -> bool:
    body, end = row[HEAD_BYTES:], _HEAD.size
    [crc] = _CRC.unpack_from(row, end)
    return (
        row[:KEY_BYTES] == key
        and row[KEY_BYTES] == number
        and row[KEY_BYTES + 1] == count
        and (crc32(body, crc32(row[:end])) == crc)
    )

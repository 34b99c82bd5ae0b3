"""Rows as JSON lines, plain or compressed; the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import zstandard
from zlib_ng import zlib_ng

from webmill.infra.sinks.base import SinkRow

Compression = Literal["none", "gzip", "zstd"]
ENDINGS: dict[Compression, str] = {"none": "jsonl", "gzip": "jsonl.gz", "zstd": "jsonl.zst"}


def encode(rows: Sequence[SinkRow], *, compression: Compression) -> bytes:
    data = b"".join(row.line + b"\n" for row in rows)
    if compression == "gzip":
        return zlib_ng.compress(data, level=6, wbits=31)  # no time stamp in its header
    if compression == "zstd":
        return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)
    return data

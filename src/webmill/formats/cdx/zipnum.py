"""ZipNum, the compressed form of a sorted CDXJ: lines and blocks of Common Crawl's `cc-index` (docs/reference, pywb).

    cdx-00000.gz   blocks one after another, each a gzip member of up to 3000 lines; none spans two shards
    cluster.idx    per block: `urlkey SP timestamp TAB shard TAB offset TAB length [TAB running number of the block]`
    cluster.loc    per shard: `name TAB path [TAB path ...]`

The running number counts blocks from 1 across all shards. pywb computes result pages from it: it may be missing, but
not wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import deflate
import msgspec
from isal import isal_zlib
from isal.igzip_lib import IsalError

from webmill.errors import BadInput

LINES_PER_BLOCK = 3000
LEVEL = 6  # libdeflate: 1.02 of zlib 6's ratio at twice its speed
MAX_BLOCK = 64 << 20  # inflated bytes; Common Crawl's blocks are about 1 MiB
MAX_SUMMARY_LINE = 64 << 10

_NUMBER = re.compile(rb"[0-9]{1,18}")


class ZipnumBlock(msgspec.Struct, frozen=True):
    """One line of the summary. `key` is the `urlkey SP timestamp` of the first line of the block."""

    key: bytes
    shard: str
    offset: int
    length: int
    number: int | None = None


class ShardLocation(msgspec.Struct, frozen=True):
    """Where a shard is: paths relative to the `.loc` file, or URLs, to be tried in order."""

    shard: str
    paths: tuple[str, ...]


def parse_summary_line(line: bytes, *, line_number: int) -> ZipnumBlock:
    """Parse a line of the summary, which is not CSV: quotes are plain bytes.

    Raise BadInput (bad_summary, line_too_long).
    """
    _check_length(line, line_number)
    columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
    if len(columns) not in (4, 5) or not columns[0] or not columns[1]:
        raise _bad(f"expected 4 or 5 columns, found {len(columns)}", line_number)
    key, shard, *digits = columns
    if not all(_NUMBER.fullmatch(number) for number in digits):
        raise _bad(f"not a number of at most 18 digits in {line[-80:]!r}", line_number)
    offset, length, *number = (int(number) for number in digits)
    if length == 0:
        raise _bad("the block has no bytes", line_number)
    return ZipnumBlock(key, _text(shard, line_number), offset, length, number[0] if number else None)


def format_summary_line(block: ZipnumBlock) -> bytes:
    number = b"" if block.number is None else b"\t%d" % block.number
    return b"%b\t%b\t%d\t%d%b\n" % (block.key, block.shard.encode(), block.offset, block.length, number)


def parse_location(line: bytes, *, line_number: int) -> ShardLocation:
    """Parse a line of the `.loc` file. Raise BadInput (bad_summary, line_too_long)."""
    _check_length(line, line_number)
    shard, *paths = _text(line.removesuffix(b"\n").removesuffix(b"\r"), line_number).split("\t")
    if not shard or not paths or not all(paths):
        raise _bad("expected a name and its paths", line_number)
    return ShardLocation(shard, tuple(paths))


def format_location(location: ShardLocation) -> bytes:
    return ("\t".join((location.shard, *location.paths)) + "\n").encode()


def encode_block(lines: Sequence[bytes]) -> bytes:
    """Compress lines, each with its line feed, to one gzip member; the same lines give the same bytes."""
    return bytes(deflate.gzip_compress(b"".join(lines), LEVEL))


def decode_block(data: bytes, *, limit: int = MAX_BLOCK) -> bytes:
    """Decompress one block. Raise BadInput: bad_gzip, truncated, block_too_large, or trailing (`length` was wrong).

    Never takes more memory than `limit`, whatever the data states.
    """
    inflate = isal_zlib.decompressobj(wbits=31)
    try:
        text: bytes = inflate.decompress(data, limit + 1)
    except IsalError as error:  # type: ignore[misc]  # its stub declares a value, not a class
        raise BadInput(f"not a gzip member: {error}", reason="bad_gzip") from error
    if len(text) > limit:
        raise BadInput(f"the block inflates beyond {limit} bytes", reason="block_too_large")
    if not inflate.eof:
        raise BadInput("the block is truncated", reason="truncated")
    if inflate.unused_data:
        raise BadInput("more than one block in the range", reason="trailing")
    return text


def split_lines(block: bytes) -> list[bytes]:
    """Split a block into lines without line feeds; the last one may be missing."""
    return block.removesuffix(b"\n").split(b"\n") if block else []


def _check_length(line: bytes, line_number: int) -> None:
    if len(line) > MAX_SUMMARY_LINE:
        raise BadInput(f"line {line_number}: {len(line)} bytes, at most {MAX_SUMMARY_LINE}", reason="line_too_long")


def _text(data: bytes, line_number: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _bad(str(error), line_number) from error


def _bad(message: str, line_number: int) -> BadInput:
    return BadInput(f"line {line_number}: {message}", reason="bad_summary")

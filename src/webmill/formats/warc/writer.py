"""Encode WARC records (ISO 28500; WARC 1.1, sections 4 to 6): plain, or each in a gzip member of its own.

No field can break out of its line: CR, LF and NUL in any name or value are refused (`header_injection`). Headers are
built in `record_headers`. The same record always becomes the same bytes: the gzip header has no time and no name.
(ISA-L chooses its code by processor, so compressed bytes may differ between processors, but not their content.)
Speeds: benchmarks/warc_writing.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import deflate
from isal import isal_zlib

from webmill.errors import BadInput
from webmill.formats.compression.member_checksum import add_checksum
from webmill.model import Headers

WARC_1_0 = "WARC/1.0"  # what Common Crawl writes on the first line, whatever its warcinfo says
WARC_1_1 = "WARC/1.1"

_OWS = " \t"
_END = b"\r\n\r\n"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BREAKS = re.compile(r"[\r\n\0]")
_FAST_LEVEL = 1
_LENGTH, _LENGTH_SIZE = "content-length", len("content-length")


def compress_fast(data: bytes) -> bytes:
    """Return a gzip member by ISA-L, level 1: ten times as fast as zlib's level 6, an eighth to a quarter larger."""
    member: bytes = isal_zlib.compress(data, _FAST_LEVEL, 31)
    return member


def compress_dense(data: bytes) -> bytes:
    """Return a gzip member by libdeflate, level 6: twice as fast as zlib's level 6, and as small."""
    return bytes(deflate.gzip_compress(data, 6))


def encode_record(headers: Headers, content: bytes, *, version: str = WARC_1_0) -> bytes:
    """Return a whole record, not compressed. `headers` must state the right Content-Length."""
    _check_length(headers, len(content))
    return b"".join((encode_header(headers, version=version), content, _END))


def compress_record(
    headers: Headers,
    content: bytes,
    *,
    version: str = WARC_1_0,
    compress: Callable[[bytes], bytes] = compress_fast,
) -> bytes:
    """Return a whole record as a gzip member, to be appended to a `.warc.gz`. A large one has a checksum of itself."""
    return add_checksum(compress(encode_record(headers, content, version=version)))


def stream_record(headers: Headers, chunks: Iterable[bytes], *, version: str = WARC_1_0) -> Iterator[bytes]:
    """Yield a record whose content comes in pieces, not compressed.

    Raise BadInput (bad_length) before the end of the record if the pieces do not add up to the Content-Length: then the
    caller must undo what was written.
    """
    stated = _stated_length(headers)
    yield encode_header(headers, version=version)
    written = 0
    for chunk in chunks:
        written += len(chunk)
        if written > stated:
            break
        yield chunk
    _check_length(headers, written)
    yield _END


def compress_stream(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield one gzip member from pieces, in bounded memory: `compress_stream(stream_record(...))`."""
    member = isal_zlib.compressobj(_FAST_LEVEL, isal_zlib.DEFLATED, 31)
    for piece in pieces:
        if packed := member.compress(piece):
            yield packed
    yield member.flush()


def encode_header(headers: Headers, *, version: str = WARC_1_0) -> bytes:
    """Return version line, fields and empty line. White space around a value is not part of it and not written."""
    lines = [version]
    for name, value in headers.pairs:
        if not _is_name(name):
            raise BadInput(f"not a field name: {name[:60]!r}", reason="header_injection")
        lines.append(f"{name}: {value.strip(_OWS)}")
    text = "\r\n".join((*lines, "", ""))
    _check_breaks(text, lines)
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise BadInput("a lone surrogate in a field", reason="not_utf8") from error


@lru_cache(maxsize=256)  # the same dozen in every record
def _is_name(name: str) -> bool:
    return _TOKEN.fullmatch(name) is not None


def _check_breaks(text: str, lines: list[str]) -> None:
    """Raise BadInput if there are line breaks besides our own: counting all is cheaper than searching each value."""
    expected = len(lines) + 1
    if text.count("\r") != expected or text.count("\n") != expected or "\0" in text:
        broken = next(line for line in lines if _BREAKS.search(line))
        raise BadInput(f"line break or NUL in {broken[:60]!r}", reason="header_injection")


def _stated_length(headers: Headers) -> int:
    values = [value for name, value in headers.pairs if len(name) == _LENGTH_SIZE and name.lower() == _LENGTH]
    if len(values) != 1 or not (values[0].isascii() and values[0].isdigit()):
        raise BadInput(f"exactly one numeric Content-Length is needed, not {values}", reason="bad_length")
    return int(values[0])


def _check_length(headers: Headers, actual: int) -> None:
    if _stated_length(headers) != actual:
        raise BadInput(
            f"Content-Length is {_stated_length(headers)}, but the content has {actual} bytes", reason="bad_length"
        )

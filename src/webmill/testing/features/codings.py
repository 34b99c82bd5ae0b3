"""Content codings, right and wrong, and bombs (N10, N11).

The compressed bytes may differ between versions of the libraries; what they decode to does not.
"""

from __future__ import annotations

import gzip
import zlib
from functools import cache

import brotli
import zstandard

from webmill.testing.exchange import HttpReply
from webmill.testing.features.base import Feature, HostFeatures, page

HOST = "packed.grain.example"
PLAIN = page("Packed", "Rye and barley, " * 200).body  # what every correct one decodes to
BOMB_SIZE = 100 << 20
_BLOCK = bytes(1 << 20)


def features() -> list[Feature]:
    table = HostFeatures(HOST)
    gz, br, zst = _gzip(PLAIN), brotli.compress(PLAIN), zstandard.compress(PLAIN)
    for path, description, coding, body in (
        ("/gzip", "gzip", "gzip", gz),
        ("/x-gzip", "gzip by its old name", "x-gzip", gz),
        ("/deflate", "deflate with zlib head, as the standard says", "deflate", zlib.compress(PLAIN)),
        ("/deflate-raw", "deflate without it, as many servers send", "deflate", _raw_deflate(PLAIN)),
        ("/br", "brotli", "br", br),
        ("/zstd", "zstd", "zstd", zst),
        ("/identity", "`identity`, not packed", "identity", PLAIN),
        ("/gzip-members", "gzip of two members", "gzip", _gzip(PLAIN[:500]) + _gzip(PLAIN[500:])),
        ("/gzip-twice", "`gzip, gzip`, packed twice", "gzip, gzip", _gzip(gz)),
        ("/gzip-br", "`gzip, br`: first gzip, then brotli", "gzip, br", brotli.compress(gz)),
        ("/gzip-in-gzip", "packed twice, declared once", "gzip", _gzip(gz)),
        ("/ten-codings", "ten times `gzip`", ", ".join(["gzip"] * 10), _gzip_times(10)),
        ("/gzip-lie", "says gzip, is plain", "gzip", PLAIN),
        ("/br-lie", "says br, is gzip", "br", gz),
        ("/zstd-lie", "says zstd, is plain", "zstd", PLAIN),
        ("/deflate-lie", "says deflate, is plain", "deflate", PLAIN),
        ("/unknown", "a coding nobody knows", "lzma-2000", PLAIN),
        ("/utf-8", "`Content-Encoding: utf-8`, not packed", "utf-8", PLAIN),
        ("/gzip-cut", "gzip, cut in the middle", "gzip", gz[: len(gz) // 2]),
        ("/br-cut", "brotli, cut in the middle", "br", br[: len(br) // 2]),
        ("/zstd-cut", "zstd, cut in the middle", "zstd", zst[: len(zst) // 2]),
        ("/gzip-crc", "gzip with a wrong checksum", "gzip", gz[:-8] + b"\x00" * 4 + gz[-4:]),
        ("/gzip-tail", "gzip, then junk", "gzip", gz + b"junk after the end"),
        ("/gzip-empty", "says gzip, has no bytes", "gzip", b""),
        ("/zstd-window", "zstd that asks for a window of 2 GiB", "zstd", _wide_window()),
    ):
        table.put(path, description, _encoded_reply(coding, body))
    table.put("/file.gz", "a gzip file without Content-Encoding", HttpReply(body=gz, media_type="application/gzip"))
    table.add("/bomb-gzip", "gzip: 100 MiB of zeros", lambda _: _encoded_reply("gzip", _gzip_bomb()))
    table.add("/bomb-deflate", "deflate: 100 MiB of zeros", lambda _: _encoded_reply("deflate", _zlib_bomb()))
    table.add("/bomb-br", "brotli: 100 MiB of zeros", lambda _: _encoded_reply("br", _brotli_bomb()))
    table.add("/bomb-zstd", "zstd: 100 MiB of zeros", lambda _: _encoded_reply("zstd", _zstd_bomb()))
    table.add(
        "/bomb-twice", "`gzip, gzip`: 100 MiB of zeros", lambda _: _encoded_reply("gzip, gzip", _gzip(_gzip_bomb()))
    )
    return table.features


def _encoded_reply(coding: str, body: bytes) -> HttpReply:
    return HttpReply(body=body, headers=(("Content-Encoding", coding),))


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def _gzip_times(times: int) -> bytes:
    body = PLAIN
    for _ in range(times):
        body = _gzip(body)
    return body


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def _wide_window() -> bytes:
    """RFC 8878 3.1.1.1.2: exponent 21 asks for 2^31 bytes; then one raw last block of five bytes."""
    return b"\x28\xb5\x2f\xfd" + bytes([0x00, 21 << 3]) + (1 | 5 << 3).to_bytes(3, "little") + b"wheat"


@cache
def _gzip_bomb() -> bytes:
    return _zlib_stream(31)


@cache
def _zlib_bomb() -> bytes:
    return _zlib_stream(15)


def _zlib_stream(wbits: int) -> bytes:
    packer = zlib.compressobj(level=9, wbits=wbits)
    return b"".join(packer.compress(_BLOCK) for _ in range(BOMB_SIZE // len(_BLOCK))) + packer.flush()


@cache
def _brotli_bomb() -> bytes:
    packer = brotli.Compressor(quality=5)
    return b"".join(packer.process(_BLOCK) for _ in range(BOMB_SIZE // len(_BLOCK))) + bytes(packer.finish())


@cache
def _zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(_BLOCK) for _ in range(BOMB_SIZE // len(_BLOCK))) + packer.flush()

"""A gzip member with a CRC-32 of its own stored bytes, in an extra field of its header (RFC 1952, 2.3.1.1).

    1f 8b 08 04 MTIME XFL OS | 08 00 | 'W' 'M' 04 00 CRC-32 | deflate … CRC-32 ISIZE

The CRC at the end of a member is of what it inflates to. This one is of all its stored bytes but itself, so that who
reads only the beginning of a large member can tell, at 30 GB/s, that it is as it was written. Other readers of gzip
skip the field, as they skip wget's. A member without it is read as before.
"""

from __future__ import annotations

from isal import isal_zlib

CHECKSUMMED = 1536  # stored bytes; smaller members are inflated whole by whoever reads any of them
_PLAIN_HEADER, _FIXED = b"\x1f\x8b\x08\x00", 10
_HEADER = b"\x1f\x8b\x08\x04"
_FIELD = b"\x08\x00WM\x04\x00"
_CRC = _FIXED + len(_FIELD)
HEADER_LENGTH = _CRC + 4


def add_checksum(member: bytes) -> bytes:
    """Return the member with its checksum, if it is large and has a plain header."""
    if len(member) <= CHECKSUMMED or not member.startswith(_PLAIN_HEADER):
        return member
    header, rest = _HEADER + member[4:_FIXED] + _FIELD, memoryview(member)[_FIXED:]
    return b"".join((header, isal_zlib.crc32(rest, isal_zlib.crc32(header)).to_bytes(4, "little"), rest))


def has_checksum(data: bytes | bytearray, at: int) -> bool:
    """Return whether the member that begins at `at` says its checksum."""
    return data.startswith(_HEADER, at) and data.startswith(_FIELD, at + _FIXED)


def is_as_written(member: memoryview) -> bool:
    """Return whether a member that says its checksum has it."""
    found = isal_zlib.crc32(member[HEADER_LENGTH:], isal_zlib.crc32(member[:_CRC]))
    return found == int.from_bytes(member[_CRC:HEADER_LENGTH], "little")

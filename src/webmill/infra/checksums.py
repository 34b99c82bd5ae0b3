"""CRC-32 of what only webmill reads: of whole files, and of small JSON files, which carry their own as the last member.

    {"shards":2,"name":"news","crc32":"9a0f4b21"}

That finds bit rot and cut files; it is no protection against somebody who changes them. A JSON file without the member
is one of an earlier webmill, and is taken as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from zlib import crc32

from webmill.errors import BadInput
from webmill.infra.files import os_errors

PIECE = 1 << 20
_MEMBER = re.compile(rb'(,?\s*)"crc32":\s?"([0-9a-f]{8})"(\s*\}\s*)\Z')


def crc32_of_file(path: Path) -> int:
    found = 0
    with os_errors(str(path)), path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            found = crc32(piece, found)
    return found


def seal_json(data: bytes) -> bytes:
    """Return a JSON object with a checksum of its bytes as its last member, and a line feed."""
    head = data.rstrip()
    assert head.endswith(b"}")
    body = head[:-1].rstrip()
    comma = b"" if body.endswith(b"{") else b",\n  " if b"\n" in body else b","
    return body + comma + b'"crc32":"%08x"}\n' % crc32(body)


def unseal_json(data: bytes, *, source: str, repair: str) -> bytes:
    """Return a JSON object without its checksum, which must be right. `BadInput` says what to do instead."""
    found = _MEMBER.search(data)
    if not found:
        return data
    body = data[: found.start()]
    if crc32(body) != int(found[2], 16):
        raise BadInput(f"does not have its checksum: {repair}", reason="corrupt", source=source)
    return body + b"}\n"

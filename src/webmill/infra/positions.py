"""Reads and writes at a place of a file that do all they are asked for.

A single call may do less: file systems of networks and programs when a signal comes, a disk before it is full.
"""

from __future__ import annotations

import os


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Less than `size` only where the file ends."""
    data = os.pread(fd, size, offset)
    if len(data) == size or not data:
        return data
    parts = [data]
    while (size := size - len(data)) and (data := os.pread(fd, size, offset := offset + len(data))):
        parts.append(data)
    return b"".join(parts)


def write_at(fd: int, data: bytes, offset: int) -> None:
    while (done := os.pwrite(fd, data, offset)) < len(data):
        data, offset = data[done:], offset + done

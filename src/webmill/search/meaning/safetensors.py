"""Reads safetensors files: https://github.com/huggingface/safetensors#format. Tensors are mapped, not copied."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import msgspec
import numpy

from webmill.errors import Misconfigured
from webmill.infra.files import os_errors

LONGEST_HEADER = 16 << 20  # bytes
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "<i1", "U8": "<u1"}


class _Tensor(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def read_tensors(path: Path) -> dict[str, numpy.ndarray[Any, Any]]:
    """Return the tensors of a file by name, those of types that models here do not use left out."""
    with os_errors(str(path)), path.open("rb") as file:
        if not path.stat().st_size:
            raise _not_safetensors(path, "it is empty")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    size = int.from_bytes(data[:8], "little")
    if not 2 <= size <= min(LONGEST_HEADER, len(data) - 8):
        raise _not_safetensors(path, "its header has no size that could be")
    try:
        header = msgspec.json.decode(data[8 : 8 + size].rstrip(), type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        tensors = {name: msgspec.json.decode(raw, type=_Tensor) for name, raw in header.items()}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _not_safetensors(path, str(error)) from None
    found = {}
    for name, tensor in tensors.items():
        if (kind := _TYPES.get(tensor.dtype)) is None:
            continue
        count, (start, end) = math.prod(tensor.shape), tensor.data_offsets
        fits = 0 <= start <= end <= len(data) - 8 - size and end - start == count * numpy.dtype(kind).itemsize
        if not fits or min(tensor.shape, default=0) < 0:
            raise _not_safetensors(path, f"{name} lies outside of the file")
        found[name] = numpy.frombuffer(data, kind, count, 8 + size + start).reshape(tensor.shape)
    return found


def _not_safetensors(path: Path, why: str) -> Misconfigured:
    return Misconfigured(f"{path} cannot be read as safetensors: {why}")

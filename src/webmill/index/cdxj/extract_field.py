"""Extract one field of every CDXJ line. Only its value is decoded; the rest is skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from webmill.errors import Misconfigured
from webmill.formats.cdx.cdxj import parts_of
from webmill.index.lines import Batch


@dataclass(slots=True)
class FieldCounts:
    """`extracted` + `missing` + `malformed` is the number of lines."""

    extracted: int = 0
    missing: int = 0
    malformed: int = 0


def field_as_json(
    batches: Iterable[Batch], name: str, *, counts: FieldCounts, default: bytes | None = None
) -> Iterator[Batch]:
    """Yield the value as JSON, as the index has it; where it is missing, `default` or no line."""
    for batch in _values(batches, name, counts):
        values = (default if value is None else value for value in batch)
        yield [value + b"\n" for value in values if value is not None]


def field_as_text(
    batches: Iterable[Batch], name: str, *, counts: FieldCounts, default: bytes | None = None
) -> Iterator[Batch]:
    """Yield the value as text, without quotes and escapes. Line ends inside a value stay escaped."""
    for batch in _values(batches, name, counts):
        values = (default if value is None else _as_text(value) for value in batch)
        yield [value + b"\n" for value in values if value is not None]


def _values(batches: Iterable[Batch], name: str, counts: FieldCounts) -> Iterator[list[bytes | None]]:
    """Yield the raw JSON of the values, None where missing. Malformed lines are counted and left out."""
    try:
        wanted = msgspec.defstruct("Wanted", [("value", msgspec.Raw, msgspec.Raw())], rename={"value": name}, gc=False)
    except ValueError as error:
        raise Misconfigured(f"{name!r} cannot be the name of a field: {error}") from error
    decode = msgspec.json.Decoder(wanted).decode
    for batch in batches:
        values: list[bytes | None] = []
        for line in batch:
            try:
                found: Any = decode(parts_of(line)[2])
            except (IndexError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                counts.malformed += 1
                continue
            values.append(bytes(found.value) or None)
        missing = values.count(None)
        counts.missing += missing
        counts.extracted += len(values) - missing
        yield values


def _as_text(value: bytes) -> bytes:
    if not value.startswith(b'"'):
        return value
    if b"\\" not in value:
        return value[1:-1]
    try:
        text = msgspec.json.decode(value, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a lone surrogate or bytes that are not UTF-8: as it is
        return value[1:-1]
    return text.encode().replace(b"\n", rb"\n").replace(b"\r", rb"\r")

"""One field of every CDXJ line.

Only the wanted value is read; the decoder walks over the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from webmill.errors import Misconfigured
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
    """The value as the index spells it in JSON; where it is missing `default`, or no line when there is none."""
    for batch in _values(batches, name, counts):
        values = (default if value is None else value for value in batch)
        yield [value + b"\n" for value in values if value is not None]


def field_as_text(
    batches: Iterable[Batch], name: str, *, counts: FieldCounts, default: bytes | None = None
) -> Iterator[Batch]:
    """The same with strings as they read, without quotes and escapes. Line ends inside a value stay escaped."""
    for batch in _values(batches, name, counts):
        values = (default if value is None else _as_text(value) for value in batch)
        yield [value + b"\n" for value in values if value is not None]


def _values(batches: Iterable[Batch], name: str, counts: FieldCounts) -> Iterator[list[bytes | None]]:
    """The raw JSON of the value, None where it is missing. Malformed lines are counted, and give nothing."""
    try:
        wanted = msgspec.defstruct("Wanted", [("value", msgspec.Raw, msgspec.Raw())], rename={"value": name}, gc=False)
    except ValueError as error:
        raise Misconfigured(f"no field can be called {name!r}: {error}") from error
    decode = msgspec.json.Decoder(wanted).decode
    for batch in batches:
        values: list[bytes | None] = []
        for line in batch:
            try:
                found: Any = decode(line.split(b" ", 2)[2])
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
    except (msgspec.DecodeError, UnicodeDecodeError):  # half a surrogate pair or bytes that are not UTF-8: as spelled
        return value[1:-1]
    return text.encode().replace(b"\n", rb"\n").replace(b"\r", rb"\r")

"""Tables that a settings file may have many of, such as [[alert]] and [[ignore]]: a list of structs is one setting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class TableError(ValueError):
    """One of the tables is wrong: the first is number 1."""

    def __init__(self, message: str, *, number: int) -> None:
        super().__init__(message)
        self.number = number


def parse_tables(
    written: object, kind: type[T], *, name: str, example: str, lists: Sequence[str] = ()
) -> tuple[T, ...]:
    """Return the structs of a list of tables, or of a text with JSON, as a variable has it. `example` is a line of a
    table that is right, with what each must have. Of the keys in `lists` a text is a list of one."""
    if isinstance(written, str):
        try:
            written = json.loads(written) if written.strip() else []
        except (ValueError, RecursionError):
            raise ValueError(f"not JSON; write a list of objects, each as a [[{name}]] would be") from None
    if not isinstance(written, list | tuple):
        raise ValueError(f"write each as [[{name}]] on its own line, and below it {example}")
    return tuple(
        one if isinstance(one, kind) else _parse_numbered(number, one, kind, name, example, lists)
        for number, one in enumerate(written, 1)
    )


def _parse_numbered(number: int, table: object, kind: type[T], name: str, example: str, lists: Sequence[str]) -> T:
    try:
        return _parse_table(table, kind, name, example, lists)
    except ValueError as error:
        raise TableError(str(error), number=number) from None


def _parse_table(table: object, kind: type[T], name: str, example: str, lists: Sequence[str]) -> T:
    if not isinstance(table, Mapping):
        raise ValueError(f"write a table: [[{name}]], and below it {example}")
    known = kind.__struct_fields__
    for key in table:
        if key not in known:
            near = get_close_matches(str(key), known, n=1)
            raise ValueError(
                f"unknown key {key!r}: " + (f"did you mean {near[0]}?" if near else f"use {', '.join(known)}")
            )
    missing = [
        field.encode_name for field in msgspec.structs.fields(kind) if field.required and not table.get(field.name)
    ]
    if missing:
        raise ValueError(f"a [[{name}]] needs {missing[0]}: {example}")
    single = {key: [value] for key, value in table.items() if key in lists and isinstance(value, str)}
    try:
        return msgspec.convert({**table, **single}, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$.")
        raise ValueError(f"{where.rstrip('`')}: {message}" if where else message) from None

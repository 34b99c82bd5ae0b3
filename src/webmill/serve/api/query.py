"""Query strings by declaration: a struct says which parameters a route has, with their types, limits and descriptions.
What is accepted, what is refused and what `/openapi.json` says all come from it.

    class SearchQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"sites": "site"}):
        sites: Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=20, description="…")] = ()
        limit: Annotated[int, Meta(ge=1, le=100, description="…")] = 10

A field is a text, a number, a choice (`Literal`), or a tuple of texts, which may be repeated. One without a default is
required. An empty value is one that is not given; of a value given twice, the last counts; what is not declared is
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, inspect
from starlette.datastructures import QueryParams

from webmill.errors import BadInput

Q = TypeVar("Q", bound=msgspec.Struct)

DAY = "date"
LONGEST_TEXT = 4_000
MOST_DIGITS = 12

Day: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": DAY})]


class Unreadable(ValueError):
    """A value that does not fit its declaration; the message says why."""


def read_query(params: QueryParams, kind: type[Q]) -> Q:
    """Return the parameters. `BadInput` says everything that is wrong with them."""
    found, problems = read_leniently(params, kind)
    if problems or found is None:
        raise BadInput("; ".join(problems), reason="bad_query")
    return found


def read_leniently(params: QueryParams, kind: type[Q]) -> tuple[Q | None, list[str]]:
    """Return the parameters, with defaults where a value makes no sense, and what was wrong with those; None instead if
    a required one is missing."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields_of(kind):
        given = [value for value in params.getlist(field.encode_name) if value]
        if given:
            try:
                values[field.name] = _read(field.encode_name, given, field.type)
            except Unreadable as error:
                problems.append(str(error))
        elif field.required:
            problems.append(f"{field.encode_name} is required")
    if any(field.required and field.name not in values for field in fields_of(kind)):
        return None, problems
    return kind(**values), problems


@cache
def fields_of(kind: type[msgspec.Struct]) -> Sequence[inspect.Field]:
    declared = inspect.type_info(kind)
    assert isinstance(declared, inspect.StructType)
    return declared.fields


def bare_type(declared: inspect.Type) -> inspect.Type:
    """Return the type without its description, and without None, which is a value that is not given."""
    if isinstance(declared, inspect.Metadata):
        return bare_type(declared.type)
    if isinstance(declared, inspect.UnionType):
        (one,) = (each for each in declared.types if not isinstance(each, inspect.NoneType))
        return bare_type(one)
    return declared


def schema_note(declared: inspect.Type, name: str) -> str:
    """Return what the declaration says beside the type: its `description`, `format` or `title`."""
    return (declared.extra_json_schema or {}).get(name, "") if isinstance(declared, inspect.Metadata) else ""


def _read(name: str, given: list[str], declared: inspect.Type) -> Any:
    match bare := bare_type(declared):
        case inspect.IntType():
            return _number(name, given[-1], bare)
        case inspect.LiteralType(values=known):
            if given[-1] not in known:
                raise Unreadable(f"{name} must be one of {', '.join(map(str, known))}")
            return given[-1]
        case inspect.VarTupleType(item_type=each, max_length=most):
            return _texts(name, given, each, most or len(given))
        case inspect.StrType():
            return _day(given[-1]) if schema_note(declared, "format") == DAY else _text(name, given[-1], bare)
    raise TypeError(f"{name}: a query string has no {declared}")


def _number(name: str, text: str, declared: inspect.IntType) -> int:
    low, high = declared.ge or 0, declared.le or 10**MOST_DIGITS - 1
    if not (text.isascii() and text.isdigit()) or len(text) > MOST_DIGITS or not low <= int(text) <= high:
        raise Unreadable(f"{name} must be a number from {low:,} to {high:,}")
    return int(text)


def _text(name: str, text: str, declared: inspect.StrType, *, form: str = "") -> str:
    most = declared.max_length or LONGEST_TEXT
    if len(text) > most:
        raise Unreadable(f"{name} has {len(text):,} characters; at most {most:,} are allowed")
    if declared.pattern and not re.search(declared.pattern, text):
        raise Unreadable(f"{name} must be {form or declared.pattern}")
    return text


def _texts(name: str, given: list[str], each: inspect.Type, most: int) -> tuple[str, ...]:
    found, bare = tuple(dict.fromkeys(given)), bare_type(each)
    assert isinstance(bare, inspect.StrType)
    longest = bare.max_length or LONGEST_TEXT
    if len(found) > most or any(len(text) > longest for text in found):
        raise Unreadable(f"{name}: at most {most} values of up to {longest} characters")
    return tuple(_text(name, text, bare, form=schema_note(each, "title")) for text in found)


def _day(text: str) -> str:
    try:
        return read_day(text)
    except BadInput as error:
        raise Unreadable(error.message) from None


def read_day(text: str) -> str:
    """Return a day as 2024-01-31, or nothing if none is given."""
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise BadInput(f"{text[:40]} is not a date; write 2024-01-31", reason="bad_query") from None

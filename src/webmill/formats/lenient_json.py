"""Decode JSON objects into structs leniently: what does not fit is kept in `rest`; only invalid JSON is refused.

msgspec alone is faster, but it drops unknown names and fails at the first wrong type. It also refuses lone surrogates
(`"\\ud83d"`) and invalid UTF-8, which the standard library reads.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec

from webmill.errors import BadInput
from webmill.model import Headers

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class LenientObject(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object; subclasses declare the known names. Field types are str, int, bool, Headers, LenientObject and
    tuples of these, each perhaps None."""

    rest: dict[str, Any] = msgspec.field(default_factory=dict)


Kind = TypeVar("Kind", bound=LenientObject)


def decode_object(content: bytes) -> dict[str, Json]:
    """Decode a JSON object. Raise BadInput (bad_json) if it is not one."""
    try:
        value: object = msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError):
        value = _decode_slowly(content)
    except RecursionError:
        raise BadInput("JSON nested too deeply", reason="bad_json") from None
    if not isinstance(value, dict):
        raise BadInput("the JSON is not an object", reason="bad_json")
    return cast("dict[str, Json]", value)


def build_object(kind: type[Kind], value: dict[str, Any]) -> Kind:
    """Build a struct of this kind; what does not fit goes into its `rest`."""
    plan, found, rest = _plan(kind), {}, {}
    for name, part in value.items():
        step = plan.get(name)
        if step is None:
            rest[name] = part
            continue
        try:
            found[step[0]] = step[1](part)
        except _WrongType:
            rest[name] = part
    return kind(**found, rest=rest)


class _WrongType(Exception):
    """A value does not have the type of its field."""


def _decode_slowly(content: bytes) -> object:
    try:
        return json.loads(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not JSON: {str(error)[:200]}", reason="bad_json") from None


@cache
def _plan(kind: type[LenientObject]) -> dict[str, tuple[str, Callable[[Any], object]]]:
    """Return, by the name in JSON, the name of the field and the function that converts its value."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: (field.name, _reader(field.type)) for field in fields if field.name != "rest"}


def _reader(wanted: Any) -> Callable[[Any], object]:
    if get_origin(wanted) is types.UnionType:
        wanted = next(part for part in get_args(wanted) if part is not types.NoneType)
    if get_origin(wanted) is tuple:
        part = get_args(wanted)[0]
        return lambda value: tuple(_object(part, one) for one in _list(value))
    if issubclass(wanted, LenientObject):
        return lambda value: _object(wanted, value)
    return {str: _text, int: _number, bool: _flag, Headers: _headers}[wanted]


def _object(kind: type[Kind], value: Any) -> Kind:
    if not isinstance(value, dict):
        raise _WrongType
    return build_object(kind, value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _WrongType
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _WrongType


def _number(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.lstrip("-").isdigit():
        return int(value)
    raise _WrongType


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise _WrongType


def _headers(value: Any) -> Headers:
    """Convert an object of names and values; a repeated name has an array."""
    if not isinstance(value, dict):
        raise _WrongType
    return Headers(
        (name, one if isinstance(one, str) else json.dumps(one))
        for name, part in value.items()
        for one in (part if isinstance(part, list) else [part])
    )

"""A function of yours in place of the default: `document(page) -> Document | None`.

Its source travels with the task as text, so that every worker on every machine runs what the dataset was made with; a
function of an installed package is named as `module:function` and must be installed where the workers are.
"""

from __future__ import annotations

import importlib
import linecache
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from webmill.errors import Misconfigured

MakeDocument = Callable[[Any], Any]  # page -> a struct, or None: leave this page out


class CustomFunction(msgspec.Struct, frozen=True, kw_only=True):
    """`file` and `source` are empty for a function of an installed package: then `module` names that."""

    name: str
    module: str = ""
    file: str = ""
    source: str = ""


def parse_function_name(text: str) -> tuple[str, str]:
    """`FILE.py:function` or `module:function`."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise Misconfigured(f"{text!r} names no function: write FILE.py:function or module:function")
    return place, name


def read_function(text: str, *, beside: Path = Path()) -> CustomFunction:
    """Return the function of that name, with its source if it is in a file. Misconfigured: it cannot be read."""
    place, name = parse_function_name(text)
    if not place.endswith(".py"):
        return CustomFunction(name=name, module=place)
    try:
        return CustomFunction(name=name, file=place, source=(beside / place).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{beside / place}: {error}") from None


def load_function(function: CustomFunction) -> MakeDocument:
    where = function.file or function.module
    try:
        module = _run(function) if function.source else importlib.import_module(function.module)
    except Exception as error:
        raise Misconfigured(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    made = getattr(module, function.name, None)
    if not callable(made):
        raise Misconfigured(f"{where} has no function {function.name}")
    return made  # type: ignore[no-any-return]  # called as it says; what comes back is checked


def result_type(function: MakeDocument) -> type[msgspec.Struct] | None:
    """The struct that the function says it returns; None when it does not say."""
    try:
        told = get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that exist only for a type checker
        return None
    for kind in (told, *get_args(told)):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind
    return None


def _run(function: CustomFunction) -> types.ModuleType:
    module = types.ModuleType("webmill_document")
    linecache.cache[function.file] = (
        len(function.source),
        None,
        function.source.splitlines(keepends=True),
        function.file,
    )
    sys.modules[module.__name__] = module  # where the types that its structs name are looked for
    code = compile(function.source, function.file, "exec", dont_inherit=True)  # our own __future__ is not its author's
    exec(code, module.__dict__)  # noqa: S102 - the operator's own code
    return module

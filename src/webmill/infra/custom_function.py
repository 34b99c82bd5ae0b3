"""A custom function in place of the default: `document(page) -> Document | None`.

Its source is part of the task, so that every worker on every machine runs the same code; a function of an installed
package is named as `module:function` and must be installed where the workers run.
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

MakeDocument = Callable[[Any], Any]  # page -> a struct, or None to skip the page


class CustomFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function that makes documents. `file` and `source` are empty if `module` is an installed package."""

    name: str
    module: str = ""
    file: str = ""
    source: str = ""


def parse_function_name(text: str) -> tuple[str, str]:
    """Split `FILE.py:function` or `module:function`."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise Misconfigured(f"{text!r} does not name a function; write FILE.py:function or module:function")
    return place, name


def read_function(text: str, *, beside: Path = Path()) -> CustomFunction:
    """Return the named function, with its source if it is in a file. Raise Misconfigured if it cannot be read."""
    place, name = parse_function_name(text)
    if not place.endswith(".py"):
        return CustomFunction(name=name, module=place)
    try:
        return CustomFunction(name=name, file=place, source=(beside / place).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{beside / place}: {error}") from None


def load_function(function: CustomFunction) -> MakeDocument:
    """Import or run the code of a function and return it. Raise Misconfigured if that fails."""
    where = function.file or function.module
    try:
        module = _run(function) if function.source else importlib.import_module(function.module)
    except Exception as error:
        raise Misconfigured(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
    loaded = getattr(module, function.name, None)
    if not callable(loaded):
        raise Misconfigured(f"{where} has no function {function.name}")
    return loaded  # type: ignore[no-any-return]  # what it returns is checked


def result_type(function: MakeDocument) -> type[msgspec.Struct] | None:
    """Return the struct in the return annotation of the function; None if it has none."""
    try:
        annotation = get_type_hints(function).get("return")
    except Exception:  # noqa: BLE001 - names that exist only for a type checker
        return None
    for kind in (annotation, *get_args(annotation)):
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
    sys.modules[module.__name__] = module  # msgspec looks up the types of its structs there
    code = compile(
        function.source, function.file, "exec", dont_inherit=True
    )  # without our own `from __future__` imports
    exec(code, module.__dict__)  # noqa: S102 - the operator's own code
    return module

"""`[crawl] flags = "--depth 3 --no-traps"`, which settings files had once: read into the settings that they name."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from webmill.errors import Misconfigured
from webmill.settings.declaration import Setting


def read_flags(text: str, settings: Sequence[Setting], *, where: str) -> list[tuple[Setting, Any]]:
    """Return what the flags say, as the command line would understand them."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Misconfigured(
            f"{where}: `crawl.flags`: {str(error).lower()}: write settings of [crawl] instead"
        ) from None
    written: dict[str, tuple[Setting, list[Any]]] = {}
    while words:
        one, value = _take(words, settings, where=where)
        written.setdefault(one.key, (one, []))[1].append(value)
    return [(one, _value(one, values, where=where)) for one, values in written.values()]


def _take(words: list[str], settings: Sequence[Setting], *, where: str) -> tuple[Setting, Any]:
    """Take one flag and its value from the front of `words`."""
    flag, equals, value = words.pop(0).partition("=")
    name = flag.removeprefix("--").replace("-", "_")
    for one in settings:
        names = (one.name, *one.declared.old)
        if one.is_switch and name in names:
            return one, True
        if one.is_switch and name.removeprefix("no_") in names:
            return one, False
        if name in names and (equals or words):
            return one, value if equals else words.pop(0)
    raise Misconfigured(f"{where}: `crawl.flags`: {flag} is not a setting of a crawl: `webmill crawl --help` has them")


def _value(one: Setting, values: list[Any], *, where: str) -> Any:
    try:
        return one.parse(values if one.is_list else values[-1])
    except ValueError as error:
        raise Misconfigured(f"{where}: `crawl.flags`: {one.flag}: {error}") from None

"""Types of values on the command line: whole numbers, 90s, 64M, HOST=ADDRESS:PORT, and folders that must exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from webmill.settings.sites_section import COOKIE_MODES
from webmill.settings.value_formats import parse_addresses, parse_duration, parse_size


class CountType(click.ParamType[int]):
    """A whole number, `N` in the help."""

    name = "n"

    def __init__(self, *, least: int) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if number < self.least:
            self.fail(f"{number} is too small: use {self.least} or more", param, ctx)
        return number


class ParsedType(click.ParamType[Any]):
    """A value that is parsed as in a settings file."""

    def __init__(self, name: str, parse: Callable[[object], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CookiesType(click.Path):
    """`off`, `session`, or a file that exists, as an absolute path: a crawl is continued from other folders, too."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, resolve_path=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value in COOKIE_MODES else super().convert(value, param, ctx)


def _parse_address(value: object) -> tuple[str, tuple[str, int]]:
    return value if isinstance(value, tuple) else next(iter(parse_addresses([value]).items()))


AT_LEAST_ONE = CountType(least=1)
ANY_COUNT = CountType(least=0)
DURATION = ParsedType("time", parse_duration)
SIZE = ParsedType("size", parse_size)
FIXED_ADDRESS = ParsedType("host=address:port", _parse_address)


def require_folder(root: Path) -> Path:
    """Return `root`, or fail as `click.Path(exists=True)` does; for a DIR that need not exist in every use."""
    if not root.is_dir():
        what = "is a file" if root.exists() else "does not exist"
        raise click.BadParameter(f"Directory {str(root)!r} {what}.", param_hint="'DIR'")
    return root

"""Values on the command line as people write them: 90s, 20m, 8h; 500K, 64M; HOST=ADDRESS:PORT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from webmill.settings.kinds import parse_addresses, parse_duration, parse_size


class Written(click.ParamType[Any]):
    """Parses as settings do."""

    def __init__(self, name: str, parse: Callable[[object], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _one_address(value: object) -> tuple[str, tuple[str, int]]:
    return value if isinstance(value, tuple) else next(iter(parse_addresses([value]).items()))


DURATION = Written("time", parse_duration)
SIZE = Written("size", parse_size)
FIXED_ADDRESS = Written("host=address:port", _one_address)

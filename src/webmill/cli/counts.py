"""Whole numbers on the command line, with a short name in the help and a sentence when they are wrong."""

from __future__ import annotations

import click


class Count(click.ParamType[int]):
    name = "n"

    def __init__(self, *, least: int) -> None:
        self.least = least

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a whole number", param, ctx)
        if number < self.least:
            self.fail(f"{number} is too small: {self.least} or more", param, ctx)
        return number


AT_LEAST_ONE = Count(least=1)
ANY_COUNT = Count(least=0)

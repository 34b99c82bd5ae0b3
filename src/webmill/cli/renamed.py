"""Flags that had another name once: it works on, and the help shows the new one only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from webmill.cli.counts import AT_LEAST_ONE

F = TypeVar("F", bound=Callable[..., object])


class Renamed(click.Option):
    """`click.option("--processes", "jobs", cls=Renamed, old=["--jobs"])`"""

    def __init__(self, *args: Any, old: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old = old

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, *self.old]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def processes_option(help_: str) -> Callable[[F], F]:
    return click.option("--processes", "jobs", cls=Renamed, old=["--jobs"], type=AT_LEAST_ONE, help=help_)

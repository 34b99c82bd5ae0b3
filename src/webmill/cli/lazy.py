"""Groups that import only the command that is run, so that `--help` stays fast."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """`commands_at` maps a name to (module:command, help line). A name without a help line is old and not listed.
    `more` finds commands of others, and is asked only where all are listed or a name is none of ours."""

    def __init__(
        self,
        *args: Any,
        commands_at: Mapping[str, tuple[str, str]],
        more: Callable[[], Mapping[str, click.Command]] = dict,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.commands_at, self._more = commands_at, more

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return [*(name for name, (_, line) in self.commands_at.items() if line), *self._of_others()]

    def _of_others(self) -> dict[str, click.Command]:
        return {name: command for name, command in self._more().items() if name not in self.commands_at}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.commands_at:
            return self._of_others().get(cmd_name)
        module, _, attribute = self.commands_at[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.commands_at.items() if line])
        if others := self._of_others():
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, one.get_short_help_str(80)) for name, one in others.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands_at, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from None

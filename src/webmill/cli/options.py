"""Options of a command, made from the settings that it declares: `@settings_options("index", "executor.jobs")`.

The command gets one keyword argument, `settings`: what the flags, the variables and webmill.toml say, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce, update_wrapper
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import click

from webmill.cli.context import Context
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.settings import Setting, select_settings

F = TypeVar("F", bound=Callable[..., Any])
Place = str | Callable[[Mapping[str, Any]], Path | None]


def settings_options(
    *names: str, place: Place = "root", types: Mapping[str, click.ParamType[Any]] | None = None
) -> Callable[[F], F]:
    """Give a command the options of sections (`crawl`) and single settings (`http.contact`), and one `settings`.

    `place` is the argument that names the collection, whose webmill.toml counts, or a function of all arguments that
    finds it. `types` are ways to write a value on the command line alone.
    """

    def decorate(command: F) -> F:
        def call(*args: Any, **params: Any) -> Any:
            sources = params.pop("sources")
            return command(*args, settings=sources.settings(), **params)

        return sources_options(*names, place=place, types=types)(update_wrapper(call, command))  # type: ignore[return-value]

    return decorate


def sources_options(
    *names: str, place: Place = "root", types: Mapping[str, click.ParamType[Any]] | None = None
) -> Callable[[F], F]:
    """Do the same, but pass the `sources`, for a command that must know where a value comes from."""
    settings = select_settings(names)

    def decorate(command: F) -> F:
        def call(*args: Any, **params: Any) -> Any:
            given = {(one.section, one.key): params.pop(one.name) for one in settings}
            context = click.get_current_context().find_object(Context)
            assert context
            flags = {name: value for name, value in given.items() if value not in (None, ())}
            folder = params.get(place) if isinstance(place, str) else place(params)
            return command(*args, sources=context.sources(folder, flags), **params)

        wrapped: Any = update_wrapper(call, command)
        options = [option_of(one, (types or {}).get(one.name)) for one in settings]
        return reduce(lambda decorated, option: option(decorated), reversed(options), wrapped)  # type: ignore[no-any-return]

    return decorate


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return several options as one decorator; the help lists them in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def processes_option(help_: str) -> Callable[[F], F]:
    """Return `--processes` for a command that must know whether it was given; others take `executor.jobs`."""
    return click.option("--processes", "jobs", cls=SettingOption, old=["--jobs"], type=AT_LEAST_ONE, help=help_)


def option_of(one: Setting, kind: click.ParamType[Any] | None = None) -> Callable[[F], F]:
    """Return the option of a setting. It shows the default but does not set it: other sources may have a value."""
    declared, names = one.declared, [one.flag]
    old = [f"--{name.replace('_', '-')}" for name in declared.old]
    shared: dict[str, Any] = {"cls": SettingOption, "old": old, "group": declared.group, "help": help_of(one)}
    if one.is_switch:
        off = f"--no-{one.flag.removeprefix('--')}"
        shown = not one.is_optional and one.default is False
        return click.option(
            *(names if shown else [f"{one.flag}/{off}"]), one.name, default=None, off=off, is_flag=True, **shared
        )
    if declared.short:
        names.insert(0, f"-{declared.short}")
    metavar = None if one.choices else declared.metavar or None
    type_ = kind or (click.Choice(one.choices) if one.choices else SettingType(one))
    return click.option(*names, one.name, type=type_, multiple=one.is_list and not kind, metavar=metavar, **shared)


def help_of(one: Setting) -> str:
    """Return the description, and the default as people write it."""
    default = default_of(one)
    return f"{one.description}  [default: {default}]" if default else one.description


def default_of(one: Setting) -> str:
    if one.declared.none and one.default in (None, "", 0, ()):
        return one.declared.none
    if one.is_switch:
        return "on" if one.default else ""
    return one.text(one.default)


class SettingType(click.ParamType[Any]):
    """Checks a value as the setting does; lists are converted later, as a whole."""

    def __init__(self, one: Setting) -> None:
        self.one = one
        self.name = one.kind.metavar if one.kind else {int: "n", float: "number"}.get(one.bare_type, "text")

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            found = self.one.parse([value] if self.one.is_list else value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found is None and self.one.kind and self.one.kind.none:  # what is None is not given, for click
            return self.one.kind.none
        return value if self.one.is_list else found


class SettingOption(click.Option):
    """An option with hidden old names that still work, and a heading in the help."""

    def __init__(self, *args: Any, old: Sequence[str] = (), group: str = "", off: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old, self.group, self.off = old, group, off

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown = self.opts, self.secondary_opts
        self.opts = [*self.opts, *self.old]
        if self.off:
            self.secondary_opts = [self.off, *(f"--no-{name.removeprefix('--')}" for name in self.old)]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts, self.secondary_opts = shown


class GroupedCommand(click.Command):
    """A command whose help groups options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        def heading(option: click.Parameter) -> str:
            return getattr(option, "group", "") or "Options"

        every = (option for option in self.get_params(ctx) if isinstance(option, click.Option))
        shown = sorted(every, key=lambda option: heading(option) == "Options")
        for title, options in groupby(shown, key=heading):
            records = [record for option in options if (record := option.get_help_record(ctx))]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

"""Answers a shell when Tab is pressed, in a tenth of a second.

Importing the commands would take several times as long. So their names are in completion.json, made by
`completion_table`, and only the part of the command tree that the line needs is built from it.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, shell_complete

VARIABLE = "_WEBMILL_COMPLETE"
FILE = Path(__file__).with_name("completion.json")
PATHS = {
    "dir": click.Path(file_okay=False),
    "file": click.Path(dir_okay=False),
    "path": click.Path(),
}
MAX_NAMES = 1000  # of a folder
VERSION = re.compile("[0-9]{8}-[0-9a-f]{8}")

Entry = dict[str, Any]  # of completion.json


def answer_shell() -> None:
    sys.exit(shell_complete(completion_tree(), {}, "webmill", VARIABLE, os.environ[VARIABLE]))


def completion_tree() -> click.Group:
    return CompletionGroup("webmill", json.loads(FILE.read_bytes()))


class CompletionGroup(click.Group):
    """A group that builds each of its commands when it is needed."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, params=make_parameters(entry), help=entry["help"])
        self._entries: dict[str, Entry] = entry["commands"]
        self._otherwise: str | None = entry.get("otherwise")

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        if "commands" in entry:
            return CompletionGroup(cmd_name, entry)
        return click.Command(cmd_name, params=make_parameters(entry), help=entry["help"])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve `webmill search DIR` as `webmill search find DIR`."""
        is_short = self._otherwise and args[0] not in self._entries
        return super().resolve_command(ctx, [self._otherwise, *args] if is_short and self._otherwise else args)


def make_parameters(entry: Entry) -> list[click.Parameter]:
    return [make_parameter(one) for one in entry["params"]]


def make_parameter(one: Entry) -> click.Parameter:
    kind = one["kind"]
    if kind == "flag":
        return click.Option(one["names"], is_flag=True, help=one["help"])
    type_ = click.Choice(one["choices"]) if kind == "choice" else PATHS.get(kind)
    shared: dict[str, Any] = {"type": type_, "shell_complete": VALUES.get(kind)}
    if "nargs" in one:
        return click.Argument(one["names"], required=False, nargs=one["nargs"], **shared)
    return click.Option(one["names"], multiple=one["multiple"], help=one["help"], **shared)


# --- names of versions, crawls and datasets in the folder on the line ---


def complete_versions(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return matching_items(
        ["live", "previous", *(name for name in names_in(ctx, "snapshots") if VERSION.fullmatch(name))], incomplete
    )


def complete_crawls(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return matching_items((name for name in names_in(ctx, "crawl-data") if name[0] != "."), incomplete)


def complete_datasets(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    root = Path(ctx.params.get("root") or "datasets")
    return matching_items(
        (name for name in names_in(ctx, "", root) if (root / name / "dataset.json").is_file()), incomplete
    )


def names_in(ctx: click.Context, folder: str, root: Path | None = None) -> list[str]:
    named = ctx.params.get("root") or ctx.params.get("collection")
    if not named:  # while an option value is typed, arguments are not parsed yet
        named = next(filter(os.path.isdir, ctx.args), ".")
    place = (root or Path(named)) / folder
    try:
        return sorted(path.name for path in place.iterdir())[:MAX_NAMES]
    except OSError:
        return []


def matching_items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


VALUES: dict[str, Callable[[click.Context, click.Parameter, str], list[CompletionItem]]] = {
    "version": complete_versions,
    "crawl": complete_crawls,
    "dataset": complete_datasets,
}

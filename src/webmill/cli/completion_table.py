"""Makes completion.json, the names of all commands and flags for `shell_completion`; docs/generate.py writes it."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from webmill.cli.main import webmill


def make_table() -> str:
    return json.dumps(make_entry(webmill, ()), ensure_ascii=False, indent=0, separators=(",", ":")) + "\n"


def make_entry(command: click.Command, path: tuple[str, ...]) -> dict[str, Any]:
    context = click.Context(command)
    found: dict[str, Any] = {
        "help": command.get_short_help_str(80),
        "params": [parameter_entry(one, path) for one in command.params if not getattr(one, "hidden", False)],
    }
    if not isinstance(command, click.Group):
        return found
    below = {name: command.get_command(context, name) for name in command.list_commands(context)}
    found["commands"] = {name: make_entry(one, (*path, name)) for name, one in below.items() if one and not one.hidden}
    if otherwise := getattr(command, "otherwise", None):
        found["otherwise"] = otherwise
    return found


def parameter_entry(one: click.Parameter, path: tuple[str, ...]) -> dict[str, Any]:
    kind = kind_of(one, path)
    found: dict[str, Any] = {"kind": kind}
    if isinstance(one, click.Option):
        pairs = "/".join([one.opts[-1], *one.secondary_opts[-1:]])
        found |= {"names": [*one.opts[:-1], pairs, one.name], "help": one.help or "", "multiple": one.multiple}
    else:
        found |= {"names": [one.name], "nargs": one.nargs}
    if isinstance(one.type, click.Choice):
        found["choices"] = [str(choice) for choice in one.type.choices]
    return found


def kind_of(one: click.Parameter, path: tuple[str, ...]) -> str:
    metavar = one.metavar or ""
    if isinstance(one, click.Option) and (one.is_flag or one.count):
        return "flag"
    if isinstance(one.type, click.Choice):
        return "choice"
    if isinstance(one.type, click.Path):
        return "path" if one.type.dir_okay and one.type.file_okay else "dir" if one.type.dir_okay else "file"
    if path[:1] == ("publish",) and metavar in ("VERSION", "[VERSION]", "A", "B"):
        return "version"
    if path[:1] == ("dataset",) and one.name == "name":
        return "dataset"
    if path == ("index",) and one.name == "name":
        return "crawl"
    return "path" if re.search(r"\b(DIR|FILE|IDX|WARC)\b", metavar) else "value"

"""`webmill plugins`: which plugins are loaded, and what their hooks have cost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.text import escape_text, json_line
from webmill.infra.plugins.costs import read_spent
from webmill.infra.plugins.loaded import HookCost, load_plugins
from webmill.infra.plugins.sources import PluginSource, find_plugins, plugin_folder


class HookRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that a plugin implements, and what its calls have cost of late."""

    hook: str
    calls: int = 0
    seconds: float = 0.0
    failed: int = 0


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin. `loading`: seconds that it took to load now."""

    name: str
    version: str
    place: str
    loading: float
    hooks: list[HookRow]


@click.command(
    epilog="""\b
Examples:
  webmill plugins
  webmill plugins --json | jq -r '.plugins[].name'
  WEBMILL_PLUGINS=./mine.py webmill plugins       # a file beside the others
  WEBMILL_PLUGINS=off webmill run news/           # without any

\b
How to write one: docs/how-to/write-a-plugin.md"""
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def plugins(*, as_json: bool) -> None:
    """List the plugins that commands load, their hooks, and what these have cost.

    Plugins are installed packages, files in your own plugin folder, and files that WEBMILL_PLUGINS names; never files
    of a collection. The cost is that of the version that is there, in processes that have ended.
    """
    rows = [describe(source) for source in find_plugins(os.environ)]
    if as_json:
        click.echo(json_line({"plugins": msgspec.to_builtins(rows), "folder": str(plugin_folder(os.environ))}))
        return
    for row in rows:
        click.echo(f"{row.name}  {row.version}  {escape_text(row.place)}  (loaded in {1000 * row.loading:.0f} ms)")
        for line in describe_hooks(row):
            click.echo(f"    {line}")
    note(f"{len(rows) or 'no'} plugin{'s' * (len(rows) != 1)}; your own folder is {plugin_folder(os.environ)}")


def describe(source: PluginSource) -> PluginRow:
    began = time.perf_counter()
    loaded = load_plugins((source,))
    loading, spent = time.perf_counter() - began, read_spent(os.environ)
    hooks = [
        HookRow(
            hook=call.hook,
            **msgspec.structs.asdict(spent.get((source.name, source.version, call.hook), HookCost())),
        )
        for call in loaded.all_calls()
    ]
    return PluginRow(name=source.name, version=source.version, place=source.place, loading=loading, hooks=hooks)


def describe_hooks(row: PluginRow) -> Iterator[str]:
    for one in row.hooks:
        if not one.calls:
            yield f"{one.hook:<17} not called yet"
            continue
        each = 1e6 * one.seconds / one.calls
        failed = f", {one.failed:,} failed" if one.failed else ""
        yield f"{one.hook:<17} {one.calls:>11,} calls, {each:,.0f} µs each, {one.seconds:,.1f} s together{failed}"

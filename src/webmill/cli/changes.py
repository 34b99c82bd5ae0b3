"""`webmill changes`: lists what changed on the pages of a collection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.publish.storage import (
    find_version,
    json_option,
    open_for_reading,
    print_json,
    publication_paths,
    root_argument,
    storage_option,
)
from webmill.cli.publish.versions import format_time
from webmill.cli.text import format_count, replace_unprintable
from webmill.formats.cdx.query import site_range
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.changes import CHANGE_KINDS, PageChange, read_changes, read_summary
from webmill.publish.types import Version

MARKS = {"added": "+", "changed": "~", "removed": "-", "moved": ">"}
COLOURS = {"added": "green", "changed": "yellow", "removed": "red", "moved": "blue"}
WIDTH = 79
LINES = 3  # of an excerpt


@click.command(
    epilog="""\b
Examples:
  webmill changes news/
  webmill changes news/ --since 7 --site "*.example.org"
  webmill changes news/ --kind removed --json | jq -r .url

\b
+ added, ~ changed, - removed, > moved. A page has changed if its title or
main text has; clocks, counters and shuffled blocks are no change, and
[[ignore]] in webmill.toml names more. `webmill publish diff` compares bytes."""
)
@root_argument
@click.option("--version", "name", metavar="VERSION", help="Changes of this version  [default: the live version]")
@click.option("--since", metavar="VERSION", help="Changes of all versions after this one, oldest first.")
@click.option("--site", metavar="PATTERN", help="Only of example.org, *.example.org or example.org/news/*.")
@click.option("--kind", "kinds", type=click.Choice(CHANGE_KINDS), multiple=True, help="Only these; repeatable.")
@storage_option
@json_option
def changes(
    *,
    root: Path,
    name: str | None,
    since: str | None,
    site: str | None,
    kinds: tuple[str, ...],
    storage: str | None,
    as_json: bool,
) -> None:
    """List what changed on the pages of the collection in DIR, from one published version to the next."""
    if name and since:
        raise click.UsageError("give --version or --since, not both")
    place = open_for_reading(publication_paths(root), storage)
    for version in choose_versions(place, name, since):
        shown = [one for one in read_changes(place, version) if is_wanted(one, site, kinds)]
        for change in shown:
            if as_json:
                print_json(change)
            else:
                print_change(change)
        note(describe_version(place, version, shown=len(shown)))


def choose_versions(storage: Storage, name: str | None, since: str | None) -> list[Version]:
    """Return the versions that are asked for: by default the live one alone."""
    if not since:
        return [find_version(storage, name or "live")]
    start = find_version(storage, since)
    return [version for version in history.list_versions(storage) if version.sequence > start.sequence]


def is_wanted(change: PageChange, site: str | None, kinds: tuple[str, ...]) -> bool:
    if kinds and change.kind not in kinds:
        return False
    return not site or change.id.encode(errors="replace") in site_range(site)


def print_change(change: PageChange) -> None:
    share = f"  {change.share:.0%} of its words" if change.kind == "changed" and change.share >= 0.01 else ""
    click.secho(f"{MARKS[change.kind]} {replace_unprintable(change.url)}{share}", fg=COLOURS[change.kind])
    if change.moved_to:
        click.echo(f"  now at {replace_unprintable(change.moved_to)}")
    if change.title:
        click.echo(clip(f"  {change.title}"))
    if change.kind in ("changed", "moved"):
        for line in excerpt_lines(change):
            click.echo(clip(line))


def excerpt_lines(change: PageChange) -> Iterator[str]:
    yield from (f"    - {line}" for line in change.removed.splitlines()[:LINES])
    yield from (f"    + {line}" for line in change.added.splitlines()[:LINES])


def clip(line: str) -> str:
    line = replace_unprintable(line)
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def describe_version(storage: Storage, version: Version, *, shown: int) -> str:
    """Return what is known of a version's changes, in a sentence."""
    head = f"version {version.version} of {format_time(version.published_at)}"
    summary = read_summary(storage, version)
    if summary is None:
        return f"{head}: an earlier webmill published it, without a record of changes; see `webmill publish diff`"
    if summary.parent is None:
        return f"{head} is the first one: {format_count(version.count, 'page')}; changes are told from the next one on"
    counts = ", ".join(f"{count:,} {kind}" for kind in CHANGE_KINDS if (count := getattr(summary, kind)))
    listed = f" ({shown:,} listed)" if shown != summary.total else ""
    beside = f"; {summary.unimportant:,} unimportant, not listed" if summary.unimportant else ""
    return f"{head}: {counts or 'no changes'}{listed}{beside}"

"""`webmill trust`: says that the settings in a folder are the user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from webmill.cli.context import note
from webmill.cli.param_types import require_folder
from webmill.cli.text import escape_text
from webmill.crawl.stored_settings import FILE, parse_stored, read_stored
from webmill.infra.trusted_folders import TrustedFolders
from webmill.pipeline import trust as trusting
from webmill.pipeline.dataset.folder import FILE_NAME as DATASET
from webmill.settings import FILE_NAME, Values, outside_values, read_file_values


@click.command(
    epilog="""\b
Examples:
  webmill trust news/
  webmill trust --list
  webmill trust --revoke news/

Where there is no home folder, WEBMILL_TRUST=/data trusts a folder and all below it."""
)
@click.argument("root", metavar="[DIR]", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option("--list", "is_list", is_flag=True, help="List the trusted folders.")
@click.option("--revoke", is_flag=True, help="Do not trust DIR any more.")
def trust(*, root: Path | None, is_list: bool, revoke: bool) -> None:
    """Trust the collection or dataset in DIR: its settings may name other hosts and files, and switch off protections.

    You need this only for a folder that webmill did not make for you on this machine. It is remembered in your own
    configuration for this folder at this path: a copy, or another folder in its place, is not trusted.
    """
    if is_list:
        print_folders()
    elif root is None:
        raise click.UsageError("name a folder: webmill trust DIR; or use --list")
    elif revoke:
        TrustedFolders(os.environ).forget(root)
        note(f"{root} is not trusted any more")
    else:
        trust_folder(require_folder(root).resolve())


def trust_folder(root: Path) -> None:
    for line in describe_orders(root):
        note(escape_text(line))
    trusting.trust(root, why="trusted by webmill trust")
    note(f"trusted: {root} (webmill trust --revoke takes it back)")


def describe_orders(root: Path) -> Iterator[str]:
    """Yield what the folder may do once it is trusted: this is what the user agrees to."""
    if (root / FILE_NAME).is_file():
        yield from _describe(read_file_values(root / FILE_NAME), root, where=FILE_NAME)
    folder = root / "frontier"
    yield from _describe(parse_stored(read_stored(folder), source=folder / FILE), root, where=f"frontier/{FILE}")
    if (root / DATASET).is_file():
        yield f"{DATASET}: runs the dataset's own function, if it has one, and reads and writes the places it names"
    for link in trusting.outside_links(root):
        yield f"{link.relative_to(root)}: a link to {link.resolve()}"


def _describe(values: Values, root: Path, *, where: str) -> Iterator[str]:
    for one, value in outside_values(values, folder=root):
        yield f"{where}: [{one.section}] {one.key} = {one.shown(value)}"


def print_folders() -> None:
    for known, is_same in TrustedFolders(os.environ).folders():
        state = "" if is_same else "  (not trusted now: this path has another folder, or none)"
        click.echo(escape_text(f"{known.since}  {known.path}  {known.why}{state}"))

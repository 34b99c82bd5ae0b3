"""`webmill dataset create`, `delete`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.dataset.folders import dataset_path, datasets_folder_option
from webmill.cli.dry_run import dry_run_option, format_amount
from webmill.cli.text import format_count
from webmill.compat.letsdata import config as letsdata
from webmill.infra import atomic
from webmill.infra.storage.backends import locate
from webmill.pipeline.dataset import folder as dataset_folder
from webmill.pipeline.dataset.config import Dataset, load_dataset
from webmill.pipeline.extract.manifest import decode_lines
from webmill.pipeline.status.files import measure_folder
from webmill.settings import HttpSettings


@click.command(
    epilog="""\b
The shortest description (TOML; JSON also works):
  name = "news"
  manifest = "manifest.txt"     # or a list of lines
  read.from = "archive/"        # or s3://…, https://…
docs/reference/dataset.md describes all keys.

\b
Examples:
  webmill dataset create news.toml
  webmill dataset create news.toml --in /data/datasets"""
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@datasets_folder_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@pass_context
def create(context: Context, /, *, file: Path, root: Path, as_json: bool) -> None:
    """Create a dataset, a folder with its name, from the description in FILE.

    The manifest and your function, if there is one, are copied into it: later changes to those files have no effect.
    A dataset.json of letsdata's works, too.
    """
    folder, tasks = create_from_file(file, root, http=context.settings().http)
    if as_json:
        click.echo(msgspec.json.encode({"name": folder.dataset.name, "path": str(folder.path), "tasks": tasks}))
    else:
        note(f"{folder.path}: {format_count(tasks, 'task')}. Next: webmill dataset run {folder.dataset.name}")


def create_from_file(file: Path, root: Path, *, http: HttpSettings) -> tuple[dataset_folder.DatasetFolder, int]:
    """Create a dataset from a description of ours or of letsdata's; return it and its number of tasks."""
    if letsdata.is_description(file):
        return create_from_letsdata(file, root, http=http)
    return create_folder(load_dataset(file), file, root, http=http)


def create_from_letsdata(file: Path, root: Path, *, http: HttpSettings) -> tuple[dataset_folder.DatasetFolder, int]:
    described = letsdata.load_description(file)
    if described.unknown:
        warn(f"{file}: unknown fields, kept in {letsdata.FILE_NAME} without effect: {', '.join(described.unknown)}")
    if described.not_needed:
        note(f"{file}: not needed here: {', '.join(described.not_needed)}")
    if described.managed:
        from webmill.compat.letsdata.resources import create_missing

        for address in create_missing(described.managed):
            note(f"created {address}")
    folder, tasks = create_folder(described.dataset, file, root, http=http)
    atomic.write_bytes(folder.path / letsdata.FILE_NAME, described.original, mode=atomic.OWNER)  # addresses with keys
    return folder, tasks


def create_folder(
    dataset: Dataset, file: Path, root: Path, *, http: HttpSettings
) -> tuple[dataset_folder.DatasetFolder, int]:
    return dataset_folder.create_dataset(
        dataset, root.resolve(), beside=file.parent, read_lines=partial(read_manifest_lines, http=http)
    )


def read_manifest_lines(place: str, *, http: HttpSettings) -> list[str]:
    storage, key = locate(place, contact=http.contact, timeout=http.timeout)
    return decode_lines(storage.read(key), source=place)


@click.command(
    epilog="""\b
Examples:
  webmill dataset delete news --dry-run
  webmill dataset delete news --yes"""
)
@click.argument("name")
@datasets_folder_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
def delete(*, name: str, root: Path, yes: bool, dry_run: bool) -> None:
    """Delete the folder of dataset NAME, with the output in it.

    Output that was written elsewhere (S3, a queue, another folder) is kept.
    """
    path = dataset_folder.require_dataset(dataset_path(name, root))
    if dry_run:
        note(f"would be deleted: {path} ({format_amount(measure_folder(path))})")
        return
    if not yes:
        click.confirm(f"Delete {path} and everything in it?", abort=True, err=True)
    dataset_folder.delete_dataset(path)
    note(f"deleted {path}")

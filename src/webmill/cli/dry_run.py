"""The `--dry-run` option, and amounts of files for its messages."""

from __future__ import annotations

import click

from webmill.cli.text import format_count, format_size
from webmill.pipeline.status.types import FilesSize

dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would change, but change nothing.")


def format_amount(found: FilesSize, noun: str = "file") -> str:
    """Return `12 files, 3.4 MB`."""
    return f"{'at least ' * (not found.is_whole)}{format_count(found.files, noun)}, {format_size(found.bytes)}"

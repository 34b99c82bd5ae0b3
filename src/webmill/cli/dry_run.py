"""`--dry-run`: what would go, in files and bytes, and nothing changed."""

from __future__ import annotations

import click

from webmill.cli.crawl_view import amount
from webmill.cli.words import counted
from webmill.pipeline.status.nouns import Amount

dry_run_option = click.option("--dry-run", is_flag=True, help="Print what would change, but change nothing.")


def quantity(found: Amount, noun: str = "file") -> str:
    """`12 files, 3.4 MB`"""
    return f"{'at least ' * (not found.is_whole)}{counted(found.files, noun)}, {amount(found.bytes)}"

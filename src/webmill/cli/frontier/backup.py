"""`webmill frontier backup` and `restore`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click

from webmill.cli.context import Context, note, pass_context
from webmill.cli.frontier.options import crawl_argument, frontier_option, open_crawl
from webmill.cli.text import format_size
from webmill.crawl.frontier_admin import backup as backups
from webmill.infra.storage.backends import open_storage


@click.command(
    epilog="""\b
Examples:
  webmill frontier backup news/ /backups/news-monday
  webmill frontier backup news/ s3://bucket/news-monday

The backup does not include WARC files: they never change, so simply copy them."""
)
@crawl_argument
@click.argument("target", metavar="TARGET")
@frontier_option
@pass_context
def backup(context: Context, /, *, collection: Path, target: str, frontier: str | None) -> None:
    """Back up the frontier of the crawl in DIR to TARGET, a folder or s3://… address.

    A backup holds all shards at one moment, with URLs in transit between them, host schedules, exclusions and flags.
    It is complete when its manifest exists; an interrupted backup is ignored.

    Where each node of a crawl has a folder of its own, run this on all of them at the same time, with the same TARGET:
    each backs up its part, and `restore` puts the parts together. The crawl may go on meanwhile.
    """
    with open_crawl(collection, frontier) as place:
        note("copying the frontier …")
        size = show_steps(context, "backup", backups.back_up(place, open_storage(target), now=time.time(), notice=note))
    note(f"backup of {format_size(size)} in {target}")


@click.command(
    epilog="""\b
Example:
  webmill frontier restore s3://bucket/news-monday again/
  webmill crawl again/"""
)
@click.argument("source", metavar="TARGET")
@click.argument("collection", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--frontier", metavar="redis://…", help="Redis to restore a crawl on many machines to.")
@click.option("--name", help="New name for the crawl.")
@pass_context
def restore(context: Context, /, *, source: str, collection: Path, frontier: str | None, name: str | None) -> None:
    """Restore a crawl in DIR from the backup in TARGET; `webmill crawl DIR` continues it.

    Every file is checked first. DIR must not have a frontier.
    """
    storage = open_storage(source)
    called = name or backups.read_parts(storage)[-1].manifest.layout.name
    with open_crawl(collection, frontier, name=called) as place:
        size = show_steps(context, "restore", backups.restore(place, storage, frontier=frontier))
    note(f"{format_size(size)} restored; next: webmill crawl {collection}")


def show_steps(context: Context, title: str, steps: Iterator[backups.BackupProgress]) -> int:
    """Show progress and return the number of bytes. The total is known with the first step."""
    first = next(steps, None)
    total = first.total if first else 0
    with context.progress(title, total=total, unit="bytes") as progress:
        if first:
            progress.advance(first.done)
        for step in steps:
            progress.advance(step.done - progress.done)
    return total

"""`webmill doctor`: checks what the machine, a collection and its servers can guarantee."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context
from webmill.cli.text import escape_text, format_count, json_line
from webmill.crawl.backends import check_redis
from webmill.infra.queue.backends import open_queue
from webmill.infra.queue.base import QueueOptions
from webmill.infra.storage.backends import open_versions
from webmill.pipeline import doctor as looks
from webmill.pipeline.doctor import DoctorFinding

SIGNS = {"good": "ok  ", "doubt": "note", "bad": "BAD "}


@click.command(
    epilog="""\b
Examples:
  webmill doctor                                  # this machine
  webmill doctor news/                            # and a collection
  webmill doctor news/ --read-data                # every byte of it
  webmill doctor news/ --sweep --dry-run
  webmill doctor --frontier redis://localhost/0 --queue amqp://localhost/

Exit code 1: a guarantee cannot be kept."""
)
@click.argument("root", metavar="[DIR]", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--read-data", is_flag=True, help="Also read every byte of archives, indexes and blobs.")
@click.option("--frontier", metavar="URL", help="Check this Redis for use as a shared frontier.")
@click.option("--queue", "queue_url", metavar="URL", help="Check this queue: amqp://…, sqs://… or sqlite:FILE")
@click.option("--storage", metavar="URL", help="Check this store for published versions: s3://BUCKET/PREFIX")
@click.option("--sweep", is_flag=True, help="Remove what killed processes left in DIR, and close their WARC files.")
@click.option("--dry-run", is_flag=True, help="With --sweep: print what would change, but change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per finding.")
@pass_context
def doctor(
    context: Context,
    /,
    *,
    root: Path | None,
    read_data: bool,
    frontier: str | None,
    queue_url: str | None,
    storage: str | None,
    sweep: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Check this machine, the collection in DIR, and servers: which guarantees hold, and what to repair."""
    if sweep:
        if root is None:
            raise click.UsageError("--sweep needs DIR")
        for done in looks.describe_sweep(root) if dry_run else looks.sweep(root):
            note(escape_text(done))
    elif dry_run:
        raise click.UsageError("--dry-run needs --sweep: nothing else makes changes")
    found = list(
        print_findings(
            chain(
                looks.check_machine(),
                looks.check_collection(root, read_data=read_data) if root else (),
                check_servers(context, frontier, queue_url, storage),
            ),
            as_json=as_json,
        )
    )
    bad = sum(finding.state == "bad" for finding in found)
    if bad:
        note(f"{format_count(bad, 'guarantee')} cannot be kept")
        raise click.exceptions.Exit(1)


def check_servers(
    context: Context, frontier: str | None, queue_url: str | None, storage: str | None
) -> Iterator[DoctorFinding]:
    if frontier:
        check_redis(frontier)
        yield from looks.check_redis(frontier)
    if queue_url:
        settings = context.settings().queue
        options = QueueOptions(name="webmill", attempts=settings.attempts, lease=settings.lease)
        yield from looks.check_queue(partial(open_queue, queue_url, options))
    if storage:
        yield from looks.check_storage(partial(open_versions, storage))


def print_findings(findings: Iterable[DoctorFinding], *, as_json: bool) -> Iterator[DoctorFinding]:
    """Print each finding as soon as it is known: reading every byte takes long."""
    for finding in findings:
        if as_json:
            click.echo(json_line(msgspec.to_builtins(finding)))
        else:
            click.echo(f"{SIGNS[finding.state]}  {finding.part}: {escape_text(finding.found)}")
            for name, words in (("keeps", finding.promise), ("repair", finding.repair)):
                if words:
                    click.echo(f"      {name}: {escape_text(words)}")
        yield finding

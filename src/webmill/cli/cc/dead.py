"""`webmill cc dead`: batches that nobody could work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec

from webmill.cli.cc.queues import opened_queue, queue_option, require_queue, viewed_queue, with_queue
from webmill.cli.context import Context, note, pass_context
from webmill.cli.dry_run import dry_run_option, quantity
from webmill.cli.words import counted, printable
from webmill.errors import NotFound
from webmill.infra.queue.base import Buried, Queue
from webmill.pipeline.status.nouns import Amount


@contextmanager
def queue_at(context: Context, url: str | None) -> Iterator[Queue]:
    settings = with_queue(context.settings(), url)
    require_queue(settings)
    with opened_queue(settings) as queue:
        yield queue


@contextmanager
def letters_at(context: Context, url: str | None) -> Iterator[Iterator[Buried]]:
    """For who only looks."""
    with viewed_queue(with_queue(context.settings(), url)) as queue:
        yield queue.buried()


@click.group(
    epilog="""\b
Examples:
  webmill cc dead list --queue sqlite:work.sqlite
  webmill cc dead show 0123456789ab-00000042 > batch.json
  webmill cc dead requeue --all --queue amqp://localhost/"""
)
def dead() -> None:
    """Batches that nobody could work: why, what is in them, and another try."""


@dead.command("list", epilog="Example: webmill cc dead list --queue sqlite:work.sqlite")
@queue_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with the first error too.")
@pass_context
def list_(context: Context, /, *, queue: str | None, as_json: bool) -> None:
    """The buried batches: id, attempts, size, when, and why."""
    count = 0
    with letters_at(context, queue) as letters:
        for letter in letters:
            count += 1
            click.echo(as_object(letter) if as_json else as_line(letter))
    if not count:
        note("none are buried")


@dead.command(
    short_help="The message of a batch, and what is known of it.",
    epilog="Example: webmill cc dead show 0123456789ab-00000042 > batch.json",
)
@click.argument("id_", metavar="ID")
@queue_option
@pass_context
def show(context: Context, /, *, id_: str, queue: str | None) -> None:
    """The message of batch ID on stdout, and what is known of it on stderr."""
    with letters_at(context, queue) as letters:
        letter = next((letter for letter in letters if letter.id == id_), None)
        if letter is None:
            raise NotFound(f"no buried batch {id_}: `webmill cc dead list` lists them")
        note(as_line(letter))
        if letter.first_error != letter.last_error:
            note(f"first error: {printable(letter.first_error)}")
        click.echo(letter.body, nl=not letter.body.endswith(b"\n"))


@dead.command(epilog="Example: webmill cc dead requeue --all --queue amqp://localhost/")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@queue_option
@pass_context
def requeue(context: Context, /, *, ids: tuple[str, ...], everything: bool, queue: str | None) -> None:
    """Give batches fresh attempts. Worked after their neighbours were sealed, they become files of their own."""
    check(ids, everything=everything)
    with queue_at(context, queue) as dead_queue:
        note(f"{dead_queue.requeue(None if everything else ids):,} queued again")


@dead.command(epilog="Example: webmill cc dead drop --all --dry-run --queue sqlite:work.sqlite")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@queue_option
@dry_run_option
@pass_context
def drop(context: Context, /, *, ids: tuple[str, ...], everything: bool, queue: str | None, dry_run: bool) -> None:
    """Forget batches for good."""
    check(ids, everything=everything)
    if dry_run:
        with letters_at(context, queue) as letters:
            sizes = [len(letter.body) for letter in letters if everything or letter.id in ids]
        note(f"would be dropped: {quantity(Amount(files=len(sizes), bytes=sum(sizes)), 'batch')}")
        return
    with queue_at(context, queue) as dead_queue:
        chosen = [letter.id for letter in dead_queue.buried()] if everything else ids
        note(f"{dead_queue.drop(chosen):,} dropped")


def check(ids: tuple[str, ...], *, everything: bool) -> None:
    if bool(ids) == everything:
        raise click.UsageError("name some batches, or give --all")


def as_line(letter: Buried) -> str:
    when = datetime.fromtimestamp(letter.when, UTC).strftime("%Y-%m-%d %H:%M:%S")
    reason = printable(letter.reason)[:300]
    return (
        f"{printable(letter.id)}\t{counted(letter.attempts, 'attempt')}\t{len(letter.body):,} bytes\t{when}\t{reason}"
    )


def as_object(letter: Buried) -> bytes:
    known = {name: getattr(letter, name) for name in ("id", "reason", "attempts", "first_error", "last_error", "when")}
    return msgspec.json.encode(known | {"bytes": len(letter.body)})

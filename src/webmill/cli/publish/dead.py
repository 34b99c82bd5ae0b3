"""`webmill publish dead`: jobs that nobody could do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from webmill.boards.jobs import job_of, opened_queue, queue_options
from webmill.cli.cc.dead import as_line, as_object
from webmill.cli.collections import existing
from webmill.cli.context import Context, note, pass_context
from webmill.cli.dry_run import dry_run_option, quantity
from webmill.cli.options import together
from webmill.cli.publish.places import (
    echo_json,
    publishing_in,
    queue_option,
    queue_settings,
    root_argument,
)
from webmill.cli.words import shown
from webmill.errors import BadInput, NotFound
from webmill.infra.queue.backends import require_queue, viewed_queue
from webmill.infra.queue.base import Buried, Queue
from webmill.pipeline.hands import BROKER
from webmill.pipeline.status.nouns import Amount
from webmill.settings import QueueSettings

F = TypeVar("F", bound=Callable[..., Any])

which = together(
    root_argument,
    click.argument("ids", nargs=-1, metavar="[ID]..."),
    click.option("--all", "everything", is_flag=True, help="All of them."),
    queue_option,
)


@contextmanager
def queue_at(context: Context, root: Path, url: str | None) -> Iterator[Queue]:
    settings = settings_at(context, root, url)
    with opened_queue(settings) as queue:
        yield queue


@contextmanager
def letters_at(context: Context, root: Path, url: str | None) -> Iterator[Iterator[Buried]]:
    """For who only looks."""
    settings = settings_at(context, root, url)
    with viewed_queue(settings.url, queue_options(settings), policy=BROKER) as queue:
        yield queue.buried()


def settings_at(context: Context, root: Path, url: str | None) -> QueueSettings:
    if not url:
        existing(root)
    settings = queue_settings(context, publishing_in(root), url)
    try:
        require_queue(settings.url, queue_options(settings))
    except NotFound as error:
        raise NotFound(f"{error}: name the one that the runs have") from error
    return settings


@click.group(
    epilog="""\b
Examples:
  webmill publish dead list notices/
  webmill publish dead requeue notices/ --all --queue amqp://localhost/"""
)
def dead() -> None:
    """Jobs that failed every time, or killed their workers: why, and another try.

    The next run reads those boards again anyhow, and drops their old dead jobs. A job that is requeued counts as long
    as its own run is not published.
    """


@dead.command("list", epilog="Example: webmill publish dead list notices/ --json")
@root_argument
@queue_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, with the first error too.")
@pass_context
def list_(context: Context, /, *, root: Path, queue_url: str | None, as_json: bool) -> None:
    """The buried jobs: id, attempts, size, when, why, and which board."""
    count = 0
    with letters_at(context, root, queue_url) as letters:
        for letter in letters:
            count += 1
            if as_json:
                echo_json(as_object(letter))
            else:
                click.echo(f"{as_line(letter)}\t{shown(board_of(letter))}")
    if not count:
        note("none are buried")


@dead.command(epilog="Example: webmill publish dead requeue notices/ --all")
@which
@pass_context
def requeue(context: Context, /, *, root: Path, ids: tuple[str, ...], everything: bool, queue_url: str | None) -> None:
    """Give jobs fresh attempts."""
    with queue_at(context, root, queue_url) as queue:
        chosen, unknown = choose(ids_of(queue), ids, everything=everything)
        note(f"{queue.requeue(chosen):,} queued again")
    tell_unknown(unknown)


@dead.command(epilog="Example: webmill publish dead drop notices/ --all --dry-run")
@which
@dry_run_option
@pass_context
def drop(
    context: Context, /, *, root: Path, ids: tuple[str, ...], everything: bool, queue_url: str | None, dry_run: bool
) -> None:
    """Forget jobs for good."""
    if dry_run:
        with letters_at(context, root, queue_url) as letters:
            sizes = {letter.id: len(letter.body) for letter in letters}
        chosen, unknown = choose([*sizes], ids, everything=everything)
        size = sum(sizes[id_] for id_ in chosen)
        note(f"would be dropped: {quantity(Amount(files=len(chosen), bytes=size), 'job')}")
    else:
        with queue_at(context, root, queue_url) as queue:
            chosen, unknown = choose(ids_of(queue), ids, everything=everything)
            note(f"{queue.drop(chosen):,} dropped")
    tell_unknown(unknown)


def ids_of(queue: Queue) -> list[str]:
    return [letter.id for letter in queue.buried()]


def choose(buried: list[str], ids: tuple[str, ...], *, everything: bool) -> tuple[list[str], list[str]]:
    """Those that are buried, and those that are not."""
    if bool(ids) == everything:
        raise click.UsageError("name some jobs, or give --all")
    if everything:
        return buried, []
    there = set(buried)
    return [id_ for id_ in ids if id_ in there], [id_ for id_ in ids if id_ not in there]


def tell_unknown(ids: list[str]) -> None:
    if ids:
        raise NotFound(f"no buried job {shown(', '.join(ids))}: `webmill publish dead list` names them")


def board_of(letter: Buried) -> str:
    try:
        return job_of(letter.body).board.source
    except BadInput:
        return "no job of ours"

"""`webmill dead`: lists, retries and discards failed tasks (dead letters) of all queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from webmill.boards.jobs import QUEUE as BOARDS
from webmill.boards.jobs import parse_job
from webmill.cli.cc.queues import check_queue_url
from webmill.cli.context import Context, note, pass_context
from webmill.cli.dry_run import dry_run_option, format_amount
from webmill.cli.options import together
from webmill.cli.text import escape_text, format_count, replace_unprintable
from webmill.collection import STATE_FOLDER, PublishFolders
from webmill.commoncrawl.batch import QUEUE as BATCHES
from webmill.errors import BadInput, NotFound
from webmill.infra.address import scheme_of
from webmill.infra.queue.backends import open_queue, require_queue, view_queue
from webmill.infra.queue.base import DeadLetter, Queue, QueueOptions
from webmill.infra.queue.leases import BROKER
from webmill.infra.retry import retrying
from webmill.pipeline.alerts.inspect import outbox_files
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.extract.tasks import read_task
from webmill.pipeline.status.types import FilesSize
from webmill.settings import QueueSettings

queue_arguments = together(
    click.argument("words", nargs=-1, metavar="[DIR] [ID]..."),
    click.option(
        "--queue", "url", metavar="URL", callback=check_queue_url, help="Queue to look at: sqlite:FILE or amqp://…"
    ),
    click.option("--name", help=f"Name of the queue at a broker  [default: {BATCHES}; with DIR: {BOARDS}]"),
)
all_option = click.option("--all", "everything", is_flag=True, help="All failed tasks.")


@click.group(
    epilog="""\b
Examples:
  webmill dead list news/                 # all queues of a collection
  webmill dead list datasets/pages/
  webmill dead requeue documents/ --all   # the output of `webmill cc run`
  webmill dead show ID --queue amqp://localhost/ > batch.json"""
)
def dead() -> None:
    """List failed tasks (dead letters) with their reasons, and retry or discard them.

    Give DIR (a collection, a dataset or an output of `webmill cc run`), or --queue.
    """


@dead.command("list", epilog="Example: webmill dead list news/ --json")
@queue_arguments
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, including the first error.")
@pass_context
def list_(context: Context, /, *, words: tuple[str, ...], url: str | None, name: str | None, as_json: bool) -> None:
    """List failed tasks, one per line.

    The columns are id, attempts, size, time, reason, and the file or board that the task reads.
    """
    count = 0
    places, _ = resolve_queues(context, words, url, name)
    for place in places:
        with place.viewed() as queue:
            for letter in queue.dead_letters():
                count += 1
                click.echo(
                    encode_dead_letter(letter)
                    if as_json
                    else f"{format_dead_letter(letter)}\t{escape_text(task_subject(letter))}"
                )
    if not count:
        note("no failed tasks")


@dead.command(short_help="Print the message of a failed task.", epilog="Example: webmill dead show news/ ID")
@queue_arguments
@pass_context
def show(context: Context, /, *, words: tuple[str, ...], url: str | None, name: str | None) -> None:
    """Print the message of task ID on stdout, and its attempts and errors on stderr."""
    places, ids = resolve_queues(context, words, url, name)
    for place in places:
        with place.viewed() as queue:
            for letter in queue.dead_letters():
                if letter.id in ids:
                    note(format_dead_letter(letter))
                    if letter.first_error != letter.last_error:
                        note(f"first error: {replace_unprintable(letter.first_error)}")
                    click.echo(letter.body, nl=not letter.body.endswith(b"\n"))
                    return
    raise unknown_tasks(ids)


@dead.command(epilog="Example: webmill dead requeue news/ --all")
@queue_arguments
@all_option
@pass_context
def requeue(
    context: Context, /, *, words: tuple[str, ...], url: str | None, name: str | None, everything: bool
) -> None:
    """Put failed tasks back into the queue.

    A worker or the next run retries them; they resume from where they failed.
    """
    places, ids = resolve_queues(context, words, url, name)
    check_choice(ids, everything=everything)
    count, left = 0, set(ids)
    for place in places:
        with closing(place.opened()) as queue:
            chosen = choose_tasks(queue.dead_letters(), ids, everything=everything)
            count += queue.requeue(list(chosen))
            left -= chosen.keys()
    note(f"{format_count(count, 'task')} requeued")
    if left:
        raise unknown_tasks(left)


@dead.command(epilog="Example: webmill dead drop news/ --all --dry-run")
@queue_arguments
@all_option
@dry_run_option
@pass_context
def drop(
    context: Context, /, *, words: tuple[str, ...], url: str | None, name: str | None, everything: bool, dry_run: bool
) -> None:
    """Discard failed tasks for good."""
    places, ids = resolve_queues(context, words, url, name)
    check_choice(ids, everything=everything)
    count = size = 0
    left = set(ids)
    for place in places:
        with ExitStack() as stack:
            queue = stack.enter_context(place.viewed() if dry_run else closing(place.opened()))
            chosen = choose_tasks(queue.dead_letters(), ids, everything=everything)
            count, size = count + len(chosen), size + sum(chosen.values())
            left -= chosen.keys()
            if not dry_run:
                queue.drop(list(chosen))
    if dry_run:
        note(f"would be dropped: {format_amount(FilesSize(files=count, bytes=size), 'task')}")
    else:
        note(f"{format_count(count, 'task')} dropped")
    if left:
        raise unknown_tasks(left)


# --- which queues ---


class QueueLocation(NamedTuple):
    url: str
    options: QueueOptions

    def viewed(self) -> Any:
        return view_queue(self.url, self.options, policy=BROKER)

    def opened(self) -> Queue:
        return retrying(lambda: open_queue(self.url, self.options), policy=BROKER)


def resolve_queues(
    context: Context, words: Sequence[str], url: str | None, name: str | None
) -> tuple[list[QueueLocation], tuple[str, ...]]:
    """Return the queues and the task ids. Without --queue the first word is DIR; with it, only if it is a folder."""
    folder = Path(words[0]) if words and (not url or Path(words[0]).is_dir()) else None
    ids = tuple(words[1:] if folder else words)
    settings = context.settings(folder if folder and folder.is_dir() else None).queue
    name = name or (BOARDS if folder else BATCHES)
    if url or not folder:
        return [require_named_queue(url or settings.url, settings, name)], ids
    if not folder.is_dir():
        raise click.BadParameter(f"Directory {str(folder)!r} does not exist.", param_hint="'DIR'")
    files = [file for file in queue_files(folder.resolve()) if file.is_file()]
    if files:
        return [QueueLocation(f"sqlite:{file}", queue_options(settings, name)) for file in files], ids
    if scheme_of(settings.url)[0] != "sqlite":
        return [require_named_queue(settings.url, settings, name)], ids
    raise NotFound(f"no queue in {folder}: nothing was queued there; for a queue elsewhere give --queue")


def require_named_queue(url: str, settings: QueueSettings, name: str) -> QueueLocation:
    place = QueueLocation(url, queue_options(settings, name))
    try:
        require_queue(place.url, place.options)
    except NotFound as error:
        raise NotFound(f"{error}: give the queue that `webmill cc batch` fills with --queue") from error
    return place


def queue_options(settings: QueueSettings, name: str) -> QueueOptions:
    return QueueOptions(name=name, attempts=settings.attempts, lease=settings.lease, type=settings.type)


def queue_files(folder: Path) -> Iterator[Path]:
    """Yield the files where a collection, a dataset or an output may have queues."""
    yield PublishFolders(folder).extract_state / TASKS
    yield folder / STATE_FOLDER / "queue.sqlite"
    yield folder / TASKS
    yield PublishFolders(folder).queue
    yield folder / "queue.sqlite"
    yield from outbox_files(folder)
    yield from sorted((folder / "datasets").glob(f"*/{TASKS}"))


# --- which tasks ---


def choose_tasks(letters: Iterator[DeadLetter], ids: Sequence[str], *, everything: bool) -> dict[str, int]:
    """Return the ids and sizes of the chosen tasks that failed."""
    return {letter.id: len(letter.body) for letter in letters if everything or letter.id in ids}


def check_choice(ids: Sequence[str], *, everything: bool) -> None:
    if bool(ids) == everything:
        raise click.UsageError("give the ids of tasks, or --all")


def unknown_tasks(ids: Sequence[str] | set[str]) -> NotFound:
    return NotFound(f"no failed task {escape_text(', '.join(sorted(ids)))}: `webmill dead list` lists them")


def task_subject(letter: DeadLetter) -> str:
    """Return the board or file that a task reads; nothing for a batch, which has many."""
    try:
        return parse_job(letter.body).board.source
    except BadInput:
        pass
    try:
        return str(next(iter(read_task(letter.id, letter.body).files.values()), ""))
    except BadInput:
        return ""


def format_dead_letter(letter: DeadLetter) -> str:
    when = datetime.fromtimestamp(letter.when, UTC).strftime("%Y-%m-%d %H:%M:%S")
    reason = replace_unprintable(letter.reason)[:300]
    attempts, size = format_count(letter.attempts, "attempt"), f"{len(letter.body):,} bytes"
    return "\t".join((replace_unprintable(letter.id), attempts, size, when, reason))


def encode_dead_letter(letter: DeadLetter) -> bytes:
    known = {name: getattr(letter, name) for name in ("id", "reason", "attempts", "first_error", "last_error", "when")}
    return msgspec.json.encode(known | {"bytes": len(letter.body)})

"""`cc-batcher` and `cc-worker` of commoncrawl-pipeline: `webmill cc batch` and `work` with what was constant there."""

from __future__ import annotations

from collections.abc import Sequence

import click

from webmill.cli.cc.batch import batch
from webmill.cli.cc.queues import CONNECTION_VARIABLE
from webmill.cli.cc.work import work

CRAWL = "CC-MAIN-2024-30"
LINGER = "10s"  # Prometheus reads every 5 s

queue_option = click.option(
    "--queue", envvar=CONNECTION_VARIABLE, show_envvar=True, required=True, metavar="URL", help="Address of RabbitMQ."
)
more_flags = click.argument("more", nargs=-1, type=click.UNPROCESSED, metavar="[FLAG]...")


@click.command(
    "cc-batcher",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: cc-batcher --cluster-idx-filename cluster.idx --queue amqp://localhost/",
)
@click.option(
    "--cluster-idx-filename", "summary", required=True, metavar="FILE", help="cluster.idx, downloaded before."
)
@click.option("--crawl", default=CRAWL, show_default=True, metavar="NAME", help="Crawl that the file belongs to.")
@queue_option
@more_flags
@click.pass_context
def batcher(context: click.Context, /, *, summary: str, crawl: str, queue: str, more: tuple[str, ...]) -> None:
    """Queue the English captures of a crawl that have status 200, in batches of 50.

    Each FLAG is one of `webmill cc batch`.
    """
    flags = ["--cluster-idx", summary, "--crawl", crawl, "--queue", queue, "--language", "eng", "--status", "200"]
    run_command(context, batch, [*flags, "--metrics-linger", LINGER, *more])


@click.command(
    "cc-worker",
    context_settings={"ignore_unknown_options": True},
    epilog="Example: cc-worker --queue amqp://localhost/",
)
@queue_option
@more_flags
@click.pass_context
def worker(context: click.Context, /, *, queue: str, more: tuple[str, ...]) -> None:
    """Fetch queued captures and write their text to the folder documents, one batch at a time.

    Each FLAG is one of `webmill cc work`.
    """
    run_command(context, work, ["--queue", queue, "-o", "documents", "--processes", "1", *more])


def run_command(context: click.Context, command: click.Command, flags: Sequence[str]) -> None:
    """Run a command of webmill; an error is told under the old name."""
    with command.make_context(context.info_name, [*flags], parent=context.parent) as made:
        command.invoke(made)

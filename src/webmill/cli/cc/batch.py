"""`webmill cc batch`."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.filters import filter_options, selection_of
from webmill.cli.cc.source import base_of, base_url_option, open_base, resolve
from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.counts import AT_LEAST_ONE
from webmill.commoncrawl.batch import QUEUE
from webmill.commoncrawl.catalog import cluster_key
from webmill.commoncrawl.selection import Selection
from webmill.config import Queue as QueueSettings
from webmill.config import Settings
from webmill.errors import Misconfigured, NotFound, Unavailable
from webmill.flows.dispatch.batcher import BATCH_SIZE, MAX_QUEUED, Options, Report, Source, Surroundings, dispatch
from webmill.flows.dispatch.metrics import ALL, PORT
from webmill.index.shards import Shards
from webmill.infra.metrics import Metrics
from webmill.infra.storage.base import Readable
from webmill.wiring import locate_crawl_file, open_executor, open_queue, scheme_of

AGAIN = "what was published is kept; run the same command again to go on"


@click.command(
    epilog="""\b
Examples:
  webmill cc batch --crawl CC-MAIN-2024-30 --domain example.com \\
    --language eng --status 200
  webmill cc batch --crawl latest --mime-detected application/pdf \\
    --sample 0.01 --queue amqp://localhost/
  webmill cc batch --cluster-idx index/cluster.idx --url 'example.com/a*'

A message is a JSON array of {"surt_url", "timestamp", "metadata"}, metadata being all of the index line's JSON.

Killed at any moment and run again with the same flags it goes on: nothing is lost, and with an SQLite queue nothing
is published twice; RabbitMQ may get the last 256 batches again, under the same ids.

Exit code 3: done, but lines or blocks of the index were damaged; the message says where they are listed."""
)
@click.option("--crawl", metavar="NAME", help="Whose index to read: CC-MAIN-2024-30, latest.")
@click.option("--cluster-idx", metavar="FILE|URL", help="Or: the summary of any ZipNum index, its blocks beside it.")
@base_url_option
@filter_options
@click.option("--dedup", type=click.Choice(["digest"]), help="Of captures with the same content only the first.")
@click.option("--limit", type=AT_LEAST_ONE, help="Captures at most  [default: all]")
@click.option("--queue", metavar="URL", help="sqlite:FILE or amqp://…  [default: as the settings say, queue.sqlite]")
@click.option("--batch-size", type=AT_LEAST_ONE, default=BATCH_SIZE, show_default=True, help="Captures in a message.")
@click.option(
    "--max-queued", type=AT_LEAST_ONE, default=MAX_QUEUED, show_default=True, help="Wait for workers above it."
)
@click.option("--concurrency", type=AT_LEAST_ONE, default=4, show_default=True, help="Requests at once.")
@click.option("--jobs", type=AT_LEAST_ONE, help="Processes that look through blocks  [default: one per core]")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of checkpoints and rejects  [default: .webmill beside an SQLite queue, else here]",
)
@click.option("--restart", is_flag=True, help="Forget the checkpoint and begin anew.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), default=PORT, metavar="N", help="Of 127.0.0.1  [default: 9000]"
)
@click.option("--no-metrics", is_flag=True, help="Serve none.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON on stdout.")
@pass_context
def batch(
    context: Context,
    /,
    *,
    crawl: str | None,
    cluster_idx: str | None,
    base_url: str | None,
    dedup: str | None,
    limit: int | None,
    queue: str | None,
    batch_size: int,
    max_queued: int,
    concurrency: int,
    jobs: int | None,
    state: Path | None,
    restart: bool,
    metrics_port: int,
    no_metrics: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Choose captures from the index of a crawl and put them into a queue, in batches.

    Without filters that is every capture. Several values of one flag: one must hold. All flags: each must hold.
    """
    if bool(crawl) == bool(cluster_idx):
        raise click.UsageError("give either --crawl NAME or --cluster-idx FILE|URL")
    wanted = selection_of(**filters)
    settings = context.settings()
    if jobs:
        settings = msgspec.structs.replace(settings, executor=msgspec.structs.replace(settings.executor, jobs=jobs))
    queue_settings = msgspec.structs.replace(settings.queue, url=queue or settings.queue.url)
    options = Options(
        batch_size=batch_size, dedup=bool(dedup), limit=limit, max_queued=max_queued, concurrency=concurrency
    )
    source = source_of(crawl, cluster_idx, base_url, settings)
    with ExitStack() as stack:
        metrics = Metrics(ALL)
        if not no_metrics:
            stack.enter_context(served(metrics, port=metrics_port))
        progress = stack.enter_context(context.progress("blocks", unit="blocks"))
        report = run(
            source,
            wanted,
            queue_settings,
            settings,
            root=state or state_beside(queue_settings.url),
            options=options,
            around=Surroundings(
                metrics, total=lambda total: setattr(progress, "total", total), advance=progress.advance
            ),
            restart=restart,
        )
    tell(report, as_json=as_json)


def run(
    source: Source,
    wanted: Selection,
    queue_settings: QueueSettings,
    settings: Settings,
    *,
    root: Path,
    options: Options,
    around: Surroundings,
    restart: bool,
) -> Report:
    if scheme_of(queue_settings.url)[0] == "memory":
        raise Misconfigured("a queue in memory ends with this command: use sqlite:FILE or amqp://…")
    try:
        with (
            closing(open_queue(queue_settings, name=QUEUE, folder=Path())) as queue,
            closing(open_executor(settings.executor)) as executor,
        ):
            return dispatch(
                source, wanted, queue, root=root, executor=executor, options=options, around=around, restart=restart
            )
    except NotFound as error:
        raise NotFound(f"{error}: no such index; `webmill cc crawls` lists the crawls") from error
    except Unavailable as error:
        raise Unavailable(f"{error}: {AGAIN}") from error


class Beside:
    """Blocks in the folder of the summary and nowhere else: no question for a list of other places."""

    def __init__(self, storage: Readable, summary: str) -> None:
        self._storage = storage
        self._folder = posixpath.dirname(summary)

    def read(self, name: str, *, start: int, length: int) -> bytes:
        return self._storage.read(posixpath.join(self._folder, name), start=start, length=length)


def source_of(crawl: str | None, cluster_idx: str | None, base_url: str | None, settings: Settings) -> Source:
    if cluster_idx:
        if scheme_of(cluster_idx)[0] == "file" and Path(scheme_of(cluster_idx)[1]).is_dir():
            cluster_idx = str(Path(scheme_of(cluster_idx)[1]) / "cluster.idx")
        storage, key = locate_crawl_file(cluster_idx, http=settings.http, commoncrawl=settings.commoncrawl)
        # A list of other places is for archives on disks; Common Crawl has none, and may answer 403 when asked for it.
        is_web = scheme_of(cluster_idx)[0] in ("http", "https")
        shards = Beside(storage, key) if is_web else Shards(storage, key, elsewhere={})
        return Source(absolute(cluster_idx), storage, key, shards)
    base = base_of(settings, base_url)
    key = cluster_key(resolve(crawl or "", base, settings))
    storage = open_base(base, settings)
    return Source(f"{absolute(base)}/{key}", storage, key, Beside(storage, key))


def absolute(place: str) -> str:
    scheme, rest = scheme_of(place)
    return str(Path(rest).resolve()) if scheme == "file" else place


def state_beside(queue_url: str) -> Path:
    scheme, rest = scheme_of(queue_url)
    return (Path(rest).parent if scheme == "sqlite" else Path()) / ".webmill" / "batcher"


@contextmanager
def served(metrics: Metrics, *, port: int) -> Iterator[None]:
    """A batcher runs without its numbers too, when another has the port."""
    with ExitStack() as stack:
        try:
            stack.enter_context(metrics.serve(port=port))
        except Misconfigured as error:
            note(f"no metrics: {error}, or leave them out with --no-metrics")
        yield


def tell(report: Report, *, as_json: bool) -> None:
    counts = report.counts
    if as_json:
        click.echo(msgspec.json.encode(report))
    if report.nothing_to_do:
        note(f"nothing to do: all was published before (batches: {report.batches:,}); --restart begins anew")
    else:
        left_out = ", ".join(f"{count:,} by {name}" for name, count in counts.filtered.items())
        published = f"batches: {report.batches:,}, of them published now: {report.published:,}"
        note(
            f"{published}; captures: {counts.accepted:,} of {counts.lines:,}"
            + f"; left out: {left_out}" * bool(left_out)
        )
    finish(rejected=counts.rejected, where=f"see {report.rejected_file}")

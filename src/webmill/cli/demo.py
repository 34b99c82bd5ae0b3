"""`webmill demo`: what there is of the river, on a small web of its own, in seconds."""

from __future__ import annotations

import shutil
import signal
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click

from webmill.cli.context import Context, pass_context
from webmill.collection import Collection
from webmill.flows.demo import NAME, gather
from webmill.flows.index import Options, index_collection
from webmill.formats.warc import read_records
from webmill.index import columnar
from webmill.index.lookup import open_index
from webmill.index.query import Query, answer, url_range
from webmill.model import Damage
from webmill.testing import TestWeb
from webmill.wiring import open_executor


@click.command(
    epilog="""\b
Examples:
  webmill demo                      # then look around until Ctrl-C
  webmill demo --no-serve           # ends by itself
  webmill demo --no-serve --keep demo/"""
)
@click.option("--serve/--no-serve", default=True, help="Keep the small web up until Ctrl-C.")
@click.option("--keep", type=click.Path(path_type=Path), help="Put the collection here and keep it.")
@pass_context
def demo(context: Context, /, *, serve: bool, keep: Path | None) -> None:
    """See webmill work: a small web of 20 hosts is archived, checked, indexed and queried.

    Nothing leaves this machine.
    """
    settings = context.settings()
    if keep and keep.exists() and any(keep.iterdir()):
        raise click.UsageError(f"{keep} is not empty: name a new folder")
    root = (keep or Path(tempfile.mkdtemp(prefix="webmill-demo-"))).resolve()
    try:
        with TestWeb() as web, closing(open_executor(settings.executor)) as executor:
            collection = Collection(root, NAME)
            with context.progress("Fetching", unit="pages") as bar:
                gathered = gather(web, root, started=datetime.now(UTC), seen=bar.advance)
            step(f"archived {gathered.pages:,} pages of {gathered.hosts} hosts", collection, gathered.warc)
            click.echo(f"  checked  {check(gathered.warc)}")
            options = Options(parquet=columnar.is_available())
            report = index_collection(collection, options, executor=executor, watch=context.progress)
            step(
                f"indexed  {report.captures:,} captures: ZipNum as Common Crawl's and pywb's",
                collection,
                collection.zipnum,
            )
            if options.parquet:
                step("         the same as Parquet, for DuckDB and Spark", collection, collection.table)
            show_query(collection, web.home)
            click.echo(hints(collection) if keep else "\nKeep it with `webmill demo --keep demo/` and look inside.")
            if serve:
                wait(web)
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)


def step(what: str, collection: Collection, path: Path) -> None:
    size = sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob("*")) if file.is_file())
    click.echo(f"  {what}\n           {collection.key(path)}  ({size:,} bytes)")


def check(warc: Path) -> str:
    with warc.open("rb") as source:
        items = list(read_records(source))
    damaged = sum(isinstance(item, Damage) for item in items)
    return f"{len(items) - damaged:,} records read back, {damaged} damaged"


def show_query(collection: Collection, url: str) -> None:
    wanted = Query(range=url_range(url, "host"), filters=("=status:200",), limit=3)
    click.echo(f"  queried  three captures of {url}")
    for line in answer(open_index(collection.zipnum), wanted):
        key, timestamp, _ = line.decode().split(" ", 2)
        click.echo(f"           {timestamp} {key}")


def hints(collection: Collection) -> str:
    zipnum = collection.zipnum
    return f"""
Look inside:
  webmill warc list {collection.segments}/*/warc/*.warc.gz | head
  webmill cdxj query '*.mill.example' --index {zipnum} --limit 5
  webmill cdxj verify {zipnum}
Do the same with WARC files of your own:
  webmill index FOLDER"""


def wait(web: TestWeb) -> None:
    try:
        click.echo(f"\nThe small web is up at http://{web.addresses[0]}:{web.port}/ … Ctrl-C ends it.")
        signal.pause()
    except KeyboardInterrupt:
        click.echo("")

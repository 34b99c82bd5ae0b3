"""`webmill frontier import-postgres` and `import-redis`: import the frontiers of other crawlers."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context
from webmill.cli.frontier.options import frontier_option, name_option, open_crawl
from webmill.cli.options import SettingOption
from webmill.cli.param_types import AT_LEAST_ONE
from webmill.cli.text import format_count
from webmill.compat.frontier.hybrid import HybridFrontier, open_hybrid_imports
from webmill.compat.frontier.importer import BATCH, TableImport, open_imports
from webmill.compat.frontier.postgres import DatabaseSnapshot
from webmill.compat.frontier.progress import ImportCounts
from webmill.crawl.frontier.base import PRIORITIES
from webmill.crawl.frontier_admin.crawl_frontier import CrawlFrontier
from webmill.crawl.stored_settings import read_stored, store


@click.command(
    epilog="""\b
Examples:
  webmill frontier import-postgres news/ --url postgresql://me@host/crawler
  webmill crawl news/ --scope any --contact me@example.org

If it is interrupted, run it again: it continues where it was.

Exit code 3: done, but some rows were rejected; the message names the file that lists them."""
)
@click.argument("collection", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--url", required=True, metavar="postgresql://…", help="Database to import from. PGPASSWORD and ~/.pgpass are used."
)
@frontier_option
@name_option
@click.option(
    "--batch-size",
    "batch",
    cls=SettingOption,
    old=["--batch"],
    type=AT_LEAST_ONE,
    default=BATCH,
    show_default=True,
    help="Rows to import per transaction.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITIES - 1),
    metavar="N",
    default=5,
    show_default=True,
    help="Priority of waiting URLs; 0 is fetched first.",
)
@click.option("--processes", type=AT_LEAST_ONE, help="Number of processes (shards) of a new crawl.")
@click.option(
    "--from-scratch",
    "again",
    cls=SettingOption,
    old=["--again"],
    is_flag=True,
    help="Start over; rows that were imported before count as known.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON on stdout.")
@pass_context
def import_postgres(
    context: Context,
    /,
    *,
    collection: Path,
    url: str,
    frontier: str | None,
    name: str | None,
    batch: int,
    priority: int,
    processes: int | None,
    again: bool,
    as_json: bool,
) -> None:
    """Import visited URLs, waiting URLs, exclusions and robots.txt files from PostgreSQL.

    DIR is the collection; it is created if needed. The tables are visited_urls, frontier and domain_metadata. Every
    row is either imported, already known, or rejected with a reason; the counts are checked against the database.
    """
    with DatabaseSnapshot(url) as database, open_crawl(collection, frontier, name=name) as place:
        with open_imports(place, database, processes=processes, priority=priority, again=again) as tables:
            keep_settings(place, frontier)
            for table in tables:
                import_table(table, context, batch=batch)
        counts = {table.table.name: table.counts() for table in tables}
    if as_json:
        click.echo(msgspec.json.encode(counts))
    else:
        for name, each in counts.items():
            note(f"{name}: {describe_counts(each)}")
        note(f"next: webmill crawl {collection} --scope any --contact …")
    files = [str(table.rejects.path) for table in tables if table.rejects.size]
    finish(rejected=sum(sum(each.rejected.values()) for each in counts.values()), where=", ".join(files))


def keep_settings(place: CrawlFrontier, frontier: str | None) -> None:
    """Save the name and the frontier, so that `webmill crawl DIR` needs no flags for them."""
    kept = {**read_stored(place.folder), "name": place.paths.collection.name}
    store(kept | ({"frontier": frontier} if frontier else {}), place.folder)


def import_table(table: TableImport, context: Context, *, batch: int) -> None:
    done = table.counts().rows
    with context.progress(table.table.name, total=table.total(), unit="rows") as progress:
        progress.advance(done)
        for now in table.run(batch=batch):
            progress.advance(now - done)
            done = now


def describe_counts(counts: ImportCounts) -> str:
    parts = [f"{format_count(counts.rows, 'row')}: {counts.imported:,} imported", f"{counts.known:,} already known"]
    if counts.excluded:
        parts.append(f"{counts.excluded:,} in excluded domains")
    parts += [f"{count:,} rejected ({reason})" for reason, count in counts.rejected.items()]
    return ", ".join(parts)


@click.command(
    epilog="""\b
Examples:
  webmill frontier import-redis news/ --redis redis://old/0 --files old/
  webmill crawl news/ --scope any --contact me@example.org

Stop the old crawler first. If the import is interrupted, run it again: what was imported counts as known.

Exit code 3: done, but some rows were rejected; the message names the file that lists them."""
)
@click.argument("collection", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option(
    "--redis", "redis", metavar="redis://…", help="Redis of the old crawler: visited:*, domain:* and frontier:* keys."
)
@click.option(
    "--files",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of its files HH/DOMAIN.frontier, lines of url|depth|priority|timestamp or url|depth.",
)
@frontier_option
@name_option
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITIES - 1),
    metavar="N",
    default=5,
    show_default=True,
    help="Priority of waiting URLs; 0 is fetched first.",
)
@click.option("--processes", type=AT_LEAST_ONE, help="Number of processes (shards) of a new crawl.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON on stdout.")
@pass_context
def import_redis(
    context: Context,
    /,
    *,
    collection: Path,
    redis: str | None,
    files: Path | None,
    frontier: str | None,
    name: str | None,
    priority: int,
    processes: int | None,
    as_json: bool,
) -> None:
    """Import the frontier of a crawler that has it in Redis, in one file per domain, or in both.

    DIR is the collection; it is created if needed. Visited URLs are known afterwards, waiting ones wait, exclusions,
    robots.txt files and the times of domains are kept. Nothing is changed in the old place.
    """
    if not (redis or files):
        raise click.UsageError("give --redis, --files or both")
    with closing(HybridFrontier(redis, files)) as source, open_crawl(collection, frontier, name=name) as place:
        counts: dict[str, ImportCounts] = {}
        with open_hybrid_imports(place, source, processes=processes, priority=priority) as imports:
            keep_settings(place, frontier)
            for one in imports:
                kind = one.reading.table.name
                counts[kind] = ImportCounts()
                with context.progress(kind, unit="rows") as progress:
                    for now in one.run():
                        progress.advance(now.rows - counts[kind].rows)
                        counts[kind] = now
    if as_json:
        click.echo(msgspec.json.encode(counts))
    else:
        for kind, each in counts.items():
            note(f"{kind}: {describe_counts(each)}")
        note(f"next: webmill crawl {collection} --scope any --contact …")
    bad = [str(one.rejects.path) for one in imports if one.rejects.size]
    finish(rejected=sum(sum(each.rejected.values()) for each in counts.values()), where=", ".join(bad))

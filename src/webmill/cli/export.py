"""`webmill export`: exports a collection as one file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.extract import warn_refused_file
from webmill.cli.query_options import FILTERS_HELP, QueryFlags, query_options
from webmill.cli.text import escape_text, format_count
from webmill.collection import ARCHIVE_ENDINGS, list_crawls
from webmill.errors import Conflict
from webmill.forgotten import forgotten_at
from webmill.formats.cdx.query import split_url_pattern
from webmill.formats.url.surt import surt
from webmill.index.archives import find_archives
from webmill.index.lookup.newest import open_collection_index
from webmill.index.lookup.query import url_range
from webmill.infra import atomic
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.export.wacz import WaczExport
from webmill.pipeline.forget.archives import read_without


@click.group()
def export() -> None:
    """Export a collection, or the captures of a query, as one file."""


@export.command(
    epilog="""\b
Examples:
  webmill export wacz news/ news.wacz
  webmill export wacz news/ page.wacz --url https://example.org/
  webmill export wacz news/ site.wacz --url '*.example.org' --from 2024

Open the file at replayweb.page, or in any other WACZ player.

"""
    + FILTERS_HELP
    + "\n\nExit code 3: done, but some captures could not be copied out of their files; a message says how many."
)
@click.argument("root", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("out", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--url",
    metavar="URL",
    help="Export only captures of this URL, prefix (URL*) or domain (*.HOST)  [default: everything]",
)
@query_options
@click.option("--title", help="Title that players show  [default: the name of DIR]")
@click.option("--main-page", metavar="URL", help="Page that players open first  [default: --url, or the shortest URL]")
@click.option(
    "--no-text", is_flag=True, help="Leave out titles and texts: a smaller file, which players cannot search."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def wacz(
    context: Context,
    /,
    *,
    root: Path,
    out: Path,
    url: str | None,
    title: str | None,
    main_page: str | None,
    no_text: bool,
    force: bool,
    as_json: bool,
    **query_flags: Any,
) -> None:
    """Export archives, index and page list as a WACZ file.

    Without --url, all archives of DIR are included unchanged, but for what was taken down. With --url, the matching
    records go into a new archive, with the originals of any revisits. Players list pages by title and search their
    texts. FILE appears only when it is complete.
    """
    flags = QueryFlags(**query_flags)
    if not url and flags.is_given:
        raise click.UsageError("--from, --to, --filter and --match need --url")
    if out.exists() and not force:
        raise Conflict(f"{out} already exists: choose another name, or replace it with --force")
    root = root.resolve()
    index, forgotten = open_collection_index(root), forgotten_at(root)
    with atomic.writing(out) as file:
        work = WaczExport(
            file,
            files=LocalStorage(root, links=ARCHIVE_ENDINGS),
            title=title or root.name,
            created=datetime.now(UTC),
            progress=context.progress,
            main_url=main_page or (split_url_pattern(url)[0] if url else None),
            texts=not no_text,
            read_archive=partial(read_without, root, forgotten=forgotten) if forgotten else None,
        )
        if url:
            done = work.found(index, flags.make_query(url_range(url, flags.match)))
        else:
            archives = {key for crawl in list_crawls(root) for key in find_archives(crawl, refuse=warn_refused_file)}
            done = work.everything(index, archives)
    if as_json:
        click.echo(msgspec.json.encode(done))
    size = out.stat().st_size
    note(f"{out}: {format_count(done.captures, 'capture')}, {format_count(done.pages, 'page')}, {size:,} bytes")
    if main_page and surt(done.main_page) != surt(main_page):
        opened = f"players open {escape_text(done.main_page)}" if done.main_page else "players open none"
        warn(f"no page {main_page} is among them, so {opened}")
    if done.missing:
        warn(f"{format_count(done.missing, 'revisit')} without the original capture, which is not in {root}")
    finish(
        rejected=done.unreadable,
        where="captures in ARC files or in files compressed as a whole; an export without --url includes them",
    )

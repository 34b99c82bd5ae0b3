"""`webmill save`: saves one page now into a collection, and indexes it."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import msgspec

from webmill.cli.context import REJECTED, hint, note, warn
from webmill.cli.options import sources_options
from webmill.cli.param_types import DURATION
from webmill.cli.text import escape_text, format_count, json_line, spell_out
from webmill.pipeline.save import MAX_WAIT, SavedCapture, SaveReport, save_page
from webmill.pipeline.save_jobs import running_job
from webmill.settings import Sources

FAILED = 1


@click.command(
    epilog="""\b
Examples:
  webmill save news/ https://example.org/article
  webmill save news/ https://example.org/ --page-resources
  webmill save news/ https://app.example.org/ --browser always
  webmill save news/ https://example.org/ --json | jq -r .path

\b
It works while a crawl of the collection is running, and keeps the crawl's
pace with each host. Saving a page again makes one more capture.
Exit code 1: nothing was saved. 3: the server answered with an error, which
was saved, or some page resources could not be fetched."""
)
@click.argument("collection", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.argument("url", metavar="URL")
@click.option(
    "--max-wait",
    type=DURATION,
    default=MAX_WAIT,
    help="Give up if the host must not be asked for longer than this  [default: 5m]",
)
@sources_options(
    "crawl.page_resources",
    "crawl.browser",
    "crawl.browser_path",
    "crawl.allow_private",
    "crawl.resolve",
    "crawl.robots",
    "http.contact",
    place="collection",
)
@click.option("--job", default="", hidden=True, help="Write the progress to this job of a server.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
def save(*, collection: Path, url: str, max_wait: float, sources: Sources, job: str, as_json: bool) -> None:
    """Save one page now into the collection in DIR, politely, and index it: robots.txt and delays are kept."""
    root = collection.resolve()
    if job:
        save_for_job(root, url, sources=sources, max_wait=max_wait, job=job)
        return
    report = save_page(root, url, sources=sources, max_wait=max_wait, notice=note)
    if as_json:
        click.echo(json_line({**msgspec.to_builtins(report), "path": report.path if report.page.filename else None}))
    if not report.page.filename:
        warn(f"not saved: {report.page.url}: {escape_text(explain_error(report.page))}")
        raise click.exceptions.Exit(FAILED)
    print_saved(report, collection)
    if report.page.status >= 400 or report.failed_resources:
        raise click.exceptions.Exit(REJECTED)


def save_for_job(root: Path, url: str, *, sources: Sources, max_wait: float, job: str) -> None:
    """Save for somebody who waits on a web page: a server has started this process."""
    with running_job(root, job) as reporter:
        report = save_page(root, url, sources=sources, max_wait=max_wait, notice=reporter.tell)
        reporter.end(report, error="" if report.page.filename else explain_error(report.page))


def explain_error(page: SavedCapture) -> str:
    return spell_out(page.error)


def print_saved(report: SaveReport, collection: Path) -> None:
    page = report.page
    what = f"status {page.status}" if not page.is_unchanged else "unchanged since its last capture"
    note(escape_text(f"saved {page.url} ({what}), capture {page.timestamp}"))
    if report.resources:
        failed = f", {report.failed_resources:,} could not be fetched" if report.failed_resources else ""
        note(f"{format_count(len(report.resources), 'page resource')}{failed}")
    if not report.indexed:
        warn(f"not indexed yet: another process is indexing; run `webmill index {shlex.quote(str(collection))}`")
    hint(escape_text(f"see it: webmill serve {shlex.quote(str(collection))}, then {report.path}"))

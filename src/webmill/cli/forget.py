"""`webmill forget`: takes pages down, for good or until it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from webmill.cli.context import REJECTED, Context, hint, note, pass_context, warn
from webmill.cli.options import settings_options
from webmill.cli.param_types import require_folder
from webmill.cli.publish.storage import json_option, storage_option
from webmill.cli.text import escape_text, format_count
from webmill.errors import BadInput
from webmill.forgotten import list_path, read_rules, user_list_path
from webmill.infra.files import os_errors
from webmill.pipeline.forget.run import ForgetReport, finish_forget, forget_pages, undo_forget
from webmill.settings import Settings

LONGEST_LINE = 8192


@click.command(
    epilog="""\b
Examples:
  webmill forget news/ https://example.org/private --reason "asked by mail"
  webmill forget news/ 'https://example.org/people/*' example.net --rewrite
  webmill forget news/ --list takedowns.txt
  webmill forget news/ --show
  webmill forget news/ https://example.org/private --undo
  webmill forget news/ --gc

\b
A domain has all its hosts. Nothing of it is asked for any more, by this and
your other collections, nor found by a search, API, page, feed, replay or
export; what archives and older versions have of it is not given away.
--rewrite also takes it out of them. All can be undone until --gc. If it is
interrupted, run it again to continue. What was exported before is elsewhere.
Exit code 3: done, but something could not be taken out; a message says what."""
)
@click.argument("root", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("patterns", metavar="[URL|URL*|DOMAIN]...", nargs=-1)
@click.option(
    "--list",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also those in this file, one on each line; after a tab the reason.",
)
@click.option("--mine", is_flag=True, help="Also all of your own list, which other collections have added to.")
@click.option("--reason", default="", metavar="TEXT", help="Note why; people who ask for a page are told.")
@click.option("--rewrite", is_flag=True, help="Take it out of archives, documents and versions, too.")
@click.option("--only-here", is_flag=True, help="Leave it out of your own list: other collections may ask for it.")
@click.option("--undo", is_flag=True, help="Take these off the lists, and put everything back.")
@click.option("--show", is_flag=True, help="List what was taken down, when and why.")
@click.option("--gc", is_flag=True, help="Delete for good what is kept for --undo.")
@storage_option
@settings_options("executor.jobs")
@json_option
@pass_context
def forget(
    context: Context,
    /,
    *,
    root: Path,
    patterns: tuple[str, ...],
    file: Path | None,
    mine: bool,
    reason: str,
    rewrite: bool,
    only_here: bool,
    undo: bool,
    show: bool,
    gc: bool,
    storage: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Take pages or whole sites down: out of crawls, index, search, versions, feeds, replay and exports of DIR."""
    root = require_folder(root).resolve()
    if show + gc + undo + rewrite > 1 or ((show or gc) and (patterns or file or mine)):
        raise click.UsageError("--show, --gc, --undo and --rewrite do not go together, nor the first two with pages")
    if show:
        show_rules(root, as_json=as_json)
        return
    named = [*((one, reason) for one in patterns), *read_file(file, reason)]
    named += ((rule.pattern, rule.reason) for rule in read_rules(user_list_path())) if mine else ()
    if gc:
        report = finish_forget(root, settings, storage=storage, progress=context.progress)
    elif undo:
        if not named:
            raise click.UsageError("name what is to be undone, as --show lists it")
        report = undo_forget(root, [one for one, _ in named], settings, storage=storage, progress=context.progress)
    else:
        report = forget_pages(
            root, named, settings, rewrite=rewrite, user=not only_here, storage=storage, progress=context.progress
        )
    print_report(report, root, as_json=as_json)


def read_file(file: Path | None, reason: str) -> Iterator[tuple[str, str]]:
    """Yield the entries of a file: URL, URL* or domain, and after a tab the reason."""
    if file is None:
        return
    with os_errors(str(file)), file.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE + 1), b""), start=1):
            if len(line) > LONGEST_LINE:
                raise BadInput(
                    f"line {number} is longer than {LONGEST_LINE:,} bytes", reason="bad_line", source=str(file)
                )
            pattern, _, why = line.decode("utf-8", "replace").strip().partition("\t")
            if pattern and not pattern.startswith("#"):
                yield pattern.strip(), why.strip() or reason


def show_rules(root: Path, *, as_json: bool) -> None:
    rules = read_rules(list_path(root))
    for rule in rules:
        if as_json:
            click.echo(msgspec.json.encode(rule))
        else:
            click.echo(f"{rule.at:%Y-%m-%d}  {escape_text(rule.pattern)}  {escape_text(rule.reason)}".rstrip())
    if not rules and not as_json:
        note(f"nothing was taken down in {root}")


def print_report(report: ForgetReport, root: Path, *, as_json: bool) -> None:
    for problem in report.problems:
        warn(escape_text(problem))
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        print_counts(report)
        if report.archives and not report.rewritten:
            hint("It is still in archives, which are not given away whole: --rewrite takes it out")
        if report.originals:
            kept = format_count(report.originals, "original")
            hint(f"{kept} kept for --undo; `webmill forget {root} --gc` deletes them")
    if report.problems:
        raise click.exceptions.Exit(REJECTED)


def print_counts(report: ForgetReport) -> None:
    done = [
        f"{len(report.added):,} added" if report.added else "",
        f"{len(report.removed):,} removed" if report.removed else "",
    ]
    note(f"{format_count(report.rules, 'rule')} on the list" + "".join(f", {one}" for one in done if one))
    if report.rewritten or report.rows:
        records, rows = format_count(report.records, "record"), format_count(report.rows, "row")
        note(f"{records} taken out of {format_count(len(report.rewritten), 'file')}, {rows} out of documents")
    if report.restored:
        note(f"{format_count(len(report.restored), 'file')} put back")
    if report.version:
        note(f"published version {report.version}")
    if report.closed_versions:
        closed = format_count(report.closed_versions, "older version")
        note(f"{closed} with it: not given away as files, shown without it")
    if report.deleted:
        note(f"{format_count(report.deleted, 'file')} deleted for good")

"""`webmill derive`: makes WAT and WET files from WARC files."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime
from pathlib import Path

import click
import msgspec

from webmill.archive.derive import KINDS
from webmill.cli.context import Context, finish, note, pass_context, warn
from webmill.cli.options import settings_options
from webmill.cli.text import escape_text, format_count
from webmill.errors import BadInput
from webmill.formats.timestamps import earliest, to_datetime
from webmill.infra.executor.backends import open_executor
from webmill.pipeline.derive import DeriveOptions, DeriveSummary, derive_all
from webmill.settings import Settings


@click.command(
    epilog="""\b
Examples:
  webmill derive wet some.warc.gz -o texts/
  webmill derive all crawl-data/*/segments/*/warc/*.warc.gz --in-place

Exit code 3: done, but a WARC is damaged or a page was left out; a message names the file and the place."""
)
@click.argument("kind", type=click.Choice([*KINDS, "all"]))
@click.argument(
    "warcs",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="WARC...",
)
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
@click.option("--in-place", is_flag=True, help="Write to wat/ and wet/ beside the warc/ folder of each WARC.")
@click.option("--date", metavar="DATE", help="Date to write into the files  [default: the date of each WARC]")
@click.option(
    "--detect-languages",
    is_flag=True,
    help="Detect languages (CLD2) that the WARC does not state; needs webmill[languages].",
)
@settings_options("executor.jobs")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON on stdout.")
@pass_context
def derive(
    context: Context,
    /,
    *,
    kind: str,
    warcs: tuple[Path, ...],
    output: Path | None,
    in_place: bool,
    date: str | None,
    detect_languages: bool,
    as_json: bool,
    settings: Settings,
) -> None:
    """Make WAT files (headers, digests, links), WET files (plain text) or both from WARC files, as Common Crawl does.

    NAME.warc.gz gives NAME.warc.wat.gz and NAME.warc.wet.gz. The same WARC and date always give the same bytes.
    """
    if (output is None) != in_place:
        raise click.UsageError("give either -o DIR or --in-place")
    options = DeriveOptions(
        kinds=KINDS if kind == "all" else (kind,),
        into=output,
        date=parse_date(date) if date else None,
        detect_languages=detect_languages,
    )
    with closing(open_executor(settings.executor.url, workers=settings.executor.jobs)) as executor:
        report = derive_all(warcs, options, executor=executor, progress=context.progress)
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        print_derive_report(report)
    finish(rejected=len(report.rejects), where="see the lines above")


def parse_date(date: str) -> datetime:
    try:
        return to_datetime(earliest(date))
    except BadInput as error:
        raise click.BadParameter(error.message, param_hint="--date") from None


def print_derive_report(report: DeriveSummary) -> None:
    for reject in report.rejects:
        place = "" if reject.offset is None else f"bytes {reject.offset}-{reject.end}: "
        warn(escape_text(f"{reject.file}: {place}{reject.reason}: {reject.message}"))
    made = {"record": report.records, "page": report.pages, "text": report.texts}
    found = ", ".join(format_count(count, noun) for noun, count in made.items())
    note(f"{report.derived:,} of {format_count(report.warcs, 'WARC file')}: {found}")

"""`webmill publish gc`, `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.dry_run import dry_run_option
from webmill.cli.main import FAILED
from webmill.cli.param_types import AT_LEAST_ONE, DURATION
from webmill.cli.publish.storage import (
    json_option,
    open_existing_for_writing,
    open_for_reading,
    print_json,
    publication_paths,
    root_argument,
    storage_option,
)
from webmill.cli.text import escape_text, format_count
from webmill.infra.storage.backends import open_readable
from webmill.infra.storage.local import LocalStorage
from webmill.publish.gc import GcReport, collect_garbage, preview_garbage
from webmill.publish.verify import StorageFinding, VerifyReport, repair
from webmill.publish.verify import verify as check


@click.command(
    epilog="""\b
Examples:
  webmill publish gc notices/ --keep 30
  webmill publish gc notices/ --keep 1 --grace 1h --dry-run

\b
Removed blobs stay in snapshots/_trash for the grace time, so readers of an
old version can finish; they are restored when a new version needs them.
If a run is active, gc stops and says so."""
)
@root_argument
@click.option("--keep", type=AT_LEAST_ONE, default=10, show_default=True, help="Number of latest versions to keep.")
@click.option(
    "--grace",
    type=DURATION,
    default="3d",
    show_default=True,
    help="Also keep versions that were live within this time.",
)
@dry_run_option
@storage_option
@json_option
def gc(*, root: Path, keep: int, grace: float, dry_run: bool, storage: str | None, as_json: bool) -> None:
    """Delete old versions, and the blobs that no kept version and no active run uses."""
    place = (open_for_reading if dry_run else open_existing_for_writing)(publication_paths(root), storage)
    now, time = datetime.now(UTC), timedelta(seconds=grace)
    report = (preview_garbage if dry_run else collect_garbage)(place, keep=keep, grace=time, now=now)
    if isinstance(place, LocalStorage) and not dry_run:
        place.sweep()  # temporary files of killed writers
    if as_json:
        print_json(report)
    print_gc_report(report, dry_run=dry_run)


def print_gc_report(report: GcReport, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    note(f"{format_count(len(report.kept), 'version')} {would}kept, {len(report.retired):,} {would}removed")
    trashed = f"{format_count(report.trashed, 'blob')} ({format_count(report.trashed_bytes, 'byte')})"
    note(f"{trashed} {would}moved to the trash, {report.reachable:,} in use")
    if not dry_run:
        gone = f"{report.purged:,} deleted from the trash, {report.restored:,} restored from it"
        note(f"{gone}, {format_count(report.files, 'file')} deleted")
    if report.waiting_for:
        note(f"stopped because {escape_text(', '.join(report.waiting_for))} is active: run gc again later")
    if report.unknown:
        note(f"{format_count(report.unknown, 'unknown file')} in blobs/, left alone")


@click.command(
    epilog="""\b
Examples:
  webmill publish verify notices/
  webmill publish verify notices/ --read-data
  webmill publish verify notices/ --repair --from s3://copy/notices

\b
Exit code 1: there is damage that was not repaired."""
)
@root_argument
@click.option("--read-data", is_flag=True, help="Also read and hash every blob.")
@click.option("--repair", "repairing", is_flag=True, help="Restore damaged files from the trash or from --from.")
@click.option(
    "--from",
    "mirrors",
    multiple=True,
    metavar="URL",
    help="Copy to repair from: a folder, s3://… or http(s)://…; repeatable.",
)
@storage_option
@json_option
@pass_context
def verify(
    context: Context,
    /,
    *,
    root: Path,
    read_data: bool,
    repairing: bool,
    mirrors: tuple[str, ...],
    storage: str | None,
    as_json: bool,
) -> None:
    """Check the history, every file of every version, and that every blob exists.

    Lists what is damaged and what refers to it. It is safe to publish meanwhile.
    """
    if mirrors and not repairing:
        raise click.UsageError("--from is for --repair")
    place = open_for_reading(publication_paths(root), storage)
    verdict = check(place, read_data=read_data)
    repaired: list[str] = []
    if repairing and verdict.findings:
        http = context.settings().http
        repaired = repair(
            place, verdict, mirrors=[open_readable(url, contact=http.contact, timeout=http.timeout) for url in mirrors]
        )
    if as_json:
        print_json({**msgspec.to_builtins(verdict), "repaired": repaired})
    else:
        print_findings(verdict, repaired)
    note(
        f"{format_count(verdict.versions, 'version')}, {format_count(verdict.files, 'file')}, "
        f"{format_count(verdict.blobs, 'blob')}: {describe_damage(verdict, repaired)}"
    )
    left = [finding for finding in verdict.findings if finding.key not in repaired]
    if left:
        for advice in repair_advice(verdict, left, root):
            warn(advice)
        raise click.exceptions.Exit(FAILED)


def repair_advice(verdict: VerifyReport, left: list[StorageFinding], root: Path) -> Iterator[str]:
    """Yield what to do about damage that could not be repaired."""
    if any(finding.reason == "broken_history" for finding in left):
        yield "to repair the history, restore snapshots/ and latest.json from a copy, or delete both and use --force"
    damaged = {finding.version for finding in left} - {""}
    whole = [version for version in verdict.whole if version not in damaged]
    if not damaged:
        return
    if verdict.live not in damaged:
        yield "only old versions are damaged, the live version is complete; `webmill publish gc` deletes old versions"
    elif whole:
        name = escape_text(whole[-1])
        yield f"the live version is damaged: run `webmill publish rollback {root} {name}`, then publish again"
    else:
        yield "the live version is damaged, and no other is complete: restore files from a copy (--repair --from URL)"


def describe_damage(verdict: VerifyReport, repaired: list[str]) -> str:
    if not verdict.findings:
        return "no damage"
    return f"{len(verdict.findings):,} damaged, {len(repaired):,} repaired"


def print_findings(verdict: VerifyReport, repaired: list[str]) -> None:
    for finding in verdict.findings:
        state = "\trepaired" if finding.key in repaired else ""
        click.echo(f"{escape_text(finding.key)}\t{finding.reason}\t{escape_text(finding.message)}{state}")
        for referrer in finding.referrers[:20]:
            click.echo(f"  in {escape_text(referrer)}")

"""`webmill publish gc`, `verify`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note, pass_context, warn
from webmill.cli.counts import AT_LEAST_ONE
from webmill.cli.dry_run import dry_run_option
from webmill.cli.durations import DURATION
from webmill.cli.main import FAILED
from webmill.cli.publish.places import (
    echo_json,
    json_option,
    publishing_in,
    root_argument,
    storage_for_reading,
    storage_option,
    storage_with_versions,
)
from webmill.cli.words import counted, shown
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
    place = (storage_for_reading if dry_run else storage_with_versions)(publishing_in(root), storage)
    now, time = datetime.now(UTC), timedelta(seconds=grace)
    report = (preview_garbage if dry_run else collect_garbage)(place, keep=keep, grace=time, now=now)
    if isinstance(place, LocalStorage) and not dry_run:
        place.sweep()  # what killed writers have left half written
    if as_json:
        echo_json(report)
    tell(report, dry_run=dry_run)


def tell(report: GcReport, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    note(f"{counted(len(report.kept), 'version')} {would}kept, {len(report.retired):,} {would}removed")
    trashed = f"{counted(report.trashed, 'blob')} ({counted(report.trashed_bytes, 'byte')}) {would}put into the trash"
    note(f"{trashed}, {report.reachable:,} needed")
    if not dry_run:
        gone = f"{report.purged:,} left the trash for good, {report.restored:,} came back"
        note(f"{gone}, {counted(report.files, 'file')} removed")
    if report.waiting_for:
        note(f"it gave way to {shown(', '.join(report.waiting_for))}: run it again when that is over")
    if report.unknown:
        note(f"{counted(report.unknown, 'file')} among the blobs: not ours, left as found")


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
    place = storage_for_reading(publishing_in(root), storage)
    verdict = check(place, read_data=read_data)
    repaired: list[str] = []
    if repairing and verdict.findings:
        http = context.settings().http
        repaired = repair(
            place, verdict, mirrors=[open_readable(url, contact=http.contact, timeout=http.timeout) for url in mirrors]
        )
    if as_json:
        echo_json({**msgspec.to_builtins(verdict), "repaired": repaired})
    else:
        tell_findings(verdict, repaired)
    note(
        f"{counted(verdict.versions, 'version')}, {counted(verdict.files, 'file')}, "
        f"{counted(verdict.blobs, 'blob')}: {damage(verdict, repaired)}"
    )
    left = [finding for finding in verdict.findings if finding.key not in repaired]
    if left:
        for advice in ways_out(verdict, left, root):
            warn(advice)
        raise click.exceptions.Exit(FAILED)


def ways_out(verdict: VerifyReport, left: list[StorageFinding], root: Path) -> Iterator[str]:
    """What to do about that which no trash and no copy had."""
    if any(finding.reason == "broken_history" for finding in left):
        yield "the history: put snapshots/ and latest.json back from a copy; or remove both, and publish with --force"
    damaged = {finding.version for finding in left} - {""}
    whole = [version for version in verdict.whole if version not in damaged]
    if not damaged:
        return
    if verdict.live not in damaged:
        yield "files of old versions: the live one has all of its own; gc removes the others when they are not kept"
    elif whole:
        yield f"files of the live version: `webmill publish rollback {root} {shown(whole[-1])}`, then publish again"
    else:
        yield "files of the live version, and no other is whole: put them back from a copy (--repair --from)"


def damage(verdict: VerifyReport, repaired: list[str]) -> str:
    if not verdict.findings:
        return "nothing is damaged"
    return f"{len(verdict.findings):,} damaged, {len(repaired):,} repaired"


def tell_findings(verdict: VerifyReport, repaired: list[str]) -> None:
    for finding in verdict.findings:
        state = "\trepaired" if finding.key in repaired else ""
        click.echo(f"{shown(finding.key)}\t{finding.reason}\t{shown(finding.message)}{state}")
        for referrer in finding.referrers[:20]:
            click.echo(f"  in {shown(referrer)}")

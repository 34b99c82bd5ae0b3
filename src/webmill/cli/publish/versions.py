"""`webmill publish list`, `show`, `diff`, `rollback`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.publish.places import (
    echo_json,
    find_version,
    json_option,
    publishing_in,
    root_argument,
    storage_for_reading,
    storage_option,
    storage_with_versions,
)
from webmill.cli.words import counted, printable, shown
from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.blobs import read_blob
from webmill.publish.diff import CHANGES, Difference, diff_indexes
from webmill.publish.manifest import read_file, read_version_index
from webmill.publish.shards import find_item, read_items
from webmill.publish.types import PublishProblem, Version, decode
from webmill.publish.version import STATS, VersionStats
from webmill.publish.version_items import SourceStatus

MARKS = dict(zip(CHANGES, "+~*-", strict=True))


@click.command("list", epilog="Example: webmill publish list notices/")
@root_argument
@storage_option
@json_option
def list_(*, root: Path, storage: str | None, as_json: bool) -> None:
    """List the versions, oldest first: name, date, number of documents, and whether it is live."""
    versions = history.list_versions(storage_for_reading(publishing_in(root), storage))
    for version in versions:
        if as_json:
            echo_json(version)
        else:
            until = f"until {moment(version.until)}" if version.until else "live"
            click.echo(f"{shown(version.version)}  {moment(version.published_at)}  {version.count:>9,}  {until}")
    if not versions:
        note("nothing has been published here")


@click.command(
    epilog="""\b
Examples:
  webmill publish show notices/
  webmill publish show notices/ previous --errors
  webmill publish show notices/ --items --json | jq .id
  webmill publish show notices/ --item "Seoul/Engineering/cs/notice/17" """
)
@root_argument
@click.argument("name", metavar="[VERSION]", default="live")
@storage_option
@click.option("--errors", "what", flag_value="errors", help="List what failed, and why.")
@click.option(
    "--sources", "what", flag_value="sources", help="List every source: fresh or stale, and number of documents."
)
@click.option("--items", "what", flag_value="items", help="List every document: id, hash, title.")
@click.option("--item", "id_", metavar="ID", help="Print the content of one document.")
@json_option
def show(*, root: Path, name: str, storage: str | None, what: str | None, id_: str | None, as_json: bool) -> None:
    """Show a version: number of documents, changes, stale sources, errors.

    VERSION is a name, a number, `live` or `previous`.
    """
    place = storage_for_reading(publishing_in(root), storage)
    version = find_version(place, name)
    if id_ is not None:
        item = find_item(place, read_version_index(place, version), id_)
        if not item:
            raise NotFound(f"{shown(version.version)} has no item {id_!r}")
        echo_json(read_blob(place, item.hash))
        return
    view = {"errors": show_errors, "sources": show_sources, "items": show_items}.get(what or "", show_counts)
    view(place, version, as_json=as_json)


def show_counts(storage: Storage, version: Version, *, as_json: bool) -> None:
    data = read_file(storage, version, STATS)
    counts = decode(data, VersionStats, source=STATS)
    if as_json:
        echo_json({"version": version.version, **msgspec.to_builtins(counts)})
        return
    click.echo(f"version   {shown(version.version)}, {'until ' + moment(version.until) if version.until else 'live'}")
    click.echo(f"made      {moment(counts.started_at)} to {moment(counts.finished_at)}, run {shown(version.run)}")
    click.echo(f"items     {counts.items:,}: {counts.fresh:,} fresh, {counts.stale:,} stale")
    relabelled = f", {counts.relabelled:,} with other labels" * bool(counts.relabelled)
    changed = f"{counts.added:,} added, {counts.changed:,} changed, {counts.removed:,} removed"
    click.echo(f"changes   {changed}{relabelled}")
    click.echo(f"sources   {counts.sources:,}, {counts.failed_sources:,} failed; {counted(counts.errors, 'error')}")
    blobs = f"{counts.blobs_written:,} written, {counts.blobs_present:,} there, {counts.blobs_repaired:,} repaired"
    click.echo(f"blobs     {blobs}")
    if counts.counts:
        click.echo(
            "counted   " + ", ".join(f"{count:,} {shown(name)}" for name, count in sorted(counts.counts.items()))
        )


def show_errors(storage: Storage, version: Version, *, as_json: bool) -> None:
    key = "aux/errors.json"
    for problem in decode(read_file(storage, version, key), list[PublishProblem], source=key):
        if as_json:
            echo_json(problem)
        else:
            where = problem.item or problem.source or ""
            fields = (where, problem.stage, printable(problem.message)[:300], problem.url or "")
            click.echo("\t".join(map(shown, fields)))


def show_sources(storage: Storage, version: Version, *, as_json: bool) -> None:
    key = "meta/sources.json"
    now = datetime.now(UTC)
    for source in decode(read_file(storage, version, key), list[SourceStatus], source=key):
        if as_json:
            echo_json(source)
        else:
            stale = f"{source.stale:,} stale for {age(now, source.since)}" if source.since else ""
            click.echo(f"{shown(source.status):<8}{source.items:>7,}  {shown(source.source)}  {stale}".rstrip())


def show_items(storage: Storage, version: Version, *, as_json: bool) -> None:
    for item in read_items(storage, read_version_index(storage, version)):
        if as_json:
            echo_json(item)
        else:
            click.echo(f"{shown(item.id)}\t{item.hash[:12]}\t{printable(str(item.metadata.get('title') or ''))[:300]}")


@click.command(
    epilog="""\b
Examples:
  webmill publish diff notices/ previous live
  webmill publish diff notices/ 7 9 --json

\b
+ added, - removed, ~ content changed, * only labels changed."""
)
@root_argument
@click.argument("old", metavar="A")
@click.argument("new", metavar="B")
@storage_option
@json_option
def diff(*, root: Path, old: str, new: str, storage: str | None, as_json: bool) -> None:
    """Show what changed from version A to version B: ids with old and new hashes.

    Only the parts that differ are read.
    """
    place = storage_for_reading(publishing_in(root), storage)
    before, after = find_version(place, old), find_version(place, new)
    counts: Counter[str] = Counter()
    for difference in diff_indexes(place, read_version_index(place, before), read_version_index(place, after)):
        counts[difference.change] += 1
        if as_json:
            echo_json(difference)
        else:
            click.echo(line_of(difference))
    note(", ".join(f"{counts[change]:,} {change}" for change in CHANGES))


def line_of(difference: Difference) -> str:
    hashes = [hash_[:12] for hash_ in (difference.old, difference.new) if hash_]
    return f"{MARKS[difference.change]} {shown(difference.id)}\t{' '.join(dict.fromkeys(hashes))}"


@click.command(
    epilog="""\b
Examples:
  webmill publish rollback notices/ previous
  webmill publish rollback notices/ 00000007-3fa9c1d2"""
)
@root_argument
@click.argument("name", metavar="VERSION")
@storage_option
@json_option
def rollback(*, root: Path, name: str, storage: str | None, as_json: bool) -> None:
    """Make VERSION live again. Nothing is deleted; the next version is built upon it."""
    place = storage_with_versions(publishing_in(root), storage)
    version = find_version(place, name)
    if version.until is None:
        note(f"{shown(version.version)} is live already")
        return
    record = history.roll_back(place, version.version, at=datetime.now(UTC))
    if as_json:
        echo_json(record.commit)
    note(f"live is {shown(record.commit.live.version)} with {counted(record.commit.live.count, 'item')}")


def moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def age(now: datetime, since: datetime) -> str:
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

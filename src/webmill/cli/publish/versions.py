"""`webmill publish list`, `show`, `diff`, `rollback`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from webmill.cli.context import note
from webmill.cli.publish.storage import (
    find_version,
    json_option,
    open_existing_for_writing,
    open_for_reading,
    print_json,
    publication_paths,
    root_argument,
    storage_option,
)
from webmill.cli.text import escape_text, format_count, replace_unprintable
from webmill.errors import NotFound
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.blobs import read_blob
from webmill.publish.diff import CHANGES, Difference, diff_indexes
from webmill.publish.manifest import read_file, read_version_index
from webmill.publish.shards import find_item, read_items, shown_items
from webmill.publish.types import PublishProblem, Version, decode
from webmill.publish.usage import count_usage
from webmill.publish.version import STATS, VersionStats
from webmill.publish.version_items import SourceStatus

MARKS = dict(zip(CHANGES, "+~*-", strict=True))


@click.command("list", epilog="Example: webmill publish list notices/")
@root_argument
@storage_option
@json_option
def list_(*, root: Path, storage: str | None, as_json: bool) -> None:
    """List the versions, oldest first: name, date, number of documents, and whether it is live."""
    versions = history.list_versions(open_for_reading(publication_paths(root), storage))
    for version in versions:
        if as_json:
            print_json(version)
        else:
            until = f"until {format_time(version.until)}" if version.until else "live"
            click.echo(
                f"{escape_text(version.version)}  {format_time(version.published_at)}  {version.count:>9,}  {until}"
            )
    if not versions:
        note("nothing has been published here")


@click.command(
    epilog="""\b
Examples:
  webmill publish show notices/
  webmill publish show notices/ previous --errors
  webmill publish show notices/ --items --json | jq .id
  webmill publish show news/ --usage
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
@click.option(
    "--usage", "what", flag_value="usage", help="Count documents by what their sites say of their use, and by licence."
)
@click.option("--item", "id_", metavar="ID", help="Print the content of one document.")
@json_option
def show(*, root: Path, name: str, storage: str | None, what: str | None, id_: str | None, as_json: bool) -> None:
    """Show a version: number of documents, changes, stale sources, errors.

    VERSION is a name, a number, `live` or `previous`.
    """
    place = open_for_reading(publication_paths(root), storage)
    version = find_version(place, name)
    if id_ is not None:
        item = find_item(place, read_version_index(place, version), id_)
        if not item:
            raise NotFound(f"version {escape_text(version.version)} has no document {id_!r}: --items lists them")
        print_json(read_blob(place, item.hash))
        return
    view = {"errors": show_errors, "sources": show_sources, "items": show_items, "usage": show_usage}.get(
        what or "", show_counts
    )
    view(place, version, as_json=as_json)


def show_counts(storage: Storage, version: Version, *, as_json: bool) -> None:
    data = read_file(storage, version, STATS)
    counts = decode(data, VersionStats, source=STATS)
    if as_json:
        print_json({"version": version.version, **msgspec.to_builtins(counts)})
        return
    state = f"live until {format_time(version.until)}" if version.until else "live"
    click.echo(f"version   {escape_text(version.version)}, {state}")
    made = f"{format_time(counts.started_at)} to {format_time(counts.finished_at)}"
    click.echo(f"made      {made}, run {escape_text(version.run)}")
    click.echo(f"documents {counts.items:,}: {counts.fresh:,} fresh, {counts.stale:,} stale")
    relabelled = f", {counts.relabelled:,} relabelled" * bool(counts.relabelled)
    changed = f"{counts.added:,} added, {counts.changed:,} changed, {counts.removed:,} removed"
    click.echo(f"changes   {changed}{relabelled}")
    click.echo(
        f"sources   {counts.sources:,}, {counts.failed_sources:,} failed; {format_count(counts.errors, 'error')}"
    )
    blobs = f"{counts.blobs_written:,} new, {counts.blobs_present:,} unchanged, {counts.blobs_repaired:,} repaired"
    click.echo(f"blobs     {blobs}")
    if counts.counts:
        click.echo(
            "counted   " + ", ".join(f"{count:,} {escape_text(name)}" for name, count in sorted(counts.counts.items()))
        )


def show_errors(storage: Storage, version: Version, *, as_json: bool) -> None:
    key = "aux/errors.json"
    for problem in decode(read_file(storage, version, key), list[PublishProblem], source=key):
        if as_json:
            print_json(problem)
        else:
            where = problem.item or problem.source or ""
            fields = (where, problem.stage, replace_unprintable(problem.message)[:300], problem.url or "")
            click.echo("\t".join(map(escape_text, fields)))


def show_sources(storage: Storage, version: Version, *, as_json: bool) -> None:
    key = "meta/sources.json"
    now = datetime.now(UTC)
    for source in decode(read_file(storage, version, key), list[SourceStatus], source=key):
        if as_json:
            print_json(source)
        else:
            stale = f"{source.stale:,} stale for {format_age(now, source.since)}" if source.since else ""
            click.echo(
                f"{escape_text(source.status):<8}{source.items:>7,}  {escape_text(source.source)}  {stale}".rstrip()
            )


def show_items(storage: Storage, version: Version, *, as_json: bool) -> None:
    for item in shown_items(storage, read_items(storage, read_version_index(storage, version))):
        if as_json:
            print_json(item)
        else:
            title = replace_unprintable(str(item.metadata.get("title") or ""))[:300]
            click.echo(f"{escape_text(item.id)}\t{item.hash[:12]}\t{title}")


def show_usage(storage: Storage, version: Version, *, as_json: bool) -> None:
    items = read_items(storage, read_version_index(storage, version))
    found = count_usage(shown_items(storage, items))
    if as_json:
        print_json({"version": version.version, **msgspec.to_builtins(found)})
        return
    click.echo(f"documents {found.documents:,}: {found.silent:,} whose sites say nothing of their use")
    for name, count in sorted(found.usage.items()):
        click.echo(f"{count:>9,}  {escape_text(name)}")
    for name, count in sorted(found.licenses.items(), key=lambda one: (-one[1], one[0])):
        click.echo(f"{count:>9,}  {escape_text(name)}")


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
    place = open_for_reading(publication_paths(root), storage)
    before, after = find_version(place, old), find_version(place, new)
    counts: Counter[str] = Counter()
    for difference in diff_indexes(place, read_version_index(place, before), read_version_index(place, after)):
        counts[difference.change] += 1
        if as_json:
            print_json(difference)
        else:
            click.echo(format_difference(difference))
    note(", ".join(f"{counts[change]:,} {change}" for change in CHANGES))


def format_difference(difference: Difference) -> str:
    hashes = [hash_[:12] for hash_ in (difference.old, difference.new) if hash_]
    return f"{MARKS[difference.change]} {escape_text(difference.id)}\t{' '.join(dict.fromkeys(hashes))}"


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
    place = open_existing_for_writing(publication_paths(root), storage)
    version = find_version(place, name)
    if version.until is None:
        note(f"version {escape_text(version.version)} is already live")
        return
    record = history.roll_back(place, version.version, at=datetime.now(UTC))
    if as_json:
        print_json(record.commit)
    live = record.commit.live
    note(f"version {escape_text(live.version)} is live: {format_count(live.count, 'published document')}")


def format_time(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def format_age(now: datetime, since: datetime) -> str:
    seconds = max(0, int((now - since).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

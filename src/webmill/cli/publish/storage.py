"""Flags and functions that the publish commands share: where versions and the queue are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec

from webmill.cli.context import Context, note
from webmill.cli.param_types import require_folder
from webmill.cli.text import format_count, format_duration
from webmill.collection import PublishFolders
from webmill.errors import Misconfigured, NotFound
from webmill.infra import atomic
from webmill.infra.address import scheme_of
from webmill.infra.storage.backends import open_storage, open_versions
from webmill.infra.storage.base import Storage
from webmill.publish import history
from webmill.publish.types import Version
from webmill.publish.version import VersionStats
from webmill.settings import QueueSettings

root_argument = click.argument("root", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
storage_option = click.option(
    "--storage", metavar="URL", help="Where versions are stored: s3://BUCKET/PREFIX  [default: DIR]"
)
queue_option = click.option(
    "--queue",
    "queue_url",
    metavar="URL",
    help="Queue of boards to read: sqlite:FILE, amqp://… or sqs://…  [default: a file in DIR]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


_UNSEEN = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def print_json(value: bytes | object) -> None:
    """Print a value, or encoded JSON, on stdout. Control characters above U+007F are escaped as well."""
    text = (value if isinstance(value, bytes) else msgspec.json.encode(value)).decode(errors="replace")
    click.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())


def publication_paths(root: Path, *, create: bool = False) -> PublishFolders:
    place = PublishFolders(root.resolve())
    if create:
        atomic.make_folder(place.folder)
    return place


def open_for_writing(place: PublishFolders, url: str | None) -> Storage:
    """Open the storage to publish to; a store without conditional writes is refused."""
    return open_versions(url or str(place.root))


def open_existing_for_writing(place: PublishFolders, url: str | None) -> Storage:
    """Open the storage to change versions in it; a folder must exist."""
    require_root(place, url)
    return open_versions(url or str(place.root))


def open_for_reading(place: PublishFolders, url: str | None) -> Storage:
    require_root(place, url)
    return open_storage(url or str(place.root))


def require_root(place: PublishFolders, url: str | None) -> None:
    if not url:
        require_folder(place.root)


def choose_queue(context: Context, place: PublishFolders, url: str | None) -> QueueSettings:
    """Return the queue of the flag, else a broker of the settings, else a file in DIR.

    A file in the settings is not used: it may be the queue of another command.
    """
    settings = context.settings(place.root if place.root.is_dir() else None).queue
    chosen = url or (settings.url if scheme_of(settings.url)[0] != "sqlite" else f"sqlite:{place.queue}")
    scheme, file = scheme_of(chosen)
    if scheme == "memory":
        raise Misconfigured("a queue in memory is lost when this command ends: use sqlite:FILE, amqp://… or sqs://…")
    return msgspec.structs.replace(settings, url=f"sqlite:{Path(file).resolve()}" if scheme == "sqlite" else chosen)


def find_version(storage: Storage, name: str) -> Version:
    """Return the version with this name or number; `live` and `previous` are names, too."""
    every = history.list_versions(storage)
    if not every:
        raise NotFound("nothing has been published here yet")
    live = next(version for version in every if version.until is None)
    before = [version for version in every if version.sequence < live.sequence]
    if name == "live":
        return live
    if name == "previous":
        if not before:
            raise NotFound("there is no version before the live one")
        return before[-1]
    for version in every:
        if name == version.version or (name.isdecimal() and int(name) == version.sequence):
            return version
    raise NotFound(f"no version {name}: `webmill publish list` lists them")


def print_version(name: str, counts: VersionStats, *, is_new: bool, held: str, seconds: float) -> None:
    """Print what changed in a version; `held` is what it holds, in words."""
    if is_new:
        kinds = {"added": counts.added, "changed": counts.changed, "removed": counts.removed, "stale": counts.stale}
        kinds |= {"relabelled": counts.relabelled} if counts.relabelled else {}
        beside = {"changed": f" ({counts.unimportant:,} unimportant)" if counts.unimportant else ""}
        told = ", ".join(f"{count:,} {kind}{beside.get(kind, '')}" for kind, count in kinds.items())
        note(f"version {name}: {held}: {told}")
    else:
        note(f"nothing has changed since version {name} ({held}): no new version was made")
    new = f"{format_count(counts.blobs_written, 'new blob')} ({format_count(counts.bytes_written, 'byte')})"
    note(f"{new}, {counts.blobs_present:,} unchanged, {counts.blobs_repaired:,} repaired; {format_duration(seconds)}")

"""Where versions, jobs and what a machine remembers are: flags that the commands share, and the parts they open."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec

from webmill.cli.collections import existing
from webmill.cli.context import Context, note
from webmill.cli.crawl_view import age
from webmill.cli.words import counted
from webmill.collection import Publishing
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


def echo_json(value: bytes | object) -> None:
    """JSON, encoded or not, on stdout. By itself it escapes what is below U+0020; some terminals obey U+009B, too."""
    text = (value if isinstance(value, bytes) else msgspec.json.encode(value)).decode(errors="replace")
    click.echo(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())


def publishing_in(root: Path, *, create: bool = False) -> Publishing:
    place = Publishing(root.resolve())
    if create:
        atomic.make_folder(place.folder)
    return place


def storage_for_writing(place: Publishing, url: str | None) -> Storage:
    """Refuses a store that cannot keep its promises."""
    return open_versions(url or str(place.root))


def storage_with_versions(place: Publishing, url: str | None) -> Storage:
    """For changes of what must be there already."""
    check_folder(place, url)
    return open_versions(url or str(place.root))


def storage_for_reading(place: Publishing, url: str | None) -> Storage:
    check_folder(place, url)
    return open_storage(url or str(place.root))


def check_folder(place: Publishing, url: str | None) -> None:
    if not url:
        existing(place.root)


def queue_settings(context: Context, place: Publishing, url: str | None) -> QueueSettings:
    """The flag; else the settings, but for a file, which may be the queue of something else; else a file in DIR."""
    settings = context.settings(place.root if place.root.is_dir() else None).queue
    chosen = url or (settings.url if scheme_of(settings.url)[0] != "sqlite" else f"sqlite:{place.queue}")
    scheme, file = scheme_of(chosen)
    if scheme == "memory":
        raise Misconfigured("a queue in memory ends with this command: use sqlite:FILE, amqp://… or sqs://…")
    return msgspec.structs.replace(settings, url=f"sqlite:{Path(file).resolve()}" if scheme == "sqlite" else chosen)


def find_version(storage: Storage, name: str) -> Version:
    """By its name, its number, or as `live` or `previous`."""
    every = history.list_versions(storage)
    if not every:
        raise NotFound("nothing has been published here")
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
    raise NotFound(f"no version {name}: `webmill publish list` names them")


def tell_version(name: str, counts: VersionStats, *, is_new: bool, held: str, seconds: float) -> None:
    """`held`: what it is a version of, in words."""
    if is_new:
        kinds = {"added": counts.added, "changed": counts.changed, "removed": counts.removed, "stale": counts.stale}
        kinds |= {"with other labels": counts.relabelled} if counts.relabelled else {}
        note(f"version {name}: {held}: {', '.join(f'{count:,} {kind}' for kind, count in kinds.items())}")
    else:
        note(f"nothing has changed since version {name}: {held}; no new version was made")
    written = f"{counted(counts.blobs_written, 'blob')} written ({counted(counts.bytes_written, 'byte')})"
    note(f"{written}, {counts.blobs_present:,} were there, {counts.blobs_repaired:,} repaired; {age(seconds)}")

"""Writes all files of a version, up to its manifest. Nothing of it is seen before the commit record names it.

What a version holds, `index/all.json` and the few files of `meta` and `aux/errors.json` tell by their hashes: files of
facets are made of these, and what is left (what changed, when, how much was written) is about the making.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import msgspec

from webmill.errors import BadInput
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Storage
from webmill.publish.blob_uploader import BlobUploader
from webmill.publish.blobs import BlobCounts
from webmill.publish.diff import CHANGES, Change, Difference, diff_indexes, drop_shards
from webmill.publish.facets import list_values, write_facets
from webmill.publish.keys import version_name
from webmill.publish.manifest import ALL_ITEMS, VersionFiles, hash_data, read_entry, read_manifest, read_version_index
from webmill.publish.shards import read_index, write_index
from webmill.publish.types import PublishProblem, Version, encode
from webmill.publish.version_items import VersionItems

STATS, DIFF = "aux/stats.json", "aux/diff.json"


class VersionStats(msgspec.Struct, frozen=True, kw_only=True):
    """`STATS`."""

    started_at: datetime
    finished_at: datetime
    items: int
    fresh: int
    stale: int
    sources: int
    failed_sources: int
    errors: int
    merged: int  # the same item, found twice
    added: int = 0
    changed: int = 0
    relabelled: int = 0
    removed: int = 0
    blobs_written: int = 0
    bytes_written: int = 0
    blobs_present: int = 0
    blobs_repaired: int = 0
    counts: dict[str, int] = {}  # what its publisher counted: requests, not_modified…


def write_version(
    storage: Storage,
    gathered: VersionItems,
    *,
    previous: Version | None,
    problems: list[PublishProblem],
    attached: Mapping[str, bytes | Path],
    counted: Mapping[str, int],
    failed: set[str],
    expected: set[str],
    shards: BlobUploader,
    blobs: BlobCounts,
    folder: Path,
    inline: int,
    even_if_same: bool,
    run: str,
    sequence: int,
    started_at: datetime,
    at: datetime,
) -> tuple[Version, VersionStats]:
    """`previous` itself, and nothing written, where it holds the same; unless it is to be written `even_if_same`."""
    everything = write_index(gathered.rows(), put=shards.put, inline=inline)
    values = list_values(gathered.facets)
    sources = gathered.sources(failed, expected=expected)
    held: dict[str, bytes | Path] = {
        ALL_ITEMS: everything,
        "meta/facets.json": encode(values),
        "meta/sources.json": _lines(sources),
        "aux/errors.json": _lines(problems),
        **attached,
    }
    counts = VersionStats(
        started_at=started_at,
        finished_at=at,
        items=gathered.count,
        fresh=gathered.fresh,
        stale=gathered.stale,
        sources=len(sources),
        failed_sources=len(failed),
        errors=len(problems),
        merged=gathered.merged,
        counts=dict(counted),
    )
    if previous and not even_if_same and has_same_files(storage, previous, held):
        shards.flush()
        return previous, with_totals(counts, blobs, Counter())
    files = VersionFiles(storage, version_name(sequence, secrets.token_hex(4)))
    for key, data in write_facets(gathered.rows(), values, put=shards.put, folder=folder, inline=inline):
        files.write(key, data)
    shards.flush()  # before they are read, and long before a record makes them matter
    for key, more in held.items():
        files.write(key, more)
    old = read_version_index(storage, previous) if previous else None
    new = read_index(everything, source=ALL_ITEMS)
    lost = gathered.damaged - {shard.hash for shard in new.shards or ()}  # not those that were put right
    differences = diff_indexes(storage, drop_shards(old, lost) if old else None, new)
    parent = previous.version if previous else None
    changes = write_diff(folder / "diff", differences, old=parent, new=files.version)
    files.write(DIFF, folder / "diff")
    counts = with_totals(counts, blobs, changes)
    files.write(STATS, encode(counts))
    return files.seal(sequence=sequence, parent=parent, at=at, count=gathered.count, run=run), counts


def with_totals(counts: VersionStats, blobs: BlobCounts, changes: Counter[Change]) -> VersionStats:
    return msgspec.structs.replace(
        counts,
        **{change: changes[change] for change in CHANGES},
        blobs_written=blobs.written,
        bytes_written=blobs.written_bytes,
        blobs_present=blobs.present,
        blobs_repaired=blobs.repaired,
    )


def has_same_files(storage: Storage, version: Version, files: Mapping[str, bytes | Path]) -> bool:
    """These files and no others, but for those of facets and of its making; and whole: what is damaged is made anew."""
    known = {entry.key: entry for entry in read_manifest(storage, version).files}
    others = {key for key in known if key not in (STATS, DIFF) and not key.startswith("index/")}
    if others | {ALL_ITEMS} != files.keys() or any(known[key].sha256 != hash_data(data) for key, data in files.items()):
        return False
    try:
        for entry in known.values():  # those of facets, too: nobody else would make them anew
            read_entry(storage, version, entry)
    except BadInput:
        return False
    return True


def write_diff(path: Path, differences: Iterable[Difference], *, old: str | None, new: str) -> Counter[Change]:
    """`{"from", "to", "added": [{id, new}], "changed": [{id, old, new}], "relabelled": […], "removed": [{id, old}]}`

    The differences come in the order of ids: each kind is collected in a file of its own.
    """
    counts: Counter[Change] = Counter()
    with os_errors(str(path)), ExitStack() as stack:
        parts = {change: stack.enter_context(Path(f"{path}-{change}").open("w+b")) for change in CHANGES}
        for difference in differences:
            counts[difference.change] += 1
            line = {"id": difference.id, "old": difference.old, "new": difference.new}
            parts[difference.change].write(
                (b",\n" if counts[difference.change] > 1 else b"\n")
                + encode({name: value for name, value in line.items() if value is not None})
            )
        with path.open("wb") as whole:
            whole.write(b'{"from":%s,"to":%s' % (encode(old), encode(new)))
            for change, part in parts.items():
                whole.write(b',\n"%s":[' % change.encode())
                part.seek(0)
                while data := part.read(1 << 20):
                    whole.write(data)
                whole.write(b"\n]")
            whole.write(b"}\n")
    return counts


def _lines(values: Iterable[object]) -> bytes:
    """A JSON array with one value on each line."""
    return b"[\n" + b",\n".join(map(encode, values)) + b"\n]\n"

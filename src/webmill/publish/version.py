"""Writes all files of a version, up to its manifest. Nobody sees them before the commit record names the version.

The index of all items, the files of `meta` and `aux/errors.json` are its content: two versions are the same if their
hashes are. Files of facets are made of these; the rest (what changed, when, how much was written) is about the making.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from webmill.errors import BadInput
from webmill.infra.files import os_errors
from webmill.infra.storage.base import Storage
from webmill.publish.blob_uploader import BlobUploader
from webmill.publish.blobs import BlobCounts
from webmill.publish.change_rules import ChangeRules
from webmill.publish.change_writer import ChangeFinder, write_changes
from webmill.publish.changes import PARTS, SUMMARY
from webmill.publish.diff import CHANGES, Change, Difference, diff_items, drop_shards
from webmill.publish.facets import list_values
from webmill.publish.keys import version_name
from webmill.publish.manifest import (
    ALL_ITEMS,
    ITEM_FOLDERS,
    VersionFiles,
    hash_data,
    read_entry,
    read_manifest,
    read_version_index,
)
from webmill.publish.moves import FindRedirects, no_redirects
from webmill.publish.shards import read_index, shown_items
from webmill.publish.types import ItemIndex, Layout, PublishProblem, Version, encode
from webmill.publish.uring_index import write_uring_index
from webmill.publish.version_items import ItemPair, NewItems

STATS, DIFF = "aux/stats.json", "aux/diff.json"


class VersionStats(msgspec.Struct, frozen=True, kw_only=True):
    """How a version was made: the file `STATS`."""

    started_at: datetime
    finished_at: datetime
    items: int
    fresh: int
    stale: int
    sources: int
    failed_sources: int
    errors: int
    merged: int  # items found twice
    added: int = 0
    changed: int = 0
    relabelled: int = 0
    removed: int = 0
    unimportant: int = 0  # of those that changed: noise, or below the threshold (`changes.py`)
    blobs_written: int = 0
    bytes_written: int = 0
    blobs_present: int = 0
    blobs_repaired: int = 0
    counts: dict[str, int] = {}  # what its publisher counted: requests, not_modified…


class VersionDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What a version is made of.

    `failed` and `expected` are sources. `even_if_same`: write it also when `previous` holds the same. `inline`: items
    that an index file holds itself; `facet_inline`: that of a facet's value. `layout`: of the index files. `counts`:
    what the publisher counted. `rules`: which changes of texts are unimportant.
    """

    items: NewItems
    previous: Version | None
    problems: list[PublishProblem]
    attached: Mapping[str, bytes | Path]
    counts: Mapping[str, int]
    failed: set[str]
    expected: set[str]
    inline: int
    facet_inline: int
    layout: Layout
    even_if_same: bool
    run: str
    sequence: int
    started_at: datetime
    at: datetime
    rules: ChangeRules = ChangeRules()
    find_redirects: FindRedirects = no_redirects


def write_version(
    storage: Storage,
    draft: VersionDraft,
    *,
    shards: BlobUploader,
    blobs: BlobCounts,
    folder: Path,
    between: Callable[[], None] = lambda: None,
) -> tuple[Version, VersionStats]:
    """Write the files of a version. Return `previous`, and write nothing, where it holds the same.

    `folder` is for temporary files; `blobs` counts what was put for this version; `between` is called now and then.
    """
    items, previous = draft.items, draft.previous
    all_items = items.write_all(put=shards.put, inline=draft.inline)
    items_in = ITEM_FOLDERS[draft.layout]
    values = list_values(items.facets, folder=items_in)
    sources = items.sources(draft.failed, expected=draft.expected)
    contents: dict[str, bytes | Path] = {
        items_in + ALL_ITEMS: all_items,
        "meta/facets.json": encode(values),
        "meta/sources.json": _lines(sources),
        "aux/errors.json": _lines(draft.problems),
        **draft.attached,
    }
    stats = _first_stats(draft, sources=len(sources))
    if previous and not draft.even_if_same and has_same_files(storage, previous, contents):
        shards.flush()
        return previous, with_totals(stats, blobs, Counter())
    files = VersionFiles(storage, version_name(draft.sequence, secrets.token_hex(4)))
    for key, facet_index in items.write_facets(values, put=shards.put, folder=folder, inline=draft.facet_inline):
        files.write(key, facet_index)
    if draft.layout == "uring":
        for key, listed in write_uring_index(items.rows(), values, folder=folder, page=draft.inline):
            files.write(key, listed)
    shards.flush()  # before they are read, and long before a record makes them matter
    for key, data in contents.items():
        files.write(key, data)
    old = read_version_index(storage, previous) if previous else None
    new = read_index(all_items, source=ALL_ITEMS)
    lost = items.damaged - {shard.hash for shard in new.shards or ()}  # not those that were repaired
    old = drop_shards(old, lost) if old else None
    compare = _without_forgotten(storage, partial(items.differing, storage, old, new))
    differences = diff_items(*compare())
    parent = previous.version if previous else None
    changes = write_diff(folder / "diff", differences, old=parent, new=files.version)
    files.write(DIFF, folder / "diff")
    finder = (
        _change_finder(storage, new, draft, compare=compare, version=files.version, between=between) if old else None
    )
    summary = write_changes(files, finder, parent=parent, at=draft.at)
    stats = msgspec.structs.replace(with_totals(stats, blobs, changes), unimportant=summary.unimportant)
    files.write(STATS, encode(stats))
    version = files.write_manifest(
        sequence=draft.sequence, parent=parent, at=draft.at, count=items.count, run=draft.run
    )
    return version, stats


def _without_forgotten(storage: Storage, compare: Callable[[], ItemPair]) -> Callable[[], ItemPair]:
    """Compare without what was taken down: a version must not tell that it left, with its title and its words."""

    def shown() -> ItemPair:
        old, new = compare()
        return shown_items(storage, old), shown_items(storage, new)

    return shown


def _change_finder(
    storage: Storage,
    new: ItemIndex,
    draft: VersionDraft,
    *,
    compare: Callable[[], ItemPair],
    version: str,
    between: Callable[[], None],
) -> ChangeFinder:
    return ChangeFinder(
        storage,
        new,
        compare=compare,
        version=version,
        at=draft.at,
        rules=draft.rules,
        find_redirects=draft.find_redirects,
        between=between,
    )


def _first_stats(draft: VersionDraft, *, sources: int) -> VersionStats:
    """Return what is known before anything is written."""
    return VersionStats(
        started_at=draft.started_at,
        finished_at=draft.at,
        items=draft.items.count,
        fresh=draft.items.fresh,
        stale=draft.items.count - draft.items.fresh,
        sources=sources,
        failed_sources=len(draft.failed),
        errors=len(draft.problems),
        merged=draft.items.merged,
        counts=dict(draft.counts),
    )


def with_totals(stats: VersionStats, blobs: BlobCounts, changes: Counter[Change]) -> VersionStats:
    return msgspec.structs.replace(
        stats,
        **{change: changes[change] for change in CHANGES},
        blobs_written=blobs.written,
        bytes_written=blobs.written_bytes,
        blobs_present=blobs.present,
        blobs_repaired=blobs.repaired,
    )


def has_same_files(storage: Storage, version: Version, files: Mapping[str, bytes | Path]) -> bool:
    """Whether the version holds these files, and no others but facets, stats, diff and changes; all undamaged."""
    known = {entry.key: entry for entry in read_manifest(storage, version).files}
    made_of_others = (*ITEM_FOLDERS.values(), STATS, DIFF, SUMMARY, PARTS)
    if {key for key in known if not key.startswith(made_of_others)} - files.keys():
        return False
    if any(key not in known or known[key].sha256 != hash_data(data) for key, data in files.items()):
        return False
    try:
        for entry in known.values():  # also of facets: a damaged one is made again with the version
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
        with path.open("wb") as file:
            file.write(b'{"from":%s,"to":%s' % (encode(old), encode(new)))
            for change, part in parts.items():
                file.write(b',\n"%s":[' % change.encode())
                part.seek(0)
                while data := part.read(1 << 20):
                    file.write(data)
                file.write(b"\n]")
            file.write(b"}\n")
    return counts


def _lines(values: Iterable[object]) -> bytes:
    """Return a JSON array with one value on each line."""
    return b"[\n" + b",\n".join(map(encode, values)) + b"\n]\n"

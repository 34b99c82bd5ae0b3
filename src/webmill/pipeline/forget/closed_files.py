"""Which files hold something that was taken down, so that they are not given away as they are: `closed.json`.

    DIR/.webmill/forget/closed.json     archives, indexes and versions, each with the list that they were checked for
    DIR/.webmill/forget/closed.blobs    SHA-256 digests of blobs, sorted, 32 bytes each

Indexing notes archives and indexes, `webmill forget` versions and blobs. What was not checked for the list as it is
now counts as closed: an answer is refused rather than given by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from webmill.collection import Collection
from webmill.errors import BadInput, NotFound
from webmill.forgotten import FOLDER, Forgotten
from webmill.index.archives import cdxj_name
from webmill.index.cdxj.blocklist import Blocklist, parse_blocklist
from webmill.index.lines import read_batches
from webmill.index.state import FILE_NAME, read_state
from webmill.index.zipnum import writer as zipnum
from webmill.infra import atomic, lock
from webmill.infra.checksums import seal_json, unseal_json
from webmill.pipeline.forget.blocklist import block_rules

CLOSED, BLOBS = f"{FOLDER}/closed.json", f"{FOLDER}/closed.blobs"
DIGEST = 32  # bytes


class ArchiveCheck(msgspec.Struct, frozen=True, array_like=True):
    """`rules`: the digest of the list it was checked for; `size` and `cdxj`: what it was then."""

    rules: str
    size: int
    cdxj: str
    is_closed: bool


class ClosedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked. `indexes` are digests of lists by crawl; `versions` those that hold something, checked for
    `versions_for`."""

    archives: dict[str, ArchiveCheck] = {}
    indexes: dict[str, str] = {}
    versions_for: str = ""
    versions: tuple[str, ...] = ()


def read_closed(root: Path) -> ClosedFiles:
    """Return what was checked; nothing where that cannot be read, which closes everything."""
    file = root / CLOSED
    try:
        data = unseal_json(file.read_bytes(), source=str(file), repair="run `webmill forget DIR`")
        return msgspec.json.decode(data, type=ClosedFiles)
    except (OSError, BadInput, msgspec.MsgspecError, UnicodeDecodeError):
        return ClosedFiles()


def change_closed(root: Path, change: Callable[[ClosedFiles], ClosedFiles]) -> None:
    atomic.make_folder(root / FOLDER)
    with lock.exclusive(root / FOLDER, "closed", doing="noting closed files", patience=60.0):
        atomic.write_bytes(root / CLOSED, seal_json(msgspec.json.encode(change(read_closed(root)))))


def note_index(collection: Collection, forgotten: Forgotten) -> None:
    """Note which archives of a crawl hold something, after its index was made for this list."""
    if not forgotten and not (collection.root / CLOSED).is_file():
        return
    if forgotten:
        remove_replaced_shards(collection)
    before = read_closed(collection.root).archives
    checks: dict[str, ArchiveCheck] = {}
    rules = rules_of(forgotten)
    try:
        known = read_state(collection.cdxj / FILE_NAME).known
    except NotFound:
        known = {}
    for path, entry in known.items() if forgotten else ():
        check = before.get(path)
        if not check or (check.rules, check.cdxj) != (forgotten.digest, entry.cdxj_digest):
            is_closed = holds_blocked(collection.cdxj / entry.cdxj, rules)
            check = ArchiveCheck(forgotten.digest, entry.looks.size, entry.cdxj_digest, is_closed)
        checks[path] = msgspec.structs.replace(check, size=entry.looks.size)
    change_closed(
        collection.root,
        lambda closed: msgspec.structs.replace(
            closed, archives=checks, indexes={**closed.indexes, collection.name: forgotten.digest}
        ),
    )


def close_archives(root: Path) -> None:
    """Close all archives until the index was made again: the same names will hold other records."""
    change_closed(root, lambda closed: msgspec.structs.replace(closed, archives={}))


def remove_replaced_shards(collection: Collection) -> None:
    """Delete shards of the index before, which were kept for readers who had begun with it: they name what was taken
    down. Such a reader begins again."""
    with lock.exclusive(collection.cdxj, "index", doing="indexing", patience=60.0):
        current = set(zipnum.shards_in_summary(collection.zipnum))
        for file in collection.zipnum.glob("cdx-*"):
            if zipnum.SHARD_NAME.fullmatch(file.name) and file.name not in current:
                file.unlink(missing_ok=True)


def note_versions(root: Path, forgotten: Forgotten, versions: Iterable[str], blobs: Iterable[bytes]) -> None:
    """Note which versions and blobs hold something. The digests are written first: `versions_for` vouches for both."""
    atomic.make_folder(root / FOLDER)
    change_closed(root, lambda closed: msgspec.structs.replace(closed, versions_for=""))
    atomic.write_bytes(root / BLOBS, b"".join(sorted(set(blobs))))
    change_closed(
        root,
        lambda closed: msgspec.structs.replace(closed, versions_for=forgotten.digest, versions=tuple(sorted(versions))),
    )


def closed_archives(root: Path) -> list[str]:
    """Return the archives that hold something, by key."""
    return sorted(key for key, check in read_closed(root).archives.items() if check.is_closed)


def rules_of(forgotten: Forgotten) -> Blocklist:
    return parse_blocklist((f"{rule}\n".encode() for rule in block_rules(forgotten)), source="webmill forget")


def holds_blocked(cdxj: Path, rules: Blocklist) -> bool:
    return any(rules.partition(batch)[1] for batch in read_batches(cdxj))


def open_ranges(root: Path, key: str, forgotten: Forgotten) -> set[tuple[int, int]]:
    """Return offset and length of each record of an archive that its index names and that was not taken down."""
    from webmill.formats.cdx.cdxj import read_index_line

    found: set[tuple[int, int]] = set()
    rules = rules_of(forgotten)
    for batch in read_batches(Collection(root, root.name or "collection").cdxj / cdxj_name(key)):
        for line in rules.partition(batch)[0]:
            capture = read_index_line(line).capture
            found.add((capture.offset, capture.length))
    return found

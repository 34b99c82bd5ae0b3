"""`webmill curate export`: a corpus as a data set that others load in one line.

    OUT/data/train-00000-HASH.parquet   OUT/README.md   OUT/manifest.json   OUT/changes/VERSION/added.parquet …

A shard is named after its bytes: those of the version before that are the same are left as they are. New shards are
written beside the old ones, then the manifest, then the card, which names the shards that count; then the old ones go.
Killed at any moment the folder is the old version or the new one, and the next export cleans up.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from webmill.collection import PublishFolders
from webmill.curate.card import LICENCE, dataset_card
from webmill.curate.decisions import CorpusDecisions
from webmill.curate.filters.files import digest_of_file
from webmill.curate.manifest import (
    CARD,
    DIGEST,
    MANIFEST,
    DataChanges,
    DataFile,
    DataManifest,
    describe_file,
    encode_manifest,
    read_manifest,
    signed,
    version_of,
)
from webmill.curate.shards import FORMATS, GROUP_BYTES, ShardEncoder, ShardFormat, row_groups
from webmill.errors import BadInput, Misconfigured, NotFound
from webmill.infra import atomic, lock
from webmill.infra.files import os_errors
from webmill.pipeline.curate.changes import write_changes
from webmill.pipeline.curate.kept import kept_tables
from webmill.pipeline.curate.run import LOCK, open_corpus
from webmill.pipeline.progress import ProgressReporter

DATA, CHANGES = "data", "changes"
SHARD_BYTES = 128 << 20
LEAST_SHARD, MOST_SHARD = 1 << 16, 2 << 30


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an export writes, and how."""

    format: str = "parquet"
    name: str = ""
    licence: str = "other"
    shard_bytes: int = SHARD_BYTES
    sign: Path | None = None
    tokenizer: Path | None = None

    def check(self) -> None:
        """Raise `Misconfigured` for what cannot be."""
        if not LEAST_SHARD <= self.shard_bytes <= MOST_SHARD:
            raise Misconfigured("a shard has 64 KB to 2 GB; 64 to 256 MB suit most readers")
        if not LICENCE.fullmatch(self.licence):
            raise Misconfigured(f"{self.licence!r} is not the name of a licence, such as cc-by-4.0 or other")

    def shard_format(self) -> ShardFormat:
        if self.format == "tokens":
            from webmill.curate.tokens import token_format

            if not self.tokenizer:
                raise Misconfigured("tokens need --tokenizer FILE: the tokenizer.json of a model")
            return token_format(self.tokenizer)
        return FORMATS[self.format]


class CorpusExport(msgspec.Struct, frozen=True, kw_only=True):
    """What an export did."""

    manifest: DataManifest
    new: int  # shards
    unchanged: int
    removed: int


def export_corpus(root: Path, out: Path, options: ExportOptions, *, progress: ProgressReporter) -> CorpusExport:
    """Write the corpus of a collection into the folder `out`, or bring the data set there up to it."""
    options.check()
    decisions = open_corpus(root)
    shard_format = options.shard_format()
    for folder in (out, out / DATA):
        atomic.make_folder(folder)
    with (
        lock.shared(PublishFolders(root).corpus, LOCK, doing="curating"),
        lock.exclusive(out, "export", doing="exporting"),
    ):
        before = _manifest_before(out)
        atomic.remove_stale_temps(out / DATA)
        data, new = _write_data(root, decisions, out, shard_format, options, progress=progress)
        manifest = _write_version(decisions, out, options, data, before)
        removed = _remove_others(out, manifest)
    return CorpusExport(manifest=manifest, new=new, unchanged=len(data) - new, removed=removed)


def _manifest_before(out: Path) -> DataManifest | None:
    try:
        return read_manifest(out)
    except NotFound:
        if strange := sorted(path.name for path in (out / DATA).iterdir() if not path.name.startswith((".", "train-"))):
            raise Misconfigured(f"{out / DATA / strange[0]} was not made by webmill: choose another folder") from None
        return None


# --- shards ---


class HashedFile:
    """A file that knows the hash and the size of what was written to it."""

    closed = False

    def __init__(self, draft: atomic.Draft) -> None:
        self._draft = draft
        self.digest = hashlib.sha256()
        self.size = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._draft.file.write(view)
        self.digest.update(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._draft.file.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the file is closed when it has its name."""


def _write_data(
    root: Path,
    decisions: CorpusDecisions,
    out: Path,
    shard_format: ShardFormat,
    options: ExportOptions,
    *,
    progress: ProgressReporter,
) -> tuple[tuple[DataFile, ...], int]:
    """Write the shards that are not there yet; return all, and how many are new."""
    there = {path.name for path in (out / DATA).iterdir()}
    written: list[DataFile] = []
    total = decisions.report().kept
    with progress("Exporting", total=total, unit="documents") as counter:
        tables = _counted(kept_tables(root, decisions), counter)
        groups = row_groups(tables, size=min(GROUP_BYTES, options.shard_bytes))
        first = 0
        while (group := next(groups, None)) is not None:
            shard = _write_shard(out, len(written), first, group, groups, shard_format, options.shard_bytes)
            written.append(shard)
            first += shard.rows
    new = sum(Path(shard.path).name not in there for shard in written)
    return tuple(written), new


def _counted(tables: Iterator[Any], counter: Any) -> Iterator[Any]:
    for table in tables:
        counter.advance(table.num_rows)
        yield table


def _write_shard(
    out: Path, number: int, first: int, group: Any, more: Iterator[Any], shard_format: ShardFormat, most: int
) -> DataFile:
    """Write row groups until the shard has its size; its name ends with the hash of its bytes."""
    folder = out / DATA
    with atomic.open_folder(folder) as fd, atomic.drafting(fd, what=str(folder)) as draft:
        file = HashedFile(draft)
        encoder: ShardEncoder = shard_format.open(file, first)  # type: ignore[arg-type]  # as much of a file as they need
        rows = 0
        while group is not None:
            encoder.write(group)
            rows += group.num_rows
            group = next(more, None) if file.size < most else None
        encoder.close()
        sha256 = file.digest.hexdigest()
        name = f"train-{number:05}-{sha256[:DIGEST]}{shard_format.ending}"
        draft.sync()
        draft.replace(name)
        return DataFile(path=f"{DATA}/{name}", bytes=file.size, sha256=sha256, rows=rows)


# --- the version ---


def _write_version(
    decisions: CorpusDecisions,
    out: Path,
    options: ExportOptions,
    data: tuple[DataFile, ...],
    before: DataManifest | None,
) -> DataManifest:
    """Write what is new of a version: changes, manifest, and last the card, which is what readers follow."""
    name = options.name or (before.name if before else out.name)
    version = version_of(data)
    documents = sum(shard.rows for shard in data)
    changes, change_files = _changes(out, version, data, before, options)
    card = dataset_card(
        name=name,
        licence=options.licence,
        recipe=decisions.recipe,
        report=decisions.report(),
        data=data,
        documents=documents,
    ).encode()
    described = DataFile(path=CARD, bytes=len(card), sha256=hashlib.sha256(card).hexdigest())
    manifest = DataManifest(
        name=name,
        version=version,
        data_format=options.format,
        recipe=decisions.recipe.name,
        documents=documents,
        data=data,
        others=(described, *change_files),
        changes=changes,
        tokenizer=digest_of_file(str(options.tokenizer)) if options.format == "tokens" else "",
    )
    if options.sign:
        manifest = signed(manifest, options.sign)
    atomic.write_bytes(out / MANIFEST, encode_manifest(manifest))
    atomic.write_bytes(out / CARD, card)
    return manifest


def _changes(
    out: Path, version: str, data: Sequence[DataFile], before: DataManifest | None, options: ExportOptions
) -> tuple[DataChanges | None, tuple[DataFile, ...]]:
    """Write which documents came, changed and went since the version before, where both are Parquet."""
    if not before or options.format != "parquet" or before.data_format != "parquet":
        return None, ()
    earlier = tuple(file for file in before.others if file.path.startswith(f"{CHANGES}/"))
    if before.version == version:
        return before.changes, earlier
    if lost := [file.path for file in before.data if not (out / file.path).is_file()]:
        raise BadInput(
            f"{lost[0]} is missing: remove {out / MANIFEST} to begin anew", reason="lost_shard", source=str(out)
        )
    folder = out / CHANGES / version
    atomic.make_folder(folder)
    counts = write_changes(folder, [out / file.path for file in before.data], [out / file.path for file in data])
    files = [describe_file(out, f"{CHANGES}/{version}/{name}.parquet", rows=count) for name, count in counts.items()]
    return DataChanges(before=before.version, **counts), (*earlier, *files)


def _remove_others(out: Path, manifest: DataManifest) -> int:
    """Remove the shards of versions before, and the changes of one that was never completed."""
    told = {file.path.split("/")[1] for file in manifest.others if file.path.startswith(f"{CHANGES}/")}
    for folder in (out / CHANGES).glob("[0-9a-f]" * DIGEST):
        if folder.name not in told:
            shutil.rmtree(folder, ignore_errors=True)
    wanted = {Path(file.path).name for file in manifest.data}
    others = [path for path in (out / DATA).iterdir() if path.name.startswith("train-") and path.name not in wanted]
    for path in others:
        with suppress(FileNotFoundError), os_errors(str(path)):
            path.unlink()
    return len(others)

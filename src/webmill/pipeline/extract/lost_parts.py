"""Parts of a collection's documents that have a receipt and are gone, and tasks that are done and have no receipt.

A part that was deleted would be published away, as if its pages were. So publishing stops, and extracting makes it.
Only names are compared here; what is in a part is checked by whoever reads it, and by `webmill doctor --read-data`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from webmill.collection import PublishFolders
from webmill.errors import BadInput, NotFound
from webmill.infra.queue.sqlite_reader import view_file
from webmill.infra.storage.local import LocalStorage
from webmill.pipeline.extract.jobs import TASKS
from webmill.pipeline.extract.receipts import FOLDER, Receipt, decode_receipt

_RECEIPT = re.compile(rf"{FOLDER}/([^/]+)/(\d+)\.json")


class LostPart(msgspec.Struct, frozen=True):
    """`file` is what is missing or damaged, in the collection; `task` is what makes it again."""

    task: str
    file: str
    fault: str


def find_lost_parts(root: Path) -> Iterator[LostPart]:
    """Yield parts without which the documents of a collection are not whole."""
    place, there = PublishFolders(root), part_stems(root)
    state = LocalStorage(place.extract_state)
    with_receipts: set[str] = set()
    for key, task, number in receipt_keys(root):
        with_receipts.add(task)
        if f"{task}-{number}" in there:
            continue
        try:
            receipt = decode_receipt(state.read(key), source=key)
        except BadInput as error:
            yield LostPart(task, (place.extract_state / key).relative_to(root).as_posix(), error.message)
            continue
        if receipt.output:
            file = (place.documents / receipt.output.name).relative_to(root).as_posix()
            yield LostPart(task, file, f"is missing, though {key} says that it has {receipt.output.rows:,} rows")
    for task in sorted(done_tasks(root) - with_receipts):
        folder = (place.extract_state / FOLDER / task).relative_to(root).as_posix()
        yield LostPart(task, folder, "is missing, though its task is done")


def find_damaged_parts(root: Path) -> Iterator[LostPart]:
    """Yield receipts and parts that are not what was written: every byte of them is read."""
    place = PublishFolders(root)
    state = LocalStorage(place.extract_state)
    for key, task, _ in receipt_keys(root):
        try:
            receipt = decode_receipt(state.read(key), source=key)
        except BadInput as error:
            yield LostPart(task, (place.extract_state / key).relative_to(root).as_posix(), error.message)
            continue
        if fault := part_fault(place.documents, receipt):
            assert receipt.output
            yield LostPart(task, (place.documents / receipt.output.name).relative_to(root).as_posix(), fault)


def part_fault(documents: Path, receipt: Receipt) -> str:
    """Return what is wrong with the part of a receipt; empty if nothing is, or if it has none."""
    if receipt.output is None or not (documents / receipt.output.name).is_file():
        return ""
    part = documents / receipt.output.name
    if part.stat().st_size != receipt.output.size:
        return f"has {part.stat().st_size:,} bytes instead of {receipt.output.size:,}"
    with part.open("rb") as file:
        found = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    return "does not have its checksum" if receipt.output.digest not in ("", found) else ""


def part_stems(root: Path) -> set[str]:
    folder = PublishFolders(root).documents
    return {path.name.partition(".")[0] for path in folder.iterdir()} if folder.is_dir() else set()


def receipt_keys(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of receipts, with their task and number."""
    folder = PublishFolders(root).extract_state
    for path in sorted((folder / FOLDER).glob("*/*.json")):
        key = path.relative_to(folder).as_posix()
        if found := _RECEIPT.fullmatch(key):
            yield key, found[1], found[2]


def done_tasks(root: Path) -> set[str]:
    try:
        with view_file(PublishFolders(root).extract_state / TASKS) as queue:
            return {entry.id for entry in queue.entries() if entry.state == "done"}
    except NotFound:
        return set()


def refuse_lost_parts(root: Path) -> None:
    """Refuse to publish documents of which a part is gone: its pages would be published away."""
    if lost := next(find_lost_parts(root), None):
        message = f"{lost.fault}; to make it again, run `webmill extract {root}`; to publish without it, use --force"
        raise BadInput(message, reason="lost_documents", source=str(root / lost.file))

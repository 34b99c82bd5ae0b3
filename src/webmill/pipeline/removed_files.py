"""Rows that say which pages are gone: `documents/removed-TIME-HASH.jsonl`, each with a receipt in `.webmill/removed/`.

The hash in a name is that of the contents, so that a flipped bit or a cut is seen; the receipt says that there was such
a file, so that a deleted one is missed. The file is written first: killed in between, it counts, and the next crawl
writes its receipt. Without its rows, pages that are gone would be published again: publishing is refused, and the next
crawl of one machine writes them anew, from its frontier.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from webmill.collection import STATE_FOLDER, PublishFolders
from webmill.errors import BadInput
from webmill.formats.timestamps import from_datetime
from webmill.infra import atomic
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.files import os_errors
from webmill.model import Document

HASH_CHARS = 16  # of the hexadecimal SHA-256
_NAME = re.compile(r"removed-[0-9]+-([0-9a-f]{8,64})")  # without its ending


class RemovedReceipt(msgspec.Struct, frozen=True):
    """What was written. `file` is the name in `documents/`."""

    file: str
    rows: int


class RemovedFault(msgspec.Struct, frozen=True):
    """`file`, in the collection, is missing or damaged. `loses_rows`: not only its receipt."""

    file: str
    fault: str
    loses_rows: bool


def receipts_folder(root: Path) -> Path:
    return root / STATE_FOLDER / "removed"


def write_removed(root: Path, documents: Sequence[Document], *, newest: datetime) -> None:
    """Write the rows of pages that are gone, durably. Written twice, they are one file."""
    rows = b"".join(msgspec.json.encode(document) + b"\n" for document in documents)
    stem = f"removed-{from_datetime(newest)}-{hashlib.sha256(rows).hexdigest()[:HASH_CHARS]}"
    folder = PublishFolders(root).documents
    atomic.make_folder(folder)
    atomic.write_bytes(folder / f"{stem}.jsonl", rows)
    write_receipt(root, stem, rows=len(documents))


def write_receipt(root: Path, stem: str, *, rows: int) -> None:
    atomic.make_folder(receipts_folder(root))
    receipt = msgspec.json.encode(RemovedReceipt(f"{stem}.jsonl", rows))
    atomic.write_bytes(receipts_folder(root) / f"{stem}.json", seal_json(receipt))


def find_removed_faults(root: Path) -> Iterator[RemovedFault]:
    """Yield files of removed pages, and receipts of them, that are missing or damaged. All of them are read."""
    documents, receipts = PublishFolders(root).documents, receipts_folder(root)
    names = {path.stem for path in (*documents.glob("removed-*.jsonl"), *receipts.glob("removed-*.json"))}
    for stem in sorted(name for name in names if _NAME.fullmatch(name)):
        file, receipt = documents / f"{stem}.jsonl", receipts / f"{stem}.json"
        name = file.relative_to(root).as_posix()
        if not file.is_file():
            yield RemovedFault(name, "is missing, though pages that are gone were listed in it", loses_rows=True)
        elif not has_its_hash(file):
            yield RemovedFault(name, "does not have the checksum that is in its name", loses_rows=True)
        elif fault := receipt_fault(receipt):
            yield RemovedFault(receipt.relative_to(root).as_posix(), fault, loses_rows=False)


def has_its_hash(file: Path) -> bool:
    found = _NAME.fullmatch(file.stem)
    with os_errors(str(file)), file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return found is not None and digest.startswith(found[1])


def receipt_fault(receipt: Path) -> str:
    """Return what is wrong with a receipt; empty if nothing is."""
    if not receipt.is_file():
        return "is missing"
    try:
        data = unseal_json(receipt.read_bytes(), source=str(receipt), repair="crawl again")
        if msgspec.json.decode(data, type=RemovedReceipt).file == f"{receipt.stem}.jsonl":
            return ""
    except (BadInput, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return str(error)
    return "is the receipt of another file"


def refuse_lost_removals(root: Path) -> None:
    """Refuse to publish when rows of pages that are gone are lost: the pages would be published again."""
    for fault in find_removed_faults(root):
        if fault.loses_rows:
            message = (
                f"{fault.fault}; to write it again, run `webmill crawl {root}`; to publish without it, use --force"
            )
            raise BadInput(message, reason="lost_documents", source=str(root / fault.file))


def loses_removals(root: Path) -> bool:
    return any(fault.loses_rows for fault in find_removed_faults(root))


def forget_lost_removals(root: Path) -> None:
    """Delete what is left of files whose rows were written anew, and write receipts that are missing."""
    for fault in list(find_removed_faults(root)):
        stem = Path(fault.file).stem
        file = PublishFolders(root).documents / f"{stem}.jsonl"
        if fault.loses_rows:
            file.unlink(missing_ok=True)
            (receipts_folder(root) / f"{stem}.json").unlink(missing_ok=True)
        else:
            write_receipt(root, stem, rows=file.read_bytes().count(b"\n"))

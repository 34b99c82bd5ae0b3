"""Receipts: how far a task got. One small file for each part of its output, written when that part is durable.

    receipts/TASK/00000.json   receipts/TASK/00001.json   …   the last one says that it is the last

The receipts are the checkpoint, for every executor, on every machine: they lie beside the output. A part without its
receipt does not count; it is made again, with the same name and the same bytes. So every document is there once.
A receipt that is damaged, out of sequence, or whose file is gone is passed over with all that follow it.
"""

from __future__ import annotations

import hashlib
import logging
import math

import msgspec

from webmill.errors import BadInput, Conflict, NotFound
from webmill.formats.warc.typed_records import FileType
from webmill.infra.sinks.base import Delivered
from webmill.infra.storage.base import Absent, Storage

log = logging.getLogger(__name__)

FOLDER = "receipts"


class SourceVersion(msgspec.Struct, frozen=True):
    """A file as it was when the task began to read it."""

    size: int
    etag: str


RecordRange = tuple[FileType, int, int]  # bytes of a file


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """`resume` is where to read on: in each file, or behind how many captures of a batch. `output` and `errors` are
    None when the part has none.

    `used` are records behind `resume` that have had their say: those of a page, or of an error. Files that are damaged
    have such: reading on begins at the oldest record that nobody has asked for yet.
    """

    number: int
    resume: dict[str, int] = {}
    used: tuple[RecordRange, ...] = ()
    sources: dict[str, SourceVersion] = {}
    position: str = ""  # in a stream: the sequence number of the last message
    messages: tuple[str, ...] = ()  # of a queue: ids of those in this part, deleted after it was written
    output: Delivered | None
    errors: Delivered | None
    captures: int
    bytes: int = 0  # of the rows as JSON lines
    outcomes: dict[str, int] = {}  # of the rows
    left_out: dict[str, int] = {}  # captures without a row, by reason
    reasons: dict[str, int] = {}  # of the errors
    downloaded: int = 0
    last: bool
    seconds: float


class _OutputOnly(msgspec.Struct, frozen=True):
    output: Delivered | None = None


class _ReceiptOutput(msgspec.Struct, frozen=True):
    receipt: _OutputOnly


class _ChecksummedReceipt(msgspec.Struct, frozen=True):
    checksum: str
    receipt: msgspec.Raw


class Receipts:
    """Of one task, by its prefix. `files` and `error_files` are where its parts lie, if they are files: a look there
    proves them.
    """

    def __init__(self, storage: Storage, prefix: str, *, files: Storage | None, error_files: Storage | None) -> None:
        self._storage = storage
        self._prefix = f"{FOLDER}/{prefix}"
        self._files = files
        self._error_files = error_files

    def read(self) -> list[Receipt]:
        """Return the receipts from the first on, as far as they are valid."""
        return self._read()[0]

    def read_and_clear(self) -> list[Receipt]:
        """Return the valid receipts and delete the others, which would block new ones.

        Only those: what another worker at this task has written since stays.
        """
        good, passed_over = self._read()
        for key in passed_over:
            self._storage.delete(key)
        return good

    def _read(self) -> tuple[list[Receipt], list[str]]:
        good: list[Receipt] = []
        keys = self._keys()
        for key in keys:
            try:
                receipt = decode_receipt(self._storage.read(key), source=key)
                self._prove(receipt, number=len(good), key=key)
            except (BadInput, NotFound) as error:
                log.warning("receipt ignored", extra={"key": key, "reason": str(error)})
                break
            good.append(receipt)
        return good, keys[len(good) :]

    def counts(self, name: str) -> bool:
        """Return whether the file of that name is a part with a receipt."""
        parts = (part for receipt in self.read() for part in (receipt.output, receipt.errors))
        return any(part.name == name for part in parts if part)

    def read_after(self, count: int) -> list[Receipt]:
        """Return the receipts from number `count` on, without verifying their files: for progress."""
        keys = [key for key in self._keys() if self._number(key) >= count]
        return [decode_receipt(self._storage.read(key), source=key) for key in keys]

    def _keys(self) -> list[str]:
        """Return the keys in the order of their numbers: after 99999 comes 100000."""
        return sorted((stat.key for stat in self._storage.list(self._prefix)), key=self._number)

    def _number(self, key: str) -> float:
        stem = key.removeprefix(self._prefix).removesuffix(".json")
        return int(stem) if stem.isascii() and stem.isdigit() and len(stem) < 20 else math.inf

    def add(self, receipt: Receipt) -> None:
        """Write a receipt. Conflict: another worker has this task, and wrote a different part first."""
        try:
            self._storage.write(self._key(receipt.number), encode_receipt(receipt), condition=Absent())
        except Conflict:
            there = decode_receipt(self._storage.read(self._key(receipt.number)), source=self._key(receipt.number))
            if (there.output, there.errors, there.resume) != (receipt.output, receipt.errors, receipt.resume):
                message = f"part {receipt.number} was made otherwise: does your function return other rows each time?"
                raise Conflict(message) from None

    def forget(self) -> None:
        """Delete all receipts: the part that was sealed records the same."""
        for key in self._keys():
            self._storage.delete(key)

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number:05d}.json"

    def _prove(self, receipt: Receipt, *, number: int, key: str) -> None:
        if receipt.number != number or key != self._key(number):
            raise BadInput(f"receipt {number} is missing before it", reason="out_of_sequence", source=key)
        for storage, part in ((self._files, receipt.output), (self._error_files, receipt.errors)):
            if storage and part and storage.stat(part.name).size != part.size:
                raise BadInput(f"{part.name} has another size", reason="bad_part", source=key)


def encode_receipt(receipt: Receipt) -> bytes:
    data = msgspec.json.encode(receipt)
    return msgspec.json.encode(_ChecksummedReceipt(_checksum(data), msgspec.Raw(data)))


def decode_receipt(data: bytes, *, source: str) -> Receipt:
    try:
        sealed = msgspec.json.decode(data, type=_ChecksummedReceipt)
        if sealed.checksum != _checksum(bytes(sealed.receipt)):
            raise BadInput("the checksum is wrong", reason="bad_receipt", source=source)
        return msgspec.json.decode(sealed.receipt, type=Receipt)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadInput(str(error), reason="bad_receipt", source=source) from None


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def list_output_files(storage: Storage) -> list[str]:
    """Return the output files named in any receipt here, valid or not, so that they can be deleted."""
    names = []
    for stat in storage.list(f"{FOLDER}/"):
        try:
            receipt = msgspec.json.decode(storage.read(stat.key), type=_ReceiptOutput).receipt
        except (msgspec.DecodeError, UnicodeDecodeError, NotFound):
            continue
        if receipt.output:
            names.append(receipt.output.name)
    return names

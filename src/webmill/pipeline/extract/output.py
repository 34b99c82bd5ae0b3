"""Where documents go: a folder or a prefix of an object store, made with one set of settings.

OUT/
  settings.json               what shapes the rows; another extractor or filter needs another folder
  spool/BATCH.jsonl.zst       batches that are done and not yet in a part
  RUN/part-FIRST-LAST.parquet
  RUN/receipts/part-FIRST-LAST.json
  .webmill/                   queue, locks, downloaded files: ours, and gone without loss
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import BadInput, Conflict, Misconfigured
from webmill.extract.main_text import MainText, require
from webmill.infra import atomic, lock
from webmill.infra.storage.base import Absent, Storage
from webmill.pipeline.extract.rows import Keep
from webmill.pipeline.extract.sealing import FILE_SIZE, Format, Receipt, Sealer, pyarrow
from webmill.pipeline.extract.spool import spooled

SETTINGS = "settings.json"
PRIVATE = ".webmill"
PATIENCE = 300.0  # seconds; a large part takes its time


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shapes the output; it is the same for all who write to one place."""

    extractor: MainText = "resiliparse"
    detect: bool = False  # languages by CLD2, else as the index says
    keep: Keep = Keep()
    format: Format = "parquet"
    file_size: int = FILE_SIZE

    def check(self) -> None:
        """Misconfigured: an extra is missing, or the filters make no sense."""
        require(self.extractor)
        if self.format == "parquet":
            pyarrow()
        if self.extractor == "none" and (self.keep.min_text is not None or self.keep.max_text is not None):
            raise Misconfigured("--min-text and --max-text need text: choose an --extractor")


class Output:
    """`folder` is the storage as a local folder; None when it is somewhere else."""

    def __init__(self, storage: Storage, *, folder: Path | None, shape: Shape) -> None:
        self.storage = storage
        self.folder = folder
        self.shape = shape
        self._sealer = Sealer(storage, form=shape.format, file_size=shape.file_size, scratch=self.private())

    def prepare(self) -> None:
        """Misconfigured: the place was made with other settings."""
        try:
            self.storage.write(SETTINGS, msgspec.json.encode(self.shape) + b"\n", condition=Absent())
        except Conflict:
            there = read_shape(self.storage)
            if there != self.shape:
                raise Misconfigured(
                    f"{self.folder or 'the output'} was begun with {described(there, self.shape)}: "
                    "use the same flags, or another --output"
                ) from None

    def private(self) -> Path | None:
        """A local folder of ours."""
        if not self.folder:
            return None
        atomic.make_folder(self.folder / PRIVATE)
        return self.folder / PRIVATE

    def seal(self) -> list[Receipt]:
        """Parts that are complete. Somebody else at it: nothing, it will see to ours, too."""
        try:
            with self._alone():
                return self._sealer.seal()
        except Conflict:
            return []

    def finish(self, is_lost: Callable[[str], bool], *, patience: float = PATIENCE) -> list[Receipt]:
        """Waits for somebody else who is at it; Conflict: too long."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._alone():
                    self._tidy()
                    return self._sealer.finish(is_lost)
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _tidy(self) -> None:
        """What killed writers have left."""
        if self.folder:
            places = [self.folder, *self.folder.glob("*/receipts"), *self.folder.glob("*/")]
            for place in places:
                if place.is_dir() and not place.name.startswith("."):
                    atomic.remove_stale_temps(place)

    def receipts(self, runs: Iterable[str]) -> list[Receipt]:
        return [receipt for run in runs for receipt in self._sealer.receipts(run)]

    def holds(self, run: str, number: int) -> bool:
        """In a part already."""
        return any(receipt.holds(number) for receipt in self._sealer.receipts(run))

    def unsealed(self) -> int:
        return sum(map(len, spooled(self.storage).values()))

    def _alone(self) -> AbstractContextManager[None]:
        private = self.private()
        return lock.exclusive(private, "seal", doing="sealing") if private else nullcontext()


def read_shape(storage: Storage) -> Shape:
    try:
        return msgspec.json.decode(storage.read(SETTINGS), type=Shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(str(error), reason="bad_settings", source=SETTINGS) from error


def described(there: Shape, given: Shape) -> str:
    """The settings that differ, as they are there, by the names of their flags where they have one."""
    old, new = _flat(there), _flat(given)
    return ", ".join(f"{name} {_shown(value)}" for name, value in old.items() if new[name] != value)


def _flat(shape: Shape) -> dict[str, Any]:
    keep = shape.keep
    return {
        "--extractor": shape.extractor,
        "languages by CLD2 (webmill[languages])": shape.detect,
        "--min-text": keep.min_text,
        "--max-text": keep.max_text,
        "--detected-language": keep.languages,
        "--format": shape.format,
        "--file-size": shape.file_size >> 20,
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) or "none" if isinstance(value, tuple) else "none" if value is None else str(value)

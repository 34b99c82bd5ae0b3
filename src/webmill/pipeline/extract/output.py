"""Where documents go: a folder or a prefix of an object store with nothing but data files in it, made with one set of
settings; and a state beside it.

    OUT/RUN/part-FIRST-LAST.parquet     of batches;  OUT/TASK-NNNNN.jsonl.gz of files
    STATE/settings.json                 what shapes the rows; another extractor or filter needs another folder
    STATE/receipts/…                    how far each task is
    STATE/spool/…                       batches that are done and in no part yet
    STATE/sealed/RUN/part-….json        what each part holds
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.extract.extractors import require_extractor
from webmill.extract.recipe import Recipe
from webmill.infra import atomic, lock, waiting
from webmill.infra.address import scheme_of
from webmill.infra.checksums import seal_json, unseal_json
from webmill.infra.custom_function import CustomFunction, load_function, result_type
from webmill.infra.files import RESERVED
from webmill.infra.sinks.parquet import pyarrow
from webmill.infra.storage.backends import open_storage
from webmill.infra.storage.base import Absent, Storage
from webmill.masking import hide_secrets
from webmill.model import Document
from webmill.pipeline.extract.plan import FILE_SIZE, DocumentFilter, ExtractPlan, Format
from webmill.pipeline.extract.sealing import PartSealer, SealedPart

SETTINGS = "settings.json"
SEAL_WAIT = 300.0  # seconds; a large part takes its time


class OutputShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that decide what rows look like; the same for all writers to one place."""

    recipe: Recipe
    keep: DocumentFilter = DocumentFilter()
    format: Format = "parquet"
    file_size: int = FILE_SIZE
    columns: tuple[str, ...] = Document.__struct_fields__
    function: CustomFunction | None = None  # in place of the recipe

    def check(self) -> None:
        """Raise Misconfigured: an extra is missing, the filters contradict, or the function cannot be loaded."""
        if self.format == "parquet":
            pyarrow()
        if self.function:
            load_function(self.function)
            return
        require_extractor(self.recipe.extractor)
        self.keep.check(self.recipe)

    def row(self) -> type[msgspec.Struct]:
        """Return the type of rows. It loads the function: only for one that the user named, never one from a folder."""
        return (result_type(load_function(self.function)) if self.function else None) or Document


class ExtractOutput:
    """`place` and `state` are addresses; `row` is what the parts hold."""

    def __init__(self, place: str, state: str, *, shape: OutputShape, row: type[msgspec.Struct] = Document) -> None:
        self.place, self.state, self.shape = place, state, shape
        self.data, self.notes = open_storage(place), open_storage(state)
        self._sealer = PartSealer(
            self.data,
            self.notes,
            form=shape.format,
            row=row,
            file_size=shape.file_size,
            scratch=self.folder(),
        )

    def prepare(self) -> None:
        """Record the shape. Misconfigured: the place has output of other settings, or of an earlier webmill."""
        if self._is_old():
            raise Misconfigured(f"{hide_secrets(self.place)} was made by an earlier webmill: choose another --output")
        record_shape(self.notes, self.shape, place=hide_secrets(self.place))

    def _is_old(self) -> bool:
        """Return whether an earlier webmill wrote here: it kept its settings among the documents."""
        try:
            return bool(self.data.stat(SETTINGS))
        except NotFound:
            return False

    def folder(self) -> Path | None:
        """Return the state as a local folder; None where it is elsewhere."""
        scheme, rest = scheme_of(self.state)
        if scheme != "file":
            return None
        atomic.make_folder(Path(rest))
        return Path(rest)

    def seal(self) -> list[SealedPart]:
        """Seal the parts that are complete. If another process is sealing, return none: it seals ours, too."""
        try:
            with self._alone():
                return self._sealer.seal()
        except Conflict:
            return []

    def finish(self, is_lost: Callable[[str], bool], *, patience: float = SEAL_WAIT) -> list[SealedPart]:
        """Seal everything, over lost batches. Wait for another process that seals; Conflict: it took too long."""
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._alone():
                    remove_drafts(self.place)
                    return self._sealer.finish(is_lost)
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            waiting.sleep(0.1)

    def parts(self, run: str) -> list[SealedPart]:
        return self._sealer.parts(run)

    def holds(self, run: str, number: int) -> bool:
        """Return whether a batch is in a part already."""
        return any(part.holds(number) for part in self._sealer.parts(run))

    def spooled(self, run: str) -> list[int]:
        """Return the batches of a run that are done and in no part yet."""
        spool = self._sealer.spool
        return [number for number in spool.numbers().get(run, ()) if spool.read(run, number)]

    def unsealed(self) -> int:
        """Return how many batches are done and in no part yet."""
        return sum(len(self.spooled(run)) for run in self._sealer.spool.numbers())

    def _alone(self) -> AbstractContextManager[None]:
        folder = self.folder()
        return lock.exclusive(folder, "seal", doing="sealing") if folder else nullcontext()


def record_shape(notes: Storage, shape: OutputShape, *, place: str) -> None:
    """Record the shape of an output. Misconfigured: it was started with another one."""
    try:
        notes.write(SETTINGS, seal_json(msgspec.json.encode(shape)), condition=Absent())
    except Conflict:
        there = read_shape(notes)
        if there != shape:
            raise Misconfigured(
                f"{place} was started with {describe_difference(there, shape)}: use the same flags, or another --output"
            ) from None


def read_shape(notes: Storage) -> OutputShape:
    try:
        data = unseal_json(notes.read(SETTINGS), source=SETTINGS, repair="put it back, or make the output anew")
        return msgspec.json.decode(data, type=OutputShape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(str(error), reason="bad_settings", source=SETTINGS) from error


def describe_difference(there: OutputShape, given: OutputShape, *, language: str = "--detected-language") -> str:
    """Return the settings that differ, as they are there, by the names of their flags where they have one."""
    old, new = _settings_by_flag(there, language), _settings_by_flag(given, language)
    differing = [f"{name} {_format_value(value)}" for name, value in old.items() if new[name] != value]
    return ", ".join(differing) or "other columns, by another webmill"


def format_flags(there: OutputShape, given: OutputShape, *, language: str) -> str:
    """Return the flags to type for what is given, where they differ, each followed by a space."""
    old, new = _settings_by_flag(there, language), _settings_by_flag(given, language)
    words = [word for name, value in new.items() if old[name] != value for word in _format_flag(name, value)]
    return "".join(f"{word} " for word in words)


def _format_flag(name: str, value: Any) -> list[str]:
    if not name.startswith("--") or value is False or value is None:
        return []
    if value is True:
        return [name]
    return [f"{name} {one}" for one in (value if isinstance(value, tuple) else (value,))]


def _settings_by_flag(shape: OutputShape, language: str) -> dict[str, Any]:
    return {
        "--function": shape.function and shape.function.name,
        "--extractor": shape.recipe.extractor,
        "languages by CLD2 (webmill[languages])": shape.recipe.detect,
        "--links": shape.recipe.links,
        "plugins": tuple(f"{one.name} {one.version}" for one in shape.recipe.plugins or ()),
        "--min-text": shape.keep.min_text,
        "--max-text": shape.keep.max_text,
        language: shape.keep.languages,
        "--all-captures": shape.keep.what == "captures",
        "--format": shape.format,
        "--file-size": shape.file_size >> 20,
    }


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(value) or "none" if isinstance(value, tuple) else "none" if value is None else str(value)


def remove_drafts(*places: str) -> None:
    """Remove drafts of workers that were killed, where they are on this machine."""
    for place in places:
        scheme, rest = scheme_of(place)
        if scheme == "file":
            for parent in {draft.parent for draft in Path(rest).rglob(f"{RESERVED}tmp-*")}:
                atomic.remove_stale_temps(parent)


def remove_plan_drafts(plan: ExtractPlan) -> None:
    """Remove drafts from all places that a plan writes to."""
    remove_drafts(plan.output.to, plan.errors.to, plan.state)

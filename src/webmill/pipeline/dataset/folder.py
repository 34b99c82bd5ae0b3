"""A dataset on disk: a folder that holds all there is to know of it.

    NAME/
      dataset.json      what it is, with every default spelled out, sealed with a digest
      manifest.txt      one line per task
      function.py       your function, as it was when the dataset was made (if it is a file)
      tasks.sqlite      every task, and what became of it
      receipts/         how far each task is (in `.webmill` of the output, when that is elsewhere)
      output/           documents, nothing else (unless [write] says otherwise)
      errors/           what could not be read or made, each with its reason and byte ranges

What was made under one description is never mixed with what another would make: a dataset whose description was changed
is refused, but for [compute], which says how and not what.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from webmill import __version__
from webmill.collection import STATE_FOLDER
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.extract.extractors import default_extractor, require_extractor
from webmill.extract.own_reader import load_file_reader, load_message_reader
from webmill.extract.recipe import Recipe
from webmill.formats.cld2 import can_detect_languages
from webmill.formats.warc.typed_records import FileType
from webmill.infra import atomic
from webmill.infra import custom_function as custom
from webmill.infra.address import below, scheme_of
from webmill.pipeline.dataset.config import (
    ComputeSection,
    Dataset,
    DocumentSection,
    check_dataset,
    is_address,
    is_file_storage,
)
from webmill.pipeline.extract.jobs import DATASET_FILE, STOP, TASKS, is_running, lock_job
from webmill.pipeline.extract.manifest import (
    ParseLine,
    TaskFiles,
    manifest_line,
    own_manifest_line,
    parse_line,
    parse_manifest,
    parse_own_line,
)
from webmill.pipeline.extract.plan import DocumentFilter, choose_recipe
from webmill.pipeline.extract.stream_parts import SHARD
from webmill.pipeline.extract.tasks import Task, task_id
from webmill.pipeline.trust import is_trusted, remember_own

FILE_NAME, MANIFEST, FUNCTION, SHARDS = "dataset.json", "manifest.txt", "function.py", "shards.txt"
FIRST_RUN = "first-run.txt"
OUTDATED_TASKS = "ledger.sqlite"  # where an earlier webmill kept its tasks


class DatasetRecipe(msgspec.Struct, frozen=True):
    """How documents are made, as it was chosen when the dataset was: what is installed later does not change it.

    `otherwise` is the extractor of tasks without a WET file, where the recipe's is wet.
    """

    recipe: Recipe = Recipe()
    otherwise: str = ""

    def check(self) -> None:
        """Misconfigured: an extractor is not there, or what tells languages."""
        require_extractor(self.recipe.extractor)
        if self.otherwise:
            require_extractor(self.otherwise)
        if self.recipe.detect and not can_detect_languages():
            raise Misconfigured(
                "its languages are told by CLD2, which is not installed: pip install 'webmill[languages]'"
            )


class DatasetFile(msgspec.Struct, frozen=True):
    """The content of dataset.json."""

    webmill: str
    digest: str
    dataset: Dataset
    making: DatasetRecipe = DatasetRecipe()


class DatasetFolder(msgspec.Struct, frozen=True):
    path: Path
    dataset: Dataset
    digest: str
    function: custom.CustomFunction | None
    making: DatasetRecipe = DatasetRecipe()

    @property
    def queue(self) -> Path:
        """Return the file of its tasks."""
        return self.path / TASKS

    @property
    def stop_file(self) -> Path:
        return self.path / STOP

    def tasks(self) -> Iterator[Task]:
        """Ids are derived from the description and the line: the output of another dataset is never taken for ours."""
        if self.dataset.reads_messages:
            yield from (self._shard_task(shard) for shard in self.shards())
            return
        lines = (self.path / MANIFEST).read_text(encoding="utf-8").splitlines()
        for number, files in enumerate(parse_manifest(lines, source=MANIFEST, parse=line_parser(self.dataset))):
            yield Task(task_id(f"{number:06d}", files, digest=self.digest), files)

    def note_first_run(self, now: float) -> None:
        """Remember when the first run of a queue or stream began: `read.start = "latest"` means from then on."""
        if self.dataset.reads_messages and not (self.path / FIRST_RUN).exists():
            atomic.write_bytes(self.path / FIRST_RUN, f"{now:.3f}\n".encode())

    def first_run(self) -> float:
        """Return when the first run of a queue or stream began, in seconds since 1970."""
        return float((self.path / FIRST_RUN).read_text(encoding="utf-8"))

    def shards(self) -> list[str]:
        """Return the shards of the queue or stream that were found so far, in this order."""
        try:
            return (self.path / SHARDS).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def add_shards(self, found: Iterable[str]) -> None:
        """Remember shards that are new."""
        known = self.shards()
        lines = [*known, *(shard for shard in found if shard not in known)]
        if lines != known:
            atomic.write_bytes(self.path / SHARDS, "".join(f"{line}\n" for line in lines).encode())

    def _shard_task(self, shard: str) -> Task:
        files = {SHARD: shard}
        return Task(task_id(re.sub(r"[^A-Za-z0-9._-]", "_", shard), files, digest=self.digest), files)

    def place(self, to: str) -> str:
        """Return an output's address; relative paths are in the folder."""
        if to == "stdout":
            return str(self.path / "output")
        scheme, rest = scheme_of(to)
        if scheme == "sqlite":
            return f"sqlite:{self.path / rest}"
        return to if is_address(to) else str(self.path / to)

    @property
    def state(self) -> str:
        """Return where receipts are: workers on other machines must reach them, as they reach the output."""
        to = self.place(self.dataset.write.to)
        if not is_file_storage(self.dataset.write.to) or self._is_inside(to):
            return str(self.path)
        return below(to, STATE_FOLDER)

    def _is_inside(self, place: str) -> bool:
        scheme, rest = scheme_of(place)
        return scheme == "file" and Path(os.path.normpath(rest)).is_relative_to(self.path)

    def is_running(self) -> bool:
        return is_running(self.path)


# --- making one -------------------------------------------------------------------------------------------------------


def create_dataset(
    dataset: Dataset, root: Path, *, beside: Path, read_lines: Callable[[str], Sequence[str]]
) -> tuple[DatasetFolder, int]:
    """Create a folder below `root`; return it and its number of tasks. Relative sources are `beside` the dataset file.

    `read_lines` gives the lines of a file or address. dataset.json comes last: without it there is no dataset.
    """
    path = root / dataset.name
    if (path / FILE_NAME).exists():
        raise Conflict(f"{path} is a dataset already: delete it first, or choose another name")
    tasks = [] if dataset.reads_messages else _read_manifest(dataset, beside, read_lines)
    to_line = own_manifest_line if dataset.document.reader else manifest_line
    text = "".join(f"{to_line(files)}\n" for files in tasks)
    function = _load_function(dataset, beside)
    dataset = msgspec.structs.replace(
        dataset,
        manifest=MANIFEST,
        read=msgspec.structs.replace(dataset.read, source=_resolve_beside(beside, dataset.read.source)),
    )
    making = _choose_recipe(dataset, tasks)
    digest = digest_dataset(dataset, text, function, making)
    atomic.make_folder(path)
    remember_own(path, made_by="dataset create")
    atomic.write_bytes(path / MANIFEST, text.encode())
    if function and function.source:
        atomic.write_bytes(path / FUNCTION, function.source.encode())
    sealed = msgspec.json.encode(DatasetFile(__version__, digest, dataset, making))
    atomic.write_bytes(path / FILE_NAME, msgspec.json.format(sealed) + b"\n", mode=atomic.OWNER)  # addresses with keys
    return DatasetFolder(path, dataset, digest, function, making), len(tasks)


def line_parser(dataset: Dataset) -> ParseLine:
    return parse_own_line if dataset.document.reader else parse_line


def _read_manifest(dataset: Dataset, beside: Path, read_lines: Callable[[str], Sequence[str]]) -> list[TaskFiles]:
    given = dataset.manifest
    lines = given if isinstance(given, list) else read_lines(_resolve_beside(beside, given))
    source = "manifest" if isinstance(given, list) else given
    return parse_manifest(lines, source=source, parse=line_parser(dataset))


def _load_function(dataset: Dataset, beside: Path) -> custom.CustomFunction | None:
    """Return the function or class that the dataset names. A mistake in it is told now, not by every worker."""
    if not dataset.function_name:
        return None
    function = custom.read_function(dataset.function_name, beside=beside)
    if dataset.reads_messages:
        load_message_reader(function)
    elif dataset.document.reader:
        load_file_reader(function)
    else:
        custom.load_function(function)
    return function


def _resolve_beside(beside: Path, place: str) -> str:
    return place if is_address(place) else str((beside / place).resolve())


def _choose_recipe(dataset: Dataset, tasks: Sequence[TaskFiles]) -> DatasetRecipe:
    """Return how documents are made. auto: who names WET files wants their text, others the best that is installed.
    Misconfigured: no document could be made.
    """
    make = dataset.document
    if dataset.function_name or dataset.reads_messages:
        return DatasetRecipe()
    with_texts = sum(FileType.WET in files for files in tasks)
    extractor = "wet" if make.text == "auto" and with_texts else make.text
    is_mixed = make.text == "auto" and 0 < with_texts < len(tasks)
    recipe = choose_recipe(extractor, links=make.links)
    making = DatasetRecipe(recipe, default_extractor() if is_mixed else "")
    making.check()
    document_filter(make).check(recipe)
    return making


def document_filter(make: DocumentSection) -> DocumentFilter:
    return DocumentFilter(what=make.keep, min_text=make.min_text, max_text=make.max_text, languages=make.languages)


def digest_dataset(
    dataset: Dataset, manifest: str, function: custom.CustomFunction | None, making: DatasetRecipe
) -> str:
    """Return a digest of all that the output depends on, the version of webmill included."""
    what = msgspec.structs.replace(dataset, compute=ComputeSection())
    return hashlib.sha256(msgspec.json.encode([__version__, what, manifest, function, making])).hexdigest()


# --- finding one ------------------------------------------------------------------------------------------------------


def open_dataset(path: Path) -> DatasetFolder:
    """Open a dataset. NotFound; Conflict: its description is not the one it was made with. Misconfigured: it was not
    made here, and the user does not trust it."""
    file = require_dataset(path) / FILE_NAME
    refuse_untrusted_dataset(path)
    if (path / OUTDATED_TASKS).exists():
        raise Conflict(f"{path} was made by an earlier webmill: create it again under another name")
    try:
        sealed = msgspec.json.decode(file.read_bytes(), type=DatasetFile)
        manifest = (path / MANIFEST).read_text(encoding="utf-8")
        dataset = check_dataset(sealed.dataset, source=str(file))
        function = _read_function(dataset, path)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise BadInput(str(error), reason="bad_dataset", source=str(file)) from None
    if sealed.digest != digest_dataset(dataset, manifest, function, sealed.making):
        made = f"webmill {sealed.webmill}" if sealed.webmill != __version__ else "another description"
        raise Conflict(
            f"{path} was made with {made}: its output would be mixed. Put it back as it was, or create a "
            "dataset with another name. Only [compute] may be changed."
        )
    return DatasetFolder(path, dataset, sealed.digest, function, sealed.making)


def refuse_untrusted_dataset(path: Path) -> None:
    """Raise Misconfigured for a dataset of somebody else: it says what code is run, what is read and where it goes."""
    if not is_trusted(path):
        raise Misconfigured(
            f"{path} was not made by you on this machine: a dataset runs its own function and reads and writes other "
            f"places. If it is yours, run `webmill trust {shlex.quote(str(path))}`"
        )


def require_dataset(path: Path) -> Path:
    """Return the path. NotFound: no dataset is there."""
    if not (path / FILE_NAME).exists():
        raise NotFound(f"no dataset at {path}: `webmill dataset list` shows what there is")
    return path


def _read_function(dataset: Dataset, path: Path) -> custom.CustomFunction | None:
    if not dataset.function_name:
        return None
    place, name = custom.parse_function_name(dataset.function_name)
    if not place.endswith(".py"):
        return custom.CustomFunction(name=name, module=place)
    return custom.CustomFunction(name=name, file=place, source=(path / FUNCTION).read_text(encoding="utf-8"))


def find_datasets(root: Path) -> Iterator[Path]:
    return (file.parent for file in sorted(root.glob(f"*/{FILE_NAME}")))


def delete_dataset(path: Path) -> None:
    """Delete the folder; what was written elsewhere stays. Conflict: it is running. Misconfigured: something in the
    folder is not of a dataset."""
    refuse_foreign_files(require_dataset(path))
    with lock_job(path):
        (path / FILE_NAME).unlink()  # first: half of a dataset is none
        shutil.rmtree(path)


def refuse_foreign_files(path: Path) -> None:
    """Raise Misconfigured unless this is a dataset, and nothing but that: all of it would be deleted."""
    try:
        msgspec.json.decode((path / FILE_NAME).read_bytes(), type=DatasetFile)
    except msgspec.MsgspecError as error:
        raise Misconfigured(f"{path / FILE_NAME} is not of a dataset: {error}; delete the folder yourself") from error
    foreign = sorted(one.name for one in path.iterdir() if not DATASET_FILE.fullmatch(one.name))
    if foreign:
        raise Misconfigured(f"{path / foreign[0]} is not a part of the dataset: move it, or delete the folder yourself")

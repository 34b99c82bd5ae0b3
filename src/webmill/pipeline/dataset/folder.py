"""A dataset on disk: a folder that holds all there is to know of it.

    NAME/
      dataset.json      what it is, with every default spelled out, sealed with a digest
      manifest.txt      one line per task
      function.py       your function, as it was when the dataset was made (if it is a file)
      ledger.sqlite     the state of every task
      output/           documents, and receipts/ of the parts that count (unless [write] says otherwise)
      errors/           what could not be read or made, each with its reason and byte ranges

What was made under one description is never mixed with what another would make: a dataset whose description was changed
is refused, but for [compute], which says how and not what.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from webmill import __version__
from webmill.errors import BadInput, Conflict, Misconfigured, NotFound
from webmill.extract import custom
from webmill.infra import atomic, lock
from webmill.pipeline.dataset.config import Compute, Dataset, checked, is_address, is_storage
from webmill.pipeline.dataset.manifest import Files, manifest_line, parse_manifest

FILE_NAME, MANIFEST, FUNCTION, LEDGER, STOP = "dataset.json", "manifest.txt", "function.py", "ledger.sqlite", "stop"
DOING = "running this dataset"
TRIES = 10


class Sealed(msgspec.Struct, frozen=True):
    """The content of dataset.json."""

    webmill: str
    digest: str
    dataset: Dataset


class Folder(msgspec.Struct, frozen=True):
    path: Path
    dataset: Dataset
    digest: str
    function: custom.Function | None

    @property
    def ledger(self) -> Path:
        return self.path / LEDGER

    @property
    def stop_file(self) -> Path:
        return self.path / STOP

    def tasks(self) -> Iterator[tuple[str, Files]]:
        """Ids are derived from the description and the line: the output of another dataset is never taken for ours."""
        lines = (self.path / MANIFEST).read_text(encoding="utf-8").splitlines()
        for number, files in enumerate(parse_manifest(lines, source=MANIFEST)):
            line = manifest_line(files)
            yield f"{number:06d}-{hashlib.sha256(f'{self.digest} {line}'.encode()).hexdigest()[:12]}", files

    def place(self, to: str) -> str:
        """Relative places are in the folder."""
        if to == "stdout":
            return str(self.path / "output")
        if to.startswith("sqlite:"):
            return f"sqlite:{self.path / to.removeprefix('sqlite:')}"
        return to if is_address(to) else str(self.path / to)

    @property
    def receipts(self) -> str:
        to = self.dataset.write.to
        return self.place(to) if is_storage(to) else str(self.path)

    def is_running(self) -> bool:
        try:
            with lock.exclusive(self.path, "run", doing=DOING):
                return False
        except Conflict:
            return True


@contextmanager
def running(path: Path) -> Iterator[None]:
    """Holds the dataset for one run. `is_running` holds it for a moment, too: so a few tries."""
    with ExitStack() as stack:
        for left in reversed(range(TRIES)):
            try:
                stack.enter_context(lock.exclusive(path, "run", doing=DOING))
                break
            except Conflict:
                if not left:
                    raise
                time.sleep(0.02)
        yield


# --- making one -------------------------------------------------------------------------------------------------------


def create(
    dataset: Dataset, root: Path, *, beside: Path, read_lines: Callable[[str], Sequence[str]]
) -> tuple[Folder, int]:
    """A new folder below `root`, and how many tasks it has. Relative sources are `beside` the dataset file.

    `read_lines` gives the lines of a file or address. dataset.json comes last: without it there is no dataset.
    """
    path = root / dataset.name
    if (path / FILE_NAME).exists():
        raise Conflict(f"{path} is a dataset already: delete it first, or choose another name")
    lines = dataset.manifest if isinstance(dataset.manifest, list) else read_lines(_beside(beside, dataset.manifest))
    tasks = parse_manifest(lines, source="manifest" if isinstance(dataset.manifest, list) else dataset.manifest)
    text = "".join(f"{manifest_line(files)}\n" for files in tasks)
    function = _read_function(dataset, beside=beside)
    if function:
        custom.load(function)  # a mistake in it is told now, not by every worker
    dataset = msgspec.structs.replace(
        dataset,
        manifest=MANIFEST,
        read=msgspec.structs.replace(dataset.read, source=_beside(beside, dataset.read.source)),
    )
    digest = digest_of(dataset, text, function)
    atomic.make_folder(path)
    atomic.write_bytes(path / MANIFEST, text.encode())
    if function and function.source:
        atomic.write_bytes(path / FUNCTION, function.source.encode())
    sealed = msgspec.json.encode(Sealed(__version__, digest, dataset))
    atomic.write_bytes(path / FILE_NAME, msgspec.json.format(sealed) + b"\n")
    return Folder(path, dataset, digest, function), len(tasks)


def _beside(beside: Path, place: str) -> str:
    return place if is_address(place) else str((beside / place).resolve())


def _read_function(dataset: Dataset, *, beside: Path) -> custom.Function | None:
    if not dataset.document.function:
        return None
    place, name = custom.parse_name(dataset.document.function)
    if not place.endswith(".py"):
        return custom.Function(name=name, module=place)
    file = beside / place
    try:
        return custom.Function(name=name, file=place, source=file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{file}: {error}") from None


def digest_of(dataset: Dataset, manifest: str, function: custom.Function | None) -> str:
    """Of all that the output depends on; the program that makes it is a part of that."""
    what = msgspec.structs.replace(dataset, compute=Compute())
    return hashlib.sha256(msgspec.json.encode([__version__, what, manifest, function])).hexdigest()


# --- finding one ------------------------------------------------------------------------------------------------------


def open_folder(path: Path) -> Folder:
    """NotFound; Conflict when the description is not what the dataset was made with."""
    file = there(path) / FILE_NAME
    try:
        sealed = msgspec.json.decode(file.read_bytes(), type=Sealed)
        manifest = (path / MANIFEST).read_text(encoding="utf-8")
        dataset = checked(sealed.dataset, source=str(file))
        function = _kept_function(dataset, path)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
        raise BadInput(str(error), reason="bad_dataset", source=str(file)) from None
    if sealed.digest != digest_of(dataset, manifest, function):
        made = f"webmill {sealed.webmill}" if sealed.webmill != __version__ else "another description"
        raise Conflict(
            f"{path} was made with {made}: its output would be mixed. Put it back as it was, or create a "
            "dataset with another name. Only [compute] may be changed."
        )
    return Folder(path, dataset, sealed.digest, function)


def there(path: Path) -> Path:
    """The same. NotFound when no dataset is at it."""
    if not (path / FILE_NAME).exists():
        raise NotFound(f"no dataset at {path}: `webmill dataset list` shows what there is")
    return path


def _kept_function(dataset: Dataset, path: Path) -> custom.Function | None:
    if not dataset.document.function:
        return None
    place, name = custom.parse_name(dataset.document.function)
    if not place.endswith(".py"):
        return custom.Function(name=name, module=place)
    return custom.Function(name=name, file=place, source=(path / FUNCTION).read_text(encoding="utf-8"))


def find_folders(root: Path) -> Iterator[Path]:
    return (file.parent for file in sorted(root.glob(f"*/{FILE_NAME}")))


def delete(path: Path) -> None:
    """The folder and all in it; what was written elsewhere stays. Conflict while it runs."""
    with running(there(path)):
        (path / FILE_NAME).unlink()  # first: half of a dataset is none
        shutil.rmtree(path)

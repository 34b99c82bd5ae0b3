"""Small datasets for tests: files of a few pages, and what came out of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import zstandard
from zlib_ng import gzip_ng

from tests.unit.commoncrawl.triples import Spec, Triple, make_triple
from webmill.infra.executor.base import Executor
from webmill.infra.executor.inline import InlineExecutor
from webmill.infra.executor.pool import PoolExecutor
from webmill.pipeline.dataset import folder as dataset_folder
from webmill.pipeline.dataset.config import Dataset
from webmill.pipeline.dataset.folder import DatasetFolder
from webmill.pipeline.dataset.run import dataset_plan, run_dataset
from webmill.pipeline.dataset.views import TaskView, task_views
from webmill.pipeline.extract.engine import EngineTimes
from webmill.pipeline.extract.plan import ExtractPlan
from webmill.pipeline.extract.totals import ExtractReport
from webmill.settings import HttpSettings

HTTP = HttpSettings()
PACE = EngineTimes(first_delay=0.2, longest_delay=1.0)


class Silent:
    def advance(self, count: int = 1) -> None:
        pass


@contextmanager
def no_progress(title: str, *, total: int | None = None, unit: str) -> Any:
    yield Silent()


def pages(file: int, count: int) -> list[Spec]:
    """Every seventh has no text, every fifth no metadata."""
    return [
        Spec(f"{file}-{number}", kind="application/pdf", text=None)
        if number % 7 == 6
        else Spec(f"{file}-{number}", metadata=number % 5 != 4)
        for number in range(count)
    ]


def write_triple(folder: Path, name: str, triple: Triple) -> str:
    """The line of the manifest."""
    folder.mkdir(exist_ok=True)
    for ending, data in ((".warc.gz", triple.warc), (".warc.wat.gz", triple.wat), (".warc.wet.gz", triple.wet)):
        (folder / f"{name}{ending}").write_bytes(data)
    return f"WARC:{name}.warc.gz|WAT:{name}.warc.wat.gz|WET:{name}.warc.wet.gz"


def write_files(folder: Path, *, files: int, count: int) -> list[str]:
    return [write_triple(folder, f"f{file}", make_triple(pages(file, count))) for file in range(files)]


def create(root: Path, lines: Iterable[str], *, source: Path | str, **sections: dict[str, object]) -> DatasetFolder:
    """`source` is a folder, with your function in it, or an address."""
    table = {"name": "test", "manifest": list(lines), "read": {"from": str(source)}, **sections}
    beside = source if isinstance(source, Path) else root
    folder, _ = dataset_folder.create_dataset(msgspec.convert(table, Dataset), root, beside=beside, read_lines=_no_file)
    return folder


def _no_file(place: str) -> list[str]:
    raise AssertionError(f"{place} is read, though the lines are given")


def run(folder: DatasetFolder, executor: Executor | None = None) -> ExtractReport:
    emitted: list[bytes] = []
    executor = executor or InlineExecutor()
    killable = not isinstance(executor, InlineExecutor)
    return run_dataset(
        folder, executor, http=HTTP, progress=no_progress, emit=emitted.append, killable=killable, pace=PACE
    )


def plan(folder: DatasetFolder, *, killable: bool = True) -> ExtractPlan:
    """What a worker of the dataset is given."""
    return dataset_plan(folder, http=HTTP, killable=killable)


def pool() -> PoolExecutor:
    return PoolExecutor(workers=2)


def views(folder: DatasetFolder) -> list[TaskView]:
    return list(task_views(folder))


def lines_of(place: Path) -> list[dict[str, Any]]:
    """All rows of all files, in the order of their names."""
    found = []
    for file in sorted(place.glob("*.jsonl*")):
        data = file.read_bytes()
        if file.suffix == ".gz":
            data = gzip_ng.decompress(data)
        elif file.suffix == ".zst":
            data = zstandard.ZstdDecompressor().decompress(data)
        found += [json.loads(line) for line in data.splitlines()]
    return found


def snapshot(folder: DatasetFolder) -> dict[str, bytes]:
    """What was made, without receipts: those have times in them."""
    files = (
        file for name in ("output", "errors") for file in sorted((folder.path / name).glob("[!.]*")) if file.is_file()
    )
    return {file.relative_to(folder.path).as_posix(): file.read_bytes() for file in files}


def receipts(folder: DatasetFolder) -> int:
    return sum(1 for _ in folder.path.glob("receipts/*/*.json"))


def drafts(folder: DatasetFolder) -> list[Path]:
    """What killed writers have left. A zombie's is not removed before its parent has reaped it: some containers' PID 1
    takes its time."""
    return [path for path in folder.path.rglob(".webmill-tmp-*") if not is_zombie(int(path.name.split("-")[2]))]


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return False

"""WAT and WET for many WARC files: each an independent task, and in a collection the lists of their paths.

    crawl-data/NAME/segments/S/warc/X.warc.gz ─▶ …/S/wat/X.warc.wat.gz, …/S/wet/X.warc.wet.gz ─▶ NAME/{wat,wet}.paths.gz

Each file appears when it is complete, and the same run gives the same bytes: killed anywhere, run it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

import msgspec

from webmill.archive.derive import DeriveJob, DeriveReport, derive, output_name
from webmill.collection import Collection
from webmill.errors import Misconfigured, Unavailable
from webmill.formats.cdx.zipnum import encode_block
from webmill.infra import atomic
from webmill.infra.executor.base import Executor, TaskDone, TaskFailed
from webmill.model import ArchiveReject
from webmill.pipeline.progress import ProgressReporter


class DeriveOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`into` is a folder for all files; without it they go next to the WARCs, as in a collection."""

    kinds: tuple[str, ...]
    into: Path | None = None
    date: datetime | None = None
    detect_languages: bool = False


class DeriveSummary(msgspec.Struct, kw_only=True):
    warcs: int = 0
    derived: int = 0
    records: int = 0
    pages: int = 0
    texts: int = 0
    rejects: list[ArchiveReject] = []


def derive_all(
    warcs: Sequence[Path], options: DeriveOptions, *, executor: Executor, progress: ProgressReporter
) -> DeriveSummary:
    jobs = [plan_job(warc, options) for warc in warcs]
    check_collisions(jobs)
    for folder in sorted({output.parent for job in jobs for output in job.outputs.values()}):
        atomic.make_folder(folder)
        atomic.remove_stale_temps(folder)
    report = DeriveSummary(warcs=len(jobs))
    with (
        progress("Deriving", total=len(jobs), unit="files") as counter,
        closing(executor.run(derive, jobs)) as outcomes,
    ):
        for outcome in outcomes:
            counter.advance()
            match outcome:
                case TaskDone(item=job, value=derived):
                    add_derived(report, derived)
                case TaskFailed(error=Unavailable() as error):  # the machine's fault, not the file's: a full disk
                    raise error
                case TaskFailed(item=job, reason=reason, error=error):
                    report.rejects.append(ArchiveReject(job.warc.name, getattr(error, "reason", "failed"), reason))
    if options.into is None:
        write_paths(warcs, options.kinds)
    return report


def plan_job(warc: Path, options: DeriveOptions) -> DeriveJob:
    outputs = {kind: output_path(warc, kind, into=options.into) for kind in options.kinds}
    return DeriveJob(warc=warc, outputs=outputs, date=options.date, detect_languages=options.detect_languages)


def output_path(warc: Path, kind: str, *, into: Path | None) -> Path:
    """Return the path of a derived file: `…/warc/X.warc.gz` gives `…/wat/X.warc.wat.gz`, or a file in `into`."""
    name = output_name(warc.name, kind)
    if into is not None:
        return into / name
    folder = warc.resolve().parent
    if folder.name != "warc":
        raise Misconfigured(f"{warc} is not in a folder named `warc`: choose where its {kind} file goes with -o DIR")
    return folder.parent / kind / name


def check_collisions(jobs: Iterable[DeriveJob]) -> None:
    made: dict[Path, Path] = {}
    for job in jobs:
        for output in job.outputs.values():
            if output in made:
                raise Misconfigured(f"{made[output]} and {job.warc} would both become {output}: derive them separately")
            made[output] = job.warc


def add_derived(report: DeriveSummary, derived: DeriveReport) -> None:
    report.derived += 1
    report.records += derived.records
    report.pages += derived.pages
    report.texts += derived.texts
    report.rejects += derived.rejects


def write_paths(warcs: Iterable[Path], kinds: Iterable[str]) -> None:
    """Write the path lists of the crawls that the WARCs belong to."""
    for collection in sorted({found for warc in warcs if (found := collection_of_warc(warc))}, key=str):
        for kind in kinds:
            files = sorted(collection.key(path) for path in collection.segments.glob(f"*/{kind}/*.{kind}.gz"))
            atomic.write_bytes(collection.paths_file(kind), encode_block([f"{file}\n".encode() for file in files]))


def collection_of_warc(warc: Path) -> Collection | None:
    """Return the collection of a WARC by its path: ROOT/crawl-data/NAME/segments/SEGMENT/warc/FILE."""
    match warc.resolve().parts:
        case [*root, "crawl-data", name, "segments", _, "warc", _]:
            return Collection(Path(*root), name)
    return None

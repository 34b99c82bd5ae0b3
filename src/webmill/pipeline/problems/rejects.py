"""What was refused: archives and parts of them by the indexer, lines of indexes, bytes cut off after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from webmill.errors import NotFound
from webmill.index.state import FILE_NAME, PublishedIndex
from webmill.infra.sqlite import open_read_only
from webmill.pipeline.problems.types import ProblemGroup, ProblemTally

MAX_BYTES = 4 << 20  # of a file of rejects
MAX_LINE = 64 << 10
MAX_FILES = 1000


class RejectLine(msgspec.Struct, frozen=True):
    """What a line of any file of rejects may say."""

    reason: str = ""
    message: str = ""
    file: str = ""
    source: str = ""
    url: str = ""
    raw: str = ""
    offset: int | None = None

    @property
    def subject(self) -> str:
        place = self.url or self.file or self.source or self.raw
        return f"{place} at byte {self.offset:,}" if place and self.offset is not None else place


_line = msgspec.json.Decoder(RejectLine)


def reject_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield what the files of rejects hold, stage by stage."""
    for file in reject_files(root):
        stage = file.stem if file.parent.name == "rejected" else "cc batch"
        tally = ProblemTally()
        is_cut = read_rejects(file, tally)
        for cause, found in tally.causes():
            yield ProblemGroup(
                stage=stage,
                cause=cause,
                severity="error",
                title=f"{'Archives, or parts of them, were' if stage == 'index' else 'Input was'} refused:"
                f" {cause.replace('_', ' ')}",
                count=found.count,
                is_estimate=is_cut,
                first=found.first,
                last=found.last,
                examples=found.examples,
                advice="Replace or remove the files, then index again; their other records are indexed."
                if stage == "index"
                else f"Read {file.name} for each with its reason.",
                command=f"webmill index {folder}" if stage == "index" else f"less {folder}/{file.relative_to(root)}",
            )


def reject_files(root: Path) -> Iterator[Path]:
    """Yield the regular files of rejects: opening a pipe would block."""
    found = [*(root / "rejected").glob("*.jsonl"), *(root / ".webmill" / "batcher").glob("*/rejected.jsonl")]
    yield from islice((file for file in sorted(found) if file.is_file() and not file.is_symlink()), MAX_FILES)


def read_rejects(file: Path, tally: ProblemTally) -> bool:
    """Count the lines of a file by their reasons; return whether it has more than was read. It was written last at its
    modification time, which is when its rejects were found."""
    time, left = file.stat().st_mtime, MAX_BYTES
    with file.open("rb") as stream:
        while left > 0 and (text := stream.readline(MAX_LINE)):
            left -= len(text)
            try:
                line = _line.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                tally.add("unreadable_line", file.name, time=time)
            else:
                tally.add(line.reason or "no_reason", line.subject or file.name, message=line.message, time=time)
        return left <= 0 and bool(stream.read(1))


def cut_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield what was cut off from archives whose writer was killed."""
    tally = ProblemTally()
    files = (root / "rejected" / "archive").glob("*.torn")
    for file in islice(files, MAX_FILES):
        tally.add("torn", f"{folder}/rejected/archive/{file.name}", time=file.lstat().st_mtime)
    for cause, found in tally.causes():
        yield ProblemGroup(
            stage="archive",
            cause=cause,
            severity="warning",
            title="Bytes of captures that were not complete when a crawl was killed",
            count=found.count,
            is_estimate=found.count >= MAX_FILES,
            first=found.first,
            last=found.last,
            examples=found.examples,
            advice="Their URLs are fetched again by the crawl; the files may be deleted.",
            command=f"webmill crawl {folder}",
        )


def index_problems(root: Path, *, folder: str) -> Iterator[ProblemGroup]:
    """Yield the lines of the index that its tables could not take."""
    tally = ProblemTally()
    try:
        with open_read_only(root / "cdxj" / FILE_NAME) as read:
            rows = read("SELECT name, made FROM published")
    except NotFound:
        return
    for name, made in rows:
        for table, reasons in msgspec.json.decode(made, type=PublishedIndex).refused.items():
            for reason, count in reasons.items():
                tally.add(reason, f"{name}: {table}", count=count, message=f"{count:,} lines")
    for cause, found in tally.causes():
        yield ProblemGroup(
            stage="index",
            cause=cause,
            severity="warning",
            title=f"Lines of the index that its Parquet table lacks: {cause.replace('_', ' ')}",
            count=found.count,
            examples=found.examples,
            advice="The CDX API and replay have them; only queries of the table miss them.",
            command=f"webmill index {folder} --from-scratch",
        )

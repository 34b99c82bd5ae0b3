"""What `webmill cc work` and `webmill cc run` have in common: flags, and the parts they are made of."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from webmill.cli.cc.queues import queue_option
from webmill.cli.cc.source import open_base
from webmill.cli.context import note, warn
from webmill.cli.counts import ANY_COUNT, AT_LEAST_ONE
from webmill.cli.main import INTERRUPTED
from webmill.cli.options import together
from webmill.cli.renamed import Renamed
from webmill.cli.words import counted, worded
from webmill.commoncrawl.captures import Fetcher, WholeRule
from webmill.commoncrawl.ranges import RangeLimits
from webmill.commoncrawl.whole_files import WholeFiles
from webmill.extract.main_text import MainText
from webmill.formats.cld2 import can_detect
from webmill.infra.address import scheme_of
from webmill.infra.executor.pool import available_cores
from webmill.infra.metrics import Metrics
from webmill.infra.retry import sleeping_until
from webmill.infra.storage.backends import open_storage
from webmill.pipeline.extract import metrics as counters
from webmill.pipeline.extract.output import Output, Shape
from webmill.pipeline.extract.rows import REJECTED, Keep
from webmill.pipeline.extract.sealing import FILE_SIZE, Format
from webmill.pipeline.extract.workers import Options, Report
from webmill.settings import Settings

MIB = 1 << 20

worker_options = together(
    click.option(
        "-o",
        "--output",
        "out",
        cls=Renamed,
        old=["--out"],
        required=True,
        metavar="DIR|URL",
        help="Where documents go: a folder or s3://BUCKET/PREFIX.",
    ),
    queue_option,
    click.option(
        "--extractor",
        type=click.Choice(["resiliparse", "trafilatura", "none"]),
        default="resiliparse",
        show_default=True,
        help="resiliparse is fast, trafilatura is better and several times slower.",
    ),
    click.option(
        "--format",
        "form",
        type=click.Choice(["parquet", "jsonl"]),
        default="parquet",
        show_default=True,
        help="Of the files; parquet needs webmill[parquet].",
    ),
    click.option(
        "--file-size",
        type=AT_LEAST_ONE,
        default=FILE_SIZE // MIB,
        show_default=True,
        metavar="MIB",
        help="A file is closed at this size, before compression.",
    ),
    click.option("--min-text", type=ANY_COUNT, help="Leave out pages with less text, in characters."),
    click.option("--max-text", type=ANY_COUNT, help="Leave out pages with more."),
    click.option("--processes", type=AT_LEAST_ONE, help="Batches and extractors at once  [default: one per core]"),
    click.option("--concurrency", type=AT_LEAST_ONE, default=8, show_default=True, help="Downloads at once."),
    click.option(
        "--cache-size",
        type=ANY_COUNT,
        default=4096,
        show_default=True,
        metavar="MIB",
        help="Disk for files that are worth downloading whole; 0: none.",
    ),
    click.option("--no-metrics", is_flag=True, help="Serve none."),
)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of `worker_options`."""

    out: str
    queue: str | None
    extractor: MainText
    form: Format
    file_size: int
    min_text: int | None
    max_text: int | None
    languages: tuple[str, ...]
    processes: int | None
    concurrency: int
    cache_size: int
    no_metrics: bool

    def shape(self) -> Shape:
        shape = Shape(
            extractor=self.extractor,
            detect=can_detect(),
            keep=Keep(min_text=self.min_text, max_text=self.max_text, languages=self.languages),
            format=self.form,
            file_size=self.file_size * MIB,
        )
        if self.extractor == "none" and (self.min_text is not None or self.max_text is not None):
            raise click.UsageError("--min-text and --max-text need text: choose an --extractor")
        if self.min_text is not None and self.max_text is not None and self.min_text > self.max_text:
            raise click.UsageError("--min-text is more than --max-text: no page can be kept")
        shape.check()
        return shape


def open_output(place: str, shape: Shape) -> Output:
    scheme, rest = scheme_of(place)
    output = Output(open_storage(place), folder=Path(rest) if scheme == "file" else None, shape=shape)
    output.prepare()
    return output


@contextmanager
def fetching(
    base: str, settings: Settings, choice: Choice, output: Output, metrics: Metrics, *, stop: threading.Event
) -> Iterator[Fetcher]:
    with ExitStack() as stack:
        whole = None
        if scheme_of(base)[0] != "file" and choice.cache_size:
            private = output.private() or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="webmill-")))
            files = WholeFiles(private / "files", most=choice.cache_size * MIB, sleep=sleeping_until(stop))
            whole = WholeRule(files)
        fetcher = Fetcher(
            open_base(base, settings, stop=stop),
            concurrency=choice.concurrency,
            limits=RangeLimits(),
            whole=whole,
            fetched=lambda size: metrics.count(counters.DOWNLOADED, size),
        )
        stack.callback(fetcher.close)
        yield fetcher


def options_of(base: str, settings: Settings, choice: Choice) -> Options:
    paced = scheme_of(base)[0] in ("http", "https") and settings.commoncrawl.rate > 0
    return Options(
        processes=choice.processes or available_cores(),
        beat=max(0.1, min(15.0, settings.queue.lease / 4)),
        stop_when_refused=not paced,
    )


@contextmanager
def stopping(what: str = "batches") -> Iterator[threading.Event]:
    """SIGINT or SIGTERM: end after what is at hand. Once more: at once; they will be handed out again."""
    stop = threading.Event()

    def stop_or_leave(_number: int, _frame: Any) -> None:
        if stop.is_set():
            if os.isatty(2):
                os.write(2, b"\x1b[?25h\n")  # a bar has hidden the cursor
            os._exit(INTERRUPTED)
        stop.set()
        os.write(2, f"webmill: finishing the {what} at hand; once more to end at once\n".encode())

    before = {number: signal.signal(number, stop_or_leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(report: Report) -> None:
    done = f"{counted(report.batches, 'batch')}, {counted(report.items, 'capture')}: {counted(report.rows, 'row')}"
    note(f"{done}{details(report)}")
    if report.given_back or report.buried:
        note(f"batches given back: {report.given_back:,}, buried: {report.buried:,}")


def details(counted: Any) -> str:
    """`, 12 ok, 3 not html; rejected: 2 parse error; left out: 5 too short` of a report or summary."""
    read = {name: count for name, count in counted.extraction.items() if name not in REJECTED}
    kept = "".join(f", {some}" for some in by_name(read))
    rejected, left = by_name(rejects(counted)), by_name(counted.filtered)
    return kept + f"; rejected: {', '.join(rejected)}" * bool(rejected) + f"; left out: {', '.join(left)}" * bool(left)


def by_name(counts: Mapping[str, int]) -> list[str]:
    return [f"{count:,} {worded(name)}" for name, count in sorted(counts.items())]


def rejects(counted: Any) -> dict[str, int]:
    """Captures that could not be read, by reason."""
    return {name: count for name, count in counted.extraction.items() if name in REJECTED}


def mostly_rejected(counted: Any, *, captures: int) -> int:
    """How many captures could not be read, where that is more than half of them: something is wrong then.

    Some always are, among millions of other people's pages; each is a row that says why.
    """
    rejected = sum(rejects(counted).values())
    if 2 * rejected <= captures:
        return 0
    warn(f"most captures could not be read: {', '.join(by_name(rejects(counted)))}; `error` of their rows says why")
    return rejected
